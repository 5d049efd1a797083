"""The ensemble of latent variable models: the state against a batch refit, blocks against rows, weights."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from streamgp.bases import Fourier
from streamgp.filters.dynamics import Dynamics, mean_reverting, random_walk, static
from streamgp.latent import LENGTHSCALES, LatentEnsemble, fit_coordinates, principal_coordinates
from streamgp.models.expert import Expert
from streamgp.numerics import keys
from streamgp.weights import BMA, fixed_share

pytestmark = pytest.mark.slow

F, D, E, K = 10, 2, 4, 3


def experts(moving: bool = False) -> Expert:
    rng = np.random.default_rng(0)
    each = [
        Expert(
            Fourier(jnp.asarray(rng.normal(size=(F // 2, D))), jnp.full(D, scale)),
            jnp.asarray(0.5 + scale),
            jnp.asarray(0.05),
            random_walk(1e-3) if moving else static(),
        )
        for scale in (0.5, 1.0, 2.0)
    ]
    return jax.tree.map(lambda *a: jnp.stack(a), *each)


def build(moving: bool = False) -> LatentEnsemble:
    return LatentEnsemble(experts(moving), fixed_share(K, 0.01) if moving else BMA(), E)


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(rows, E)), rng.normal(size=(K, rows, D))


def test_ten_thousand_rows_leave_what_a_batch_of_them_says():
    Y, places = data(10_000)
    model = build()
    state = model.init()
    for i in range(0, len(Y), 100):
        state, _ = model.learn(state, jnp.asarray(Y[i : i + 100]), jnp.asarray(places[:, i : i + 100]))
    for k in range(K):
        expert = jax.tree.map(lambda a, k=k: a[k], model.experts)
        Phi = np.asarray(expert.basis(jnp.asarray(places[k])))
        A = Phi.T @ Phi + float(expert.noise_var / expert.prior_var) * np.eye(F)
        assert_allclose(state.belief.mean[k], np.linalg.solve(A, Phi.T @ Y), rtol=1e-8, atol=1e-10)
        assert_allclose(state.belief.cov[k], float(expert.noise_var) * np.linalg.inv(A), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("moving", [False, True])
def test_blocks_of_rows_are_learnt_as_rows_one_by_one(moving):
    Y, places = data(24)
    model = build(moving)
    one, said = model.init(), []
    for i in range(24):
        one, info = model.learn(one, jnp.asarray(Y[i : i + 1]), jnp.asarray(places[:, i : i + 1]))
        said.append(info)
    block = model.init()
    mask = jnp.asarray(np.arange(10) < 8)
    for i in range(0, 24, 8):
        rows = np.concatenate([Y[i : i + 8], np.full((2, E), 9.0)])
        at = np.concatenate([places[:, i : i + 8], np.ones((K, 2, D))], axis=1)
        block, info = model.learn(block, jnp.asarray(rows), jnp.asarray(at), None, mask)
        for j in range(8):
            assert_allclose(info.log_density[j], said[i + j].log_density[0], rtol=1e-8)
            assert_allclose(info.log_weights[j], said[i + j].log_weights[0], rtol=1e-8, atol=1e-8)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(block), strict=True):
        assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    assert int(block.rows) == 24


def test_log_densities_are_those_of_a_dense_gaussian():
    Y, places = data(6)
    model = build()
    state, info = model.learn(model.init(), jnp.asarray(Y), jnp.asarray(places))
    for k in range(K):
        expert = jax.tree.map(lambda a, k=k: a[k], model.experts)
        Phi = np.asarray(expert.basis(jnp.asarray(places[k])))
        cov = float(expert.prior_var) * Phi @ Phi.T + float(expert.noise_var) * np.eye(6)
        expected = sum(multivariate_normal(np.zeros(6), cov).logpdf(column) for column in Y.T)
        assert_allclose(np.asarray(info.log_density)[:, k].sum(), expected, rtol=1e-9)
    total = np.asarray(info.log_density).sum(axis=0)
    assert_allclose(model.log_weights(state), total - np.logaddexp.reduce(total), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("moving", [False, True])
def test_rows_without_gaps_are_learnt_alike_by_blocks_and_by_rows(moving):
    Y, places = data(40)
    model = build(moving)
    block, told = model.learn(model.init(), jnp.asarray(Y), jnp.asarray(places))
    rows, said = model.learn(model.init(), jnp.asarray(Y), jnp.asarray(places), jnp.ones(Y.shape, bool))
    for one, other in zip(jax.tree.leaves((block, told)), jax.tree.leaves((rows, said)), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_an_entry_that_is_missing_counts_for_nothing_and_only_decays():
    Y, places = data(30)
    model = replace(build(), experts=replace_dynamics(mean_reverting(0.9)))
    state, _ = model.learn(model.init(), jnp.asarray(Y[:29]), jnp.asarray(places[:, :29]))
    seen = np.array([[True, False, True, False]])
    row = jnp.asarray(places[:, 29:])
    after, info = model.learn(state, jnp.asarray(np.where(seen, Y[29:], np.nan)), row, jnp.asarray(seen))
    assert_allclose(after.belief.mean[:, :, 1], 0.9 * state.belief.mean[:, :, 1], rtol=1e-9, atol=1e-12)
    whole, _ = model.learn(state, jnp.asarray(Y[29:]), row)
    assert_allclose(after.belief.mean[:, :, 0], whole.belief.mean[:, :, 0], rtol=1e-9)
    mean, var = (
        np.stack(each)
        for each in zip(*(model.reconstruct(state, jnp.asarray(k), row[k]) for k in range(len(row))), strict=True)
    )
    each = -0.5 * ((Y[29] - mean[:, 0]) ** 2 / var[:, 0] + np.log(2.0 * np.pi * var[:, 0]))
    assert_allclose(info.log_density[0], each[:, [0, 2]].sum(axis=1), rtol=1e-9)
    assert after.seen.tolist() == [30.0, 29.0, 30.0, 29.0]


def replace_dynamics(dynamics: Dynamics) -> Expert:
    """The experts with other dynamics."""
    many = jax.tree.map(lambda a: jnp.repeat(a[None], K), dynamics)
    return eqx.tree_at(lambda expert: expert.dynamics, experts(), many)


@pytest.mark.parametrize("pattern", ["at random", "late"])
def test_outputs_with_gaps_are_learnt_nearly_as_if_each_had_a_belief_of_its_own(pattern):
    rng = np.random.default_rng(5)
    model = build()
    x = rng.normal(size=(400, D))
    expert = jax.tree.map(lambda a: a[1], model.experts)
    Phi = np.asarray(expert.basis(jnp.asarray(x)))
    truth = np.sqrt(float(expert.prior_var)) * rng.normal(size=(F, E))
    Y = Phi @ truth + np.sqrt(0.05) * rng.normal(size=(400, E))
    seen = rng.random((400, E)) < 0.4 if pattern == "at random" else np.ones((400, E), bool)
    if pattern == "late":
        seen[:200, 2] = False
    places = jnp.asarray(np.stack([x] * K))
    state = model.init()
    for i in range(0, 400, 50):
        rows = slice(i, i + 50)
        state, _ = model.learn(state, jnp.asarray(Y[rows]), places[:, rows], jnp.asarray(seen[rows]))
    exact = np.stack(
        [
            np.linalg.solve(
                Phi[there].T @ Phi[there] + 0.05 / float(expert.prior_var) * np.eye(F), Phi[there].T @ Y[there, j]
            )
            for j, there in enumerate(seen.T)
        ],
        axis=1,
    )
    test = np.asarray(expert.basis(jnp.asarray(rng.normal(size=(500, D)))))
    ours, best = (np.sqrt(np.mean((test @ (w - truth)) ** 2, axis=0)) for w in (state.belief.mean[1], exact))
    spread = np.sqrt(np.mean((test @ truth) ** 2, axis=0))
    assert (ours < best + (0.2 if pattern == "at random" else 0.03) * spread).all()


def test_places_of_the_warm_up_gain_and_are_near_the_truth():
    rng = np.random.default_rng(2)
    angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, 60))
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mixing = rng.normal(size=(2, 90))
    Y = np.tanh(truth @ mixing) + 0.05 * rng.normal(size=(60, 90))
    Y -= Y.mean(axis=0)
    start = principal_coordinates(Y, 2)
    few = fit_coordinates(1.0, Y, start, static(), keys.key(0), num_features=40, steps=1)
    found = fit_coordinates(1.0, Y, start, static(), keys.key(0), num_features=40)
    assert found.log_joint > few.log_joint + 10.0
    # The joint density, with the columns as they are.
    expert, X = found.expert, np.asarray(found.coordinates)
    Phi = np.asarray(expert.basis(jnp.asarray(X)))
    explained = float(expert.noise_var) * 88 / 90  # without what the places' own fit takes from the noise
    cov = float(expert.prior_var) * Phi @ Phi.T + explained * np.eye(60)
    dense = multivariate_normal(np.zeros(60), cov)
    expected = sum(dense.logpdf(column) for column in Y.T) - 0.5 * np.sum(X**2 + np.log(2.0 * np.pi))
    assert_allclose(found.log_joint, expected, rtol=1e-6)
    # Neighbours on the circle are neighbours in the latent space.
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2) + 1e9 * np.eye(60)
    apart = np.abs(gaps.argmin(axis=1) - np.arange(60))
    assert np.mean(np.minimum(apart, 60 - apart) <= 3) > 0.9


def test_weights_move_to_the_expert_that_fits():
    rng = np.random.default_rng(3)
    model = replace(build(), rule=fixed_share(K, 0.01))
    right = jax.tree.map(lambda a: a[2], model.experts)
    x = rng.normal(size=(200, D))
    Phi = np.asarray(right.basis(jnp.asarray(x)))
    Y = Phi @ (np.sqrt(2.5) * rng.normal(size=(F, E))) + np.sqrt(0.05) * rng.normal(size=(200, E))
    state, _ = model.learn(model.init(), jnp.asarray(Y), jnp.asarray(np.stack([x] * K)))
    assert int(np.argmax(model.log_weights(state))) == 2


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_follow_a_stream_whose_kernel_scale_changes(seed):
    rng = np.random.default_rng(seed)
    scales, rows, outputs = LENGTHSCALES, 250, 16
    unit = np.array([[0.0] * D, [1.0] * D])
    bases = [
        Fourier(Fourier.from_data(unit, num_features=60, start=1.0, key=keys.key(i)).frequencies, jnp.full(D, scale))
        for i, scale in enumerate(scales)
    ]
    each = [Expert(basis, jnp.asarray(1.0), jnp.asarray(0.05), mean_reverting(0.99)) for basis in bases]
    model = LatentEnsemble(jax.tree.map(lambda *a: jnp.stack(a), *each), fixed_share(len(scales), 0.01), outputs)

    def exact(x: np.ndarray, lengthscale: float) -> np.ndarray:  # from the kernel, not from anybody's features
        squares = np.square(x[:, None] - x).sum(axis=2)
        cov = np.exp(-0.5 * squares / lengthscale**2) + 1e-8 * np.eye(len(x))
        return np.linalg.cholesky(cov) @ rng.normal(size=(len(x), outputs))

    x = rng.normal(size=(2 * rows, D))
    Y = np.concatenate([exact(x[:rows], scales[5]), exact(x[rows:], scales[1])])
    Y += np.sqrt(0.05) * rng.normal(size=Y.shape)
    state, leading = model.init(), []
    for first in range(0, 2 * rows, 50):
        block = slice(first, first + 50)
        state, _ = model.learn(state, jnp.asarray(Y[block]), jnp.asarray(np.stack([x[block]] * len(scales))))
        leading.append(int(np.argmax(model.log_weights(state))))
    # Next to the right one there are experts that are hardly worse.
    assert all(abs(k - 5) <= 1 for k in leading[:5])
    assert all(abs(k - 1) <= 1 for k in leading[6:])
