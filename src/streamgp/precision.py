"""The one door to float64: JAX's own setting stays as the user has it."""

import inspect
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
    """
    return jax.enable_x64(on)


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
