"""Tests of sines and cosines: in C, in NumPy and in JAX, against those of Python's own library."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import trigonometry
from streamgp.bases.trigonometry import sine, sines_and_cosines

EPS = np.finfo(float).eps
ANGLES = [
    0.0,
    -0.0,
    1e-300,
    np.pi / 4,
    np.pi / 2,
    np.pi,
    -np.pi,
    2 * np.pi,
    3 * np.pi,
    1e3,
    999_999.9,
    1e6,
    1e8,
    1e15,
]


@pytest.fixture(params=["C", "NumPy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "NumPy":
        monkeypatch.setattr(trigonometry, "_compiled", lambda: (None, None))
    elif None in trigonometry._compiled():
        pytest.skip("the kernel was not built")


@pytest.mark.parametrize("angle", ANGLES)
def test_of_one_angle(way: None, angle: float) -> None:
    one = np.asarray([angle])
    wanted = [0.5 * math.sin(angle), 0.5 * math.cos(angle)]
    for library in (np, jnp):
        found = sines_and_cosines(library.asarray(one), 0.5)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(sine(one), np.sin(one), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5])
def test_of_many_angles_in_stacks_to_the_last_places(way: None, size: float) -> None:
    angles = size * np.random.default_rng(0).normal(size=(2, 30, 150))
    wanted = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    np.testing.assert_allclose(sines_and_cosines(angles), wanted, rtol=0, atol=8 * EPS)
    np.testing.assert_allclose(sine(angles), np.sin(angles), rtol=0, atol=8 * EPS)


def test_a_row_alone_gives_the_same_digits(way: None) -> None:
    """Where in a vector register an angle stands makes no difference."""
    angles = 20.0 * np.random.default_rng(1).normal(size=(9, 131))
    together = sines_and_cosines(angles)
    for row in range(9):
        np.testing.assert_array_equal(sines_and_cosines(angles[row : row + 1])[0], together[row])
        np.testing.assert_array_equal(sine(angles[row, :7]), sine(angles)[row, :7])
    np.testing.assert_array_equal(sines_and_cosines(angles.T.copy().T), together)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_no_numbers_stay_none_and_spoil_no_other(way: None) -> None:
    angles = np.asarray([[np.nan, 1.0, np.inf, -np.inf, 2.0]])
    found = sines_and_cosines(angles)[0]
    assert np.isnan(found[[0, 2, 3, 5, 7, 8]]).all()
    np.testing.assert_allclose(found[[1, 4, 6, 9]], [*np.sin([1.0, 2.0]), *np.cos([1.0, 2.0])], rtol=4 * EPS)
    assert sines_and_cosines(np.zeros((3, 0))).shape == (3, 0)


def test_without_the_kernel_all_digits_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    if None in trigonometry._compiled():
        pytest.skip("the kernel was not built")
    sign = np.where(np.arange(200) % 2, 1.0, -1.0)
    angles = sign * 10.0 ** np.random.default_rng(2).uniform(-8.0, 5.9, size=(50, 200))
    compiled = sines_and_cosines(angles, 0.1), sine(angles)
    monkeypatch.setattr(trigonometry, "_compiled", lambda: (None, None))
    np.testing.assert_array_equal(compiled[0], sines_and_cosines(angles, 0.1))
    np.testing.assert_array_equal(compiled[1], sine(angles))
