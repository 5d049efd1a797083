"""The live service in a process of its own: with other constants than usual, killed at a moment, and begun again."""

import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2 as httpx

# Where a process may kill itself: a function, and whether before it begins or after it has ended.
POINTS = {
    "before the group is on disk": ("streamgp.service.log", "EventLog.commit", "before"),
    "between disk and model": ("streamgp.service.log", "EventLog.commit", "after"),
    "between model and answer": ("streamgp.service.knowledge", "Knowledge.apply", "after"),
    "in a replay": ("streamgp.service.live_stream", "restored", "before"),
    "as a return is written": ("streamgp.service.log_ids", "LogIds.set_back", "after"),
    "between a return's entry and its state": ("streamgp.service.knowledge", "Knowledge.begin_anew", "before"),
    "before a challenger is begun or promoted": ("streamgp.service.challengers", "Challengers.apply", "before"),
    "between the files of a checkpoint": ("streamgp.numerics.checkpoint.directory", "_write", "after"),
    "before a rename": ("pathlib", "Path.rename", "before"),
    "after a rename": ("pathlib", "Path.rename", "after"),
    "before old entries are dropped": ("streamgp.service.log", "EventLog._drop", "before"),
    "after old entries were dropped": ("streamgp.service.log", "EventLog._drop", "after"),
    "after a log was copied": ("streamgp.service.log_files", "LogFiles.copy", "after"),
    "between a log and its copy": ("streamgp.service.log_files", "_bring", "after"),
    "while a new log is opened": ("streamgp.service.log_files", "_open", "before"),
    "as the former log is deleted": ("streamgp.service.log_files", "_delete", "after"),
    "as old checkpoints are deleted": ("shutil", "rmtree", "before"),
    "as rows go to a file": ("polars", "DataFrame.write_parquet", "after"),
}
_PRELOAD = ["streamgp.app.cli", "streamgp.service.serve", "streamgp.service.web.app", "uvicorn"]


@dataclass(frozen=True)
class Changes:
    """What a process does otherwise than the command.

    Attributes
    ----------
    constants
        Values by ``module:name``.
    renew_bytes
        Size of the log after which a new file begins; None: as usual.
    synchronous
        Whether what is written is waited for until the disk has it.
    die_at
        A name of `POINTS` and at which of its calls.
    quick
        Whether programs are compiled quickly rather than well.
    files
        How many it may have open; None: as many as this process.
    """

    constants: dict[str, Any] = field(default_factory=dict)
    renew_bytes: int | None = None
    synchronous: bool = True
    die_at: tuple[str, int] | None = None
    quick: bool = True
    files: int | None = None

    def make(self) -> None:
        """Change this process."""
        from streamgp.service import log_files
        from streamgp.service.log import EventLog

        for name, value in self.constants.items():
            module, _, constant = name.partition(":")
            assert hasattr(import_module(module), constant), name
            setattr(import_module(module), constant, value)
        if self.renew_bytes is not None:
            EventLog.renewing.__defaults__ = (self.renew_bytes,)
        if not self.synchronous:
            log_files._open = _unsynced(log_files._open)
        if self.files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))
        if self.die_at is not None:
            point, call = self.die_at
            _die(*POINTS[point], call)


def _unsynced(opened: Callable[..., Any]) -> Callable[..., Any]:
    def open_log(path: Path) -> Any:
        db = opened(path)
        db.execute("PRAGMA synchronous=OFF")
        return db

    return open_log


def _die(module: str, name: str, when: str, call: int) -> None:
    """Have the process kill itself at one of the calls of a function."""
    *path, last = name.split(".")
    owner: Any = import_module(module)
    for each in path:
        owner = getattr(owner, each)
    usual, calls = getattr(owner, last), 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if when == "before" and calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        found = usual(*args, **options)
        if when == "after" and calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, last, counted)


def serve(words: list[str], cache: str, log: str, changes: Changes) -> None:
    """Run ``streamgp serve`` in this process, in a session of its own, as a service has.

    Linux divides the processors among sessions (`sched_autogroup`), so that its clients take nothing of its share.
    """
    if sys.platform != "win32":
        os.setsid()
    os.environ["STREAMGP_CACHE"] = cache
    sys.stdout = sys.stderr = open(log, "a")  # noqa: SIM115

    from streamgp.app import cli

    if changes.quick:
        import jax

        from streamgp.numerics.compiled_programs import keep_compiled_programs

        keep_compiled_programs()
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.config.update("jax_disable_most_optimizations", True)
    changes.make()
    cli.app(["serve", *words])


class Server:
    """A service over a directory, which may be killed and started again at the same address.

    Parameters
    ----------
    directory
        Of the streams.
    cache
        Where compiled programs are kept.

    Attributes
    ----------
    options
        Further ones of the command.
    """

    context = multiprocessing.get_context("forkserver")

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.cache = cache
        self.log = directory.with_name(directory.name + ".txt")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process: Any = None
        self.options: list[str] = []
        self.context.set_forkserver_preload(_PRELOAD)

    @property
    def url(self) -> str:
        """Return the address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, changes: Changes | None = None) -> None:
        """Start the process."""
        words = [str(self.directory), "--port", str(self.port), *self.options]
        changes = Changes() if changes is None else changes
        work = partial(serve, words, str(self.cache), str(self.log), changes)
        self.process = self.context.Process(target=work, daemon=True)
        self.process.start()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self.process is not None and self.process.is_alive()

    def wait(self, seconds: float = 120.0) -> bool:
        """Wait until all streams are restored; return False if the process ends before that.

        Raises
        ------
        TimeoutError
            If it takes longer.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.is_alive():
                return False
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5.0).status_code == 200:
                    return True
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise TimeoutError(f"not ready after {seconds:g} s: {self.said()}")

    def kill(self) -> None:
        """Kill the process as the system does when memory runs out."""
        self.process.kill()
        self.process.join()

    def stop(self) -> None:
        """End the process as Ctrl-C does."""
        if self.is_alive():
            os.kill(self.process.pid, signal.SIGINT)
            self.process.join(60.0)
            if self.is_alive():
                self.kill()

    def said(self) -> str:
        """Return the end of what the process said."""
        return self.log.read_text()[-2_000:] if self.log.exists() else ""

    def memory_mb(self) -> float:
        """Return the resident memory of the process in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["VmRSS"].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used, which others on the machine take nothing from."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def waited_seconds(self) -> float:
        """Return for how long threads of the process that could have run waited for a processor, together."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return 1e-9 * sum(int(each.read_text().split()[1]) for each in threads)
