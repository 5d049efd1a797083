"""Kill fleets with -9 in every phase of a save and of `streamgp run --key`, go on, and compare with one that was not.

    python -m benchmarks.robustness.fleet_kills --kills 100 --out benchmarks/results/fleet_kills.json

Every process is a real one and gets a real SIGKILL. In the phases of a save it kills itself, just before or after one
of the steps by which files come to the disk: a key falls asleep, a shard is written, the manifest is renamed, old
files are removed. Runs of the command are killed at random moments. Whatever was saved must load, as it was or as
it is; steps sent again must be learnt once; and the end must be that of the fleet that nobody killed, to 1e-9, with
no row lost and none twice.
"""

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.common import campaigns

KEYS, TICKS, AWAKE, STEP = 24, 30, 3, 24  # rows of a step
KINDS = ("saves", "saves, asleep", "command", "command, asleep")
LIVES = 60
PHASES = {
    "a key falls asleep": ("streamgp.fleet.sleepers", "write_aside"),
    "sleeping keys are copied": ("streamgp.fleet.sleepers", "os.link"),
    "arrays are written": ("streamgp.numerics.checkpoint.directory", "_write"),
    "a file is renamed": ("streamgp.numerics.checkpoint.directory", "os.replace"),
    "sleeping keys of the last save are removed": ("streamgp.fleet.shards", "remove_others"),
    "shards of the last save are removed": ("streamgp.fleet.shards", "shutil.rmtree"),
}


def rows() -> pl.DataFrame:
    """Return rows of keys that come, stop and come back."""
    rng = np.random.default_rng(0)
    last, parts = np.zeros(KEYS), []
    for tick in range(TICKS):
        last = 0.8 * last + 0.3 * rng.normal(size=KEYS)
        here = np.flatnonzero(rng.random(KEYS) < np.where(np.arange(KEYS) % 3 == tick // 8 % 3, 0.9, 0.2))
        ids = [f"key {k}" for k in here]
        parts.append(pl.DataFrame({"unique_id": ids, "ds": float(tick), "y": here + last[here], "a": here * 0.1}))
    return pl.concat(parts)


def die_at(module: str, name: str, call: int, before: bool) -> None:
    """Let this process kill itself before or after so many calls of a function."""
    owner: Any = sys.modules[module]
    *path, last = name.split(".")
    for each in path:
        owner = getattr(owner, each)
    whole: Callable[..., Any] = getattr(owner, last)
    left = [call]

    def deadly(*args: Any, **named: Any) -> Any:
        left[0] -= 1
        if before and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        found = whole(*args, **named)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, last, deadly)


def steps(path: Path, awake: int | None, every: int, death: tuple[str, str, int, bool] | None) -> None:
    """Send the steps to the fleet in a directory, or to a new one, and save it after every so many."""
    from streamgp import StreamingGPFleet
    from streamgp.fleet import shards, sleepers  # noqa: F401 (to be found by their names)

    if (path / "checkpoint.json").exists():
        fleet = StreamingGPFleet.load(path, max_active=awake)
    else:
        fleet = StreamingGPFleet(warmup=100, season=None, shards=4, max_active=awake)
    if death is not None:
        die_at(*death)
    frame = rows()
    for seq, at in enumerate(range(0, len(frame), STEP)):
        if fleet.step(seq, frame[at : at + STEP]) is not None and seq % every == every - 1:
            fleet.save(path)
    fleet.save(path)


def command(words: list[str]) -> None:
    """Run the command in this process, with a checkpoint after every chunk and small parts."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115

    from streamgp.app import cli, outputs
    from streamgp.fleet import report as fleet_report
    from streamgp.fleet import run as run_fleet

    fleet_report.write_fleet_report = lambda out: out  # it comes after all else
    run_fleet.CHECKPOINT_SECONDS, outputs.PART_ROWS = 0.0, 50
    cli.app(words)


class Campaign:
    """Fleets that are killed again and again, and what came of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.kills = self.runs = 0
        self.failures: list[str] = []
        self.at: Counter[str] = Counter()
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["streamgp.app.cli", "streamgp.fleet.run", "streamgp"])
        rows().write_csv(folder / "rows.csv")
        self.whole: dict[str, Any] = {}

    def run(self, kind: str, most: int) -> None:
        """Run a fleet to its end, killed `most` times at most on the way."""
        out, killed = self.folder / f"out {self.runs}", 0
        awake = AWAKE if "asleep" in kind else None
        phases = [phase for phase in PHASES if awake is not None or "sleep" not in phase]
        for _ in range(LIVES):
            phase = phases[self.kills % len(phases)] if killed < most and kind.startswith("saves") else None
            process = self._start(kind, out, awake, phase)
            if phase is None and killed < most:
                process.join(self.random.uniform(0.0, 3.0))
            else:
                process.join()
            if process.exitcode is None:
                process.kill()
                process.join()
            if process.exitcode != -signal.SIGKILL:
                break
            killed += 1
            self.kills += 1
            self.at[phase or "in the command"] += 1
        self.runs += 1
        try:
            assert process.exitcode == 0, f"ended with the exit code {process.exitcode}"
            self._compare(kind, out, awake)
        except Exception as error:
            self.failures.append(f"{kind}, after {killed} kills: {type(error).__name__}: {error}")

    def _start(self, kind: str, out: Path, awake: int | None, phase: str | None) -> Any:
        if kind.startswith("saves"):
            death = None if phase is None else (*PHASES[phase], self.random.randint(1, 3), self.random.random() < 0.5)
            every = self.random.choice((1, 3))
            process = self.processes.Process(target=steps, args=(out, awake, every, death))
        else:
            words = ["run", str(self.folder / "rows.csv"), "--target", "y", "--key", "unique_id", "--time", "ds"]
            words += ["--warmup", "100", "--chunk", "20", "--out", str(out), "--resume"]
            process = self.processes.Process(
                target=command, args=([*words, *([] if awake is None else ["--max-active", str(awake)])],)
            )
        process.start()
        return process

    def _compare(self, kind: str, out: Path, awake: int | None) -> None:
        """Check that a fleet ended like the one that nobody killed."""
        from streamgp import StreamingGPFleet

        if kind not in self.whole:
            whole = self.folder / f"whole, {kind}"
            process = self._start(kind, whole, awake, None)
            process.join()
            assert process.exitcode == 0, "the fleet that nobody killed failed"
            self.whole[kind] = whole
        saved = "" if kind.startswith("saves") else "checkpoint"
        found, expected = (StreamingGPFleet.load(each / saved) for each in (out, self.whole[kind]))
        same(found.scores(), expected.scores())
        inputs = pl.DataFrame({"unique_id": list(expected.keys_)}).join(
            pl.DataFrame({"a": [0.1, 0.2, 0.3]}), how="cross"
        )
        ahead = [fleet.forecast(3, X_future=inputs) for fleet in (found, expected)]
        same(*ahead)
        kept = {each.name for each in (out / saved).glob("asleep-*")}
        known = set(json.loads((out / saved / "checkpoint.json").read_text())["tree"]["asleep"])
        assert kept == known, f"files of sleeping keys were left behind or lost: {kept ^ known}"
        if not saved:
            return
        tables = [pl.read_parquet(each / "predictions.parquet") for each in (out, self.whole[kind])]
        assert tables[0]["row"].to_list() == list(range(len(rows()))), "rows were lost or came twice"
        same(*tables)
        assert not list(out.glob("streamgp-asleep-*")), "a folder of sleeping keys was left behind"


def same(one: pl.DataFrame, other: pl.DataFrame) -> None:
    """Check that two tables agree, row by row in the order of their keys."""
    from polars.testing import assert_frame_equal

    assert_frame_equal(one, other, rel_tol=1e-9, abs_tol=1e-10)


def campaign(kills: int, minutes: float, seed: int = 0, kinds: tuple[str, ...] = KINDS) -> dict[str, Any]:
    """Kill until there were so many kills, or so many minutes have passed; what happened."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Campaign(Path(folder), seed)
        while work.kills < kills and time.monotonic() - began < 60 * minutes:
            work.run(kinds[work.runs % len(kinds)], min(8, kills - work.kills))
            seconds = time.monotonic() - began
            print(f"{work.kills} of {kills} kills, {len(work.failures)} failures, {seconds:.0f} s", flush=True)
    return {
        "kills": work.kills,
        "runs": work.runs,
        "kinds": list(kinds),
        "killed": dict(sorted(work.at.items())),
        "failures": work.failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "kills", 100, campaign)


if __name__ == "__main__":
    main()
