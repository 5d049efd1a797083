"""Kill `streamgp run` with -9 at random moments, go on with --resume, and compare the end with an unbroken run.

    python -m benchmarks.robustness.kills --kills 1000 --out benchmarks/results/kills.json

Every process is a real one and gets a real SIGKILL; it is forked from one that has the packages imported, so that
most of its life is the run's own. Predictions, weights and metrics must be those of the run that nobody killed, bit
for bit, with no row lost and none twice.
"""

import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.common import campaigns

ROWS = 400
KINDS = {
    "plain": ("--target", "y", "--features", "a,b"),
    "two targets, times and bad rows": (
        "--target",
        "y,z",
        "--features",
        "a,b",
        "--time",
        "t",
        "--missing",
        "skip",
    ),
    "lags and a horizon": ("--target", "y", "--features", "a", "--lags", "1,5", "--horizon", "3"),
    "labels": ("--target", "kind", "--features", "a,b"),
    "renewed": (
        "--target",
        "y",
        "--features",
        "a,b",
        "--model",
        "best",
        "--bases",
        "linear,boosted,fourier-trained",
        "--features-per-basis",
        "5",
        "--dynamics",
        "static,walk 0.001",
        "--noise",
        "constant",
    ),
}
COMMON = ("--model", "linear", "--warmup", "60", "--chunk", "16")
# A run must come to its end within so many starts.
LIVES = 200
FLAWED = (5, 61, 200, 201, 398)  # rows of which one cell is missing, in the kind that skips such rows


def write_data(path: Path, flawed: bool) -> None:
    """Write a stream with two targets, labels and times."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, ROWS))
    y = a + 0.5 * b * np.cos(np.arange(ROWS) / 90) + 0.1 * rng.normal(size=ROWS)
    frame = pl.DataFrame({"t": np.cumsum(rng.exponential(size=ROWS)), "a": a, "b": b, "y": y, "z": 3 * a - b})
    frame = frame.with_columns(kind=pl.when(pl.col("y") > 0).then(pl.lit("up")).otherwise(pl.lit("down")))
    if flawed:
        gone = pl.int_range(pl.len()).is_in(FLAWED)
        frame = frame.with_columns(a=pl.when(gone).then(None).otherwise("a"))
    frame.write_csv(path)


def command(words: list[str], cache: str, seconds: float, rows: int) -> None:
    """Run the command in this process, with checkpoints after so many seconds, and parts of so many rows."""
    os.environ["STREAMGP_CACHE"] = cache
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115

    import jax

    from streamgp.app import cli, live_run, outputs, report
    from streamgp.numerics.compiled_programs import keep_compiled_programs

    keep_compiled_programs()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_disable_most_optimizations", True)
    report.write_report = lambda out: out  # it takes longer than the run, and comes after it
    live_run.CHECKPOINT_SECONDS, outputs.PART_ROWS = seconds, rows
    cli.app(words)


class Campaign:
    """Runs that are killed again and again, and what came of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.kills = self.runs = 0
        self.failures: list[str] = []
        # The places where runs were killed.
        self.at: Counter[str] = Counter()
        self.whole: dict[str, tuple[Path, float]] = {}
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["streamgp.app.cli", "streamgp.app.run_stream", "streamgp.app.report"])

    def start(self, kind: str, out: Path, *words: str, seconds: float = 20.0, rows: int = 1 << 16) -> Any:
        """Start a process of the command."""
        data = self.folder / f"{kind}.csv"
        said = ["run", str(data), *COMMON, *KINDS[kind], "--out", str(out), *words]
        process = self.processes.Process(target=command, args=(said, str(self.folder / "cache"), seconds, rows))
        process.start()
        return process

    def unbroken(self, kind: str) -> tuple[Path, float]:
        """Return the directory of a run that nobody kills, and the seconds that it takes once all is compiled."""
        if kind not in self.whole:
            write_data(self.folder / f"{kind}.csv", flawed="bad rows" in kind)
            out = self.folder / f"{kind}, whole"
            for _ in range(2):
                began = time.monotonic()
                process = self.start(kind, out, "--overwrite", seconds=0.0, rows=50)
                process.join()
                assert process.exitcode == 0, f"the unbroken run of {kind} failed"
            self.whole[kind] = out, time.monotonic() - began
        return self.whole[kind]

    def run(self, kind: str, most: int) -> None:
        """Run once, killed until it ends; `most` kills at most, after which it is left to end."""
        whole, takes = self.unbroken(kind)
        out = self.folder / f"out {self.runs}"
        seconds, rows = self.random.choice((0.0, 0.0, 0.0, 0.05, 20.0)), self.random.choice((7, 50, 1 << 16))
        killed = 0
        for _ in range(LIVES):
            process = self.start(kind, out, "--resume", seconds=seconds, rows=rows)
            if killed < most:
                self.wait(process, out, takes)
            else:
                process.join()
            if process.exitcode is not None:
                break
            process.kill()
            process.join()
            killed += 1
            self.kills += 1
            self.at[self.stage(out)] += 1
        self.runs += 1
        try:
            if process.exitcode != 0:
                raise AssertionError(f"ended with the exit code {process.exitcode}")
            same(out, whole)
        except Exception as error:
            self.failures.append(f"{kind}, after {killed} kills, checkpoints every {seconds:g} s: {error}")

    def wait(self, process: Any, out: Path, takes: float) -> None:
        """Wait until a random moment: by the clock alone, or soon after one of the next checkpoints."""
        if self.random.random() < 0.3:
            process.join(self.random.uniform(0.0, takes))
            return
        path, before = out / "checkpoint" / "checkpoint.json", -1
        until = time.monotonic() + 3.0 * takes
        for _ in range(self.random.randint(1, 8)):
            while process.exitcode is None and time.monotonic() < until:
                now = path.stat().st_mtime_ns if path.exists() else -1
                if now != before:
                    before = now
                    break
                time.sleep(0.002)
        process.join(self.random.uniform(0.0, 0.1))

    def stage(self, out: Path) -> str:
        """Return where a run was when it was killed, by what it had written."""
        path = out / "checkpoint" / "checkpoint.json"
        if not path.exists():
            return "before the first checkpoint"
        rows = json.loads(path.read_text())["meta"]["rows"]
        if rows < 60:
            return "in the warm-up"
        return "in the stream" if (out / "parts").exists() else "at the end"


def same(out: Path, whole: Path) -> None:
    """Check that two finished runs have the same rows and numbers."""
    for name in ("predictions", "weights"):
        found, expected = (pl.read_parquet(directory / f"{name}.parquet") for directory in (out, whole))
        assert found["row"].to_list() == expected["row"].to_list(), f"{name}: rows were lost or came twice"
        assert_frame_equal(found, expected, check_exact=True)
    metrics = [json.loads((directory / "metrics.json").read_text()) for directory in (out, whole)]
    for each in metrics:
        for name in ("seconds", "rows_per_second", "command"):
            del each[name]
    assert metrics[0] == metrics[1], "the metrics differ"
    left = [path.name for path in out.iterdir() if path.name.startswith(".") or path.name == "parts"]
    assert not left, f"left behind: {left}"


def campaign(kills: int, minutes: float, seed: int = 0, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, Any]:
    """Kill until there were so many kills, or so many minutes have passed; what happened."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Campaign(Path(folder), seed)
        while work.kills < kills and time.monotonic() - began < 60 * minutes:
            work.run(kinds[work.runs % len(kinds)], min(12, kills - work.kills))
            print(
                f"{work.kills} of {kills} kills, {work.runs} runs, {len(work.failures)} failures, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
    return {
        "kills": work.kills,
        "runs": work.runs,
        "rows": ROWS,
        "kinds": list(kinds),
        "killed": dict(sorted(work.at.items())),
        "failures": work.failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "kills", 1_000, campaign)


if __name__ == "__main__":
    main()
