"""Coordinates of hyperparameters, there and back; the search where the function is not what a search hopes for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import ActiveDims, Basis, Intercept, OptimisedFourier
from streamgp.models.fitting.hyperparameters import (
    by_coordinates,
    constrain,
    flatten,
    limits,
    search,
    unconstrain,
    unflatten,
    with_value,
)

NAMES = ("frequencies", "lengthscale")
WAVES = OptimisedFourier(np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([2.0, 4.0]))


@pytest.mark.parametrize("model", [WAVES, Intercept(WAVES)])
def test_coordinates_there_and_back(model: Basis):
    hyper = unconstrain(model, NAMES)
    np.testing.assert_array_equal(hyper["lengthscale"], np.log([2.0, 4.0]))
    flat = flatten(hyper | {"log_prior_var": 3.0})
    np.testing.assert_allclose(flat, [1.0, -2.0, 0.5, 3.0, *np.log([2.0, 4.0]), 3.0])
    assert limits(model, NAMES)["frequencies"].shape == (2, 2, 2)
    back = unflatten(2.0 * flat, hyper | {"log_prior_var": 0.0})
    assert back["log_prior_var"] == 6.0
    moved = constrain(model, NAMES, back)
    assert type(moved) is type(model)
    np.testing.assert_allclose(getattr(moved, "lengthscale"), [4.0, 16.0])  # noqa: B009
    np.testing.assert_allclose(getattr(moved, "frequencies"), 2.0 * WAVES.frequencies)  # noqa: B009
    np.testing.assert_array_equal(WAVES.lengthscale, [2.0, 4.0])
    slopes = by_coordinates(model, ("lengthscale",), {name: np.ones(2) for name in NAMES})
    np.testing.assert_array_equal(slopes["lengthscale"], [2.0, 4.0])
    assert set(slopes) == {"lengthscale"}


def test_dictionaries_within_a_dictionary():
    nested = {"likelihood": {}, "basis": {"b": np.array([[1.0, 2.0]]), "a": np.array(0.5)}, "log_prior_var": 7.0}
    flat = flatten(nested)
    np.testing.assert_array_equal(flat, [0.5, 1.0, 2.0, 7.0])
    back = unflatten(flat, nested)
    assert back["likelihood"] == {} and back["basis"]["b"].shape == (1, 2)
    np.testing.assert_array_equal(flatten(back), flat)
    assert flatten({}).shape == (0,)


def test_a_value_of_an_inner_basis_and_of_jax():
    inner = with_value(ActiveDims(WAVES, 5, 1), "lengthscale", np.ones(2)).basis
    np.testing.assert_array_equal(getattr(inner, "lengthscale"), [1.0, 1.0])  # noqa: B009

    @jax.jit
    def norm(flat: jax.Array) -> jax.Array:
        moved = constrain(WAVES, ("lengthscale",), {"lengthscale": flat})
        return jnp.sum(unconstrain(moved, ("lengthscale",))["lengthscale"] ** 2)

    np.testing.assert_allclose(jax.grad(norm)(jnp.array([0.3, -1.0])), [0.6, -2.0])


def test_it_turns_back_where_there_is_no_number():
    def objective(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.where(x < 1.5, np.square(x - 1.0) * 20, np.nan).sum()
        return value, 40 * (x - 1.0)

    found = search(objective, [-5.0], [(None, None)], 50)  # type: ignore[arg-type]
    assert found.x[0] == pytest.approx(1.0, abs=1e-3)


def test_without_a_number_at_the_start_it_stays_there_and_says_so():
    found = search(lambda x: (np.nan * x.sum(), np.nan * x), [2.0, 3.0], [(None, None)] * 2, 50)  # type: ignore
    assert found.fun == np.inf
    np.testing.assert_array_equal(found.x, [2.0, 3.0])


def test_one_that_ends_abnormally_gives_the_best_point_seen():
    seen: list[tuple[float, np.ndarray]] = []

    def objective(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.abs(x - 2.0).sum()
        seen.append((float(value), x.copy()))
        return value, np.full(1, -1e6)  # which promises much more than there is

    found = search(objective, [0.0], [(None, None)], 100)  # type: ignore[arg-type]
    assert found.status == 2
    value, where = min(seen, key=lambda pair: pair[0])
    assert found.fun == value < 2.0
    np.testing.assert_array_equal(found.x, where)
