"""Estimators that several threads call: one call at a time; and what they have said already."""

from collections.abc import Callable
from functools import wraps
from threading import Lock, RLock
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Access:
    """Of one estimator in this process, and no part of what it knows: a copy or a checkpoint begins with its own."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.warned_of_warmup = False


_KNOWN: WeakKeyDictionary[Any, Access] = WeakKeyDictionary()
_LOCK = Lock()


def access_to(estimator: Any) -> Access:
    """Return the access to an estimator, which goes with it: neither its parameters nor a pickle have it."""
    with _LOCK:
        known = _KNOWN.get(estimator)  # a lock takes time to make
        return _KNOWN.setdefault(estimator, Access()) if known is None else known


def alone(method: Callable[Concatenate[Any, _Given], _Result]) -> Callable[Concatenate[Any, _Given], _Result]:
    """Let a method of an estimator run while no other thread is in one: calls take place one after the other."""

    @wraps(method)
    def call(self: Any, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        with self._access.lock:
            return method(self, *args, **kwargs)

    return call
