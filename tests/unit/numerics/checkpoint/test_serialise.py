"""Trees survive the way to JSON and back with their types and every bit, and the way back runs no code."""

import gc
import json
import math
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from jaxtyping import Array, Float

from streamgp.models.generalised.model import GeneralisedState
from streamgp.numerics.checkpoint.encoding import CheckpointError, decode, encode, register
from streamgp.numerics.module import Module, static_field


@register
class Scale(Module):
    factor: Float[Array, ""]


@register
class Chain(Module):
    """Its constructor counts its calls and does not store what it is given."""

    parts: tuple[Scale, ...]
    width: int = static_field()
    log_width: float
    calls = 0

    def __init__(self, parts: list[Scale], width: int) -> None:
        type(self).calls += 1
        values = {"parts": tuple(parts), "width": width + 1, "log_width": math.log(width + 1)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        for part in self.parts:
            x = x * part.factor
        return x / self.width


@register
class SerialisedMoments(NamedTuple):
    mean: Any
    var: Any


@register
@dataclass(frozen=True)
class Options:
    rate: float
    names: tuple[str, ...]


class Stranger(Module):
    x: int


class StrangePair(NamedTuple):
    x: int


def square(x: Any) -> Any:
    return x * x


def round_trip(tree: Any, functions: dict[str, Any] | None = None) -> Any:
    node, arrays = encode(tree)
    arrays = safetensors.numpy.load(safetensors.numpy.save(arrays))
    for array in arrays.values():
        array.flags.writeable = False  # as some versions of safetensors return them
    return decode(json.loads(json.dumps(node, allow_nan=False)), arrays, functions or {})


def assert_same(a: Any, b: Any) -> None:
    """Equal in type and in every bit."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, Module | Options):
        assert_same(vars(a), vars(b))
    elif isinstance(a, jax.Array):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    elif isinstance(a, np.ndarray | np.generic):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.flags.f_contiguous == b.flags.f_contiguous
        assert a.tobytes() == b.tobytes()
    else:
        assert repr(a) == repr(b)


ODD_FLOATS = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1])
ODD_FLOATS.view(np.uint64)[0] |= 12345  # a NaN with a payload

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | hnp.arrays(hnp.scalar_dtypes() | hnp.unicode_string_dtypes(), hnp.array_shapes(min_dims=0, min_side=0))
)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        plain,
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.just("$array"), inner)
        ),
        max_leaves=8,
    )
)
def test_any_plain_tree_comes_back(tree: Any) -> None:
    assert_same(round_trip(tree), tree)


@pytest.mark.parametrize("caller_x64", [True, False])
def test_jax_arrays_come_back_bit_for_bit_whatever_the_callers_precision(caller_x64: bool) -> None:
    tree = {
        "odd": jnp.asarray(ODD_FLOATS),
        "single": jnp.asarray(ODD_FLOATS, jnp.float32),
        "half": jnp.asarray(ODD_FLOATS, jnp.bfloat16),
        "complex": jnp.asarray([1 + 2j]),
        "integers": [jnp.asarray([0, 1], d) for d in ("int8", "int32", "int64", "uint32", "uint64")],
        "bool": jnp.array([[True], [False]]),
        "scalar": jnp.asarray(0.1, jnp.float64),
        "empty": jnp.zeros((0, 3)),
    }
    with jax.enable_x64(caller_x64):
        assert_same(round_trip(tree), tree)


def test_numpy_layout_and_scalars_come_back() -> None:
    table = np.arange(12.0).reshape(3, 4)
    tree = [
        table,
        table.T,
        table[:, ::2],
        np.float64(0.1),
        np.int64(3),
        np.bool_(True),
        np.str_("é"),
        np.complex128(1j),
    ]
    copy = round_trip(tree)
    copy[2] = copy[2][:, :]  # strided views come back in C order; their values are compared below
    assert_same([copy[0], copy[1], *copy[3:]], [tree[0], tree[1], *tree[3:]])
    np.testing.assert_array_equal(copy[2], tree[2])
    copy[0][0, 0] = 5.0  # the caller owns what it got


def test_keys_that_look_like_paths_keep_their_own_arrays() -> None:
    tree = {"a": {"b": np.ones(1)}, "a/b": np.ones(2), "a~1b": np.ones(3), "": {"a": {"b": np.ones(4)}}}
    assert_same(round_trip(tree), tree)


def test_registered_classes_come_back_without_running_their_constructors() -> None:
    chain = Chain([Scale(jnp.asarray(2.0)), Scale(jnp.asarray(0.1, jnp.float32))], width=3)
    tree = {"chain": chain, "moments": SerialisedMoments(np.ones(2), None), "options": Options(0.1, ("a", "b"))}
    calls = Chain.calls
    copy = round_trip(tree)
    assert Chain.calls == calls
    assert_same(copy, tree)
    assert jax.tree.structure(copy["chain"]) == jax.tree.structure(chain)
    assert_same(copy["chain"](jnp.arange(3.0)), chain(jnp.arange(3.0)))


def test_functions_are_named_and_given_back_by_the_caller() -> None:
    node, arrays = encode({"f": square, "g": [square]})
    name = f"{__name__}:square"
    with pytest.raises(CheckpointError, match=f'pass functions={{"{name}": f}}'):
        decode(node, arrays, {})
    assert decode(node, arrays, {name: math.sqrt}) == {"f": math.sqrt, "g": [math.sqrt]}
    with pytest.raises(CheckpointError, match=r"/1: two different functions are called .*<lambda>"):
        encode([lambda x: x, lambda x: -x])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [1, {2}]}, r"/a/1: expected arrays, .* got builtins.set"),
        ({"a": {1: 2}}, r"/a: expected dict keys of type str, got 1"),
        ({"a": np.array([None])}, r"/a: arrays of dtype object"),
        ({"a": np.zeros(2, [("x", int)])}, r"/a: arrays of dtype \[\('x'"),
        ({"a": np.ma.masked_array([1.0], [True])}, r"/a: expected .*MaskedArray"),
        ([Stranger(1)], r"/0: the class .*\.Stranger is not allowed in checkpoints; decorate it"),
        ([StrangePair(1)], r"/0: the class .*\.StrangePair is not allowed"),
        (np.random.default_rng(0), r"^/: expected .*Generator"),
    ],
)
def test_what_cannot_be_stored_is_named_with_its_path(tree: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        encode(tree)


def array(**changes: Any) -> dict[str, Any]:
    return {"$array": "/a", "kind": "numpy", "dtype": "float64", "shape": [2]} | changes


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"$module": "os.system", "fields": {}}, r"holds a os\.system, which is not among the registered"),
        ({"$module": "Stranger", "fields": {"x": 1}}, "not among the registered"),
        ({"$module": "Scale", "fields": {"factor": 1, "old": 2}}, r"missing: none; unknown: old"),
        ({"$module": "Scale", "fields": {}}, r"missing: factor; unknown: none"),
        ({"$module": "SerialisedMoments", "fields": {"mean": 1, "scale": 2}}, r"missing: var; unknown: scale"),
        ({"$pickle": "gASVAA=="}, r"the keys '\$pickle'"),
        ({"$float": "1e5"}, r"the keys '\$float'"),
        (array(**{"$array": "/b"}), "the array /b is missing"),
        (
            array(dtype="float32"),
            r"the array /a should be float32 of shape \(2,\), but is float64 of shape \(2,\)",
        ),
        (array(shape=[3]), r"should be float64 of shape \(3,\), but is float64 of shape \(2,\)"),
        (array(dtype="<U4"), r"should be uint8 of shape \(32,\)"),
        (array(dtype="|O"), "uint8"),
        (array(**{"$array": "/bytes"}, dtype="|O"), "described wrongly"),
        (array(dtype="nonsense"), "described wrongly"),
        (array(shape=["x"]), "should be float64"),
        (array(kind="sparse"), "unknown kind 'sparse'"),
        (array(kind="key:nonsense"), "unknown kind"),
    ],
)
def test_what_does_not_fit_is_refused(node: Any, message: str) -> None:
    arrays = {"/a": np.zeros(2), "/bytes": np.zeros(16, np.uint8)}
    with pytest.raises(CheckpointError, match=message):
        decode({"x": [node]}, arrays, {})


def test_names_of_classes_are_unique() -> None:
    class Scale(Module):
        pass

    with pytest.raises(ValueError, match=r"the name Scale belongs to .*Scale already"):
        register(Scale)
    with pytest.raises(CheckpointError, match="is not allowed in checkpoints"):
        encode(Scale())
    with pytest.raises(TypeError, match="expected a dataclass"):
        register(int)


def test_a_field_that_is_missing_is_refused_though_it_has_a_default():
    node, arrays = encode(GeneralisedState((), None, jnp.zeros(())))
    del node["fields"]["ceiling"]
    with pytest.raises(CheckpointError, match=r"has other fields .* \(missing: ceiling; unknown: none\)"):
        decode(node, arrays, {})


def test_arrays_are_held_no_longer_than_what_is_returned():
    """Python looks for cycles of dropped objects seldom, and a stream is saved again and again."""
    array = np.zeros(3)
    there = weakref.ref(array)
    gc.disable()
    try:
        found = encode({"a": [array]})
        del array
        assert there() is found[1]["/a/0"]
        del found
        assert there() is None
    finally:
        gc.enable()
