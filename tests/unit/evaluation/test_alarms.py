"""Alarms: fair bets, false alarms as stated, every kind of change found and named, and what must not be one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri
from scipy.stats import norm, poisson

from streamgp.evaluation import Alarms, CountScores, RegressionScores
from streamgp.evaluation.error_tests import BETS, DENSITY, MEMORIES, ErrorTests, ScoreTest
from streamgp.evaluation.run_tests import GAPS, GapClock, RunTest
from streamgp.numerics.checkpoint.encoding import decode, encode

RATE = 1e-3


def scored(y: np.ndarray, mean: np.ndarray | float = 0.0, deviation: float = 1.0) -> RegressionScores:
    """Return the scores of targets (n,) or (n, E) under normal predictions."""
    y = np.asarray(y, float).reshape(len(y), -1)
    z = (y - np.reshape(mean, (-1, 1))) / deviation
    nan = np.full_like(y, np.nan)
    joint = (norm.logpdf(z) - np.log(deviation)).sum(1)
    expected = np.broadcast_to(np.reshape(mean, (-1, 1)), y.shape)
    return RegressionScores(y, expected, nan, nan, nan, nan, ndtr(z), nan, joint, nan[:, 0], nan[:, 0], nan[:, 0])


def alarms_of(y: np.ndarray, **more) -> list:
    alarms = Alarms(["y"], rate=RATE)
    return alarms.add(scored(y, **more), np.arange(len(y)))


# Fair bets


def test_bets_on_shape_are_fair_of_what_is_tolerated():
    rng = np.random.default_rng(0)
    tests, _ = ErrorTests.start().update(rng.beta(0.7, 0.9, size=300), np.arange(300.0))
    gains = []
    for tenth in range(10):
        after, _ = tests.update(np.array([(tenth + 0.5) / 10.0]), np.array([300.0]))
        before = tests.watch.detector.log_sums[BETS["shape"]]
        gains.append(np.exp(after.watch.detector.log_sums[BETS["shape"]] - np.logaddexp(before, 0.0)))
    assert_allclose(np.mean(gains, axis=0), np.full(len(MEMORIES), 1.0 / DENSITY))
    assert np.max(gains) > 1.2  # and they are not all the same


def test_naive_forecasts_have_densities():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.normal(size=(60, 1)), axis=0)
    test, _ = ScoreTest.start(1).update(y, np.zeros(60), np.arange(60.0), True)
    at = np.linspace(-60.0, 60.0, 1_201)
    density = [np.exp(test._naive(np.array([[value]]))[0][0]) for value in at]
    assert abs(np.trapezoid(density, at) - 1.0) < 5e-3
    assert abs(at[int(np.argmax(density))] - y[-1, 0]) < 2.0


def test_a_row_that_teaches_the_naive_forecasts_is_not_in_its_own():
    y = np.random.default_rng(2).normal(size=(50, 1))
    other = y.copy()
    other[30] += 5.0
    found, changed = (ScoreTest.start(1)._naive(each)[0] for each in (y, other))
    assert_allclose(found[1:30], changed[1:30])
    assert (found[31:] != changed[31:]).all()


# False alarms


@pytest.mark.slow
def test_false_alarms_of_a_right_model_are_within_the_rate():
    """At a rate at which some are to be expected, several kinds contribute, and far fewer come than are allowed."""
    rng = np.random.default_rng(3)
    rows, rate = 40_000, 10.0
    alarms = Alarms(["y"], rate=rate)
    alarms.add(scored(rng.normal(size=rows)), np.arange(rows))
    assert 3 < alarms.count < rows * rate / 1000.0
    assert len({alarm.kind for alarm in alarms.found}) > 1
    assert 0.0 < alarms.e_value < 50.0


def test_the_e_value_of_a_right_model_has_a_mean_of_one_at_most():
    rng = np.random.default_rng(4)
    found = []
    for _ in range(100):
        alarms = Alarms(["y"])
        alarms.add(scored(rng.normal(size=60)), np.arange(60))
        found.append(alarms.e_value)
    assert 0.02 < np.mean(found) < 1.0 + 4.0 * np.std(found) / 10.0


@pytest.mark.parametrize(
    "errors",
    [
        {"deviation": 1.1},
        {"deviation": 0.9},
        {"mean": 0.1},
    ],
)
def test_a_model_that_is_slightly_wrong_gives_no_alarm(errors):
    y = np.random.default_rng(5).normal(size=10_000)
    assert not alarms_of(y, **errors)


def test_single_glitches_are_no_change():
    rng = np.random.default_rng(6)
    y = rng.normal(size=10_000)
    y[rng.random(10_000) < 0.01] += 1e6
    assert not alarms_of(y)


def test_no_row_counts_for_more_than_a_factor_of_20():
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1e9])
    tests, before = ErrorTests.start().update(ndtr(y[:5]), np.arange(5.0))
    _, after = tests.update(ndtr(y[5:]), np.array([5.0]))
    for kind in BETS:
        assert after[kind][0] <= np.log(20.0) + np.logaddexp(before[kind][-1], 0.0) + 1e-12
    assert after["scale"][0] > before["scale"][-1] + 1.5


# What is found


def changed(kind: str, rng: np.random.Generator, rows: int = 3_000, at: int = 2_000):
    """Return targets with a change, and the kinds of alarm that name it."""
    y = rng.normal(size=rows)
    late = np.arange(rows) >= at
    match kind:
        case "level":
            return y + 1.0 * late, {"level"}
        case "noise":
            return np.where(late, 2.0 * y, y), {"scale"}
        case "less noise":
            return np.where(late, 0.4 * y, y), {"scale"}
        case "dependence":
            errors = rng.normal(size=rows)
            for i in range(at, rows):
                errors[i] = 0.8 * errors[i - 1] + 0.6 * errors[i]
            return errors, {"dependence", "score"}
        case "shape":
            two = rng.choice([-1.0, 1.0], size=rows) + 0.05 * y
            return np.where(late, two, y), {"shape"}
        case "stuck":
            return np.where(late, 0.3, y), {"stuck"}
        case _:
            return np.where(late, np.nan, y), {"silence"}


@pytest.mark.parametrize("kind", ["level", "noise", "less noise", "dependence", "shape", "stuck", "silence"])
def test_a_change_that_stays_is_one_alarm_that_names_it(kind):
    for seed in range(3):
        y, names = changed(kind, np.random.default_rng(seed))
        found = alarms_of(y)
        assert len(found) == 1, found
        assert found[0].kind in names
        assert 2_000 <= found[0].row < 2_300
        assert abs(found[0].since - 2_000) <= 100
        assert found[0].sentence.startswith(("since", "the level moved by +"))


def test_sentences_measure_the_change():
    y, _ = changed("noise", np.random.default_rng(7))
    (alarm,) = alarms_of(y)
    ratio = float(alarm.sentence.split(" are ")[1].split(" times larger")[0])
    assert 1.5 < ratio < 2.8
    y, _ = changed("stuck", np.random.default_rng(7))
    assert alarms_of(y)[0].sentence == "since row 2,001 the target has stood still at 0.3"


def test_a_return_is_no_alarm_and_a_second_change_is():
    rng = np.random.default_rng(8)
    times = [(2_000, 1.0), (1_500, 3.0), (4_000, 1.0), (1_000, 3.0), (500, 9.0)]
    y = rng.normal(size=9_000) * np.concatenate([np.full(n, s) for n, s in times])
    found = alarms_of(y)
    assert [alarm.kind for alarm in found] == ["scale"] * 3
    assert_allclose([alarm.row for alarm in found], [2_000, 7_500, 8_500], atol=60)


def test_a_score_below_naive_forecasts_is_an_alarm():
    """Errors of mean zero and right size, but the target is a level that stays for long."""
    rng = np.random.default_rng(9)
    level = np.where(np.arange(4_000) < 2_000, rng.normal(size=4_000), np.repeat(rng.normal(size=200), 20))
    found = alarms_of(level + 1e-3 * rng.normal(size=4_000))
    assert found
    assert found[0].kind in ("score", "dependence")
    assert 2_000 <= found[0].row < 2_200


def test_values_held_for_as_long_as_usual_are_not_stuck():
    rng = np.random.default_rng(10)
    held = np.repeat(rng.normal(size=800), 10)
    alarms = Alarms(["y"])
    alarms.add(scored(held[:1_000]), np.arange(1_000), tested=False)
    found = alarms.add(scored(held[1_000:]), np.arange(1_000, 8_000))
    assert "stuck" not in [alarm.kind for alarm in found]
    later = alarms.add(scored(np.full(300, held[-1])), np.arange(8_000, 8_300))
    assert [alarm.kind for alarm in later] == ["stuck"]


def test_whole_numbers_are_not_stuck_until_they_are():
    y = np.random.default_rng(11).poisson(0.4, size=6_000)
    found = alarms_of(np.r_[y, np.zeros(300)], mean=0.4, deviation=0.63)
    assert [alarm.row for alarm in found if alarm.kind == "stuck" and alarm.row < 6_000] == []
    assert any(alarm.kind == "stuck" and alarm.row < 6_200 for alarm in found)


def test_targets_that_are_often_missing_are_not_silent_until_they_are():
    rng = np.random.default_rng(12)
    y = np.where(rng.random(6_000) < 0.3, np.nan, rng.normal(size=6_000))
    assert not alarms_of(y)
    found = alarms_of(np.r_[y, np.full(60, np.nan)])
    assert [alarm.kind for alarm in found] == ["silence"]
    assert "missing" in found[0].sentence


def test_a_gap_in_time_is_silence_and_a_usual_one_is_not():
    rng = np.random.default_rng(13)
    times = np.cumsum(rng.exponential(1.0, size=3_000))
    times[2_000:] += 200.0
    alarms = Alarms(["y"])
    found = alarms.add(scored(rng.normal(size=3_000)), np.arange(3_000), times)
    assert [(alarm.kind, alarm.row, alarm.time) for alarm in found] == [("silence", 2_000, times[2_000])]
    assert "no row came" in found[0].sentence


def test_gaps_are_counted_from_the_hundredth_on():
    times = np.arange(300.0)
    times[250:] += 7.0
    for cuts in ([], [1, 50, 101, 102, 250, 251]):
        clock, ticks = GapClock.start(), []
        for part in np.split(times, cuts):
            clock, found = clock.update(part)
            ticks += found.tolist()
        assert clock.known == GAPS
        assert clock.usual == 1.0
        assert_allclose(np.flatnonzero(ticks), [250])
        assert ticks[250] == 7


def test_what_a_run_has_learnt():
    """By hand: runs of 3, 1 and 0 repeats, and the classes of lengths 0, 1 and 2-3."""
    hits = np.array([1, 1, 1, 0, 1, 0, 0], bool)
    test, _ = RunTest.start().update(hits, np.arange(7.0), False)
    assert_allclose(test.went_on[:4], [2.0, 1.0, 1.0, 0.0])
    assert_allclose(test.ended[:4], [1.0, 1.0, 1.0, 0.0])
    first = (2.0 + 2.0 * 0.5) / 5.0
    second = (1.0 + 20.0 * first) / 22.0
    assert_allclose(test.tolerated(0), 2.0 * first / (1.0 + first))
    assert_allclose(test.tolerated(1), 2.0 * second / (1.0 + second))


# One code path


def mixed(rng: np.random.Generator) -> tuple[RegressionScores, np.ndarray]:
    """Return scores of two targets with changes and missing targets, and times."""
    y = rng.normal(size=(600, 2))
    y[200:, 0] *= 5.0
    y[350:370] = np.nan
    y[400:440, 1] = 0.1
    y[rng.random(600) < 0.05] = np.nan
    times = np.arange(600.0)
    times[500:] += 100.0
    return scored(y), times


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [0, 3])
def test_rows_chunks_and_a_resumed_run_give_the_same(horizon):
    scores, times = mixed(np.random.default_rng(14))
    found = []
    for cuts in ([], [1, 2, 199, 200, 205, 360, 500], list(range(1, 600))):
        alarms = Alarms(["a", "b"], horizon)
        for rows in np.split(np.arange(600), cuts):
            if rows[0] in (205, 360):
                alarms = Alarms.from_tree(decode(*encode(alarms.to_tree()), {}))
            alarms.add(RegressionScores(*(a[rows] for a in scores)), rows, times[rows], tested=bool(rows[0] >= 2))
            if rows[0] == 0 and len(rows) > 2:  # the others begin with two rows of warm-up
                alarms = Alarms(["a", "b"], horizon)
                alarms.add(RegressionScores(*(a[:2] for a in scores)), rows[:2], times[:2], tested=False)
                alarms.add(RegressionScores(*(a[2:] for a in scores)), rows[2:], times[2:])
        found.append(alarms)
    first = found[0]
    assert {alarm.kind for alarm in first.found} >= {"scale", "stuck", "silence"}
    assert {alarm.target for alarm in first.found} >= {"a", "b"}
    for other in found[1:]:
        assert [(a.kind, a.row, a.since, a.target, a.sentence) for a in other.found] == [
            (a.kind, a.row, a.since, a.target, a.sentence) for a in first.found
        ]
        assert_allclose([a.evidence for a in other.found], [a.evidence for a in first.found], rtol=1e-9)
        assert_allclose(other.e_value, first.e_value, rtol=1e-9)


def test_forecasts_that_overlap_are_no_change():
    """Errors of a right forecast 6 rows ahead are sums of 6 shocks; tested one after the other they depend."""
    rng = np.random.default_rng(15)
    y = np.convolve(rng.normal(size=6_005), np.ones(6), "valid") / np.sqrt(6.0)
    one, six = Alarms(["y"]), Alarms(["y"], horizon=6)
    for alarms in (one, six):
        alarms.add(scored(y), np.arange(6_000))
    assert one.count > 0
    assert six.count == 0


def test_counts_are_placed_at_random_within_their_step():
    rng = np.random.default_rng(16)
    rows = 6_000
    y = rng.poisson(1.5, size=rows)
    y[4_000:] = rng.poisson(4.0, size=2_000)
    nan = np.full((rows, 1), np.nan)
    fields = dict.fromkeys(CountScores._fields, nan)
    fields |= {
        "y": y[:, None] * 1.0,
        "pit_below": poisson.cdf(y - 1, 1.5)[:, None],
        "pit": poisson.cdf(y, 1.5)[:, None],
        "log_density": poisson.logpmf(y, 1.5),
    }
    found = Alarms(["y"]).add(CountScores(**fields), np.arange(rows))
    assert found
    assert 4_000 <= found[0].row < 4_060


@pytest.mark.parametrize("rate", [0.0, -1.0, 11.0, np.nan, True])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match=r"rate: expected the false alarms in 1,000 rows"):
        Alarms(["y"], rate=rate)


def test_extreme_places_are_finite_evidence():
    y = np.r_[np.zeros(50), np.full(3, 1e30), np.random.default_rng(17).normal(size=50)]
    alarms = Alarms(["y"])
    alarms.add(scored(y), np.arange(len(y)))
    assert np.isfinite(alarms.e_value)
    assert np.isinf(ndtri(1.0))  # which is what such a target would be without a bound
