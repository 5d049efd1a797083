"""Rows without a target among those of a warm-up, beside a loop that goes through all rows."""

from dataclasses import replace

import numpy as np
import pytest

from oracles.lagged_rows import widened_by_hand
from streamgp.stream.lags import LaggedTargets
from streamgp.stream.passed_rows import LONGEST, PassedRows


def passed_of(absent: np.ndarray) -> PassedRows:
    """Return the places of rows without a target, added in runs of any length."""
    found, learnt = PassedRows.none(), 0
    for is_absent in absent:
        if is_absent:
            found = found.add(learnt, 1)
        learnt += not is_absent
    return found


def stood_in(y: np.ndarray, absent: np.ndarray, season: int) -> np.ndarray:
    """Return the targets of all rows by a loop: a season before and what it has changed by since, or the last one."""
    found, start = y.copy(), 0
    for t in np.flatnonzero(absent):
        start = start if absent[t - 1] else t  # of the rows in a row
        found[t] = found[start - 1]
        if season >= 4 and start - 1 - season >= 0:
            before = t - season * ((t - start) // season + 1)
            found[t] = found[before] + (found[start - 1] - found[start - 1 - season])
    return found


def stream(share: float, rows: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    absent = rng.random(rows) < share
    absent[40:48] = share > 0.0
    absent[[0, -1]] = False  # what comes before the first row learnt does not count
    return rng.normal(size=(rows, 2)), absent


@pytest.mark.parametrize("lags", [(1,), (1, 2, 3), (1, 7), (5, 12)])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.4])
def test_lags_of_the_rows_learnt_are_those_of_all_rows(lags: tuple[int, ...], share: float):
    y, absent = stream(share)
    X, fill = np.random.default_rng(1).normal(size=(len(y), 3)), np.array([50.0, 60.0])
    expected = widened_by_hand(X, stood_in(y, absent, max(lags)), lags, fill)[~absent]
    past = replace(LaggedTargets.empty(lags, 2), fill=fill)
    found = past.widen_among(X[~absent], y[~absent], passed_of(absent))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_stands_in_knows_no_later_target():
    y, absent = stream(0.3)
    passed = passed_of(absent)
    for t in np.flatnonzero(absent)[::5]:
        other = np.where(np.arange(len(y))[:, None] >= t, y + 9.0, y)
        for longest in (1, 12):
            a, b = (passed.whole(each[~absent], longest) for each in (y, other))
            np.testing.assert_array_equal(a[: t + 1], b[: t + 1])


def test_rows_that_seldom_have_a_target_do_not_run_away():
    passed = PassedRows.none()
    for learnt in range(1, 300):
        passed = passed.add(learnt, LONGEST)
    whole = passed.whole(np.random.default_rng(0).normal(size=(300, 1)), 24)
    assert len(whole) == 300 + 299 * LONGEST and np.abs(whole).max() < 30.0


def test_places_of_the_first_rows_learnt():
    absent = stream(0.3)[1]
    passed = passed_of(absent)
    for n in (0, 1, 7, int((~absent).sum())):
        np.testing.assert_array_equal(passed.places(n), np.flatnonzero(~absent)[:n])
    assert len(PassedRows.none().add(0, 5).after) == 0


def test_many_rows_at_one_place_count_as_the_longest_lag_at_most():
    passed = PassedRows.none()
    for _ in range(3):
        passed = passed.add(4, 700)
    assert passed.count.tolist() == [LONGEST] and passed.places(6).tolist() == [0, 1, 2, 3, LONGEST + 4, LONGEST + 5]


@pytest.mark.parametrize(
    ("after", "count"), [([2, 2], [1, 1]), ([0], [1]), ([3, 2], [1, 1]), ([2], [0]), ([2], [10**9])]
)
def test_places_out_of_order_are_refused(after: list[int], count: list[int]):
    with pytest.raises(ValueError, match="places in ascending order"):
        PassedRows(np.array(after, int), np.array(count, int)).check_restored()
