"""Runner of trials: side by side in processes, each result kept in a JSON file as soon as it is done."""

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

from streamgp.app.outputs import RunError
from streamgp.numerics.compiled_programs import keep_compiled_programs
from streamgp.progress import progress_bar
from streamgp.table.files import write_aside
from streamgp.version import __version__

Runs = Generator[tuple["Trial", dict[str, Any]], None, None]


@dataclass(frozen=True)
class Trial:
    """One run of a reproduction: a function of a data set and a seed, with its settings.

    All of it goes to the process that does the run. A digest `of` its data and settings is stored with the result, so
    that the result is never taken for that of other data or settings.
    """

    data: str
    seed: int
    work: Callable[..., dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    of: str = ""

    @property
    def key(self) -> str:
        """Return its name in the file of results."""
        return f"{self.data} {self.seed}"

    def run(self) -> dict[str, Any]:
        """Do the trial, and return its results, fit for JSON."""
        return self.work(self.data, self.seed, **self.settings)


class ResultsFile:
    """The results of trials so far, in a file that is complete at any moment.

    Parameters
    ----------
    path
        The JSON file. Trials that it holds already are not done again.
    about
        The properties that all trials share. A file of others is refused.

    Raises
    ------
    RunError
        If the file holds something else.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.about = dict(about) | {"streamgp": __version__}
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

    def make_directory(self) -> None:
        """Make the directory of the file, so that a failure comes before the first trial and not after it.

        Raises
        ------
        RunError
            If nothing can be written there.
        """
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise RunError(f"--out: expected a directory that can be written to, got {folder}; name another --out")

    def check(self, trials: Sequence[Trial]) -> None:
        """Raise RunError if a stored result was made of other data or settings than the trial of its name."""
        for trial in trials:
            if trial.key in self.runs and self.runs[trial.key].get("of", "") != trial.of:
                raise RunError(
                    f"{self.path}: its run '{trial.key}' was made of other data, or with other settings; name "
                    f"another --out, or delete the file"
                )

    def add(self, trial: Trial, run: dict[str, Any]) -> None:
        """Store the result of a trial in the file, with null for numbers that are not finite, which JSON lacks."""
        self.runs[trial.key] = json.loads(
            json.dumps(run | ({"of": trial.of} if trial.of else {})), parse_constant=lambda _: None
        )
        write_aside(self.path, (json.dumps(self.about | {"runs": self.runs}) + "\n").encode())


def run_all(trials: Sequence[Trial], results: ResultsFile, processes: int) -> None:
    """Do the trials that the results lack, `processes` at a time, with a progress bar on a terminal.

    With one process the work is done in this one. If it is interrupted, or a trial fails, the file has those done.
    """
    results.check(trials)
    todo = [trial for trial in trials if trial.key not in results.runs]
    if todo:
        results.make_directory()
    done = len(trials) - len(todo)
    with progress_bar("runs", len(trials)) as bar:
        bar.at(done)
        with closing(_one_by_one(todo) if processes == 1 else _side_by_side(todo, processes)) as runs:
            for trial, run in runs:
                results.add(trial, run)
                done += 1
                bar.at(done, f"{done} of {len(trials)} runs, last {trial.key}")


def _one_by_one(trials: Sequence[Trial]) -> Runs:
    for trial in trials:
        yield trial, trial.run()


def _side_by_side(trials: Sequence[Trial], processes: int) -> Runs:
    # Not forked: JAX has threads, and they would not survive it.
    context = multiprocessing.get_context("spawn")
    shares = context.SimpleQueue()
    for cores in share_cores(processes):
        shares.put(cores)
    pool = ProcessPoolExecutor(processes, context, _start_worker, (shares,))
    try:
        futures = {pool.submit(trial.run): trial for trial in trials}
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
            # Without this the trial in progress would be finished first.
            worker.terminate()
        raise


def available_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def share_cores(processes: int) -> list[list[int]]:
    """Assign cores to each process: threads of several processes on one core would wait for each other."""
    cores = available_cores()
    return [cores[i::processes] or [cores[i % len(cores)]] for i in range(processes)]


def _start_worker(shares: "SimpleQueue[list[int]]") -> None:
    """Start a process on its own cores; at Ctrl-C it waits for its parent to end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, shares.get())
    keep_compiled_programs()
