"""Rows in the kernel and in NumPy against the same rules in a program of JAX, on ordinary and absurd streams."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernel_forms import in_both_forms
from streamgp.numerics import tree
from streamgp.weights import (
    BMA,
    DMA,
    ExponentiatedGradient,
    NewtonStep,
    SoftBayes,
    WeightRule,
    auto,
    fixed_share,
    markov,
    mixture,
    present,
    scan_rule,
    share,
)
from streamgp.weights import stacked as side_by_side
from streamgp.weights.compiled import is_compiled
from streamgp.weights.stacked import StackedRules

GROUPS = [0, 1, 1, 0, 2, 1, 2]
K, ROWS = len(GROUPS), 150
RNG = np.random.default_rng(0)
STACKED: dict[str, WeightRule] = {
    "auto": auto(GROUPS),
    "BMA": BMA(),
    "fixed share": fixed_share(K, 0.05),
    "all switch": share([0] * K, 1.0 / K),
    "groups and a fresh start": share(GROUPS, 0.1, 0.01),
    "a fresh start": share(GROUPS, 0.0, 0.01),
    "Soft-Bayes": SoftBayes(0.2),
    "a mixture without a share": mixture({"soft": SoftBayes(), "share": fixed_share(K, 0.01), "Bayes": BMA()}, 0.0),
}
OTHERS: dict[str, WeightRule] = {
    "groups alone": share(GROUPS, 0.1),
    "Q": markov(RNG.dirichlet(np.ones(K), K).T),
    "DMA": DMA(),
    "shutdown": BMA(1e-6),
    "gradient": ExponentiatedGradient(share=1e-3),
    "Newton": NewtonStep(),
    "Newton in a mixture": mixture({"Newton": NewtonStep(), "Bayes": BMA()}),
}


def ordinary(k: int = K) -> np.ndarray:
    best = (np.arange(ROWS) // 40) % k
    return -RNG.exponential(3.0, (ROWS, k)) * (np.arange(k) != best[:, None]) - 50.0 * RNG.random((ROWS, 1))


def absurd(k: int = K, size: float = 1e20) -> np.ndarray:
    """Targets of 1e10 deviations for some or all experts, and ties."""
    rows = ordinary(k)
    rows[RNG.random(rows.shape) < 0.1] = -size
    rows[30:33] = -np.array([1.0, 2.0, 0.5])[:, None] * size * (1.0 + RNG.random(k))
    rows[60:90] = -7.0
    rows[100] *= 1e4
    return rows


def impossible(k: int = K) -> np.ndarray:
    rows = ordinary(k)
    rows[RNG.random(rows.shape) < 0.1] = -np.inf
    rows[50] = -np.inf
    return rows


def check(rule: WeightRule, rows: np.ndarray, **more: Any) -> None:
    """Compare the state after all rows, and the weights before each."""
    k = rows.shape[1]
    prior = np.log(RNG.dirichlet(np.ones(k)))
    state = rule.init(prior)
    assert all(isinstance(a, np.ndarray) for a in tree.leaves(state))

    @jax.jit
    def traced(state: Any, rows: jax.Array, more: dict[str, Any]) -> Any:
        return scan_rule(rule, state, rows, **more)

    want = traced(tree.map(jnp.asarray, state), jnp.asarray(rows), tree.map(jnp.asarray, more))
    after, before = scan_rule(rule, state, rows, **more)
    for ours, theirs in zip(tree.leaves((after, before)), jax.tree.leaves(want), strict=True):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=2e-12)


CASES = {
    "all rows": {},
    "some rows": {"mask": RNG.random(ROWS) < 0.7},
    "no row": {"mask": np.zeros(ROWS, bool)},
    "outliers": {"is_outlier": RNG.random((ROWS, K)) < 0.1},
    "outliers to all": {"is_outlier": np.tile(RNG.random((ROWS, 1)) < 0.1, (1, K)), "mask": RNG.random(ROWS) < 0.9},
    "absent": {"absent": np.arange(K) % 3 == 1},
    "absent and outliers": {
        "absent": np.arange(K) % 3 == 0,
        "is_outlier": RNG.random((ROWS, K)) < 0.1,
        "mask": RNG.random(ROWS) < 0.9,
    },
    "none absent": {"absent": np.zeros(K, bool)},
}


form = in_both_forms(side_by_side, "is_compiled", lambda: False, is_compiled())


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", STACKED)
def test_rules_side_by_side_are_the_rules(name, case):
    rule = STACKED[name]
    assert StackedRules.of(rule, rule.init(np.full(K, -np.log(K)))) is not None
    # A rule that gives a row next to nothing where others give it more holds with those that are absent: what it
    # knew of the rest loses digits then.
    for rows in (ordinary(), absurd(size=1e3 if "absent" in case else 1e20)):
        check(rule, rows, **CASES[case])


@pytest.mark.parametrize("case", ["all rows", "absent and outliers"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_rules_row_by_row(name, case):
    if "Newton" in name and "absent" in case:
        pytest.skip("it keeps more than log weights, and experts that rest are not for it")
    assert StackedRules.of(OTHERS[name], OTHERS[name].init(np.full(K, -np.log(K)))) is None
    check(OTHERS[name], ordinary(), **CASES[case])


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("absent", [None, np.arange(K) % 3 == 1])
@pytest.mark.parametrize("name", STACKED)
def test_what_all_rules_say_together(name, absent):
    rule = STACKED[name]
    rules = StackedRules.of(rule, rule.init(np.log(RNG.dirichlet(np.ones(K)))), absent)
    assert rules is not None
    for row in ordinary()[:20]:
        rules.learn(row[None, rules.here], None, 0.0)
        want = present(rule.predict(rules.now), absent)
        np.testing.assert_allclose(rules.log_mixed(), want, rtol=1e-12, atol=2e-12)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", ["auto", "BMA", "groups and a fresh start", "Soft-Bayes", "groups alone"])
def test_impossible_targets(name):
    check((STACKED | OTHERS)[name], impossible())


@pytest.mark.usefixtures("form")
def test_a_single_expert():
    for rule in (BMA(), SoftBayes()):
        check(rule, ordinary(1))
        check(rule, absurd(1), mask=CASES["some rows"]["mask"])


@pytest.mark.usefixtures("form")
def test_a_second_chunk_goes_on_from_the_first():
    rule, rows = STACKED["auto"], absurd()
    state = rule.init(np.full(K, -np.log(K)))
    whole, _ = scan_rule(rule, state, rows)
    for at in (slice(0, 1), slice(1, 60), slice(60, None)):
        state, _ = scan_rule(rule, state, rows[at])
    for ours, theirs in zip(tree.leaves(state), tree.leaves(whole), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=2e-12)


@pytest.mark.usefixtures("form")
def test_densities_in_single_precision_are_read_as_such():
    rule, rows = STACKED["auto"], ordinary().astype(np.float32)
    state = rule.init(np.full(K, -np.log(K)))
    found, wanted = (scan_rule(rule, state, each) for each in (rows, rows.astype(np.float64)))
    for ours, theirs in zip(tree.leaves(found), tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
