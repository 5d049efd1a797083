"""How many threads BLAS may have: one, wherever streamgp has threads of its own."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS' work, while it lasts, to the thread that asks for it.

    NumPy and SciPy (whose BLAS XLA calls too) each carry a BLAS of their own: with more threads than one, those of
    either would spin where others have work to do. Measured: up to two hundred times slower for the filters, also for
    one expert alone, and five times for the evidence on a machine that is busy.

    The number of threads belongs to the process. The first of several threads in here saves it, the last one out
    restores it. Whatever JAX was asked for inside must be there before the end: JAX works on after it has returned.
    """
    _one_thread.enter()
    try:
        yield
    finally:
        _one_thread.leave()


class _OneThread:
    """Who holds BLAS at one thread, in the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._limit = _one_for_blas()
                # To threadpoolctl a limit belongs to the thread that set it, until one of its contexts ends there;
                # the last out may be another.
                with _one_for_blas():
                    pass
            self._holders += 1

    def leave(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                with self._limit:  # restores at its end what was there when it was made
                    pass


def _one_for_blas() -> AbstractContextManager:
    return _blas_libraries().limit(limits=1, user_api="blas")


_one_thread = _OneThread()


@cache
def _blas_libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for the libraries, which takes milliseconds
