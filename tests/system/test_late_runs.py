"""`streamgp run --delay` and `--arrives`: as `evaluate`, unbroken or resumed, with a sentence on what was late."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from small_runs import predictions, run_linear, table
from streamgp import StreamingGPRegressor, evaluate
from streamgp.app.outputs import RunError
from streamgp.table import DataError

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = table(220)
    rng = np.random.default_rng(2)
    when = np.arange(220) + 1 + rng.integers(0, 12, 220)
    known = pl.Series("known", when).cast(pl.Float64).set(pl.Series(rng.uniform(size=220) < 0.1), None)
    rows.with_columns(known).write_csv(tmp_path / "rows.csv")
    rows.with_columns(known)[:170].write_csv(tmp_path / "first.csv")
    return tmp_path


@pytest.mark.parametrize("late", [{"delay": 5}, {"arrives": "known"}])
def test_a_resumed_run_is_the_unbroken_one(data: Path, late: dict[str, Any]):
    options = late | {"features": ["a", "b"]}
    whole = run_linear(data / "rows.csv", data / "whole", **options)
    run_linear(data / "first.csv", data / "broken", chunk=7, **options)
    resumed = run_linear(data / "rows.csv", data / "broken", resume=True, **options)
    one, other = predictions(data / "whole"), predictions(data / "broken")
    for name in ("mean", "std", "log_density", "persistence_mean"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9)
    assert whole.metrics["late_labels"] == resumed.metrics["late_labels"]
    assert whole.metrics["late_labels"]["on_the_way"]
    notes = " ".join(whole.metrics["warnings"])
    assert ("every label came 5 rows late" in notes) == ("delay" in late)
    assert ("never came" in notes) == ("arrives" in late)
    assert whole.metrics["features"] == ["a", "b"]


def test_a_run_gives_the_numbers_of_evaluate(data: Path):
    rows = pl.read_csv(data / "rows.csv")
    run_linear(data / "rows.csv", data / "out", features=["a", "b"], arrives="known")
    model = StreamingGPRegressor("linear", warmup=100)
    found = evaluate(model, rows.select("a", "b", "known"), rows["y"].to_numpy(), delay="known")
    np.testing.assert_allclose(predictions(data / "out")["mean"], found.mean, rtol=1e-9)


def test_what_does_not_go_together_is_refused(data: Path):
    for options, why in (
        ({"delay": 2, "arrives": "known"}, "--delay, --arrives: expected one of them"),
        ({"arrives": "known", "conformal": 0.9}, "--conformal: expected it with labels in time"),
    ):
        with pytest.raises(RunError, match=why):
            run_linear(data / "rows.csv", **options)
    for column, why in (("unknown", "did you mean 'known'"), ("y", "cannot also be a target")):
        with pytest.raises(DataError, match=why):
            run_linear(data / "rows.csv", arrives=column)
    run_linear(data / "first.csv", data / "out", delay=2)
    with pytest.raises(RunError, match="has delay 2, but now 3"):
        run_linear(data / "rows.csv", data / "out", delay=3, resume=True)


def test_a_cell_that_is_no_arrival_makes_a_bad_row(data: Path):
    lines = (data / "rows.csv").read_text().splitlines()
    lines[150] = lines[150].rpartition(",")[0] + ",soon"
    (data / "rows.csv").write_text("\n".join(lines))
    outcome = run_linear(data / "rows.csv", arrives="known")
    assert outcome.metrics["skipped_rows"] == 1
    stopped = run_linear(data / "rows.csv", arrives="known", missing="raise").stopped
    assert stopped is not None
    assert "arrival column 'known': expected a number or nothing, got 'soon'" in stopped
