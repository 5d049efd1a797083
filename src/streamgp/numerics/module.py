"""Modules: frozen dataclasses whose fields are arrays, other modules, or static; trees work on all their arrays."""

import sys
from abc import ABC
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform

from streamgp.numerics.loading import once_jax_is_loaded

_STATIC = "static"
_NOTHING: Any = object()


def static_field(*, default: Any = _NOTHING) -> Any:
    """Declare a field that is no array: hashable, and the same in all that is stacked or compiled together."""
    given = {} if default is _NOTHING else {"default": default}
    return field(metadata={_STATIC: True}, **given)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static_field, field))
class Module(ABC):  # noqa: B024 (what a subclass must have is its own to say)
    """A frozen dataclass that is a tree: a subclass becomes one by being defined.

    Class attributes
    ----------------
    array_fields, static_fields
        The names of its fields, those declared by `static_field` apart.
    """

    array_fields: ClassVar[tuple[str, ...]] = ()
    static_fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        made: Any = dataclass(frozen=True, eq=False)(cls)
        cls.array_fields = tuple(each.name for each in fields(made) if _STATIC not in each.metadata)
        cls.static_fields = tuple(each.name for each in fields(made) if _STATIC in each.metadata)
        _defined.append(cls)
        if _Jax.is_loaded:
            _tell_jax(cls)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same module or, of modules without arrays, one with the same fields."""
        if self.array_fields or type(self) is not type(other):
            return self is other
        return all(getattr(self, name) == getattr(other, name) for name in self.static_fields)

    def __hash__(self) -> int:
        fixed = () if self.array_fields else tuple(getattr(self, name) for name in self.static_fields)
        return hash((type(self), fixed)) if fixed else object.__hash__(self)

    def with_arrays(self, arrays: Any) -> "Module":
        """Return a module with these values of its `array_fields`, in that order; nothing is checked."""
        return _built(type(self), arrays, [getattr(self, name) for name in self.static_fields])


_defined: list[type[Module]] = []


class _Jax:
    """Whether JAX is loaded, and takes modules as trees."""

    is_loaded = False


def _tell_of_all() -> None:
    _Jax.is_loaded = True
    for cls in _defined:
        _tell_jax(cls)


def _tell_jax(cls: type[Module]) -> None:
    tree_util = sys.modules["jax"].tree_util
    keys = [tree_util.GetAttrKey(name) for name in cls.array_fields]

    def flatten(module: Module) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (
            tuple(getattr(module, name) for name in cls.array_fields),
            tuple(getattr(module, name) for name in cls.static_fields),
        )

    def flatten_with_keys(module: Module) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        arrays, rest = flatten(module)
        return list(zip(keys, arrays, strict=True)), rest

    def unflatten(rest: Any, arrays: Any) -> Module:
        return _built(cls, arrays, rest)

    tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def _built(cls: type[Module], arrays: Any, rest: Any) -> Module:
    """Build a module of its fields; no constructor runs."""
    module = object.__new__(cls)
    for names, values in ((cls.array_fields, arrays), (cls.static_fields, rest)):
        for name, value in zip(names, values, strict=True):
            object.__setattr__(module, name, value)
    return module


once_jax_is_loaded(_tell_of_all)
