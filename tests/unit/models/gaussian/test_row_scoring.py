"""Weights, noise and recalibration a row at a time, in the kernel and in NumPy, against the form for many rows."""

import numpy as np
import pytest

from streamgp.filters.noise import CONSTANT_NOISE, parse
from streamgp.likelihoods import recalibration
from streamgp.likelihoods.noise_by_input import NoiseByInput
from streamgp.likelihoods.noise_features import NORMAL_CUTS, NoiseInputs
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread
from streamgp.models.gaussian import row_scoring
from streamgp.models.gaussian.delayed_feedback import ScoringState, learn_from_targets
from streamgp.models.gaussian.row_scoring import RowScoring
from streamgp.models.gaussian.scoring_kernel import Sizes, is_compiled
from streamgp.numerics import tree
from streamgp.weights import present
from streamgp.weights.by_name import make_rule

ROWS, FILTERS, WIDTH = 60, 6, 3
KINDS = parse(["constant", 0.99, "adaptive 0.9 ar 0.6"])
WHICH = np.array([0, 2])


@pytest.fixture(params=["kernel", "NumPy"], autouse=True)
def form(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(row_scoring, "is_compiled", lambda: False)
    elif not is_compiled():
        pytest.skip("needs the kernel in C, which was not built")
    return request.param


def rule_of(name, kinds):
    groups = np.repeat([0, 0, 1, 1, 2, 2], len(kinds)).tolist()
    return make_rule(name, groups, delta=0.02, share_rate=0.01, switch=0.1)


def given(kinds, rule, outputs, layer=True, levels=True):
    noise = None if kinds is CONSTANT_NOISE else kinds.init(FILTERS, outputs)
    num_experts = FILTERS * len(kinds)
    weights = rule.init(np.full(num_experts, -np.log(num_experts)))
    inputs = NoiseInputs(WHICH, np.tile(NORMAL_CUTS, (len(WHICH), 1)))
    found = NoiseByInput.start(outputs, inputs) if layer else None
    return ScoringState(weights, noise, None, RecalibrationBySpread.start(outputs) if levels else None, found)


def rows_of(outputs, seed=0):
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=(ROWS, FILTERS, outputs)) * np.linspace(0.1, 1.0, FILTERS)[:, None]
    var = rng.uniform(0.2, 2.0, size=(ROWS, FILTERS))
    X = rng.normal(size=(ROWS, WIDTH))
    y = np.exp(0.7 * X[:, :1]) * rng.normal(size=(ROWS, outputs))
    gap = rng.uniform(0.2, 3.0, ROWS)
    is_outlier = rng.random((ROWS, FILTERS)) < 0.1
    is_outlier[20:23], y[20:23] = [True] * 5 + [False], 40.0
    return loc, var, X, y, gap, is_outlier


def one_by_one(scoring, rows, guarded):
    loc, var, X, y, gap, is_outlier = rows
    found = []
    for i in range(len(y)):
        scoring.predict(loc[i], var[i], gap[i], X[i : i + 1])
        mixture, moments = scoring.mixture(), np.array(scoring.moments())
        found.append((mixture, moments, *scoring.learn(y[i], is_outlier[i] if guarded else None)))
    return found


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def check(rule, kinds, outputs, *, guarded=True, asleep=None, layer=True, levels=True, rows=None):
    state = given(kinds, rule, outputs, layer, levels)
    rows = rows_of(outputs) if rows is None else rows
    loc, var, X, y, gap, is_outlier = rows
    if asleep is not None:
        loc[:, asleep], var[:, asleep], is_outlier[:, asleep] = np.nan, np.nan, False
    sizes = Sizes(FILTERS, len(kinds), outputs, WIDTH)
    scoring = RowScoring(rule, kinds, state, asleep, WHICH if layer else None, sizes, 0.01)
    found = one_by_one(scoring, rows, guarded)
    after, predictive, rules, flagged, scores = learn_from_targets(
        rule,
        kinds,
        state,
        loc,
        np.broadcast_to(var[:, :, None], loc.shape),
        y,
        np.ones(ROWS, bool),
        gap,
        is_outlier if guarded else None,
        asleep,
        (X, WHICH) if layer else None,
    )
    for i, (mixture, moments, said, score) in enumerate(found):
        for name in ("log_weights", "loc", "var", "dof"):
            theirs = getattr(predictive, name)
            assert (getattr(mixture, name) is None) == (theirs is None)
            if theirs is not None:
                close(getattr(mixture, name), theirs[i])
        assert (mixture.factor is None) == (not layer)
        if layer:
            close(mixture.factor, predictive.noise[i])
        if levels:
            close(mixture.shares, predictive.recalibration[i])
        whole = type(predictive)(*(None if a is None else a[i : i + 1] for a in mixture_of(predictive)), trim=0.01)
        factor = recalibration.variance_factor(predictive.recalibration[i]) if levels else 1.0
        close(moments, np.concatenate([whole.mean, whole.variance * factor]))
        assert said == (bool(flagged[i]) if guarded else None)
        if asleep is None:
            assert score is None
        else:
            close(score, scores[i])
    got = scoring.state
    close(
        np.asarray(present(rule.predict(got.weights), None)), np.asarray(present(rule.predict(after.weights), None))
    )
    assert (scoring.rules is None) == (rules is None)
    ours, theirs = ((each.noise, each.layer, each.levels) for each in (got, after))
    assert [each is None for each in ours] == [each is None for each in theirs]
    for a, b in zip(tree.leaves(ours), tree.leaves(theirs), strict=True):
        close(a, b)
    return found


def mixture_of(predictive):
    return predictive.log_weights, predictive.loc, predictive.var, predictive.dof


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("rule", ["auto", "e-doebe", "bma", "soft-bayes", "bma-shutdown", "dma"])
def test_rows_one_by_one_are_those_together(rule, outputs):
    kinds = KINDS.for_outputs(outputs)
    check(rule_of(rule, kinds), kinds, outputs)


@pytest.mark.parametrize("rule", ["auto", "bma"])
def test_filters_that_rest_have_no_part(rule):
    asleep = np.array([False, True, False, False, True, False])
    found = check(rule_of(rule, KINDS), KINDS, 1, asleep=asleep)
    assert np.isneginf(found[-1][0].log_weights[3:6]).all()
    check(rule_of(rule, KINDS), KINDS, 1, asleep=np.zeros(FILTERS, bool))


@pytest.mark.parametrize(("layer", "levels"), [(True, False), (False, True), (False, False)])
def test_each_part_may_be_left_out(layer, levels):
    check(rule_of("auto", KINDS), KINDS, 1, layer=layer, levels=levels)
    check(rule_of("auto", CONSTANT_NOISE), CONSTANT_NOISE, 1, layer=layer, levels=levels)


def test_the_order_in_memory_makes_no_difference():
    kinds, (loc, var, X, y, gap, is_outlier) = KINDS.for_outputs(2), rows_of(2)
    rule, sizes = rule_of("auto", kinds), Sizes(FILTERS, len(kinds), 2, WIDTH)
    state = given(kinds, rule, 2)
    found = []
    first = RowScoring(rule, kinds, state, None, WHICH, sizes, 0.01)
    one_by_one(first, (loc, var, X, y, gap, is_outlier), True)
    for order in ("C", "F"):
        learnt = tree.map(lambda a, order=order: np.array(a, order=order), first.state)
        scoring = RowScoring(rule, kinds, learnt, None, WHICH, sizes, 0.01)
        one_by_one(scoring, (loc, var, X, y[::-1].copy(), gap, is_outlier), True)
        found.append(tree.leaves(scoring.state))
    for a, b in zip(*found, strict=True):
        close(a, b)


def test_without_guards_nothing_is_flagged():
    found = check(rule_of("auto", KINDS), KINDS, 1, guarded=False)
    assert {each[2] for each in found} == {None}


def test_filters_that_are_beyond_repair_and_absurd_targets():
    loc, var, X, y, gap, is_outlier = rows_of(1)
    loc[5, 2], var[9, 0], loc[30], var[40] = np.nan, np.inf, np.nan, np.nan
    y[12], y[13], X[15], X[16, 0] = 1e100, -1e90, np.nan, 1e6
    for guarded in (True, False):
        found = check(rule_of("auto", KINDS), KINDS, 1, guarded=guarded, rows=(loc, var, X, y, gap, is_outlier))
        assert all(np.isfinite(each[1]).all() for each in found)


@pytest.mark.parametrize("rule", ["bma", "auto"])
def test_rows_to_which_a_rule_gives_next_to_nothing_are_learnt_in_logs(rule, monkeypatch):
    loc, var, X, y, gap, is_outlier = rows_of(1)
    loc[:, 0], var[:, 0], y[:57] = 0.0, 1e-12, 1e-7
    y[57:], is_outlier[:] = 3.0, False
    learnt = []
    weigh = RowScoring._weigh
    monkeypatch.setattr(RowScoring, "_weigh", lambda self, *given: learnt.append(1) or weigh(self, *given))
    check(rule_of(rule, CONSTANT_NOISE), CONSTANT_NOISE, 1, guarded=False, rows=(loc, var, X, y, gap, is_outlier))
    assert learnt


def test_the_state_that_was_given_stays_as_it_is(form):
    rule = rule_of("auto", KINDS)
    state = given(KINDS, rule, 1)
    before = [np.array(a) for a in tree.leaves(state)]
    sizes = Sizes(FILTERS, len(KINDS), 1, WIDTH)
    scoring = RowScoring(rule, KINDS, state, None, WHICH, sizes, 0.0)
    one_by_one(scoring, rows_of(1), True)
    kept = scoring.state
    then = [np.array(a) for a in tree.leaves(kept)]
    one_by_one(scoring, rows_of(1, seed=1), True)
    for a, b in zip(tree.leaves((state, kept)), before + then, strict=True):
        np.testing.assert_array_equal(a, b)
