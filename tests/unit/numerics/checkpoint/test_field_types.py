"""Values are held against the annotations of what they are put into, by type, kind of numbers, rank and size."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from streamgp.numerics.checkpoint import CheckpointError, register
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.numerics.checkpoint.field_types import check_fields, check_state, check_value, checked


class Rule(Protocol):
    """Something with a method."""

    def weigh(self) -> float:
        """Return a weight."""
        ...


class Scale:
    """A rule."""

    def weigh(self) -> float:
        """Return one."""
        return 1.0


@register
@dataclass(frozen=True)
class Moments:
    """A record."""

    mean: Float[np.ndarray, " d"]
    var: Float[Array, "d d"]
    rows: int = 0


@pytest.mark.parametrize(
    ("hint", "fits", "others"),
    [
        (int, [0, np.int64(3)], [True, 1.0, "1", None, [1]]),
        (float, [0.5, 1, np.float64(1.0)], [True, "x", None, [0.5]]),
        (bool, [True, np.bool_(False)], [0, "x", None]),
        (str, ["x"], [1, None, b"x"]),
        (int | None, [1, None], ["x", 0.5]),
        (Literal["a", 1], ["a", 1], ["b", True, 2]),
        (tuple[int, str], [(1, "x")], [(1,), ("x", 1), [1, "x"], (1, "x", 1)]),
        (tuple[int, ...], [(), (1, 2)], [[1], (1, "x"), 1]),
        (list[float], [[], [1.0]], [(1.0,), ["x"]]),
        (frozenset[int], [frozenset({1})], [{"a"}, [1]]),
        (dict[str, float], [{}, {"a": 1.0}], [{1: 1.0}, {"a": "x"}, []]),
        (Mapping[str, np.ndarray], [{"a": np.zeros(2)}], [{"a": 1.0}]),
        (np.ndarray, [np.zeros(2), jnp.zeros(2)], [[0.0], 1.0, None]),
        (
            Float[Array, "n d"],
            [np.zeros((2, 3)), jnp.zeros((4, 2, 3))],
            [np.zeros(2), np.zeros((2, 3), int), [[0.0]]],
        ),
        (Int[np.ndarray, " n"], [np.zeros(2, int)], [np.zeros(2), np.int64(1)]),
        (Rule, [Scale()], [1, "x", None]),
        (Callable[[float], float], [abs], [1, None]),
        (Moments, [Moments(np.zeros(1), jnp.zeros((1, 1)))], [1, {}, None]),
        (Any, [1, None, "x"], []),
    ],
)
def test_a_value_fits_its_annotation_or_is_refused(hint: Any, fits: list[Any], others: list[Any]):
    for value in fits:
        check_value("the value", value, hint)
    for value in others:
        with pytest.raises(CheckpointError, match=r"^the value does not fit the rest: expected .*, got .*; use"):
            check_value("the value", value, hint)


def test_a_named_dimension_has_one_size_in_a_record():
    checked(Moments(np.zeros(3), jnp.zeros((3, 3))))
    checked(Moments(np.zeros((5, 3)), jnp.zeros((5, 3, 3))))  # a stack of them
    with pytest.raises(CheckpointError, match=r"the var of a Moments .* expected Float.*got an array of .* \(3, 2\)"):
        check_fields(Moments, {"mean": np.zeros(3), "var": jnp.zeros((3, 2))})
    with pytest.raises(CheckpointError, match="the var of a Moments"):
        check_fields(Moments, {"mean": np.zeros(2), "var": jnp.zeros((3, 3))})


def test_what_could_not_be_read_again_is_not_written():
    odd = object.__new__(Moments)
    for name, value in {"mean": np.zeros(2), "var": jnp.zeros((2, 2)), "rows": "many"}.items():
        object.__setattr__(odd, name, value)
    with pytest.raises(CheckpointError, match=r"the rows of a Moments .* expected int, got str 'many'; correct its"):
        encode({"moments": odd})
    node, arrays = encode(Moments(np.zeros(2), jnp.zeros((2, 2)), 3))
    node["fields"]["rows"] = "many"
    with pytest.raises(CheckpointError, match="got str 'many'; use another copy"):
        decode(node, arrays, {})


def test_a_state_is_that_of_its_maker():
    class State(NamedTuple):
        rows: int

    class Maker:
        def init(self) -> State:
            return State(0)

        def check_state(self, state: State) -> None:
            if state.rows < 0:
                raise ValueError("expected rows that are not negative")

    Maker.init.__annotations__["return"] = State
    check_state(Maker(), State(1))
    with pytest.raises(CheckpointError, match=r"the state of a Maker does not fit .* expected State, got int 5"):
        check_state(Maker(), 5)
    with pytest.raises(ValueError, match="not negative"):
        check_state(Maker(), State(-1))
