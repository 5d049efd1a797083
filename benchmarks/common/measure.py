"""Timing and memory: jobs in turn, so that a ratio compares the same minutes; medians with their spread."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 5
Spread = dict[str, float]  # median, min and max


def in_turn(jobs: Mapping[str, Callable[[], Any]], runs: int) -> dict[str, list[float]]:
    """Return seconds of every job in each of `runs` rounds, in which the jobs come one after the other.

    A round before the first is thrown away: it compiles, and fills caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(runs + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def spread(values: Sequence[float], scale: float = 1.0) -> Spread:
    """Return median, least and largest of some values, times `scale`."""
    scaled = [value * scale for value in values]
    return {"median": median(scaled), "min": min(scaled), "max": max(scaled)}


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the spread of a quotient that is taken within each round."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def installed(*modules: str) -> bool:
    """Return whether packages are installed; print what is left out where they are not."""
    missing = ", ".join(module for module in modules if find_spec(module) is None)
    if missing:
        print(f"not installed, so left out: {missing} (pip install 'streamgp[benchmarks]')", file=sys.stderr)
    return not missing


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a module's function in a process of its own, whose memory has no other history."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def memory_mb() -> dict[str, float]:
    """Return resident memory of this process, now and at its highest, in MiB.

    Read from Linux' own count: `getrusage` would begin with what the parent process held.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        raise SystemExit("memory: expected Linux' /proc/self/status, found none; leave this part out with --only")
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return {name: int(fields[field].split()[0]) / 1024 for name, field in (("now", "VmRSS"), ("peak", "VmHWM"))}
