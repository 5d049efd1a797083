"""Tests of trees and modules: as JAX sees them, once they are registered."""

from dataclasses import FrozenInstanceError, replace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from streamgp.numerics import tree
from streamgp.numerics.module import Module, static_field


class Pair(NamedTuple):
    first: Any
    second: Any


class Line(Module):
    slope: np.ndarray
    name: str = static_field()
    offset: np.ndarray | None = None
    degree: int = static_field(default=1)

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise ValueError("degree: expected at least 1")


def example() -> Any:
    line = Line(np.arange(3.0), "a", np.ones(2))
    return {"b": [line, None, (np.zeros(1),)], "a": Pair(np.full(2, 7.0), replace(line, offset=None))}


def test_leaves_and_their_order_are_those_of_jax() -> None:
    ours, theirs = tree.leaves(example()), jax.tree.leaves(example())
    assert len(ours) == len(theirs) == 5
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_map_is_that_of_jax() -> None:
    ours = tree.map(lambda a, b: a - 2.0 * b, example(), example())
    theirs = jax.tree.map(lambda a, b: a - 2.0 * b, example(), example())
    assert jax.tree.structure(ours) == jax.tree.structure(theirs) == jax.tree.structure(example())
    for a, b in zip(tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_forms_tell_static_fields_and_gaps_apart() -> None:
    assert tree.form(example()) == tree.form(tree.map(lambda a: a + 1.0, example()))
    line = Line(np.zeros(1), "a")
    others = [replace(line, name="b"), replace(line, offset=np.zeros(1)), replace(line, degree=2)]
    assert len({tree.form(each) for each in (line, *others)}) == 4


def test_parts_of_two_trees_must_match() -> None:
    with pytest.raises(ValueError, match="zip"):
        tree.map(lambda a, b: a, (1, 2), (1, 2, 3))


def test_a_module_is_frozen_and_checks_what_it_is_built_of() -> None:
    line = Line(np.zeros(1), "a")
    with pytest.raises(FrozenInstanceError):
        line.name = "b"  # type: ignore[misc]
    with pytest.raises(ValueError, match="at least 1"):
        replace(line, degree=0)
    assert (line.array_fields, line.static_fields) == (("slope", "offset"), ("name", "degree"))
    assert line != Line(np.zeros(1), "a")  # modules are compared as objects: arrays have no single answer
