"""The ensemble over likelihoods: held to loops, and to the contract of online models."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import norm

from oracles.laplace_loop import laplace_loop, softmax
from streamgp.bases import Linear, Polynomial
from streamgp.conformance import check_online_model
from streamgp.filters.dynamics import mean_reverting, random_walk, static
from streamgp.likelihoods import Categorical, Likelihood, Logistic, Poisson
from streamgp.models.generalised.model import GeneralisedEnsemble, GeneralisedExpert, generalised_ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA, WeightRule, fixed_share

pytestmark = pytest.mark.slow

N = 24
DYNAMICS = (static, lambda: random_walk(0.01), lambda: mean_reverting(0.9))


def rows(n: int = N, seed: int = 0) -> tuple[Any, Any, Any]:
    """Inputs, labels, and times that go in fits and starts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (rng.random(n) < expit(2.0 * X[:, 0])).astype(float)
    return X, y[:, None], np.cumsum(rng.integers(1, 4, n)).astype(float)


def build(likelihood: Likelihood, rule: WeightRule, curved: bool = True, **options: Any) -> GeneralisedEnsemble:
    """Two bases, the first of which has three dynamics; the second one has another number of features."""
    plane, curve = Linear(2), Polynomial(2, 2)
    experts = [GeneralisedExpert(plane, np.asarray(2.0), likelihood, moves()) for moves in DYNAMICS]
    if curved:
        experts.insert(1, GeneralisedExpert(curve, np.asarray(0.5), likelihood, static()))
    return generalised_ensemble(experts, rule, **options)


def averaged(mean: float, std: float, sign: float) -> float:
    """The mean of the logistic function of sign (f + 0.3) over f ~ N(mean, std^2)."""
    return quad(lambda z: expit(sign * (mean + std * z + 0.3)) * norm.pdf(z), -12, 12, epsabs=1e-13)[0]


def test_experts_and_weights_are_those_of_loops():
    X, y, _ = rows()
    model = build(Logistic(np.asarray(0.3)), BMA())
    state, info = model.update(model.init(keys.key(0)), X, y)
    log_density = []
    for i, (basis, v) in enumerate(((Linear(2), 2.0), (Polynomial(2, 2), 0.5), (Linear(2), 2.0), (Linear(2), 2.0))):
        moves = (static, static, *DYNAMICS[1:])[i]()
        run = laplace_loop(
            np.asarray(basis(X)),
            np.asarray(y[:, 0]),
            softmax(0.3),
            num_latents=1,
            prior_var=v,
            decay=float(moves.decay),
            diffusion=float(moves.diffusion),
            gaps=np.ones(N),
            offset=np.zeros(N),
        )
        assert_allclose(info.predictive.loc[:, i, 0], run.loc[:, 0], rtol=1e-9, atol=1e-11)
        assert_allclose(info.predictive.cov[:, i, 0, 0], run.cov_of_f[:, 0, 0], rtol=1e-9)
        signs = 2.0 * np.asarray(y[:, 0]) - 1.0
        moments = zip(run.loc[:, 0], np.sqrt(run.cov_of_f[:, 0, 0]), signs, strict=True)
        log_density.append([np.log(averaged(*each)) for each in moments])
    before = np.concatenate([np.zeros((1, 4)), np.cumsum(np.array(log_density).T, axis=0)])
    want = before - logsumexp(before, axis=1, keepdims=True)
    assert_allclose(info.predictive.log_weights, want[:-1], atol=1e-9)
    assert_allclose(model.rule.predict(state.weights), want[-1], atol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "rule", "timed"),
    [
        (lambda: Logistic(np.asarray(0.3)), lambda: fixed_share(4, 0.01), True),
        (lambda: Categorical(3, np.asarray([0.1, 0.0, -0.1])), lambda: BMA(1e-16), False),
    ],
    ids=["logistic", "three classes"],
)
def test_it_keeps_the_contract_of_online_models(likelihood, rule, timed):
    X, y, times = rows(8)
    classes = 3 if isinstance(likelihood(), Categorical) else 2
    y = (y + np.arange(8)[:, None]) % classes
    other = (y + 1.0) % classes
    model = build(likelihood(), rule(), curved=classes == 2)
    check_online_model(model, X, y, times if timed else None, other=other)


def test_an_offset_is_added_to_the_latent_values():
    X, y, _ = rows()
    shift = np.linspace(-1.0, 1.0, N)
    model = build(Poisson(np.asarray(0.2)), BMA(), offset=True)
    state, info = model.update(model.init(keys.key(0)), np.column_stack([X, shift]), y + 1.0)
    plain = build(Poisson(np.asarray(0.2)), BMA())
    at_first = plain.predict(plain.init(keys.key(0)), X[:1])
    assert_allclose(info.predictive.loc[0], at_first.loc[0] + shift[0], rtol=1e-12)
    more = model.predict(state, np.column_stack([X, shift + 1.0]))
    assert_allclose(more.mean, np.e * model.predict(state, np.column_stack([X, shift])).mean, rtol=1e-9)


def test_an_expert_that_is_shut_down_learns_no_more():
    X, y, _ = rows()
    model = build(Logistic(np.asarray(0.0)), BMA(1e-16))
    state = model.init(keys.key(0))
    state = eqx_replace(state, np.asarray([0.0, -np.inf, -np.inf, -np.inf]))
    after, info = model.update(state, X, y)
    assert_array_equal(np.isfinite(info.predictive.log_weights).sum(axis=1), 1)
    for group, (old, new) in zip(model.groups, zip(state.filters, after.filters, strict=True), strict=True):
        moved = np.abs(new.mean - old.mean).max((2, 3))
        assert (moved > 0).sum() == (1 if group.prior_var.shape == (1, 3) else 0)


def eqx_replace(state: Any, weights: Any) -> Any:
    """The state with other weights."""
    return type(state)(state.filters, weights, state.last_time)
