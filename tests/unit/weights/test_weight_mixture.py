"""Soft-Bayes and the mixture over weight rules: exact decimals, their theorems, and what they are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from oracles.rule_mixture import mix
from streamgp.weights import BMA, Mixture, SoftBayes, WeightRule, auto, fixed_share, markov, mixture, share

GROUPS = [0, 1, 1, 0, 2, 1]
K = len(GROUPS)
ROWS = 200
UNIFORM = np.full(K, -np.log(K))
PLAIN, SHARED = (mixture(dict(zip("abcde", auto(GROUPS).rules, strict=True)), share) for share in (0.0, 0.01))


@jax.jit
def run(rule: WeightRule, log_density: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The state before each row, and the log weights that it predicts with."""
    states = jax.lax.scan(lambda s, row: (rule.update(s, row), s), rule.init(jnp.asarray(UNIFORM)), log_density)[1]
    return states, jax.vmap(rule.predict)(states)


def gains(rule: WeightRule, log_density: np.ndarray) -> np.ndarray:
    """Log density of each row under the rule's weights."""
    return logsumexp(np.asarray(run(rule, jnp.asarray(log_density))[1]) + log_density, axis=1)


def turns(n: int, gap: float, seed: int = 0) -> np.ndarray:
    """Experts that take turns at being far better than the rest."""
    rng = np.random.default_rng(seed)
    best = (np.arange(n) // 50) % K
    return -rng.exponential(gap, (n, K)) * (np.arange(K)[None] != best[:, None])


def with_zeros(log_density: np.ndarray, seed: int = 0) -> np.ndarray:
    """Some targets are impossible under some experts, none under all."""
    rng = np.random.default_rng(seed)
    impossible = rng.uniform(size=log_density.shape) < 0.05
    impossible[:, rng.integers(K)] = False
    return np.where(impossible, -np.inf, log_density)


def textbook(rule: WeightRule) -> np.ndarray | float:
    """What the oracle needs to know of a rule."""
    if isinstance(rule, BMA):
        return np.eye(K)
    return rule.rate if isinstance(rule, SoftBayes) else np.asarray(rule.matrix)


@pytest.mark.parametrize(
    ("share", "log_density"),
    [
        (0.01, turns(2_000, 3.0)),
        (0.01, turns(2_000, 1e4)),
        (0.0, turns(2_000, 1e4)),
        (0.01, with_zeros(turns(2_000, 3.0))),
    ],
    ids=["share", "share, gaps of 1e4 nats", "Bayes, gaps of 1e4 nats", "impossible rows"],
)
def test_auto_is_the_loop_in_decimals(share, log_density):
    rule = SHARED if share else PLAIN
    states, experts = run(rule, jnp.asarray(log_density))
    want = mix(log_density, [textbook(r) for r in rule.rules], share)
    np.testing.assert_allclose(experts, want.experts, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(states.log_weights, want.rules, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(logsumexp(np.asarray(states.log_weights), axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(logsumexp(np.asarray(experts), axis=1), 0.0, atol=1e-12)


@jax.jit
def adversarial(rule: WeightRule, gap: float) -> jax.Array:
    """At each row the expert with most weight is the worst, by `gap`, and the one with least the best."""

    def row(state, _):
        order = jnp.argsort(jnp.argsort(rule.predict(state)))
        log_density = -gap * order / (K - 1)
        return rule.update(state, log_density), log_density

    return jax.lax.scan(row, rule.init(jnp.asarray(UNIFORM)), length=ROWS)[1]


def check_bounds(log_density: np.ndarray) -> None:
    each = [gains(rule, log_density) for rule in PLAIN.rules]
    R = len(each)
    slack = 1e-9 * (1.0 + abs(sum(map(np.max, np.abs(log_density[np.isfinite(log_density).all(1)])))))
    assert gains(PLAIN, log_density).sum() >= max(e.sum() for e in each) - np.log(R) - slack
    # With a share: the best path through the rules, each switch and each stay at its prior probability.
    move = SHARED.share / R
    stay = 1.0 - SHARED.share + move
    best = np.full(R, -np.log(R))
    for i, row in enumerate(np.stack(each, axis=1)):
        best = (best if i == 0 else np.maximum(best + np.log(stay), best.max() + np.log(move))) + row
    assert gains(SHARED, log_density).sum() >= best.max() - slack


@given(seed=st.integers(0, 2**32 - 1), gap=st.sampled_from([0.1, 3.0, 1e3]), zeros=st.booleans())
@settings(max_examples=25, deadline=None)
def test_auto_is_as_close_to_its_best_rule_as_the_theorem_says(seed, gap, zeros):
    rng = np.random.default_rng(seed)
    best = rng.integers(K, size=ROWS // 10).repeat(10)
    log_density = -rng.exponential(gap, (ROWS, K)) * (np.arange(K)[None] != best[:, None])
    check_bounds(with_zeros(log_density, seed) if zeros else log_density)


@pytest.mark.parametrize("gap", [0.1, 3.0, 1e3])
def test_auto_keeps_its_bounds_against_an_adversary(gap):
    check_bounds(np.asarray(adversarial(PLAIN, gap)))
    check_bounds(np.asarray(adversarial(SHARED, gap)))


def test_the_share_lets_the_rules_take_turns():
    """Calms, in which BMA is best, and stretches in which the best expert changes every other row."""
    quick = 30.0 * np.eye(K)[(np.arange(150) % K).repeat(2)] - 30.0
    calm = -np.ones((300, K)) * (np.arange(K) != 2)
    log_density = np.concatenate([calm, quick, calm, quick])
    rules = {"stays": BMA(), "leaves": fixed_share(K, 0.5)}
    plain, shared = mixture(rules, 0.0), mixture(rules, 0.01)
    assert gains(shared, log_density).sum() > gains(plain, log_density).sum() + 100.0
    log_weights = np.asarray(run(shared, jnp.asarray(log_density))[0].log_weights)
    np.testing.assert_array_equal(log_weights[[290, 590, 890, 1190]].argmax(1), [0, 1, 0, 1])


@pytest.mark.parametrize(
    "rule",
    [BMA(), BMA(1e-16), fixed_share(K, 0.01), share(GROUPS, 0.05, 0.01), share(GROUPS, 0.05), SoftBayes(0.3)],
    ids=["BMA", "shutdown", "fixed share", "switching + share", "switching", "Soft-Bayes"],
)
def test_a_rule_alone_in_a_mixture_is_itself(rule):
    log_density = jnp.asarray(turns(ROWS, 30.0))
    alone = mixture({"only": rule}, 0.01)
    assert alone.shuts_down == rule.shuts_down
    states, got = run(alone, log_density)
    np.testing.assert_allclose(got, run(rule, log_density)[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(states.log_weights, 0.0, atol=1e-12)


def test_a_mixture_shuts_an_expert_down_only_if_no_rule_could_bring_it_back():
    assert not auto(GROUPS).shuts_down
    assert not mixture({"a": BMA(1e-16), "b": SoftBayes()}).shuts_down
    both = mixture({"a": BMA(1e-3), "b": BMA(1e-16)})
    assert both.shuts_down
    dead = np.isneginf(run(both, jnp.asarray(turns(ROWS, 5.0)))[1])
    slower = np.isneginf(run(both.rules[1], jnp.asarray(turns(ROWS, 5.0)))[1])
    assert dead.any()
    np.testing.assert_array_equal(dead, slower)


@given(seed=st.integers(0, 2**32 - 1), gap=st.sampled_from([0.1, 3.0, 1e3]), zeros=st.booleans())
@settings(max_examples=15, deadline=None)
def test_soft_bayes_is_close_to_every_expert(seed, gap, zeros):
    rng = np.random.default_rng(seed)
    log_density = -rng.exponential(gap, (ROWS, K))
    log_density = with_zeros(log_density, seed) if zeros else log_density
    for rate in (0.1, 0.5):
        assert gains(SoftBayes(rate), log_density).sum() >= log_density.sum(0).max() - np.log(K) / rate - 1e-6


def test_soft_bayes_finds_a_blend_that_bma_does_not():
    """Two experts are right in turn, row by row: the best weights are a half each, for good."""
    log_density = np.full((ROWS, K), -50.0)
    log_density[::2, 0] = log_density[1::2, 1] = 0.0
    soft, bma = (np.exp(run(rule, jnp.asarray(log_density))[1][-1]) for rule in (SoftBayes(), BMA()))
    np.testing.assert_allclose(soft[:2], 0.5, atol=0.03)
    assert bma[:2].max() > 0.99 or np.isclose(bma[0], bma[1])
    assert gains(SoftBayes(), log_density).sum() > gains(BMA(), log_density).sum() + 100.0


@pytest.mark.parametrize(
    "rule", [BMA(), BMA(1e-16), fixed_share(K, 0.0), share(GROUPS, 0.05), SoftBayes(), PLAIN, markov(np.eye(K))]
)
def test_a_row_that_is_impossible_under_all_experts_teaches_nothing_about_them(rule):
    log_density = turns(ROWS, 3.0)
    with_row = log_density.copy()
    with_row[10] = -np.inf
    got = np.asarray(run(rule, jnp.asarray(with_row))[1])
    assert np.isfinite(logsumexp(got, axis=1)).all()
    if isinstance(rule, BMA | SoftBayes):  # under the others weight is passed on at every row
        want = np.asarray(run(rule, jnp.asarray(log_density))[1])
        np.testing.assert_allclose(got[:11], want[:11], rtol=1e-12)
        np.testing.assert_allclose(got[11], got[10], rtol=1e-12)


def test_auto_for_any_number_of_experts():
    assert isinstance(auto([0]), BMA)
    assert isinstance(auto([0, 1]), Mixture)
    assert isinstance(auto([0] * 50), Mixture)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mixture({}), "mixture: expected at least one rule, got none"),
        (lambda: mixture({"a": BMA()}, 1.0), r"mixture: expected a share in \[0, 1\), got 1.0"),
        (lambda: SoftBayes(0.0), r"SoftBayes: expected a learning rate in \(0, 1\), got 0.0"),
        (lambda: SoftBayes(1.0), "got 1.0; 1 would be BMA"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
