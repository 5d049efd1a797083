"""Checks that values match their annotations: types, kinds of numbers, ranks and sizes of arrays."""

import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from jaxtyping import AbstractArray

from streamgp.numerics.arrays import is_jax
from streamgp.numerics.checkpoint.errors import CheckpointError

Record = typing.TypeVar("Record")
# The sizes of dimensions, by name.
Sizes = dict[str, int]
Check = Callable[[Any, Sizes], bool]


def check_fields(cls: type, fields: Mapping[str, Any], advice: str = "use another copy") -> None:
    """Raise `CheckpointError` if the fields of a record are not what the annotations of its class ask for.

    Arrays of NumPy and of JAX stand for each other, and any number of leading axes is allowed, as a stack of
    records has them. A dimension with a name has one size in all fields of the record.

    Parameters
    ----------
    cls
        A dataclass or a NamedTuple.
    fields
        Values of its fields by name.
    advice
        What to do if they are not.
    """
    checks, sizes = _checks(cls), Sizes()
    for name, value in fields.items():
        if name in checks and not checks[name](value, sizes):
            raise _misfit(f"the {name} of a {cls.__name__}", _hints(cls)[name], value, advice)


def checked(record: Record) -> Record:
    """Return a record that was put together of what a checkpoint holds, if `check_fields` has nothing against it."""
    check_fields(type(record), vars(record))
    return record


def check_value(what: str, value: Any, hint: Any) -> None:
    """Raise `CheckpointError` if a value is not what an annotation asks for; `what` says which value it is."""
    if not _check_of(hint)(value, {}):
        raise _misfit(what, hint, value, "use another copy")


def check_state(maker: Any, state: Any) -> None:
    """Raise `CheckpointError` if a state is not what the `init` of a model or of a rule is annotated to return.

    A model or rule that knows more about its states says so in a method `check_state`.
    """
    check_value(f"the state of a {type(maker).__name__}", state, _hints(type(maker).init).get("return", Any))
    if hasattr(maker, "check_state"):
        maker.check_state(state)


def _misfit(what: str, hint: Any, value: Any, advice: str) -> CheckpointError:
    expected = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    if hasattr(value, "shape"):
        got = f"an array of {value.dtype} with shape {tuple(value.shape)}"
    else:
        got = f"{type(value).__name__} {value!r:.40}"
    return CheckpointError(f"{what} does not fit the rest: expected {expected}, got {got}; {advice}")


@functools.cache
def _hints(of: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(of)
    except NameError:  # a name that only the type checker sees
        return {}


@functools.cache
def _checks(cls: type) -> dict[str, Check]:
    return {name: _check_of(hint) for name, hint in _hints(cls).items()}


@functools.cache
def _check_of(hint: Any) -> Check:
    """Return the function that says whether a value fits an annotation; what it knows nothing of fits."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda value, sizes: True
    if hint is None or hint is types.NoneType:
        return lambda value, sizes: value is None
    if origin in (typing.Union, types.UnionType):
        either = [_check_of(each) for each in arguments]
        return lambda value, sizes: any(check(value, sizes) for check in either)
    if origin is typing.Literal:
        return lambda value, sizes: any(type(value) is type(each) and value == each for each in arguments)
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return _array_check(hint)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            every = _check_of(arguments[0])
            return lambda value, sizes: isinstance(value, tuple) and all(every(each, sizes) for each in value)
        parts = [_check_of(each) for each in arguments]
        return lambda value, sizes: (
            isinstance(value, tuple)
            and len(value) == len(parts)
            and all(check(each, sizes) for check, each in zip(parts, value, strict=True))
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = (_check_of(each) for each in arguments)
        return lambda value, sizes: (
            isinstance(value, origin) and all(key(k, sizes) and item(v, sizes) for k, v in value.items())
        )
    if isinstance(origin, type) and issubclass(origin, (Sequence, AbstractSet)):
        member = _check_of(arguments[0])
        return lambda value, sizes: isinstance(value, origin) and all(member(each, sizes) for each in value)
    if hint is bool:
        return lambda value, sizes: isinstance(value, (bool, np.bool_))
    if hint is int:
        return lambda value, sizes: isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if hint is float:
        return lambda value, sizes: (
            isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        )
    if hint is np.ndarray or origin is np.ndarray or getattr(hint, "__name__", "") == "Array":  # that of JAX
        return lambda value, sizes: isinstance(value, np.ndarray) or is_jax(value)
    if hint is Callable or origin is Callable:
        return lambda value, sizes: callable(value)
    if getattr(hint, "_is_protocol", False):
        methods = [name for name, member in vars(hint).items() if callable(member) and not name.startswith("_")]
        return lambda value, sizes: all(callable(getattr(type(value), name, None)) for name in methods)
    if isinstance(hint, type):
        return lambda value, sizes: isinstance(value, hint)
    return lambda value, sizes: True


def _array_check(hint: Any) -> Check:
    """Return the check of an array: the kind of its numbers, and its last axes as far as they have names or sizes."""
    words = hint.dim_str.split()
    while words and words[0].startswith(("*", "...")):
        words.pop(0)
    if any(word.startswith(("*", "...")) for word in words):
        words = []
    dtypes = hint.dtypes

    def check(value: Any, sizes: Sizes) -> bool:
        if not hasattr(value, "shape") or len(value.shape) < len(words):
            return False
        name = value.dtype.name
        if isinstance(dtypes, tuple) and name not in dtypes:
            return False
        for word, size in zip(words, value.shape[len(value.shape) - len(words) :], strict=True):
            if word.isdigit() and int(word) != size:
                return False
            if word.isidentifier() and word != "_" and sizes.setdefault(word, size) != size:
                return False
        return True

    return check
