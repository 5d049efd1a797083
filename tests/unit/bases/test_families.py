"""What every basis must do, whatever it is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import BASES, Basis, UserFunction
from streamgp.numerics import keys, tree
from streamgp.numerics.checkpoint.encoding import decode, encode

WARM_UP = np.random.default_rng(0).normal(size=(40, 3))
TARGETS = np.sin(3.0 * WARM_UP[:, :1])
NEW = jnp.asarray(np.random.default_rng(1).normal(size=(7, 3)))


features = eqx.filter_jit(lambda basis, X: basis(X))


def build(name: str, X: np.ndarray = WARM_UP, start: float = 1.0, seed: int = 0, num_features: int = 27) -> Basis:
    key, y = keys.key(seed), TARGETS[: len(X)]
    return BASES[name].from_data(X, num_features=num_features, start=start, key=key, y=y)


def rounding(name: str, usual: float) -> float:
    """What rounding may do to features near one. L^-1 of a Nystrom basis, up to 1e3 for its nugget, enlarges it."""
    return 1e-11 if name in ("nystrom", "concatenation") else usual


@pytest.fixture(params=BASES)
def name(request) -> str:
    return request.param


def test_one_row_of_features_for_each_row(name):
    basis = build(name)
    phi = features(basis, NEW)
    assert phi.shape == (7, basis.num_features)
    assert basis.num_inputs == 3
    assert np.isfinite(phi).all()
    # Each row by itself: a block and its rows give the same.
    rows = [features(basis, row[None])[0] for row in NEW]
    np.testing.assert_allclose(phi, np.stack(rows), rtol=1e-12, atol=rounding(name, 1e-15))
    assert basis.outside(NEW).shape == (7,)
    assert not basis.outside(jnp.asarray(WARM_UP)).any()


def test_same_key_same_basis(name):
    assert eqx.tree_equal(build(name), build(name))
    assert name != "fourier" or not eqx.tree_equal(build(name), build(name, seed=1))


def test_stacks_over_starts_and_maps(name):
    bases = [build(name, start=s, seed=i) for i, s in enumerate(BASES[name].starts)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bases)
    phi = eqx.filter_jit(eqx.filter_vmap(lambda basis: basis(NEW), axis_size=len(bases)))(stacked)
    assert phi.shape == (len(bases), 7, bases[0].num_features)
    for i, basis in enumerate(bases):
        np.testing.assert_allclose(phi[i], features(basis, NEW), rtol=1e-12, atol=rounding(name, 1e-15))
    assert (stacked.num_features, stacked.num_inputs) == (bases[0].num_features, 3)


def test_numpy_gives_what_jax_gives_alone_and_in_a_stack(name):
    """The engine on the CPU evaluates bases in NumPy, which also takes another way to sines and cosines."""
    bases = [build(name, start=s, seed=i) for i, s in enumerate(BASES[name].starts)]
    near_and_far = np.concatenate([NEW, 40.0 * NEW, np.zeros((1, 3))])
    wanted = np.stack([features(basis, jnp.asarray(near_and_far)) for basis in bases])
    outside = np.stack([basis.outside(jnp.asarray(near_and_far)) for basis in bases])
    stacked = tree.map(lambda *leaves: np.stack(leaves), *bases)
    alone = tree.map(lambda leaf: leaf[0], stacked)
    phi = alone(near_and_far)
    assert isinstance(phi, np.ndarray) and isinstance(stacked(near_and_far), np.ndarray)
    # Either factorises the kernel of a Nystrom basis by itself: an eps there times its condition, up to 1e6.
    atol = (1e-10 if name == "nystrom" else rounding(name, 1e-13)) * np.abs(wanted).max()
    np.testing.assert_allclose(phi, wanted[0], rtol=1e-11, atol=atol)
    np.testing.assert_allclose(np.broadcast_to(stacked(near_and_far), wanted.shape), wanted, atol=atol)
    np.testing.assert_array_equal(np.broadcast_to(stacked.outside(near_and_far), outside.shape), outside)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", [n for n in BASES if "lengthscale" in BASES[n].trainable])
def test_derivatives_are_finite_for_any_lengthscale(name, dtype):
    basis = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), build(name))
    # Rows repeat each other and, for centres, lie on one.
    rows = jnp.asarray(np.concatenate([NEW, NEW[:2], getattr(basis, "centres", NEW)[:2]]), dtype)

    def total(fields, basis):
        moved = eqx.tree_at(lambda b: [getattr(b, f) for f in fields], basis, list(fields.values()))
        phi = moved(rows)
        assert phi.dtype == dtype
        return jnp.sin(phi @ phi.T).sum()

    derivatives = jax.jit(jax.value_and_grad(total))
    for lengthscale in (1e-3, 1.0, 1e4):
        fields = {f: getattr(basis, f) for f in basis.trainable} | {"lengthscale": jnp.full(3, lengthscale, dtype)}
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(derivatives(fields, basis)))


def test_trainable_fields_are_arrays_that_move_the_features(name):
    basis = build(name, start=0.5)
    for field, kind in basis.trainable.items():
        value = getattr(basis, field)
        assert kind in ("positive", "real")
        assert kind == "real" or (value > 0).all()
        moved = eqx.tree_at(lambda b, f=field: getattr(b, f), basis, value * 1.1)
        assert not np.allclose(features(basis, NEW), features(moved, NEW))


def test_a_checkpoint_holds_it(name):
    basis = build(name).precomputed()
    assert eqx.tree_equal(decode(*encode(basis), {}), basis)


def test_starts_scale_the_lengthscales(name):
    if "lengthscale" not in BASES[name].trainable:
        assert BASES[name].starts == ((1.0, 1.5) if name == "boosted" else (1.0,))  # paces of boosting
        return
    for start in BASES[name].starts:
        np.testing.assert_allclose(build(name, start=start).lengthscale, start * np.ptp(WARM_UP, axis=0))


def test_constant_columns_do_no_harm(name):
    X = WARM_UP.copy()
    X[:, 1] = 0.0
    basis = build(name, X)
    assert np.isfinite(features(basis, jnp.asarray(X))).all()
    assert np.isfinite(features(basis, NEW)).all()
    assert not basis.outside(jnp.asarray(X)).any()


def test_five_hundred_inputs(name):
    if name == "hilbert-product":
        pytest.skip("at most three inputs")
    X = np.random.default_rng(0).normal(size=(30, 500))
    basis = build(name, X, num_features=100)
    phi = features(basis, jnp.asarray(X))
    assert phi.shape == (30, basis.num_features)
    assert np.isfinite(phi).all()


@pytest.mark.parametrize("x64", [False, True])
def test_arrays_are_numpys_whatever_jax_is_set_to(name, x64):
    with jax.enable_x64(x64):
        leaves = tree.leaves(build(name).precomputed())
        assert all(isinstance(leaf, np.ndarray) and leaf.dtype in (np.float64, np.int32) for leaf in leaves)


def test_shapes_are_never_promoted_silently(name):
    with jax.numpy_rank_promotion("raise"):
        basis = build(name)
        eqx.filter_eval_shape(basis, NEW)
        eqx.filter_eval_shape(basis.outside, NEW)


def test_static_parts_are_hashable(name):
    hash(jax.tree.structure(build(name)))
    hash(jax.tree.structure(UserFunction(jnp.sin, 3)))
