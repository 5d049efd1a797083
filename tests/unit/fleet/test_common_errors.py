"""How far errors of keys go together, beside a slow loop over pairs."""

import numpy as np
import pytest

from streamgp.fleet.common_errors import LEAST, REACH, WINDOW, CommonErrors

ONE = np.ones(1)  # a step


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
    assert errors.correlation(ONE) == pytest.approx(by_pairs(times, error, std), rel=1e-9)
    for each in (0, 1):
        of = group == each
        assert errors.correlation(ONE, each) == pytest.approx(by_pairs(times[of], error[of], std[of]), rel=1e-9)
    assert abs(errors.correlation(ONE) - common) < 4.0 * np.sqrt(2.0 / 60.0) * max(common, 0.2)


def test_only_the_last_times_count_whatever_the_order_and_the_chunks():
    rows = drawn(WINDOW + 40, 5, 0.5)
    last = rows[0] >= 40.0
    expected = learnt(tuple(each[last] for each in rows)).correlation(ONE)
    assert learnt(rows).correlation(ONE) == pytest.approx(expected, rel=1e-9)
    assert learnt(rows, 97).correlation(ONE) == pytest.approx(expected, rel=1e-9)
    # Key by key, as long frames often are.
    by_key = np.argsort(np.tile(np.arange(5), WINDOW + 40), kind="stable")
    assert learnt(tuple(each[by_key] for each in rows), 13).correlation(ONE) == pytest.approx(expected, rel=1e-9)
    assert learnt(rows, 97).to_tree()["sums"].shape == (WINDOW, 2, 4)


def test_a_glitch_is_no_correlation_and_a_group_of_little_data_takes_that_of_all():
    times, group, error, std = drawn(200, 6, 0.3)
    before = learnt((times, group, error, std)).correlation(ONE)
    error[600:603] = 1e9
    assert abs(learnt((times, group, error, std)).correlation(ONE) - before) < 0.1
    alone = learnt((times, np.where(np.arange(len(times)) == 5, 1, 0), error, std))
    assert alone.correlation(ONE, 1) == alone.correlation(ONE)
    assert alone.correlation(ONE, 7) == alone.correlation(ONE)


def test_too_few_times_are_refused():
    with pytest.raises(ValueError, match=f"{LEAST} times or more .*, got {LEAST - 1}; learn more rows"):
        learnt(drawn(LEAST - 1, 6, 0.5)).correlation(ONE)
    with pytest.raises(ValueError, match="got 0"):
        CommonErrors().correlation(ONE)


def test_the_sum_of_keys_is_that_of_the_textbook():
    errors = learnt(drawn(300, 6, 0.5))
    std = np.array([[1.0, 2.0], [3.0, 2.0], [0.5, 4.0]])
    r = errors.correlation(np.square(std).sum(axis=0))
    for step in range(2):
        products = np.outer(std[:, step], std[:, step])
        expected = np.sum(np.where(np.eye(3) > 0.0, products, r[step] * products))
        assert errors.std_of_sum(std)[step] ** 2 == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(errors.std_of_sum(std[:1]), std[0])
    against = learnt(
        tuple(np.resize(each, 400) for each in (np.repeat(np.arange(200.0), 2), [0], [1.0, -1.0], [1.0]))
    )
    assert against.correlation(ONE)[0] == pytest.approx(-1.0)
    assert against.std_of_sum(np.ones((2, 1)))[0] > 0.0  # what cancels out is never known for sure


def test_errors_of_one_key_that_come_to_another_later_count_in_sums_of_steps():
    """Keys of three kinds see the same shock one after the other, and keep it: the sum's error grows faster."""
    ticks, keys, h = 4_000, 6, 4
    shocks, lag = np.random.default_rng(0).normal(size=ticks + 2), np.arange(keys) % 3
    error = np.stack([shocks[2 - late : ticks + 2 - late] for late in lag], axis=1)
    std = np.sqrt(np.outer(np.ones(keys), np.arange(1.0, h + 1.0)))  # of random walks
    ahead = error.sum(axis=1)
    found = []
    for start in range(0, ticks, WINDOW):
        part = error[start : start + WINDOW]
        rows = (
            np.repeat(np.arange(float(len(part))), keys),
            np.zeros(part.size, int),
            part.ravel(),
            np.ones(part.size),
        )
        found.append(learnt(rows).std_of_sum(std))
    found = np.sqrt(np.mean(np.square(found), axis=0))
    for step in range(h):
        window = np.lib.stride_tricks.sliding_window_view(ahead, step + 1).sum(axis=1)
        assert found[step] == pytest.approx(window.std(), rel=0.12)
    # As many steps of a key that knows nothing of the others are what one step says.
    assert found[-1] > 1.25 * np.sqrt(h) * found[0]


def test_what_steps_have_in_common_is_a_loop_over_pairs_of_times():
    times, group, error, std = drawn(40, 5, 0.6)
    error = np.nan_to_num(error)
    weights = np.array([1.0, 0.8, 0.5, 0.5, 0.1, 0.3, 0.2, 0.2, 0.2])
    of = [np.flatnonzero(times == time) for time in range(40)]
    x = np.array([error[at].sum() / std[at].sum() for at in of])
    own = np.mean([np.square(error[at]).sum() / std[at].sum() ** 2 for at in of])
    pairs = np.mean([1.0 - np.square(std[at]).sum() / std[at].sum() ** 2 for at in of])
    found = learnt((times, group, error, std)).correlation(np.cumsum(np.square(weights)))
    for h in range(1, len(weights) + 1):
        above = below = 0.0
        for i in range(h):
            below += weights[i] ** 2 * pairs
            above -= weights[i] ** 2 * own
            for j in range(h):
                apart = abs(i - j)
                taper = max(1.0 - apart / (REACH + 1.0), 0.0)
                above += taper * weights[i] * weights[j] * (x[: len(x) - apart] @ x[apart:]) / len(x)
        assert found[h - 1] == pytest.approx(np.clip(above / below, -1.0, 1.0), rel=1e-9)


def test_sums_of_other_shapes_are_refused():
    errors = learnt(drawn(20, 4, 0.5))
    again = CommonErrors()
    again.restore(errors.to_tree())
    assert again.correlation(ONE) == errors.correlation(ONE)
    with pytest.raises(ValueError, match="expected sums of errors by time and group"):
        again.restore({"times": np.zeros(3), "sums": np.zeros((2, 1, 4))})
