"""A small table with two targets, a categorical column and times, and runs over it in this process."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from polars.testing import assert_frame_equal

from streamgp.app.run_stream import opened_run
from streamgp.app.runner import Outcome
from streamgp.app.settings import RunSettings
from streamgp.models.registry import make_spec

ROWS = 400
WARMUP = 100
SMALL: dict[str, Any] = {
    "bases": ["linear", "fourier"],
    "features_per_basis": 8,
    "dynamics": ["static", "walk 0.001"],
}


def table(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """Rows of a stream whose rule drifts a little."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, rows))
    wind = rng.choice(["N", "E", "S"], rows)
    y = np.sin(2 * a) + 0.5 * b * np.cos(np.arange(rows) / 200) + 0.7 * (wind == "N") + 0.1 * rng.normal(size=rows)
    z = 30 + 5 * (a - b) + rng.normal(size=rows)
    stamp = np.cumsum(rng.exponential(10.0, rows))
    return pl.DataFrame({"stamp": stamp, "a": a, "b": b, "wind": wind, "y": y, "z": z})


def run_linear(data: Path, out: Path | None = None, **changes: Any) -> Outcome:
    """The linear preset on columns a, b and wind."""
    return run_spec(data, out, make_spec("linear"), **changes)


def run_small(data: Path, out: Path | None = None, **changes: Any) -> Outcome:
    """Four or more experts under E-DOEBE's rule, with few features."""
    return run_spec(data, out, make_spec("e-doebe", **SMALL), **changes)


def run_spec(data: Path, out: Path | None, spec: Any, **changes: Any) -> Outcome:
    options = {"targets": ["y"], "features": ["a", "b", "wind"], "warmup": WARMUP} | changes
    return run_stream(RunSettings(str(data), spec=spec, out=out, **options))


def run_stream(settings: RunSettings) -> Outcome:
    """The whole run, as the command makes it."""
    with opened_run(settings) as live:
        return live.run()


def predictions(out: Path) -> pl.DataFrame:
    return pl.read_parquet(out / "predictions.parquet")


def results(out: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables of a finished run."""
    return predictions(out), pl.read_parquet(out / "weights.parquet")


def timeless(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics without what differs from one run to the next."""
    return {k: v for k, v in metrics.items() if k not in ("seconds", "rows_per_second", "command")}


def close(first: pl.DataFrame, second: pl.DataFrame) -> None:
    """Equal tables to 1e-9: rows that were learnt in other pieces.

    To 1e-6 what is in single precision: some columns, and the distances in the CRPS of many components.
    """
    single = cs.by_dtype(pl.Float32) | cs.matches("^crps")
    assert_frame_equal(first.select(~single), second.select(~single), rel_tol=1e-9, abs_tol=1e-9)
    assert_frame_equal(first.select(single), second.select(single), rel_tol=1e-6, abs_tol=1e-6)


def same_as_unbroken(
    data: Path, tmp_path: Path, resumed: Outcome, runner: Any = run_linear, out: Path | None = None, **options: Any
) -> None:
    """The resumed run in `out` (tmp_path/out) equals one that goes through, bit for bit."""
    whole, directory = unbroken(data.name, data.read_bytes(), runner, **options)
    same_run(resumed, out or tmp_path / "out", whole, Path(directory.name) / "whole")


@cache
def unbroken(name: str, content: bytes, runner: Any, **options: Any) -> tuple[Outcome, TemporaryDirectory[str]]:
    """Run through a file once for all tests that have this one: the outcome, and where its directory "whole" is."""
    directory = TemporaryDirectory(prefix="streamgp-tests-", ignore_cleanup_errors=True)
    data = Path(directory.name) / name
    data.write_bytes(content)
    return runner(data, Path(directory.name) / "whole", **options), directory


def same_run(one: Outcome, out: Path, other: Outcome, other_out: Path) -> None:
    """Check that two finished runs, and their tables in these directories, are equal bit for bit."""
    assert one.stopped is None
    assert timeless(one.metrics) == timeless(other.metrics)
    for first, second in zip(results(out), results(other_out), strict=True):
        assert_frame_equal(first, second, check_exact=True)


def contents(directory: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
