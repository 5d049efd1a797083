"""Limits on the threads of libraries: one for BLAS beside streamgp's own threads, one for OpenMP in small fits."""

import os
import threading
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS' work, while it lasts, to the thread that asks for it.

    NumPy and SciPy (whose BLAS XLA calls too) each carry a BLAS of their own: with more threads than one, those of
    either would spin where others have work to do. Measured: up to two hundred times slower for the filters, also for
    one expert alone and for single rows, and five times for the evidence on a machine that is busy.

    The number of threads belongs to the process. The first of several threads in here saves it, the last one out
    restores it. Whatever JAX was asked for inside must be there before the end: JAX works on after it has returned.
    """
    return _one_thread


def one_openmp_thread() -> AbstractContextManager:
    """Keep OpenMP's work, while it lasts, to the thread that asks for it.

    Its threads wait for each other after every small step, and they spin: where another process keeps one core busy,
    a fit of a hundred small trees takes a hundred times as long. Sums over rows are rounded as the threads cut them,
    too. The limit is that of the thread that sets it.
    """
    return _libraries("openmp").limit(limits=1, user_api="openmp")


class _OneThread(AbstractContextManager[None]):
    """Who holds BLAS at one thread, in the whole process; a few microseconds to enter and leave."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._saved: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                libraries = _libraries("blas").lib_controllers
                self._saved = [(library, library.get_num_threads()) for library in libraries]
                for library in libraries:
                    _set_threads(library, 1)
            self._holders += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                for library, threads in self._saved:
                    _set_threads(library, threads)


def _set_threads(library: Any, threads: int) -> None:
    library.set_num_threads(threads)
    # To threadpoolctl a limit belongs to the thread that set it; the last one out may be another.
    if release := getattr(library, "clear_controlling_thread", None):
        release()


_one_thread = _OneThread()
# Who held it when a process was forked does not in there.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.__init__)


@cache
def _libraries(kind: str) -> ThreadpoolController:
    """Return the libraries of a kind, those loaded when it is first asked for."""
    # Looking for the libraries takes milliseconds.
    return ThreadpoolController().select(user_api=kind)
