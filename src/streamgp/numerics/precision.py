"""The switch to float64 in JAX: the user's own setting stays, and a forked process raises an error."""

import inspect
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from streamgp.numerics.loading import once_jax_is_loaded

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def float64(on: bool = True) -> AbstractContextManager:
    """Return a context in which JAX's arrays are of float64 where nothing else is said; of float32, unless `on`.

    It belongs to the thread that enters it. Wait for what JAX was asked for inside before the context ends. Where JAX
    is loaded within, as by a model that needs it, it begins then.

    Raises
    ------
    RuntimeError
        In a process that was forked from one in which JAX had begun to work: it would wait forever.
    """
    check_process()
    jax: Any = sys.modules.get("jax")
    return jax.enable_x64(on) if hasattr(jax, "enable_x64") else _Waiting()


class _Waiting(AbstractContextManager):
    """A context of `float64` that was entered before JAX was loaded."""

    def __enter__(self) -> None:
        self._then = ExitStack()
        _open.here.append(self._then)

    def __exit__(self, *_: object) -> None:
        _open.here.remove(self._then)
        self._then.close()


class _OfThread(threading.local):
    """The contexts that wait for JAX in this thread, the outermost first."""

    def __init__(self) -> None:
        self.here: list[ExitStack] = []


_open = _OfThread()


def _turn_on() -> None:
    """Turn float64 on in JAX, which has just been loaded, for as long as a context of this thread waits for it."""
    if _open.here:
        _open.here[0].enter_context(sys.modules["jax"].enable_x64(True))


once_jax_is_loaded(_turn_on)


def computed(result: _Result) -> _Result:
    """Return a result whose arrays are there: those of JAX are waited for."""
    jax = sys.modules.get("jax")
    return result if jax is None else jax.block_until_ready(result)


def check_process() -> None:
    """Raise `RuntimeError` in a process that was forked from one in which JAX had begun to work."""
    if _Forked.from_work:
        raise RuntimeError(
            f"expected a process in which JAX can work, got one (pid {os.getpid()}) that was forked after its parent "
            f"had computed: JAX's threads are not in it, and it would wait for them forever; start it with spawn or "
            f'forkserver, as by multiprocessing.get_context("spawn"), and load the model there'
        )


class _Forked:
    """Whether this process was forked from one in which JAX had begun to work."""

    from_work = False

    @classmethod
    def note(cls) -> None:
        """Look, in a process that has just been forked, whether JAX's record says that it had begun."""
        if "jax" not in sys.modules:
            return
        bridge = sys.modules.get("jax._src.xla_bridge")
        # If it is not known, the backends count as started: waiting forever would be worse.
        has_begun = getattr(bridge, "backends_are_initialized", lambda: True)
        cls.from_work = cls.from_work or has_begun()


# Some systems cannot fork processes.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forked.note)


def in_float64(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Run a function inside `float64`; use it as a decorator, below ``@property`` and ``@classmethod``.

    Raises
    ------
    TypeError
        If `function` is a generator: its caller would go on between two rows with the setting on.
    """
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"in_float64: expected a function that returns, got the generator {function.__qualname__}")

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        with float64():
            return function(*args, **kwargs)

    return call
