"""The product of a vector with each basis' Jacobian, against automatic differentiation and against differences."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import (
    BASES,
    ActiveDims,
    Basis,
    Fourier,
    HilbertSpace,
    HilbertSpaceProduct,
    Intercept,
    Linear,
    Nystrom,
    OptimisedFourier,
    OptimisedRadialBasis,
)
from streamgp.bases.kernels import Matern, SquaredExponential
from streamgp.models.fitting.hyperparameters import with_value
from streamgp.numerics import keys

RNG = np.random.default_rng(0)
WARM_UP = RNG.normal(size=(30, 3))
TRAINABLE = [name for name in BASES if BASES[name].trainable]


def build(name: str, X: np.ndarray = WARM_UP, start: float = 0.5, **more) -> Basis:
    return BASES[name].from_data(X, num_features=12, start=start, key=keys.key(0), **more)


def differentiated(basis: Basis, X: np.ndarray, cotangent: np.ndarray) -> dict[str, np.ndarray]:
    """The same gradient by JAX, which differentiates the features as they are computed."""

    def total(values: dict) -> jax.Array:
        moved = basis
        for name, value in values.items():
            moved = with_value(moved, name, value)
        return jnp.sum(cotangent * moved(jnp.asarray(X)))

    values = {name: jnp.asarray(getattr(basis, name)) for name in basis.trainable}
    return {name: np.asarray(slope) for name, slope in jax.jit(jax.grad(total))(values).items()}


def check(basis: Basis, X: np.ndarray, rtol: float = 1e-9, seed: int = 1) -> None:
    features, pullback = basis.features_and_pullback(X)
    np.testing.assert_allclose(features, basis(X), rtol=1e-12, atol=1e-13)
    cotangent = np.random.default_rng(seed).normal(size=features.shape)
    got, wanted = pullback(cotangent), differentiated(basis, X, cotangent)
    assert set(got) == set(basis.trainable) == set(wanted)
    for name, slope in got.items():
        assert isinstance(slope, np.ndarray) and slope.shape == getattr(basis, name).shape
        np.testing.assert_allclose(slope, wanted[name], rtol=rtol, atol=rtol * np.abs(wanted[name]).max() + 1e-14)
    again = basis.pullback(X, cotangent)
    assert all(np.array_equal(again[name], got[name]) for name in got)


def bases() -> Iterator[tuple[str, Basis]]:
    for name in TRAINABLE:
        yield name, build(name)
    for kernel in (Matern(0.5), Matern(1.5), Matern(2.5)):
        for family in (HilbertSpace, HilbertSpaceProduct):
            made = family.from_data(WARM_UP, num_features=12, start=0.5, key=keys.key(0), kernel=kernel)
            yield f"{family.__name__} {kernel}", made
    for name in ("fourier-optimised", "nystrom", "rbf-optimised", "hilbert"):
        yield f"intercept {name}", Intercept(build(name))
    yield "precomputed", build("nystrom").precomputed()


@pytest.mark.parametrize(("name", "basis"), list(bases()), ids=lambda each: each if isinstance(each, str) else "")
def test_it_is_what_automatic_differentiation_gives(name: str, basis: Basis):
    new = np.random.default_rng(2).normal(size=(9, 3))
    # Among them rows of the warm-up, which may be centres, one twice, and rows far out.
    for X in (new, np.concatenate([new, WARM_UP[:4], new[:1], 50.0 * new]), new[:1]):
        check(basis, X)


@pytest.mark.parametrize("name", TRAINABLE)
def test_it_is_what_differences_give(name: str):
    basis, X = build(name), np.random.default_rng(2).normal(size=(7, 3))
    cotangent = np.random.default_rng(3).normal(size=(7, basis.num_features))
    for field, slope in basis.pullback(X, cotangent).items():
        value, step = getattr(basis, field), 1e-5
        for at in list(np.ndindex(value.shape))[:6]:
            up, down = value.copy(), value.copy()
            up[at] += step
            down[at] -= step
            found = cotangent * (with_value(basis, field, up)(X) - with_value(basis, field, down)(X))
            np.testing.assert_allclose(slope[at], found.sum() / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", TRAINABLE)
def test_one_input_one_feature_and_one_row(name: str):
    line = WARM_UP[:, :1]
    basis = BASES[name].from_data(line, num_features=1, start=0.7, key=keys.key(0))
    for X in (line, line[:1], np.zeros((2, 1))):
        check(basis, X)


@pytest.mark.parametrize("lengthscale", [1e-4, 1e-2, 1e3, 1e6])
@pytest.mark.parametrize("name", [name for name in TRAINABLE if "lengthscale" in BASES[name].trainable])
def test_lengthscales_at_the_bounds_of_a_fit(name: str, lengthscale: float):
    basis = with_value(build(name), "lengthscale", np.full(3, lengthscale))
    X = np.concatenate([WARM_UP[:5], np.random.default_rng(2).normal(size=(4, 3))])
    # Angles of a hundred thousand have lost as many digits, and the factor of a kernel that is all ones still more:
    # for these there are the differences of the log evidence.
    rtol = 1e-9 if name.startswith("hilbert") or 1e-2 <= lengthscale <= 1e3 else 1e-6
    if name == "nystrom" and lengthscale > 1.0:
        cotangent = np.ones((9, basis.num_features))
        assert np.isfinite(basis.pullback(X, cotangent)["lengthscale"]).all()
        return
    check(basis, X, rtol)


@pytest.mark.parametrize("far", [1e8, 1e150, 1e300])
@pytest.mark.parametrize("name", ["hilbert", "hilbert-product", "rbf", "rbf-optimised", "nystrom"])
def test_a_row_at_the_edge_of_the_numbers_adds_nothing_where_its_features_are_flat(name: str, far: float):
    basis, near = build(name), np.random.default_rng(2).normal(size=(6, 3))
    cotangent = np.random.default_rng(3).normal(size=(7, basis.num_features))
    with np.errstate(over="ignore"):  # of its square
        both = basis.pullback(np.concatenate([near, np.full((1, 3), far)]), cotangent)
    alone = basis.pullback(near, cotangent[:6])
    for field, slope in both.items():
        assert np.isfinite(slope).all()
        if name.startswith("hilbert"):  # it counts as one at the edge
            at_edge = np.concatenate([near, basis.edge[None]])  # type: ignore[attr-defined]
            np.testing.assert_allclose(slope, basis.pullback(at_edge, cotangent)[field], rtol=1e-12)
        else:
            np.testing.assert_allclose(slope, alone[field], rtol=1e-9, atol=1e-12)


def test_centres_that_coincide_move_by_themselves():
    twice = np.repeat(WARM_UP[:3], 2, axis=0)
    check(OptimisedRadialBasis(twice, np.array([0.4, 1.0, 2.0])), WARM_UP[:8])
    check(Nystrom(WARM_UP[:8], np.array([0.4, 1.0, 2.0])), np.repeat(WARM_UP[:3], 2, axis=0))


@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern(0.5), Matern(2.5)], ids=repr)
def test_a_spectral_density_that_underflows_has_no_slope(kernel):
    w, lengthscale = np.array([[1e200, 1.0], [0.0, 0.0], [3.0, 4.0]]), np.array([[2.0, 0.5]])
    with np.errstate(over="ignore"):
        slope = kernel.sqrt_spectral_density_slope(w[1:], lengthscale)
        if isinstance(kernel, SquaredExponential):
            np.testing.assert_array_equal(kernel.sqrt_spectral_density_slope(w[:1], lengthscale), [[0.0, 0.0]])
    root = jax.vmap(jax.grad(lambda scale, w: kernel.sqrt_spectral_density(w, scale)), (None, 0))
    np.testing.assert_allclose(slope, root(jnp.asarray(lengthscale[0]), jnp.asarray(w[1:])), rtol=1e-12)


def test_what_is_not_trained_has_no_gradient():
    X, cotangent = WARM_UP[:4], np.ones((4, 4))
    for basis in (Linear(3), ActiveDims(Linear(3), 3), build("spline")):
        own = np.ones((4, basis.num_features))
        assert basis.pullback(X, own) == {}
        np.testing.assert_array_equal(basis.features_and_pullback(X)[0], basis(X))
    frozen = Fourier.from_data(WARM_UP, num_features=4, start=1.0, key=keys.key(0))
    assert set(frozen.pullback(X, cotangent)) == {"lengthscale"}
    assert set(OptimisedFourier(frozen.frequencies, frozen.lengthscale).pullback(X, cotangent)) == {
        "frequencies",
        "lengthscale",
    }


def test_a_basis_that_forgets_it_says_so():
    class Forgets(Fourier):
        features_and_pullback = Basis.features_and_pullback

    with pytest.raises(NotImplementedError, match="Forgets"):
        Forgets(np.ones((1, 3)), np.ones(3)).pullback(WARM_UP, np.ones((30, 2)))
