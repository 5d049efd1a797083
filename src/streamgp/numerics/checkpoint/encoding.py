"""A tree of arrays, containers and registered classes as plain JSON beside named arrays, and back.

Nothing in the JSON can name code to run: classes are looked up in an allow-list, functions in the caller's
own mapping, and no constructor is called.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from streamgp.numerics.arrays import is_jax
from streamgp.numerics.checkpoint.errors import CheckpointError as CheckpointError
from streamgp.numerics.checkpoint.field_types import check_fields
from streamgp.numerics.precision import float64

Class = TypeVar("Class", bound=type)

registry: dict[str, type] = {}
"""The classes that a checkpoint may hold, by name; `register` fills it."""

# What safetensors stores under its own name; arrays of any other dtype go in as their bytes.
_NATIVE = frozenset(
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64"),
    )
)


def register(cls: Class) -> Class:
    """Allow a class in checkpoints, under its bare name; use it as a decorator.

    Parameters
    ----------
    cls
        A `Module`, another dataclass or a NamedTuple. Its fields are stored by name; when read, they
        are set as they were, and neither ``__init__`` nor ``__post_init__`` runs. They have to be what their
        annotations say; more than that is checked by a method ``check_restored``, where the class has one, which
        raises ValueError.

    Raises
    ------
    TypeError
        If `cls` is none of these.
    ValueError
        If another class has the name already.
    """
    if not _is_record(cls):
        raise TypeError(
            f"register: expected a dataclass, Module or NamedTuple, got {cls!r}; put @register above @dataclass."
        )
    known = registry.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"register: the name {cls.__name__} belongs to {known.__module__}.{known.__qualname__} already; "
            f"rename {cls.__module__}.{cls.__qualname__}."
        )
    registry[cls.__name__] = cls
    return cls


def encode(tree: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Split a tree into JSON and the arrays that it names.

    Parameters
    ----------
    tree
        Nested dicts (with string keys), lists, tuples, None, bool, int, float, str, NumPy arrays and scalars,
        JAX arrays, instances of registered classes, and named functions.

    Returns
    -------
    node, arrays
        JSON values with ``{"$array": name, ...}`` in place of each array, and the arrays by name, which is
        their path.

    Raises
    ------
    CheckpointError
        If something in the tree is none of these; the message gives its path.
    """
    encoder = _Encoder()
    return encoder.node(tree, ""), encoder.arrays


class _Encoder:
    """What `encode` has met so far; nothing in here refers to it, so that it goes, with the arrays, at once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._functions: dict[str, Callable[..., Any]] = {}

    def _dictionary(self, items: Mapping[Any, Any], path: str) -> dict[str, Any]:
        """Encode what a dictionary has."""
        for key in items:
            if type(key) is not str:
                raise CheckpointError(f"{path or '/'}: expected dict keys of type str, got {key!r}; convert it.")
        # Escaped as in a JSON pointer (RFC 6901), so that no two arrays share a path.
        return {k: self.node(v, f"{path}/{k.replace('~', '~0').replace('/', '~1')}") for k, v in items.items()}

    def node(self, value: Any, path: str) -> Any:
        """Encode a part of the tree, at its path."""
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if cls is list or cls is tuple:
            items = [self.node(item, f"{path}/{i}") for i, item in enumerate(value)]
            return items if cls is list else {"$tuple": items}
        if cls is dict:
            items = self._dictionary(value, path)
            return {"$dict": items} if any(key.startswith("$") for key in items) else items
        if cls is np.ndarray or isinstance(value, np.generic) or is_jax(value):
            kind, array = _split_array(value)
            self.arrays[path], dtype = _storable(array, path)
            return {"$array": path, "kind": kind, "dtype": dtype, "shape": list(array.shape)}
        if _is_record(cls):
            if registry.get(cls.__name__) is not cls:
                raise CheckpointError(
                    f"{path or '/'}: the class {cls.__module__}.{cls.__qualname__} is not allowed in "
                    f"checkpoints; decorate it with streamgp.numerics.checkpoint.encoding.register."
                )
            fields = {name: getattr(value, name) for name in _field_names(cls)}
            # What would be refused when it is read is refused while it can still be mended.
            check_fields(cls, fields, "correct its annotation, or what is put there")
            return {"$module": cls.__name__, "fields": self._dictionary(fields, path)}
        if callable(value) and hasattr(value, "__module__") and hasattr(value, "__qualname__"):
            name = f"{value.__module__}:{value.__qualname__}"
            if self._functions.setdefault(name, value) != value:
                raise CheckpointError(f"{path}: two different functions are called {name}; rename one of them.")
            return {"$function": name}
        raise CheckpointError(
            f"{path or '/'}: expected arrays, numbers, strings, containers, registered classes or named "
            f"functions, got {cls.__module__}.{cls.__qualname__}; convert it to one of these."
        )


def decode(node: Any, arrays: Mapping[str, np.ndarray], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Put a tree together again from what `encode` returned.

    JAX arrays land on the default device and keep their dtype whether or not the caller has 64-bit types on.

    Parameters
    ----------
    node, arrays
        What `encode` returned.
    functions
        The caller's functions by the name ``"package.module:name"`` under which they were stored.

    Raises
    ------
    CheckpointError
        If an array, class, field or function is missing, unknown or of another shape than described.
    """
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    if isinstance(node, list):
        return [decode(item, arrays, functions) for item in node]
    if not any(key.startswith("$") for key in node):
        return {key: decode(value, arrays, functions) for key, value in node.items()}
    match node:
        case {"$tuple": list(items)}:
            return tuple(decode(item, arrays, functions) for item in items)
        case {"$dict": dict(items)}:
            return {key: decode(value, arrays, functions) for key, value in items.items()}
        case {"$float": "nan" | "inf" | "-inf" as text}:
            return float(text)
        case {"$array": str(name), "kind": str(kind), "dtype": str(dtype), "shape": list(shape)}:
            try:
                value = _restored(name, arrays, np.dtype(dtype), tuple(shape))
                return _join_array(kind, value)
            except CheckpointError:
                raise
            except (TypeError, ValueError) as error:
                raise CheckpointError(
                    f"the array {name} is described wrongly ({error}); use another copy."
                ) from error
        case {"$module": str(name), "fields": dict(fields)}:
            return _build(name, {key: decode(value, arrays, functions) for key, value in fields.items()})
        case {"$function": str(name)}:
            if name not in functions:
                raise CheckpointError(
                    f"it uses your function {name}, and checkpoints hold no code; "
                    f'pass functions={{"{name}": f}} with that function as f.'
                )
            return functions[name]
    raise CheckpointError(
        f"expected a value known to this version, found one with the keys {', '.join(map(repr, node))}; "
        f"load it with the version that wrote it."
    )


def _is_record(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def _field_names(cls: type) -> tuple[str, ...]:
    if issubclass(cls, tuple):
        return getattr(cls, "_fields")  # noqa: B009 (a NamedTuple's; the type checker knows only of a tuple)
    return tuple(field.name for field in dataclasses.fields(cls))


def _build(name: str, fields: Mapping[str, Any]) -> Any:
    """Build an instance with these fields, set as a tree-unflatten sets them: its constructor does not run."""
    cls = registry.get(name)
    if cls is None:
        raise CheckpointError(
            f"it holds a {name}, which is not among the registered classes; "
            f"import the module that defines it, or load it with the version that wrote it."
        )
    names = _field_names(cls)
    if set(fields) != set(names):
        missing = ", ".join(sorted(set(names) - set(fields))) or "none"
        unknown = ", ".join(sorted(set(fields) - set(names))) or "none"
        raise CheckpointError(
            f"its {name} has other fields than this version expects (missing: {missing}; unknown: "
            f"{unknown}); load it with the version that wrote it."
        )
    check_fields(cls, fields)
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[field] for field in names])
    instance = object.__new__(cls)
    for field in names:
        object.__setattr__(instance, field, fields[field])
    if hasattr(instance, "check_restored"):
        instance.check_restored()
    return instance


def _split_array(value: Any) -> tuple[str, np.ndarray]:
    """Return what sort of array this is, beyond dtype and shape, and its numbers."""
    if isinstance(value, np.generic):
        return "numpy-scalar", np.asarray(value)
    if isinstance(value, np.ndarray):
        # The order in memory decides the order of sums, and with it their last bits.
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        return "numpy-fortran" if fortran else "numpy", value
    return "jax", np.asarray(value)


def _join_array(kind: str, value: np.ndarray) -> Any:
    """Invert `_split_array`."""
    match kind:
        case "numpy-scalar":
            return value[()]
        case "numpy":
            return value
        case "numpy-fortran":
            return np.asfortranarray(value)
        case "jax":
            return _in_jax(value)
    raise CheckpointError(f"it holds an array of the unknown kind {kind!r}; load it with the version that wrote it.")


def _in_jax(value: np.ndarray) -> Any:
    """Return an array of JAX, which is loaded where it was not."""
    import_module("streamgp.numerics.accelerator")
    with float64():
        return sys.modules["jax"].numpy.array(value)


def _storable(array: np.ndarray, path: str) -> tuple[np.ndarray, str]:
    """Return the array as safetensors takes it (C order, a dtype it knows), and the name of its own dtype."""
    dtype = array.dtype
    if dtype in _NATIVE:
        return np.asarray(array, order="C"), dtype.name
    # bfloat16 and its like are known by name only, and a string's length or a date's unit only by the code.
    name = dtype.name if dtype.kind == "V" else dtype.str
    if dtype.hasobject or dtype.names is not None:
        raise CheckpointError(
            f"{path or '/'}: arrays of dtype {dtype} cannot be stored; convert it to a list or dict."
        )
    return np.frombuffer(array.tobytes(), np.uint8), name


def _restored(name: str, arrays: Mapping[str, np.ndarray], dtype: np.dtype, shape: tuple[Any, ...]) -> np.ndarray:
    """Invert `_storable`: return the array `name`, checked against its description; the caller owns it."""
    if name not in arrays:
        raise CheckpointError(f"the array {name} is missing from its arrays file; use another copy.")
    stored = arrays[name]
    native = dtype in _NATIVE
    wanted = (dtype, shape) if native else (np.dtype(np.uint8), (math.prod(shape) * dtype.itemsize,))
    if (stored.dtype, stored.shape) != wanted:
        raise CheckpointError(
            f"the array {name} should be {wanted[0]} of shape {wanted[1]}, but is {stored.dtype} of shape "
            f"{stored.shape}; use another copy."
        )
    return np.array(stored if native else stored.view(dtype).reshape(shape))
