"""Weight rules against the textbook recursion, golden numbers and the matrices of the papers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from oracles.ensemble_loop import e_doebe_matrix, joint_log_density, weigh
from streamgp.weights import (
    BMA,
    DMA,
    OUTLIER_LOG_DENSITY,
    ExponentiatedGradient,
    Markov,
    NewtonStep,
    Share,
    SoftBayes,
    WeightRule,
    auto,
    fixed_share,
    markov,
    scan_rule,
    share,
)
from streamgp.weights.by_name import make_rule
from streamgp.weights.experts import joined_weights

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "ensemble.npz")
TIGHT = {"rtol": 1e-10, "atol": 1e-12}


@jax.jit
def run(rule: WeightRule, log_prior: jax.Array, log_density: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log weights before each row, and their posterior after it."""

    def row(state, log_density):
        return rule.update(state, log_density), rule.predict(state)

    before = jax.lax.scan(row, rule.init(log_prior), log_density)[1]
    return before, jax.nn.log_softmax(before + log_density, axis=1)


def uniform(k: int) -> jax.Array:
    return jnp.full(k, -np.log(k))


def golden_rule(name: str) -> WeightRule:
    if name.endswith("bma"):
        return BMA()
    return markov(GOLDEN["Q_asym" if name == "asym" else "Q_sym"])


@pytest.mark.parametrize("name", ["bma", "sym", "asym"])
def test_golden_weights(name):
    log_density = joint_log_density(GOLDEN["y"][:, None], GOLDEN["expert_mean"][:, :, None], GOLDEN["expert_var"])
    prior = np.log(GOLDEN["w0"]) if name == "asym" else uniform(3)
    before, after = run(golden_rule(name), jnp.asarray(prior), jnp.asarray(log_density))
    np.testing.assert_allclose(before, GOLDEN[f"{name}_log_w_pred"], **TIGHT)
    np.testing.assert_allclose(after, GOLDEN[f"{name}_log_w_post"], **TIGHT)
    score = logsumexp(np.asarray(before) + log_density, axis=1)
    np.testing.assert_allclose(score, GOLDEN[f"{name}_logdens_mixture"], **TIGHT)


@pytest.mark.parametrize("name", ["stress_bma", "stress_sym"])
def test_weights_come_back_from_minus_twelve_thousand(name):
    mean, var, y = GOLDEN["stress_mean"], GOLDEN["stress_var"], GOLDEN["stress_y"]
    log_density = joint_log_density(y[:, None], mean[:, :, None], var)
    before, after = run(golden_rule(name), uniform(3), jnp.asarray(log_density))
    np.testing.assert_allclose(before, GOLDEN[f"{name}_log_w_pred"], **TIGHT)
    np.testing.assert_allclose(after, GOLDEN[f"{name}_log_w_post"], **TIGHT)
    if name == "stress_bma":
        assert np.min(before) < -11_000.0
        np.testing.assert_allclose(np.exp(after[-1]), [0.5, 0.5, 0.0], atol=1e-9)
    score = logsumexp(np.asarray(before) + log_density, axis=1)
    np.testing.assert_allclose(score, GOLDEN[f"{name}_logdens"], **TIGHT)


def random_log_density(n: int, k: int, seed: int = 0) -> np.ndarray:
    """Experts that take turns at being far better than the rest."""
    rng = np.random.default_rng(seed)
    best = (np.arange(n) // 50) % k
    return -rng.exponential(3.0, (n, k)) * (np.arange(k)[None] != best[:, None])


GROUPS = [0, 1, 1, 0, 2, 1]


@pytest.mark.parametrize(("rate", "background"), [(0.05, 0.0), (0.05, 1e-3), (0.0, 1e-3)])
def test_e_doebe_is_its_matrix_is_the_loop(rate, background):
    rule = share(GROUPS, rate, background)
    Q = np.asarray(rule.matrix)
    log_density = random_log_density(300, 6)
    prior = np.random.default_rng(1).dirichlet(np.ones(6))
    want = weigh(log_density, transition=Q, prior=prior)
    for same in (rule, markov(Q)):
        before, after = run(same, jnp.asarray(np.log(prior)), jnp.asarray(log_density))
        np.testing.assert_allclose(before, want.before, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(after, want.after, rtol=1e-11, atol=1e-11)


def test_the_matrix_of_e_doebe_is_the_papers():
    rule = share([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], 0.05)
    np.testing.assert_allclose(rule.matrix, e_doebe_matrix(4, 3, 0.05), rtol=1e-15)
    np.testing.assert_allclose(np.diagonal(rule.matrix), 1.0 - 2 * 0.05)
    np.testing.assert_allclose(rule.matrix.sum(0), 1.0, rtol=1e-15)


def test_the_background_is_a_fresh_start_among_all_experts():
    Q = np.asarray(share([0, 0, 1, 1], 0.05, 0.2).matrix)
    np.testing.assert_allclose(Q, 0.8 * e_doebe_matrix(2, 2, 0.05) + 0.2 * np.full((4, 4), 0.25), rtol=1e-15)


def test_fixed_share_leaves_with_the_given_probability():
    rule = fixed_share(5, 0.2)
    np.testing.assert_allclose(rule.matrix, np.full((5, 5), 0.05) + 0.75 * np.eye(5), rtol=1e-14)


def test_dynamic_averaging_fades_what_rows_said():
    """Before row t of 0, 1, ... a row s counts by forgetting^(t - s), and the prior by forgetting^(t + 1)."""
    log_density, log_prior = random_log_density(40, 3), np.log([0.7, 0.2, 0.1])
    rule = DMA(0.9)
    state = rule.init(log_prior)
    for t, row in enumerate(log_density):
        fade = 0.9 ** (t - np.arange(float(t)))
        faded = 0.9 ** (t + 1.0) * log_prior + (fade[:, None] * log_density[:t]).sum(0)
        np.testing.assert_allclose(rule.predict(state), faded - logsumexp(faded), rtol=1e-9, atol=1e-12)
        state = rule.update(state, row)


@given(
    groups=st.lists(st.integers(0, 3), min_size=2, max_size=7),
    part=st.floats(1e-6, 1.0),
    background=st.sampled_from([0.0, 1e-6, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None)
def test_any_groups_and_rate_make_a_stochastic_matrix(groups, part, background, seed):
    largest = max(groups.count(g) for g in groups)
    rule = share(groups, part / largest, background)
    if isinstance(rule, BMA):
        assert largest == 1
        assert background == 0.0
        return
    Q = np.asarray(rule.matrix)
    assert (Q >= -1e-15).all()
    np.testing.assert_allclose(Q.sum(0), 1.0, rtol=1e-12)
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(groups)))
    got = np.exp(rule.predict(rule.init(jnp.asarray(np.log(weights)))))
    np.testing.assert_allclose(got, Q @ weights, rtol=1e-11, atol=1e-14)


def test_rules_that_never_switch_are_bma():
    assert isinstance(fixed_share(1, 0.3), BMA)
    assert isinstance(share([0, 1, 2], 0.3), BMA)
    assert isinstance(share([0, 0, 1], 0.0), BMA)
    assert not any(
        rule.shuts_down for rule in (BMA(), share([0, 0], 0.1), markov(np.eye(2)), SoftBayes(), auto([0, 0]))
    )


@pytest.mark.parametrize("threshold", [1e-16, 1e-3])
def test_shutdown_is_the_loop_and_final(threshold):
    log_density = random_log_density(300, 4)
    rule = BMA(threshold)
    assert rule.shuts_down
    before, _ = run(rule, uniform(4), jnp.asarray(log_density))
    want = weigh(log_density, threshold=threshold)
    np.testing.assert_allclose(before, want.before, rtol=1e-11, atol=1e-11)
    dead = np.isneginf(before)
    assert dead[-1].sum() == 3
    assert (dead[1:] >= dead[:-1]).all()


@pytest.mark.parametrize(
    "rule", ["bma", "shutdown", "fixed", "share", "groups", "Q", "soft", "gradient", "dma", "auto"]
)
def test_weights_stay_normalised_over_a_hundred_thousand_rows(rule):
    Q = np.random.default_rng(5).dirichlet(np.ones(6), 6).T
    made = {
        "bma": BMA(),
        "shutdown": BMA(1e-16),
        "fixed": fixed_share(6, 0.01),
        "share": share(GROUPS, 0.05, 0.01),
        "groups": share(GROUPS, 0.05),
        "Q": markov(Q),
        "soft": SoftBayes(),
        "gradient": ExponentiatedGradient(),
        "dma": DMA(),
        "auto": auto(GROUPS),
    }[rule]
    before, _ = run(made, uniform(6), jnp.asarray(random_log_density(100_000, 6)))
    np.testing.assert_allclose(logsumexp(before, axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize(
    "rule",
    [BMA(), fixed_share(6, 0.01), SoftBayes(), DMA(), ExponentiatedGradient(), NewtonStep(), auto(GROUPS)],
    ids=lambda rule: type(rule).__name__,
)
def test_an_outlier_is_weighed_by_ratios_however_small_its_densities(rule):
    log_density = random_log_density(40, 6)
    before, _ = run(rule, uniform(6), jnp.asarray(log_density))
    log_density[20] -= 1e13  # exact where a weight's log next to it is not
    far, _ = run(rule, uniform(6), jnp.asarray(log_density))
    np.testing.assert_allclose(logsumexp(far, axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(far[:21], before[:21], rtol=1e-12)
    log_density[20] = -1e20
    far, _ = run(rule, uniform(6), jnp.asarray(log_density))
    log_density[20] = 0.0
    none, _ = run(rule, uniform(6), jnp.asarray(log_density))
    np.testing.assert_allclose(far, none, rtol=1e-10, atol=1e-12)


def test_experts_that_foresaw_an_outlier_together_share_the_weight():
    log_density = np.zeros((3, 7))
    log_density[0, 1:] = -1e-3
    log_density[1, 0] = -60.0
    prior = jnp.log(jnp.asarray([1.0 - 6e-13, *6 * [1e-13]]))  # too little each for the largest step that is taken
    after = run(ExponentiatedGradient(), prior, jnp.asarray(log_density))[0][2]
    np.testing.assert_allclose(np.exp(after), [0.0, *6 * [1 / 6]], atol=1e-12)


def after_an_outlier(log_density: list[float], is_outlier: list[bool]) -> np.ndarray:
    """Return the weights after one row, of experts that had 0.98, 0.01 and 0.01."""
    before = BMA().init(jnp.log(jnp.asarray([0.98, 0.01, 0.01])))
    state, _ = scan_rule(BMA(), before, np.array([log_density]), None, np.array([is_outlier]))
    return np.exp(np.asarray(BMA().predict(state)))


def test_a_glitch_that_no_expert_foresaw_changes_no_weight():
    after = after_an_outlier([-1e6, -800.0, -np.inf], [True, True, True])
    np.testing.assert_allclose(after, [0.98, 0.01, 0.01], rtol=1e-12)


def test_an_expert_that_foresaw_a_rare_event_gains_as_much_as_the_floor_says():
    """By Bayes' rule with the floor in place of densities below it, as far as experts take it for an outlier."""
    after = after_an_outlier([-1e6, 0.0, -1e6], [True, False, True])
    floor = 0.99 * np.exp(OUTLIER_LOG_DENSITY)
    joint = np.array([0.98, 0.01, 0.01]) * [floor, 1.0 + floor, floor]
    np.testing.assert_allclose(after, joint / joint.sum(), rtol=1e-9)
    assert after[1] > 0.3


@pytest.mark.parametrize("floor", [10 * OUTLIER_LOG_DENSITY, OUTLIER_LOG_DENSITY / 24])
def test_the_floor_is_that_of_the_densities_given(floor: float):
    """Of several outputs they are sums, and of forecasts that overlap a share."""
    prior, log_density = np.array([0.5, 0.49, 0.01]), np.array([[0.5 * floor, 2.0 * floor, 30.0 * floor]])
    state, _ = scan_rule(BMA(), BMA().init(jnp.log(prior)), log_density, None, np.ones((1, 3), bool), floor)
    joint = prior * (np.exp(log_density[0]) + np.exp(floor))
    np.testing.assert_allclose(np.exp(BMA().predict(state)), joint / joint.sum(), rtol=1e-9)


def test_where_none_with_weight_takes_a_row_for_an_outlier_it_counts_in_full():
    after = after_an_outlier([-1.0, -30.0, -60.0], [False, False, False])
    joint = np.array([0.98, 0.01, 0.01]) * np.exp([-1.0, -30.0, -60.0])
    np.testing.assert_allclose(after, joint / joint.sum(), rtol=1e-12)


@pytest.mark.parametrize("rule", ["share", "Q"])
def test_an_expert_without_weight_can_be_switched_to_only_inside_its_group(rule):
    log_weights = jnp.asarray([0.0, -jnp.inf, -jnp.inf])
    made = share([0, 0, 1], 0.1) if rule == "share" else markov(share([0, 0, 1], 0.1).matrix)
    np.testing.assert_allclose(np.exp(made.predict(made.init(log_weights))), [0.9, 0.1, 0.0], rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fixed_share(3, 1.0), r"fixed_share: expected a switching probability in \[0, 1\), got 1.0"),
        (lambda: fixed_share(3, -0.1), "got -0.1"),
        (lambda: share([0, 0, 0, 1], 0.4), r"between 0 and 1/3 \(the largest group has 3 experts\), got 0.4"),
        (lambda: share([0, 0], -0.1), "got -0.1"),
        (lambda: share([0, 0], 0.1, 1.0), r"background probability in \[0, 1\), got 1.0"),
        (lambda: markov(np.ones((2, 3)) / 2), r"expected a square matrix .* got shape \(2, 3\)"),
        (lambda: markov([[0.9, 0.1], [0.2, 0.8]]), "columns sum to one"),
        (lambda: markov([[1.1, 0.0], [-0.1, 1.0]]), "non-negative entries"),
        (lambda: markov([[np.nan, 0.0], [np.nan, 1.0]]), "columns sum to one"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_transposed_matrix_would_be_noticed():
    Q = GOLDEN["Q_asym"]
    np.testing.assert_allclose(Q.sum(0), 1.0)
    assert not np.allclose(Q.sum(1), 1.0)
    assert isinstance(markov(Q), Markov)
    assert not isinstance(markov(Q), Share)


@pytest.mark.parametrize("name", ["bma", "auto", "soft-bayes", "switching"])
def test_experts_that_join_get_the_share_of_equal_ones_and_the_others_keep_their_ratios(name: str):
    K = 6
    rule = make_rule(name, [0, 0, 1, 1, 2, 2], delta=0.01, share_rate=0.01, switch=1e-3, transition=None)
    state = rule.init(jnp.full(K, -np.log(K)))
    density = np.random.default_rng(0).normal(size=(30, K)) * 3.0
    state, _ = scan_rule(rule, state, density)
    new = np.array([False, True, False, False, False, True])
    joined = joined_weights(state, new)
    for before, after in zip(*(s.rules if name == "auto" else (s,) for s in (state, joined)), strict=True):
        weights, old = np.exp(np.asarray(after)), np.exp(np.asarray(before))
        np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(weights[new], 1.0 / K, rtol=1e-12)
        np.testing.assert_allclose(weights[~new] / weights[~new].sum(), old[~new] / old[~new].sum(), rtol=1e-9)
    np.testing.assert_allclose(np.exp(np.asarray(rule.predict(joined))).sum(), 1.0, rtol=1e-9)


def test_one_of_those_that_join_may_have_had_all_the_weight():
    joined = joined_weights(jnp.log(jnp.asarray([1.0, 1e-300, 1e-290])), np.array([True, False, False]))
    np.testing.assert_allclose(np.exp(np.asarray(joined)), [1 / 3, 2 / 3 * 1e-10, 2 / 3], rtol=1e-9)


def test_a_rule_that_keeps_more_than_weights_lets_nobody_join():
    rule = NewtonStep()
    with pytest.raises(TypeError, match="expected log weights of 3 experts, got NewtonState"):
        joined_weights(rule.init(jnp.full(3, -np.log(3))), np.array([True, False, False]))
