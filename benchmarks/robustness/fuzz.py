"""Generated tables through the command: none may end in a traceback, hang, or lose a row without a word.

    python -m benchmarks.robustness.fuzz --examples 10000 --out benchmarks/results/fuzz.json

Hypothesis makes the files: odd cells, encodings, headers, separators, targets and options. Each goes through
`streamgp run` in this process. Of a run that ends well every data row is predicted or counted as skipped; of one that
does not, the last line on standard error is a sentence.
"""

import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.common import campaigns

LIMIT = 600  # seconds that one example may take on a busy machine
NUMBERS = ("0", "1", "-1", "0.5", "2.25", "-3.75", "1e3", "7")
ODD = (
    *("", " ", "nan", "NaN", "NA", "null", "None", "inf", "-Infinity", "1e308", "1e400", "-1e99", "1e-320", "0x1F"),
    *(
        "1_000",
        "1,5",
        "1,234.5",
        "12:30",
        "2024-01-31",
        "20240131",
        "true",
        "FALSE",
        "yes",
        "a b",
        "é",
        "\u0000",
        "٣",
    ),
    *(
        "=1+1",
        '"',
        "'",
        "\\",
        "1;2",
        "🙂",
        "-",
        "+",
        ".",
        "1.",
        ".5",
        "１２",
        "x" * 300,
        "9" * 400,
        "1\t2",
        "\ufeff1",
    ),
)
NAMES = ("a", "b", "y", "t", "row", "mean", "time", "y ", "", "é", "p_1", "a,b", "weights", "persistence_mean")

# What Hypothesis takes for simplest, the first, comes more often than the others.
RARELY = st.sampled_from((*(False,) * 19, True))
SOMETIMES = st.sampled_from((*(False,) * 5, True))


def csv_cell(cell: str, separator: str) -> str:
    quoted = any(mark in cell for mark in (separator, '"', "\n"))
    return '"' + cell.replace('"', '""') + '"' if quoted else cell


@st.composite
def tables(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """Draw the bytes of a CSV file, and the options that go with it."""
    likely = not draw(RARELY)
    others = draw(st.lists(st.sampled_from(NAMES), min_size=int(likely), max_size=3, unique=likely))
    header = [*others, "target"] if not draw(RARELY) else others
    rows = draw(st.sampled_from((45, 45, 45, 30, 30, 30, 12, 2, 1, 0)))
    how = draw(st.sampled_from(("numbers", "constant", "labels", "truth", "counts", "odd", "huge", "dates", "rare")))
    few = draw(st.lists(st.sampled_from(ODD), min_size=1, max_size=4))  # each new label takes a moment to compile
    targets = {
        "numbers": st.sampled_from(NUMBERS),
        "constant": st.just("3"),
        "labels": st.sampled_from(("cat", "dog")),
        "truth": st.sampled_from(("0", "1")),
        "counts": st.sampled_from(("0", "1", "2", "40")),
        "odd": st.sampled_from(few),
        "huge": st.sampled_from(("1e99", "-1e99", "1e-99", "0")),
        "dates": st.sampled_from(("2024-01-31", "20240131")),
        "rare": st.sampled_from((*NUMBERS * 4, *few)),
    }[how]
    inputs = draw(st.sampled_from((st.sampled_from(NUMBERS), st.sampled_from((*NUMBERS * 6, *ODD)), st.just("2"))))
    separator = draw(st.sampled_from((",", ",", ",", ";", "\t", "|")))
    lines = [separator.join(csv_cell(name, separator) for name in header)]
    for _ in range(rows):
        cells = [draw(inputs) for _ in others] + ([draw(targets)] if len(header) > len(others) else [])
        if draw(RARELY) and draw(RARELY):
            cells = cells[: draw(st.integers(0, len(cells)))] + ["9"] * draw(st.integers(0, 2))
        lines.append(separator.join(csv_cell(cell, separator) for cell in cells))
    text = draw(st.sampled_from(("\n", "\n", "\r\n"))).join(lines) + draw(st.sampled_from(("\n", "", "\n\n")))
    encoding = draw(st.sampled_from((*("utf-8",) * 20, "utf-8-sig", "utf-16", "latin-1")))
    content = text.encode(encoding, errors="replace")
    if draw(RARELY):
        content = draw(
            st.sampled_from((b"", b"\n", b"\x00" * 40, content[: len(content) // 2], b"\x1f\x8b" + content))
        )
    words = ["--target", "target", "--warmup", draw(st.sampled_from(("10", "10", "10", "10", "4", "60")))]
    if draw(st.sampled_from((True, True, False))):
        words += ["--missing", "skip"]
    if others and draw(RARELY):
        words += ["--time", draw(st.sampled_from(others))]
    if draw(SOMETIMES):
        words += draw(st.sampled_from((["--lags", "1"], ["--lags", "1,3", "--horizon", "2"], ["--conformal", "0.9"])))
    if draw(SOMETIMES):
        words += ["--task", draw(st.sampled_from(("regression", "classification", "count", "ordinal")))]
    return content, words


class Hung(BaseException):
    """An example that took longer than `LIMIT`."""


def _hung(*_: object) -> None:
    raise Hung


def check(content: bytes, words: list[str], folder: Path) -> str:
    """Run the command on a file; how that ended, in a word.

    Raises
    ------
    AssertionError
        If there was a traceback or a hang, no sentence, or a row was lost.
    """
    from streamgp.app import cli

    data, out = folder / "data.csv", folder / "out"
    data.write_bytes(content)
    shutil.rmtree(out, ignore_errors=True)
    before = signal.signal(signal.SIGALRM, _hung)
    signal.alarm(LIMIT)
    try:
        done = CliRunner().invoke(cli.app, ["run", str(data), "--model", "linear", "--out", str(out), *words])
    except Hung:
        raise AssertionError(f"no end after {LIMIT} s: {words}") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"{words}: {type(done.exception).__name__}: {done.exception}") from done.exception
    if done.exit_code:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        usage = "Invalid value for" in done.stderr  # a word that the command does not take, in a frame of its own
        assert usage or last.startswith("streamgp: "), f"no sentence at the end: {done.stderr!r}"
    path = out / "metrics.json"
    if not path.exists():
        assert done.exit_code, "a run that ended well wrote nothing"
        assert not (out / "predictions.parquet").exists()
        return "refused"
    metrics = json.loads(path.read_text())
    rows = pl.read_parquet(out / "predictions.parquet")["row"].to_list()
    assert len(rows) == metrics["rows"], "predictions and metrics count other rows"
    assert rows == sorted(set(rows)), "rows out of order, or twice"
    if not done.exit_code:
        there = rows_of(data)
        counted = len(rows) + metrics["skipped_rows"]
        assert there == counted, f"of {there} rows {len(rows)} were predicted and {metrics['skipped_rows']} skipped"
    return "stopped early" if done.exit_code else "complete"


def rows_of(data: Path) -> int:
    """Count the data rows of a file by the reader alone."""
    from streamgp.table.sources import open_source

    source = open_source(data)
    try:
        return source.read(1 << 20).size
    finally:
        source.close()


def campaign(examples: int, minutes: float, start: int = 0) -> dict[str, Any]:
    """Generate so many files, or as many as fit into the minutes; how they ended."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)  # every shape is compiled anew
    ends: Counter[str] = Counter()
    began = time.monotonic()

    with tempfile.TemporaryDirectory() as folder:

        @seed(start)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink) if sys.stdout.isatty() else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(tables())
        def one(made: tuple[bytes, list[str]]) -> None:
            if time.monotonic() - began > 60 * minutes:
                return
            ends[check(*made, Path(folder))] += 1
            if sum(ends.values()) % 100 == 0:
                print(
                    f"{sum(ends.values())} of {examples}, {time.monotonic() - began:.0f} s: {dict(ends)}", flush=True
                )

        one()
    return {"examples": sum(ends.values()), "ends": dict(ends), "seed": start, "seconds": time.monotonic() - began}


def main() -> None:
    """Run the campaign."""
    campaigns.run(__doc__, "examples", 10_000, campaign)


if __name__ == "__main__":
    main()
