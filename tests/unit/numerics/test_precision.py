"""float64 is on inside its door, and off again outside, whatever happens."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest

from streamgp.numerics.precision import in_float64


@in_float64
def third() -> jax.Array:
    return jnp.asarray(1.0) / 3.0


@in_float64
def fails() -> None:
    raise RuntimeError("inside")


def test_float64_ends_with_the_function() -> None:
    with jax.enable_x64(False):
        assert third().dtype == "float64"
        assert jnp.asarray(1.0).dtype == "float32"
        with pytest.raises(RuntimeError, match="inside"):
            fails()
        assert jnp.asarray(1.0).dtype == "float32"


def test_a_generator_is_refused() -> None:
    def rows() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        in_float64(rows)
