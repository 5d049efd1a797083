"""Options of XLA change how fast a function is compiled, and nothing that a caller sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.numerics import compilation
from streamgp.numerics.compilation import LIGHT, UNOPTIMISED, compiled, is_traced


def squares(a: object, power: int) -> object:
    """Sum powers."""
    return (jnp.asarray(a) ** power).sum()


@pytest.mark.parametrize("options", [LIGHT, UNOPTIMISED, {"no_such_option_of_xla": 1}])
def test_what_is_compiled_with_options_gives_the_same(options: dict):
    made = compiled(squares, options)
    assert made.__name__ == "squares"
    np.testing.assert_allclose(made(np.arange(4.0), 2), 14.0, rtol=1e-6)
    np.testing.assert_allclose(made(np.arange(4.0), power=3), 36.0, rtol=1e-6)


@pytest.mark.parametrize("options", [LIGHT, UNOPTIMISED])
def test_this_version_of_xla_knows_the_options(options: dict):
    assert compilation._known(tuple(options.items())) == options  # else the warm-up is slow, and nothing else says so


def test_options_that_are_not_known_are_left_out():
    assert compilation._known((("no_such_option_of_xla", 1), *LIGHT.items())) is None


@pytest.mark.parametrize("options", [LIGHT, UNOPTIMISED])
def test_inside_another_program_it_is_a_part_of_that(options: dict):
    made = compiled(squares, options)
    known = np.arange(4.0)
    assert not is_traced(known)
    for inside in (lambda a: made(a, 2), lambda a: a.sum() + made(known, 2)):  # also where no argument is traced
        expected = np.asarray(inside(jnp.asarray(known)))
        np.testing.assert_allclose(jax.jit(inside)(known), expected, rtol=1e-6)
        np.testing.assert_allclose(jax.vmap(inside)(known[None]), expected[None], rtol=1e-6)
        assert jax.eval_shape(inside, known).shape == ()
        assert jax.grad(inside)(known).shape == known.shape
