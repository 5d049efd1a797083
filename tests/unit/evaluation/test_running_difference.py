"""The interval of a running difference holds whenever one looks, finds what there is, and is the textbook's."""

import numpy as np
import pytest

from streamgp.evaluation.running_difference import LARGEST, RunningDifference

STREAMS, ROWS, LOOK = 150, 2_000, 200


def looked_at(differences: np.ndarray, waited: int = 0) -> list[RunningDifference]:
    """Return the state at each of many looks at one stream."""
    state, found = RunningDifference(), []
    for start in range(0, len(differences), LOOK):
        part = differences[start : start + LOOK]
        state = state.add(part, np.zeros(len(part)), waited)
        found.append(state)
    return found


def equal_models(rng: np.random.Generator) -> np.ndarray:
    """Return differences of log densities of two forecasts that are wrong by as much, in opposite directions."""
    y, off = rng.standard_normal(ROWS), 0.3
    return 0.5 * ((y + off) ** 2 - (y - off) ** 2)


def heavy(rng: np.random.Generator) -> np.ndarray:
    return 0.5 * rng.standard_t(2.0, ROWS)


def regimes(rng: np.random.Generator) -> np.ndarray:
    """Return differences whose spread depends on the ones before: no identical distribution, no independence."""
    x = np.empty(ROWS)
    for i in range(ROWS):
        x[i] = rng.standard_normal() * (0.1 + abs(x[i - 1]) if i else 0.1)
    return np.clip(x, -1.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [equal_models, heavy, regimes])
def test_of_equal_models_at_most_one_in_twenty_is_ever_said_to_differ(stream):
    rng = np.random.default_rng(3)
    said = [any(each.verdict != "undecided" for each in looked_at(stream(rng))) for _ in range(STREAMS)]
    assert np.mean(said) <= 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / STREAMS)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.08, -0.08])
def test_what_there_is_is_found_soon_enough_and_with_its_sign(mean: float):
    """The other side: an interval that is never wrong as it is endless would pass the test above."""
    rng = np.random.default_rng(4)
    verdicts, widths = [], []
    for _ in range(50):
        last = looked_at(mean + 0.3 * rng.standard_normal(ROWS))[-1]
        low, high = last.interval() or (np.nan, np.nan)
        verdicts.append(last.verdict)
        widths.append((high - low) / (2.0 * 1.96 * 0.3 / np.sqrt(ROWS)))
    share = np.mean(np.array(verdicts) == ("better" if mean > 0.0 else "worse"))
    assert share >= 0.9 - 3.0 * np.sqrt(0.9 * 0.1 / 50)
    assert 1.0 < np.median(widths) < 3.0  # of an interval for one look


@pytest.mark.slow
def test_labels_that_come_late_make_rows_depend_on_each_other_and_are_taken_in_blocks():
    """Without blocks far too many are said to differ."""
    rng, waited = np.random.default_rng(5), 20

    def shared() -> np.ndarray:
        sums = np.cumsum(np.append(0.0, rng.standard_normal(ROWS + waited)))
        return 0.3 * (sums[waited:-1] - sums[:ROWS]) / np.sqrt(waited)

    streams = [shared() for _ in range(STREAMS)]
    rates = [
        np.mean([any(each.verdict != "undecided" for each in looked_at(one, late)) for one in streams])
        for late in (0, waited)
    ]
    error = np.sqrt(0.05 * 0.95 / STREAMS)
    assert rates[1] <= 0.05 + 3.0 * error < rates[0]
    assert looked_at(1.0 + streams[0], waited)[-1].verdict == "better"


def test_the_interval_is_where_the_mean_of_the_bets_reaches_the_bar():
    x = np.clip(np.random.default_rng(6).normal(0.1, 0.5, 300), -LARGEST, LARGEST)
    state = RunningDifference().add(x, np.zeros(300))
    squares, mean = 0.0, 0.0
    for i, each in enumerate(x):  # the definition, row by row
        squares += (each - mean) ** 2
        mean += (each - mean) / (i + 1)
    low, high = state.interval(0.9) or (np.nan, np.nan)
    for end in (mean - low, high - mean):
        c, rates = 2.0 * LARGEST, np.geomspace(2e-3, 0.9, 24) / (2.0 * LARGEST)
        drift = (-np.log(1.0 - c * rates) - c * rates) / c**2
        wealth = np.mean(np.exp(rates * end * 300 - drift * squares))
        np.testing.assert_allclose(wealth, 2.0 / 0.1, rtol=1e-6)


def test_chunks_are_a_matter_of_speed_only_and_absurd_scores_count_little():
    x = np.random.default_rng(7).normal(size=60)
    x[[3, 30]] = [-np.inf, 1e9]
    whole, single = RunningDifference().add(x, np.zeros(60), 2), RunningDifference()
    for each in x:
        single = single.add(np.array([each]), np.zeros(1), 2)
    assert whole == single
    assert (whole.size, whole.blocks, whole.rows) == (4, 15, 60)
    usual = RunningDifference().add(np.clip(x, -LARGEST, LARGEST), np.zeros(60))
    assert RunningDifference().add(x, np.zeros(60)).mean == usual.mean
    both = RunningDifference().add(np.array([-np.inf]), np.array([-np.inf]))
    assert both.mean == 0.0


def test_without_rows_there_is_nothing_to_say():
    assert RunningDifference().mean is None and RunningDifference().interval() is None
    assert RunningDifference().verdict == "undecided"
