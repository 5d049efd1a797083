"""Online stacking and dynamic averaging: textbook loops, an exact quadratic program, and their bounds of regret."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from oracles.stacking_loop import (
    best_blend,
    dynamic_averaging,
    exponentiated_gradient,
    newton_step,
)
from streamgp import StreamingGPRegressor
from streamgp.filters.noise import CONSTANT_NOISE
from streamgp.models.gaussian.delayed_feedback import PendingForecasts, ScoringState, learn_from_targets
from streamgp.models.registry import make_spec
from streamgp.weights import BMA, DMA, ExponentiatedGradient, NewtonStep, SoftBayes, WeightRule
from streamgp.weights.by_name import make_rule

pytestmark = pytest.mark.slow

K, ROWS = 4, 120
UNIFORM = np.full(K, -np.log(K))
PLAIN, SHARED, NEWTON, FADING = (
    ExponentiatedGradient(),
    ExponentiatedGradient(0.3, 0.01),
    NewtonStep(0.01),
    DMA(0.95),
)
ALL = [PLAIN, SHARED, NEWTON, FADING]
IDS = ["gradient", "gradient + share", "Newton", "DMA"]


@jax.jit
def run(rule: WeightRule, log_density: jax.Array) -> Any:
    """The state after each row, and the log weights before it."""

    def row(state, log_density):
        after = rule.update(state, log_density)
        return after, (after, rule.predict(state))

    start = rule.init(jnp.full(log_density.shape[1], -jnp.log(log_density.shape[1])))
    return jax.lax.scan(row, start, log_density)[1]


def weights(rule: WeightRule, log_density: np.ndarray) -> np.ndarray:
    return np.exp(run(rule, jnp.asarray(log_density))[1])


def gains(rule: WeightRule, log_density: np.ndarray) -> np.ndarray:
    """Log density of each row under the rule's weights."""
    return np.asarray(logsumexp(np.asarray(run(rule, jnp.asarray(log_density))[1]) + log_density, axis=1))


def problem(seed: int, gap: float, zeros: bool = False, rows: int = ROWS) -> np.ndarray:
    """Experts that take turns, the best of each row at 0; some rows impossible under some, none under the first."""
    rng = np.random.default_rng(seed)
    best = rng.integers(K, size=rows // 10).repeat(10)
    log_density = -rng.exponential(gap, (rows, K)) * (np.arange(K) != best[:, None])
    impossible = (rng.uniform(size=log_density.shape) < 0.05) & (np.arange(K) != best[:, None]) & (np.arange(K) > 0)
    return np.asarray(np.where(impossible & zeros, -np.inf, log_density))


@jax.jit
def adversarial(rule: WeightRule, gap: float) -> jax.Array:
    """At each row the expert with most weight is the worst, by `gap`, and the one with least the best."""

    def row(state, _):
        order = jnp.argsort(jnp.argsort(rule.predict(state)))
        log_density = -gap * order / (K - 1)
        return rule.update(state, log_density), log_density

    return jax.lax.scan(row, rule.init(jnp.asarray(UNIFORM)), length=ROWS)[1]


def problems(rule: WeightRule, seed: int, gap: float, zeros: bool) -> list[np.ndarray]:
    return [problem(seed, gap, zeros), np.asarray(adversarial(rule, gap))]


random_problems = given(
    seed=st.integers(0, 2**32 - 1), gap=st.sampled_from([0.01, 0.3, 3.0, 100.0]), zeros=st.booleans()
)


@pytest.mark.parametrize(("rate", "share"), [(0.05, 0.0), (0.3, 0.01)])
@pytest.mark.parametrize("gap", [0.5, 3.0])
def test_exponentiated_gradient_is_the_loop(rate, share, gap):
    log_density = problem(0, gap, zeros=True)
    want = exponentiated_gradient(np.exp(log_density), rate, share)
    got = weights(ExponentiatedGradient(rate, share), log_density)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize("forgetting", [0.5, 0.95])
def test_dynamic_averaging_is_bayes_with_fading_likelihoods(forgetting):
    log_density = problem(1, 1.0, rows=60)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    rule = DMA(forgetting)
    state = rule.init(jnp.log(prior))
    for row, want in zip(log_density, dynamic_averaging(np.exp(log_density), forgetting, prior), strict=True):
        np.testing.assert_allclose(np.exp(rule.predict(state)), want, rtol=1e-10)
        state = rule.update(state, jnp.asarray(row))


def test_newton_step_is_the_loop_with_exact_projections():
    log_density = problem(2, 1.0, zeros=True)
    want = newton_step(np.exp(log_density), NEWTON.mixing)
    states, before = run(NEWTON, jnp.asarray(log_density))
    np.testing.assert_allclose(np.exp(before), want.before, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(states.A, want.A, rtol=1e-6)
    assert (want.before < NEWTON.mixing / K + 1e-9).any()  # some projections end on the edge
    assert np.abs(np.diff(want.before[-20:], axis=0)).max() > 1e-3


def comparators(log_density: np.ndarray, seed: int) -> np.ndarray:
    """The best blend in hindsight, each expert, and some blends at random."""
    rng = np.random.default_rng(seed)
    best = best_blend(np.exp(log_density), 100)
    return np.vstack([best, np.eye(K), rng.dirichlet(np.full(K, 0.5), 5)])


def score(blend: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Log density of each row under a blend, or each row's own blend."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(np.log(blend) + log_density, axis=1))


@random_problems
@settings(max_examples=15, deadline=None)
def test_exponentiated_gradient_keeps_its_bound(seed, gap, zeros):
    """Against single blends, and against blends that switch at known rows."""
    for rule in (PLAIN, SHARED):
        for log_density in problems(rule, seed, gap, zeros):
            gain = gains(rule, log_density)
            largest = np.exp(np.minimum(log_density - gain[:, None], 300.0)).max(1)
            curvature = rule.rate / 8.0 * np.square(largest).sum()
            for u in comparators(log_density, seed):
                cost = np.log(K) - (ROWS - 1) * np.log1p(-rule.share)
                bound = cost / rule.rate + curvature
                assert score(u, log_density).sum() - gain.sum() <= bound * (1.0 + 1e-9)
            if rule.share:
                assert (largest <= K / rule.share * (1.0 + 1e-9)).all()
                pieces = [best_blend(np.exp(part), 100) for part in np.split(log_density, 4)]
                path, S = np.repeat(pieces, ROWS // 4, axis=0), 3
                cost = np.log(K) + S * np.log(K / rule.share) - (ROWS - 1 - S) * np.log1p(-rule.share)
                bound = cost / rule.rate + curvature
                assert score(path, log_density).sum() - gain.sum() <= bound * (1.0 + 1e-9)


def test_the_bound_of_exponentiated_gradient_is_near():
    """Without a share, at the best rate, on rows that keep the ratios bounded: within a factor of three."""
    rate, rows = 0.1, 240
    log_density = np.log(np.where(np.arange(K) == 0, 1.0, 0.8)) * np.ones((rows, 1))
    gain = gains(ExponentiatedGradient(rate), log_density)
    bound = np.log(K) / rate + rate / 8.0 * np.square(np.exp(log_density - gain[:, None]).max(1)).sum()
    assert bound / 3.0 < log_density[:, 0].sum() - gain.sum() < bound


@random_problems
@settings(max_examples=15, deadline=None)
def test_newton_step_keeps_its_bound(seed, gap, zeros):
    for log_density in problems(NEWTON, seed, gap, zeros):
        states, before = run(NEWTON, jnp.asarray(log_density))
        gain = np.asarray(logsumexp(np.asarray(before) + log_density, axis=1))
        ratio = np.exp(log_density - gain[:, None])
        x = (1.0 - NEWTON.mixing) * ratio + NEWTON.mixing * ratio.mean(1, keepdims=True)
        beta = 3.0 / (1.0 + 2.0 * x.max(1))
        assert (x.max(1) <= K / NEWTON.mixing).all()
        steps = np.array([row @ np.linalg.solve(A, row) for row, A in zip(x, np.asarray(states.A), strict=True)])
        assert beta @ steps <= np.linalg.slogdet(states.A[-1])[1] * (1.0 + 1e-9)
        for u in comparators(log_density, seed):
            mixed = (1.0 - NEWTON.mixing) * u + NEWTON.mixing / K
            regret = score(mixed, log_density).sum() - gain.sum()
            assert regret <= 0.5 * np.square(u - 1.0 / K).sum() + steps.sum() + 1e-6
            whole = score(u, log_density).sum() - score(mixed, log_density).sum()
            assert whole <= -ROWS * np.log1p(-NEWTON.mixing) + 1e-9


@given(z=st.floats(0.0, 1.0), Z=st.floats(0.0, 8.0))
@settings(max_examples=200, deadline=None)
def test_the_quadratic_lies_below_the_log_score(z, Z):
    largest = 10.0**Z
    for at in (z, 1.0 + z * (largest - 1.0)):
        beta = 3.0 / (1.0 + 2.0 * largest)
        with np.errstate(divide="ignore"):
            assert np.log(at) <= (at - 1.0) - 0.5 * beta * (at - 1.0) ** 2 + 1e-12 * largest


def test_newton_step_learns_a_blend_faster_than_a_gradient():
    """Two experts are right in turn, three times to one: regret like ln T, with no rate to choose."""
    log_density = np.full((2_000, K), -3.0)
    right = np.arange(2_000) % 4 == 3
    log_density[right, 0] = log_density[~right, 1] = 0.0
    best = score(best_blend(np.exp(log_density)), log_density)
    newton, gradient = (np.cumsum(best - gains(rule, log_density)) for rule in (NewtonStep(), PLAIN))
    assert newton[-1] < 25.0
    assert newton[-1] - newton[999] < 4.0
    assert gradient[-1] > newton[-1]
    np.testing.assert_allclose(weights(NewtonStep(), log_density)[-1, :2], [0.25, 0.75], atol=0.05)


@random_problems
@settings(max_examples=15, deadline=None)
def test_dynamic_averaging_keeps_its_bounds(seed, gap, zeros):
    for log_density in problems(FADING, seed, gap, zeros):
        gain = gains(FADING, log_density)
        a = FADING.forgetting
        bound = np.log(K) + (ROWS - 1) * (1.0 - a) * np.log(K)
        assert log_density.sum(0).max() - gain.sum() <= bound + 1e-9
        if not zeros:
            path, S = np.concatenate([part[:, part.sum(0).argmax()] for part in np.split(log_density, 4)]), 3
            differ = np.ptp(log_density, axis=1).max()
            bound = np.log(K) + S * (np.log(K) + a * differ / (1.0 - a)) + (ROWS - 1 - S) * (1.0 - a) * np.log(K)
            assert path.sum() - gain.sum() <= bound + 1e-9


def test_the_regret_of_dynamic_averaging_does_grow_with_the_rows():
    """One expert is a little better at every row: half of what the bound grows by is lost at each, for ever."""
    experts, a = 100, 0.99
    edge = 4.0 * (1.0 - a) / a
    log_density = np.where(np.arange(experts) == 0, 0.0, -edge) * np.ones((4_000, 1))
    lost = -gains(DMA(a), log_density)
    assert 0.5 * (1.0 - a) * np.log(experts) < lost[-1] < (1.0 - a) * np.log(experts)
    np.testing.assert_allclose(lost[-2_000:], lost[-1], rtol=1e-6)


@pytest.mark.parametrize("rule", ALL, ids=IDS)
@pytest.mark.parametrize("gap", [1e6, 1e300])
def test_extreme_densities_leave_the_weights_sound(rule, gap):
    """Experts a million nats apart and taking turns, impossible rows, densities beyond the largest number."""
    rng = np.random.default_rng(6)
    log_density = -gap * rng.integers(0, 3, (60, K))
    log_density[20:30] = -gap * np.eye(K)[0]
    log_density[30] = -np.inf
    log_density[31, 1:] = -np.inf
    log_density[40:] += 5e3
    got = np.asarray(run(rule, jnp.asarray(log_density))[1])
    assert np.isfinite(np.delete(got, slice(32, None) if rule is FADING else [], axis=0)).all()
    np.testing.assert_allclose(np.exp(got).sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize("rule", ALL, ids=IDS)
def test_a_row_that_is_impossible_under_all_experts_teaches_nothing_about_them(rule):
    log_density = problem(7, 1.0)
    log_density[10] = -np.inf
    got = weights(rule, log_density)
    want = got[10]
    if rule is SHARED:
        want = (1.0 - rule.share) * want + rule.share / K
    if rule is FADING:
        want = want**rule.forgetting / (want**rule.forgetting).sum()
    np.testing.assert_allclose(got[11], want, rtol=1e-12)


@pytest.mark.parametrize("rule", [*ALL, SoftBayes()], ids=[*IDS, "Soft-Bayes"])
def test_only_ratios_of_densities_matter(rule):
    log_density = problem(8, 1.0)
    moved = log_density + np.random.default_rng(0).normal(0.0, 300.0, (ROWS, 1))
    np.testing.assert_allclose(weights(rule, moved), weights(rule, log_density), rtol=1e-8, atol=1e-12)


def test_one_outlier_decides_a_stream_of_plain_gradients_and_none_with_a_share():
    """Expert 0 is the best at every row but one, which only expert 1 foresaw."""
    log_density = np.where(np.arange(K) == 0, 0.0, -1.0) * np.ones((3_000, 1))
    log_density[1_500] = -50.0 * (np.arange(K) != 1)
    plain, shared = (weights(ExponentiatedGradient(0.05, share), log_density) for share in (0.0, 1e-3))
    assert plain[1_500, 0] > 0.9
    assert plain[-1, 0] < 1e-3
    assert shared[-1, 0] > 0.9


def test_only_the_learning_of_blends_keeps_two_experts_that_are_right_in_turn():
    log_density = np.full((2_000, K), -30.0)
    log_density[::2, 0] = log_density[1::2, 1] = 0.0
    log_density[-1, 0] = 1.0
    for rule in (ExponentiatedGradient(share=1e-3), NewtonStep()):
        np.testing.assert_allclose(weights(rule, log_density)[-1, :2], 0.5, atol=0.06)
    assert gains(NewtonStep(), log_density)[500:].mean() > gains(BMA(), log_density)[500:].mean() + 10.0


@pytest.mark.parametrize("rule", ALL, ids=IDS)
def test_a_single_expert_has_all_the_weight(rule):
    log_density = jnp.asarray(np.random.default_rng(9).normal(size=(20, 1)) * 100.0)
    np.testing.assert_allclose(run(rule, log_density)[1], 0.0, atol=1e-12)


@pytest.mark.parametrize("rule", [PLAIN, SHARED, NEWTON], ids=IDS[:3])
def test_stacking_starts_from_the_prior(rule):
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    away = getattr(rule, "share", 0.0) + getattr(rule, "mixing", 0.0)
    got = np.exp(rule.predict(rule.init(jnp.log(prior))))
    np.testing.assert_allclose(got, (1.0 - away) * prior + away / K, rtol=1e-12)


NAMED = {
    "dma": DMA(0.99),
    "soft-bayes": SoftBayes(0.1),
    "stacking": ExponentiatedGradient(0.05),
    "stacking-share": ExponentiatedGradient(0.05, 1e-3),
    "stacking-newton": NewtonStep(1e-3),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_name_chooses_the_rule_in_every_way_to_learn(name, tmp_path):
    """The name gives the rule and its rates; rows, chunks, and a saved model that goes on have the same weights."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(110, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=110)

    def new(**options) -> StreamingGPRegressor:
        options = {"bases": ["linear"], "dynamics": ["static", 1.0, "revert 0.5"], "warmup": 50} | options
        return StreamingGPRegressor("oebe", weights=name, **options)

    spec = make_spec("oebe", weights=name)
    rule = make_rule(spec.rule, [0, 0, 1], delta=spec.delta, share_rate=spec.share, switch=spec.switch)
    assert jax.tree.structure(rule) == jax.tree.structure(NAMED[name])  # rates are part of the structure
    chunks = new().partial_fit(X, y)
    rows = new().partial_fit(X[:60], y[:60])
    for x, target in zip(X[60:80], y[60:80], strict=True):
        rows.learn_one(x, target)
    rows.save(tmp_path / "model")
    rows = StreamingGPRegressor.load(tmp_path / "model").partial_fit(X[80:], y[80:])
    np.testing.assert_allclose(rows.weights_, chunks.weights_, rtol=1e-9)
    assert np.ptp(chunks.weights_) > 0.01
    far = new(horizon=3).partial_fit(X, y)
    np.testing.assert_allclose(far.weights_.sum(), 1.0, rtol=1e-12)
    assert np.ptp(far.weights_) > 1e-6  # nothing can be forecast, and a horizon slows learning down


@pytest.mark.parametrize("horizon", [0, 3])
def test_a_block_of_rows_keeps_one_matrix_of_the_newton_step(horizon):
    """Memory: the states before each row, which weigh it, must not be stored with a K x K matrix each."""
    experts, n = 50, 100
    rule = NewtonStep()

    def learn(state, loc, y):
        gap, mask = jnp.ones(n), jnp.ones(n, bool)
        return learn_from_targets(rule, CONSTANT_NOISE, state, loc, jnp.ones_like(loc), y, mask, gap)

    pending = PendingForecasts.empty(horizon, experts, 1, None) if horizon else None
    state = ScoringState(rule.init(jnp.full(experts, -np.log(experts))), None, pending)
    compiled = jax.jit(learn).lower(state, jnp.zeros((n, experts, 1)), jnp.zeros((n, 1))).compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 0.5 * n * experts**2 * 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExponentiatedGradient(0.0), "expected a positive learning rate, got 0.0"),
        (lambda: ExponentiatedGradient(share=1.0), r"expected a share in \[0, 1\), got 1.0"),
        (lambda: NewtonStep(0.0), r"NewtonStep: expected a mixing in \(0, 1\), got 0.0"),
        (lambda: DMA(1.0), r"expected a forgetting exponent in \(0, 1\), got 1.0; 1 would be BMA"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
