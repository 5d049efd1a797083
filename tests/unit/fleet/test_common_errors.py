"""How far errors of keys go together, beside a slow loop over pairs."""

import numpy as np
import pytest

from streamgp.fleet.common_errors import LEAST, WINDOW, CommonErrors, std_of_sum


def drawn(ticks: int, keys: int, common: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return times, groups, errors and standard deviations of rows, of which some are missing."""
    rng = np.random.default_rng(seed)
    std = np.exp(0.5 * rng.normal(size=keys))
    noise = np.sqrt(common) * rng.normal(size=(ticks, 1)) + np.sqrt(1.0 - common) * rng.normal(size=(ticks, keys))
    error = np.where(rng.random((ticks, keys)) < 0.1, np.nan, std * np.clip(noise, -4.9, 4.9))
    times = np.repeat(np.arange(float(ticks)), keys)
    return times, np.tile(np.arange(keys) % 2, ticks), error.ravel(), np.tile(std, ticks)


def by_pairs(times: np.ndarray, error: np.ndarray, std: np.ndarray) -> float:
    """Return the correlation, pair by pair."""
    above = below = 0.0
    for time in np.unique(times):
        here = np.flatnonzero((times == time) & np.isfinite(error))
        whole = std[here].sum() ** 2
        for i in here:
            for j in here[here != i]:
                above += error[i] * error[j] / whole
                below += std[i] * std[j] / whole
    return above / below


def learnt(rows: tuple[np.ndarray, ...], parts: int = 1) -> CommonErrors:
    """Return what the rows tell, in so many chunks."""
    errors = CommonErrors()
    for at in np.array_split(np.arange(len(rows[0])), parts):
        errors.learn(*(each[at] for each in rows))
    return errors


@pytest.mark.parametrize("common", [0.0, 0.5, 0.9])
def test_the_correlation_is_that_of_all_pairs(common: float):
    rows = drawn(60, 6, common)
    times, group, error, std = rows
    errors = learnt(rows)
    assert errors.correlation() == pytest.approx(by_pairs(times, error, std), rel=1e-9)
    for each in (0, 1):
        of = group == each
        assert errors.correlation(each) == pytest.approx(by_pairs(times[of], error[of], std[of]), rel=1e-9)
    assert abs(errors.correlation() - common) < 4.0 * np.sqrt(2.0 / 60.0) * max(common, 0.2)


def test_only_the_last_times_count_whatever_the_order_and_the_chunks():
    rows = drawn(WINDOW + 40, 5, 0.5)
    last = rows[0] >= 40.0
    expected = learnt(tuple(each[last] for each in rows)).correlation()
    assert learnt(rows).correlation() == pytest.approx(expected, rel=1e-9)
    assert learnt(rows, 97).correlation() == pytest.approx(expected, rel=1e-9)
    # Key by key, as long frames often are.
    by_key = np.argsort(np.tile(np.arange(5), WINDOW + 40), kind="stable")
    assert learnt(tuple(each[by_key] for each in rows), 13).correlation() == pytest.approx(expected, rel=1e-9)
    assert learnt(rows, 97).to_tree()["sums"].shape == (WINDOW, 2, 4)


def test_a_glitch_is_no_correlation_and_a_group_of_little_data_takes_that_of_all():
    times, group, error, std = drawn(200, 6, 0.3)
    before = learnt((times, group, error, std)).correlation()
    error[600:603] = 1e9
    assert abs(learnt((times, group, error, std)).correlation() - before) < 0.1
    alone = learnt((times, np.where(np.arange(len(times)) == 5, 1, 0), error, std))
    assert alone.correlation(1) == alone.correlation()
    assert alone.correlation(7) == alone.correlation()


def test_too_few_times_are_refused():
    with pytest.raises(ValueError, match=f"{LEAST} times or more .*, got {LEAST - 1}; learn more rows"):
        learnt(drawn(LEAST - 1, 6, 0.5)).correlation()
    with pytest.raises(ValueError, match="got 0"):
        CommonErrors().correlation()


def test_the_sum_of_two_is_that_of_the_textbook():
    std = np.array([[1.0, 2.0], [3.0, 2.0]])
    for r in (-0.5, 0.0, 0.5, 1.0):
        expected = np.sqrt(std[0] ** 2 + std[1] ** 2 + 2.0 * r * std[0] * std[1])
        np.testing.assert_allclose(std_of_sum(std, r), expected)
    assert (std_of_sum(std, -1.0) > 0.0).all()


def test_sums_of_other_shapes_are_refused():
    errors = learnt(drawn(20, 4, 0.5))
    again = CommonErrors()
    again.restore(errors.to_tree())
    assert again.correlation() == errors.correlation()
    with pytest.raises(ValueError, match="expected sums of errors by time and group"):
        again.restore({"times": np.zeros(3), "sums": np.zeros((2, 1, 4))})
