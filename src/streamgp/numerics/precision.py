"""The switch to float64 in JAX: the user's own setting stays, and a forked process raises an error."""

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def float64(on: bool = True) -> AbstractContextManager:
    """Return a context in which JAX's arrays are of float64 where nothing else is said; of float32, unless `on`.

    It belongs to the thread that enters it. Wait for what JAX was asked for inside before the context ends.

    Raises
    ------
    RuntimeError
        In a process that was forked from one in which JAX had begun to work: it would wait forever.
    """
    check_process()
    return jax.enable_x64(on)


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
