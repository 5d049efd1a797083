"""Sudden changes: named within ten rows though the model follows them at once, and glitches are none."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from scipy.stats import norm

from streamgp.evaluation import Alarms, RegressionScores
from streamgp.evaluation.move_tests import BETS, CAP, KINDS, NO_BET, MovedRows, MoveTests, _bets
from streamgp.evaluation.references import LAG, EarlierWeights, Experts, references, steady_experts
from streamgp.likelihoods import Predictive
from streamgp.models.base import FittedExpert
from streamgp.numerics.checkpoint.encoding import decode, encode

ROWS, AT = 440, 400


def scored(y: np.ndarray, mean: np.ndarray, deviation: float = 1.0) -> RegressionScores:
    y, mean = (np.asarray(a, float).reshape(len(y), -1) for a in (y, mean))
    z = (y - mean) / deviation
    nan = np.full_like(y, np.nan)
    joint = (norm.logpdf(z) - np.log(deviation)).sum(1)
    return RegressionScores(y, mean, nan, nan, nan, nan, ndtr(z), nan, joint, nan[:, 0], nan[:, 0], nan[:, 0])


def followed(mean: np.ndarray, step: np.ndarray, after: int) -> np.ndarray:
    """What a model predicts that follows a step `after` rows later."""
    return mean + np.r_[np.zeros(after), step[:-after]]


def two_experts(mean: np.ndarray, quick: np.ndarray, step: np.ndarray, after: int) -> Experts:
    """One that stays as it was, with all weight at first, and one that follows, with all weight later."""
    late = np.r_[np.zeros(after), step[:-after]] != 0.0
    weights = np.where(late[:, None], [1e-9, 1.0 - 1e-9], [1.0 - 1e-9, 1e-9])
    loc = np.stack([mean, quick], axis=1)[:, :, None]
    table = [FittedExpert("slow", "linear", "static", "constant", 1, 1.0)]
    table.append(FittedExpert("quick", "linear", "walk 0.1", "adaptive 0.8", 1, 1.0))
    return Experts((Predictive(np.log(weights), loc, np.ones_like(loc)),), tuple(table))


def alarms_of(
    y: np.ndarray, quick: np.ndarray, experts: Experts | None = None, times: np.ndarray | None = None
) -> list:
    return Alarms(["y"]).add(scored(y, quick), np.arange(len(y)), times, experts=experts)


def sudden(alarms: list) -> list:
    """Those of sudden changes, which have a size."""
    return [alarm for alarm in alarms if alarm.size is not None]


def a_step(size: float, rng: np.random.Generator, after: int = 4) -> tuple[np.ndarray, np.ndarray, Experts]:
    """A step that the model follows after some rows: targets, what the model predicts, and its experts."""
    mean, step = rng.normal(size=ROWS), np.where(np.arange(ROWS) >= AT, size, 0.0)
    quick = followed(mean, step, after)
    return mean + step + rng.normal(size=ROWS), quick, two_experts(mean, quick, step, after)


@pytest.mark.parametrize("size", [3.0, -10.0, 100.0])
def test_a_step_that_is_followed_at_once_is_named_within_ten_rows(size):
    late = 0
    for seed in range(10):
        y, quick, experts = a_step(size, np.random.default_rng(seed))
        found = alarms_of(y, quick, experts)
        named = [alarm for alarm in found if alarm.kind == "level" and AT <= alarm.row <= AT + 10]
        late += not named
        if named:
            assert_allclose(named[0].size, size, atol=1.6)
            assert abs(named[0].since - AT) <= 3
            assert len(found) == 1, found
    assert not late


def test_the_sentence_tells_size_place_and_when_it_was_followed():
    y, quick, experts = a_step(100.0, np.random.default_rng(0))
    (alarm,) = alarms_of(y, quick, experts)
    assert (alarm.since, alarm.followed) == (AT, 4)
    assert alarm.sentence.startswith("the level moved by +")
    assert alarm.sentence.endswith("at row 400, followed after 4 rows")
    (timed,) = alarms_of(y, quick, experts, 1.7e9 + 3600.0 * np.arange(ROWS))
    assert timed.time == 1.7e9 + 3600.0 * timed.row
    assert timed.since_time == 1.7e9 + 3600.0 * AT
    assert timed.sentence.endswith("at 2023-12-01 14:13 (row 400), followed after 4 rows")


def test_a_step_that_is_not_followed_is_said_to_be_none():
    rng = np.random.default_rng(1)
    y = rng.normal(size=ROWS) + np.where(np.arange(ROWS) >= AT, 20.0, 0.0)
    (alarm,) = alarms_of(y, np.zeros(ROWS))
    assert (alarm.kind, alarm.since, alarm.followed) == ("level", AT, None)
    assert f"not followed by row {alarm.row}" in alarm.sentence
    assert alarm.row <= AT + 10


@pytest.mark.parametrize("glitches", [1, 2, 3])
def test_a_few_glitches_in_a_row_are_no_change(glitches):
    y = np.random.default_rng(2).normal(size=ROWS)
    y[AT : AT + glitches] = 1e6
    assert not alarms_of(y, np.zeros(ROWS))


def test_scattered_glitches_are_no_change_and_a_step_among_them_is_one():
    rng = np.random.default_rng(3)
    y = rng.normal(size=4_000)
    y[rng.random(4_000) < 0.01] += 1e3
    assert not sudden(alarms_of(y, np.zeros(4_000)))
    y[3_000:] += 10.0
    (alarm,) = sudden(alarms_of(y, np.zeros(4_000)))
    assert alarm.kind == "level"
    assert 3_000 <= alarm.row <= 3_010


def test_errors_that_grow_four_times_are_a_scale():
    for seed in range(4):
        y = np.random.default_rng(seed).normal(size=ROWS)
        y[AT:] *= 4.0
        found = alarms_of(y, np.zeros(ROWS))
        assert [alarm.kind for alarm in found] == ["scale"]
        assert AT <= found[0].row <= AT + 20


@pytest.mark.parametrize(("gain", "words"), [(3.0, "further from their mean"), (-1.0, "nearer to their mean")])
def test_targets_that_answer_otherwise_are_a_slope(gain, words):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        mean = 10.0 * rng.normal(size=ROWS)
        y = np.where(np.arange(ROWS) >= AT, gain, 1.0) * mean + rng.normal(size=ROWS)
        found = alarms_of(y, mean)
        assert [alarm.kind for alarm in found][:1] == ["slope"], found
        assert AT <= found[0].row <= AT + 15
        assert words in found[0].sentence


def test_errors_that_depend_on_those_before_are_no_step():
    """Of a model without lags; what stays of the last error is taken off, once that is known."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        e = rng.normal(size=3_000)
        for i in range(1, len(e)):
            e[i] = 0.95 * e[i - 1] + np.sqrt(1.0 - 0.95**2) * e[i]
        alarms, scores = Alarms(["y"]), scored(e, np.zeros(3_000))
        first, rest = (RegressionScores(*(a[rows] for a in scores)) for rows in (slice(0, 500), slice(500, None)))
        alarms.add(first, np.arange(500), tested=False)
        found = alarms.add(rest, np.arange(500, 3_000))
        assert not sudden(found)


@pytest.mark.slow
def test_false_alarms_of_a_right_model_and_of_heavy_tails():
    """At the highest rate: within it if the model is right, and not far above if errors have longer tails."""
    rng, rows = np.random.default_rng(4), 6_000
    for errors in (rng.normal(size=rows), rng.standard_t(3, size=rows) / np.sqrt(3.0)):
        found = Alarms(["y"], rate=10.0).add(scored(errors, np.zeros(rows)), np.arange(rows))
        assert len(sudden(found)) <= 0.3 * rows * 10.0 / 1000.0


def test_bets_are_fair():
    """The mean of each e-value under a normal error, by quadrature over its distribution."""
    z = np.linspace(-9.0, 9.0, 20_001)
    density = norm.pdf(z) * (z[1] - z[0])
    news = np.repeat(z[:, None], KINDS, axis=1)
    for side in (1.0, -1.0, 0.0):
        bets = _bets(news, np.full((len(z), KINDS), np.nan), np.full(len(z), side))
        assert (np.exp(bets).T @ density <= 1.0 + 1e-6).all()
        assert bets.max() <= CAP + 1e-12
    for mean in (-3.0, 2.0):  # a reference that is off by as much, or back already
        for shift in (mean, 0.0):
            bets = _bets(news + shift, np.full((len(z), KINDS), mean), np.ones(len(z)))
            assert (np.exp(bets).T @ density <= 1.0 + 1e-6).all()
            assert (bets[:, BETS["scale"]] == NO_BET).all()


def test_a_stuck_sensor_is_named_as_what_it_is():
    y = np.random.default_rng(5).normal(size=ROWS)
    y[AT:] = 50.0
    found = alarms_of(y, np.zeros(ROWS))
    assert "stuck" in {alarm.kind for alarm in found}
    assert not sudden(found)


def test_targets_missing_at_the_change_do_not_hide_it():
    y, quick, experts = a_step(10.0, np.random.default_rng(6))
    y[AT - 2 : AT + 2] = np.nan
    found = alarms_of(y, np.where(np.arange(ROWS) < AT + 6, experts.parts[0].loc[:, 0, 0], quick), experts)
    assert [alarm.kind for alarm in found] == ["level"]
    assert found[0].since == AT + 2


def test_a_pulse_is_two_changes():
    rng = np.random.default_rng(7)
    y = rng.normal(size=600)
    pulse = np.where((np.arange(600) >= 400) & (np.arange(600) < 450), 10.0, 0.0)
    quick = followed(np.zeros(600), pulse, 4)
    found = alarms_of(y + pulse, quick)
    assert [(alarm.kind, np.sign(alarm.size)) for alarm in found] == [("level", 1.0), ("level", -1.0)]
    assert found[1].row <= 460


def test_rows_chunks_and_a_restored_state_give_the_same():
    y, quick, experts = a_step(10.0, np.random.default_rng(8))
    times, scores = 1.7e9 + np.arange(ROWS), scored(y, quick)
    found = []
    for cuts in ([], [3, 399, 402, 404, 405], list(range(390, ROWS))):
        alarms = Alarms(["y"])
        for rows in np.split(np.arange(ROWS), cuts):
            if rows[0] in (399, 404):
                alarms = Alarms.from_tree(decode(*encode(alarms.to_tree()), {}))
            alarms.add(RegressionScores(*(a[rows] for a in scores)), rows, times[rows], experts=experts.take(rows))
        found.append([vars(alarm) | {"evidence": 0.0} for alarm in alarms.found])
        assert len(found[-1]) == 1
    assert found[0] == found[1] == found[2]


def test_weights_of_a_while_ago():
    given = np.log(np.random.default_rng(9).dirichlet(np.ones(3), size=30))
    whole = EarlierWeights.start().update(given)[1]
    assert_array_equal(whole[LAG:], given[:-LAG])
    assert_array_equal(whole[:LAG], np.repeat(given[:1], LAG, axis=0))
    weights, parts = EarlierWeights.start(), []
    for i in range(30):
        weights, earlier = weights.update(given[i : i + 1])
        parts.append(earlier)
    assert_array_equal(np.vstack(parts), whole)
    _, anew = weights.update(np.log(np.full((2, 2), 0.5)))
    assert_array_equal(anew, np.log(np.full((2, 2), 0.5)))


def test_references_by_hand():
    table = tuple(
        FittedExpert(str(i), "", d, n, 1, 1.0)
        for i, (d, n) in enumerate([("static", "constant"), ("walk", "constant"), ("static", "adaptive")])
    )
    part = Predictive(
        np.log([[0.2, 0.3, 0.5]]), np.array([[[1.0], [2.0], [np.nan]]]), np.array([[[1.0], [4.0], [9.0]]])
    )
    means, deviations = references(part, 0, np.asarray(part.log_weights), steady_experts(table))
    assert_allclose(means, [[0.4 * 1.0 + 0.6 * 2.0, 1.0]])
    assert_allclose(deviations, [[np.exp(0.5 * 0.6 * np.log(4.0)), 1.0]])


def test_errors_larger_than_expected_from_the_first_row_on_are_no_change():
    """A model that was fitted to few rows expects too small ones."""
    size, found = 3.0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        z, predicted, rows = size * rng.normal(size=ROWS), rng.normal(size=ROWS), np.arange(ROWS, dtype=float)
        each = np.repeat(z[:, None], KINDS, axis=1)
        given = MovedRows(rows, None, z, predicted, each, each, np.zeros(ROWS, bool))
        _, evidence = MoveTests.start().update(given, tested=True)
        # An alarm of seven tests at one in a million rows.
        found += max(path.max() for path in evidence.values()) > np.log(7e6)
    assert not found


def test_errors_that_grow_after_the_first_rows_are_one():
    """The first rows count for more, and not so much that what comes after them is usual."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        z, predicted, rows = rng.normal(size=ROWS), rng.normal(size=ROWS), np.arange(ROWS, dtype=float)
        z[50:] *= 5.0
        each = np.repeat(z[:, None], KINDS, axis=1)
        given = MovedRows(rows, None, z, predicted, each, each, np.zeros(ROWS, bool))
        _, evidence = MoveTests.start().update(given, tested=True)
        assert (evidence["scale"][50:80] > np.log(7e6)).any()
