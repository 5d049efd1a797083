"""The runs of a reproduction: side by side in processes, each kept in a JSON file as soon as it is there."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import streamgp
from streamgp.app.compilation import keep_compiled_programs
from streamgp.app.outputs import RunError, write_aside
from streamgp.progress import progress_bar

Runs = Generator[tuple["Job", dict[str, Any]], None, None]


@dataclass(frozen=True)
class Job:
    """One run: a function of a data set and a seed; it and its settings go to the process that does it.

    What it is made `of`, data and settings, is kept with it, so that it never passes for a run of others.
    """

    data: str
    seed: int
    work: Callable[..., dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    of: str = ""

    @property
    def key(self) -> str:
        """Its name in the file of results."""
        return f"{self.data} {self.seed}"

    def run(self) -> dict[str, Any]:
        """What there is to tell of the run, fit for JSON."""
        return self.work(self.data, self.seed, **self.settings)


class Results:
    """The runs so far, in a file that is whole at any moment.

    Parameters
    ----------
    path
        The JSON file. Runs that it holds already are not done again.
    about
        What all runs have in common. A file of other runs is refused.

    Raises
    ------
    RunError
        If the file holds something else.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.about = dict(about) | {"streamgp": streamgp.__version__}
        self.runs: dict[str, dict[str, Any]] = {}
        if path.exists():
            self.runs = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            held = json.loads(self.path.read_text(encoding="utf-8"))
            runs = dict(held.pop("runs"))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise RunError(
                f"{self.path}: expected runs of this command, got something else; name another --out"
            ) from None
        for name, value in self.about.items():
            if held.get(name) != value:
                raise RunError(
                    f"{self.path} holds runs with {name} {held.get(name)!r}, but now {name} is {value!r}; name "
                    f"another --out, or delete the file"
                )
        return runs

    def make_room(self) -> None:
        """Make the directory of the file; better that this fails now than after the first run.

        Raises
        ------
        RunError
            If nothing can be written there.
        """
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise RunError(f"--out: expected a directory that can be written to, got {folder}; name another --out")

    def check(self, jobs: Sequence[Job]) -> None:
        """Raise RunError if a run that is held already was made of something else than the job of its name."""
        for job in jobs:
            if job.key in self.runs and self.runs[job.key].get("of", "") != job.of:
                raise RunError(
                    f"{self.path}: its run '{job.key}' was made of other data, or with other settings; name another "
                    f"--out, or delete the file"
                )

    def add(self, job: Job, run: dict[str, Any]) -> None:
        """Keep a run: after this the file has it, with null for numbers that are not finite: JSON has none."""
        self.runs[job.key] = json.loads(
            json.dumps(run | ({"of": job.of} if job.of else {})), parse_constant=lambda _: None
        )
        write_aside(self.path, (json.dumps(self.about | {"runs": self.runs}) + "\n").encode())


def run_all(jobs: Sequence[Job], results: Results, processes: int) -> None:
    """Do the jobs that the results lack, `processes` at a time, with a progress bar on a terminal.

    With one process the work is done in this one. If it is interrupted, or a job fails, the file has what was done.
    """
    results.check(jobs)
    todo = [job for job in jobs if job.key not in results.runs]
    if todo:
        results.make_room()
    done = len(jobs) - len(todo)
    with progress_bar("runs", len(jobs)) as bar:
        bar.at(done)
        with closing(_one_by_one(todo) if processes == 1 else _side_by_side(todo, processes)) as runs:
            for job, run in runs:
                results.add(job, run)
                done += 1
                bar.at(done, f"{done} of {len(jobs)} runs, last {job.key}")


def _one_by_one(jobs: Sequence[Job]) -> Runs:
    for job in jobs:
        yield job, job.run()


def _side_by_side(jobs: Sequence[Job], processes: int) -> Runs:
    # Not forked: JAX has threads, and they would not survive it.
    context = multiprocessing.get_context("spawn")
    shares = context.SimpleQueue()
    for cores in share_cores(processes):
        shares.put(cores)
    pool = ProcessPoolExecutor(processes, context, _start_worker, (shares,))
    try:
        futures = {pool.submit(job.run): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
        pool.shutdown()
    except BrokenProcessPool:
        raise RunError(
            "a process ended before its run did, perhaps for want of memory; start again with fewer --jobs"
        ) from None
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.terminate()  # else the run in hand would be finished first
        raise


def cores_at_hand() -> list[int]:
    """The numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def share_cores(processes: int) -> list[list[int]]:
    """Which cores each process is to use: threads of several processes on one core would wait for each other."""
    cores = cores_at_hand()
    return [cores[i::processes] or [cores[i % len(cores)]] for i in range(processes)]


def _start_worker(shares: "SimpleQueue[list[int]]") -> None:
    """At the start of a process: its own cores; at Ctrl-C it waits for its parent to end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, shares.get())
    keep_compiled_programs()
