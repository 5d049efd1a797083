"""Every learner against the loop that its paper prints, and the parts that the papers define."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import multikernel_loop as loops
from streamgp.bases.kernels import Laplace, Matern, SquaredExponential
from streamgp.numerics import keys
from streamgp.research.multikernel import (
    OMKLGF,
    OMKR,
    SFG,
    AdaRaker,
    FeedbackGraph,
    KernelDictionary,
    LogisticLoss,
    MultiKernel,
    Raker,
    SquaredLoss,
    constant,
    draw_features,
    falling,
    squared_exponentials,
)
from streamgp.research.multikernel.omkr import group_by_kernel

pytestmark = pytest.mark.slow

N, D, ROWS = 12, 3, 90
SCALES = tuple(10 ** np.linspace(-1.0, 1.0, N))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, D)) / np.sqrt(D)
Y = np.sin(3.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=ROWS)
LOSS = SquaredLoss(1)
STEPS = jnp.arange(1, ROWS + 1)


def bank():
    return draw_features(squared_exponentials(SCALES), D, 10, keys.key(1))


def learn(learner: Any) -> tuple[np.ndarray, Any, Any]:
    """What a learner predicts of every row, the noise that decided its draws, and its features."""
    model = MultiKernel(learner, tuple(map(str, range(N))), D)
    state = model.init(keys.key(2))
    _, info = model.update(state, jnp.asarray(X), jnp.asarray(Y[:, None]))
    return np.asarray(info.predictive.loc[:, 0, 0]), learner.prepare_rows(state.learner, jnp.asarray(X), STEPS), info


@pytest.mark.parametrize(("rate", "want"), [(constant(0.2), lambda t: 0.2), (falling(0.8), lambda t: 0.8 / t**0.5)])
def test_raker(rate, want):
    found, Z, _ = learn(Raker(bank(), LOSS, rate, penalty=0.01))
    assert_allclose(found, loops.raker(np.asarray(Z), Y, want, 0.01), rtol=1e-9, atol=1e-12)


def test_weights_may_take_the_losses_after_the_step():
    found, Z, _ = learn(Raker(bank(), LOSS, constant(0.2), penalty=0.01, weights_after=True))
    want = loops.raker(np.asarray(Z), Y, lambda t: 0.2, 0.01, after=True)
    assert_allclose(found, want, rtol=1e-9, atol=1e-12)
    assert not np.allclose(want, loops.raker(np.asarray(Z), Y, lambda t: 0.2, 0.01))


def test_adaraker():
    found, Z, _ = learn(AdaRaker(bank(), LOSS, penalty=0.01, levels=5))
    assert_allclose(found, loops.adaraker(np.asarray(Z), Y, 5, 0.01), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("greedy_after", [ROWS, 40])
@pytest.mark.parametrize(("refine", "least"), [(False, None), (True, None), (True, 1.0 / N)])
def test_sfg(refine, least, greedy_after):
    graph = FeedbackGraph.of(squared_exponentials(SCALES), D, 3)
    rates = constant(0.15), constant(0.2)
    learner = SFG(bank(), graph, LOSS, *rates, penalty=0.01, refine=refine, least=least, greedy_after=greedy_after)
    found, (_, gumbel), info = learn(learner)
    want = loops.sfg(
        np.asarray(bank()(X)),
        Y,
        np.asarray(gumbel),
        np.asarray(graph.out).tolist(),
        np.flatnonzero(graph.dominating).tolist(),
        lambda t: 0.15,
        lambda t: 0.2,
        0.01,
        greedy_after,
        np.asarray(graph.nearest) if refine else None,
        least,
    )
    assert_allclose(found, want, rtol=1e-9, atol=1e-12)
    used = np.asarray(info.weights > 0.0).sum(1)
    if not refine or least is not None:
        assert used.max() > 3 if refine else used.max() == 3


@pytest.mark.parametrize(("nodes", "plain"), [(1, False), (3, False), (3, True)])
def test_omkl_gf(nodes, plain):
    rates = constant(0.2), constant(0.3)
    learner = OMKLGF(bank(), LOSS, *rates, nodes, 4, penalty=0.01, plain_steps=plain)
    found, (_, gumbel, of_nodes), _ = learn(learner)
    noise = np.asarray(gumbel), np.asarray(of_nodes)
    want = loops.omkl_gf(np.asarray(bank()(X)), Y, *noise, lambda t: 0.2, lambda t: 0.3, 0.01, plain)
    assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("capacity", [ROWS, 17])
def test_omkr(capacity):
    kernels = (*[SquaredExponential()] * 5, *[Laplace()] * 4, *[Matern(1.5)] * 3)
    learner = OMKR(*group_by_kernel(KernelDictionary(kernels, SCALES)), LOSS, falling(), D, capacity)
    found, _, _ = learn(learner)

    def value(kernel, scale):
        return lambda r: float(kernel.value(r[None] / scale)[0])

    functions = [value(kernel, scale) for kernel, scale in zip(kernels, SCALES, strict=True)]
    assert_allclose(found, loops.omkr(X, Y, functions, lambda t: t**-0.5, capacity), rtol=1e-9, atol=1e-12)


def test_what_kernels_lose_is_unbiased():
    """E[1{i in S} / q_i] = 1 for every kernel: the draws of a graph that is refined, over 40,000 keys."""
    graph = FeedbackGraph.of(squared_exponentials(SCALES), D, 3)
    learner = SFG(bank(), graph, LOSS, constant(0.2), constant(0.3), refine=True, least=1.0 / N, greedy_after=None)
    state = learner.init(keys.key(0))
    u = jnp.asarray(np.random.default_rng(3).dirichlet(np.full(N, 0.3)))
    state = jax.tree.map(lambda a: a, state)
    state = type(state)(state.theta, state.log_w, jnp.log(u), state.t, state.key)
    p, extra, nearest = learner.draw_probabilities(state)
    assert_allclose(p.sum(), 1.0, rtol=1e-12)
    q = np.asarray(learner.observed_probabilities(p, extra, nearest))
    draws = 40_000
    _, gumbel = learner.prepare_rows(state, jnp.zeros((draws, D)), jnp.arange(draws))
    weights = jax.vmap(lambda g: learner.predict(state, (jnp.zeros(D), g)).weights)(gumbel)
    evaluated = np.asarray(weights > 0.0)
    deviation = np.sqrt((1.0 / q - 1.0) / draws)
    z = (evaluated.mean(0) / q - 1.0) / np.where(deviation > 0, deviation, 1.0)
    assert np.abs(z).max() < 4.0
    assert np.abs(z)[q < 0.99].min() > 1e-6  # the test has something to say


def test_coefficients_stay_within_their_radius():
    learner = Raker(bank(), LOSS, constant(0.9), radius=0.5)
    model = MultiKernel(learner, tuple(map(str, range(N))), D)
    state, _ = model.update(model.init(keys.key(0)), jnp.asarray(X), jnp.asarray(9.0 * Y[:, None]))
    size = np.sqrt(np.square(state.learner.theta).sum((1, 2)))
    assert size.max() == pytest.approx(0.5, rel=1e-12)


def test_the_loss_of_labels_is_logistic():
    from streamgp.likelihoods import Categorical

    loss = LogisticLoss(Categorical(2, jnp.zeros(2)))
    f = jnp.asarray([0.7])
    odds = float(jnp.sqrt(2.0) * f[0])
    assert_allclose(loss.value(f, jnp.asarray([0.0])), np.log1p(np.exp(-odds)), rtol=1e-12)
    assert_allclose(loss.value(f, jnp.asarray([1.0])), np.log1p(np.exp(odds)), rtol=1e-12)
    step = 1e-6
    rise = (loss.value(f + step, jnp.asarray([1.0])) - loss.value(f - step, jnp.asarray([1.0]))) / (2 * step)
    assert_allclose(loss.gradient(f, jnp.asarray([1.0]))[0], rise, rtol=1e-8)
