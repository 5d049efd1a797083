"""Glitches in the warm-up: found, moved, not fitted; and what only looks like one is left alone."""

import numpy as np
import pytest

from streamgp.models.fitting.screening import screen
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

N = 400


def waves(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("share, size", [(0.0, 1e3), (0.01, 10.0), (0.01, 100.0), (0.05, 100.0)])
def test_glitches_are_found_and_next_to_nothing_else(share: float, size: float):
    X, y = waves()
    rng = np.random.default_rng(1)
    bad = rng.random(N) < share
    bad[200] = True
    broken = y + np.where(bad, size * rng.choice([-1.0, 1.0], N), 0.0)
    drawn, flags = screen(X, broken[:, None], 0)
    assert flags[bad, 0].all()
    assert flags[~bad, 0].sum() <= 0.01 * N
    assert np.abs(drawn[bad, 0] - y[bad]).max() < 2.0  # moved to the edge of what is plausible
    np.testing.assert_array_equal(drawn[~flags], broken[:, None][~flags])


def _shift(X: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[:, 0] + 0.1 * rng.normal(size=N) + 10.0 * (rows >= 200)


def _stretch(X: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[:, 0] + 0.1 * rng.normal(size=N) + 10.0 * ((rows >= 200) & (rows < 220))


def _walk(X: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.cumsum(rng.normal(size=N))


def _pulses(X: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(N) < 0.03, 10.0 * rng.exponential(size=N), 0.0)


def _exact(X: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X @ np.array([1.0, 0.5])


@pytest.mark.parametrize("target", [_shift, _stretch, _walk, _pulses, _exact])
def test_what_belongs_together_is_no_glitch(target):
    rng = np.random.default_rng(3)
    X, rows = rng.normal(size=(N, 2)), np.arange(N)
    _, flags = screen(X, target(X, rows, rng)[:, None], 0)
    assert flags.sum() <= 2


def test_few_rows_are_drawn_towards_their_median_and_targets_have_nothing_to_do_with_each_other():
    y = np.stack([np.r_[np.arange(9.0), 1e6], np.zeros(10)], axis=1)
    drawn, flags = screen(np.zeros((10, 1)), y, 0)
    assert flags[:, 0].nonzero()[0].tolist() == [9] and not flags[:, 1].any()
    assert drawn[9, 0] < 100.0
    X, one = waves()
    other = np.where(np.arange(N) == 7, 1e3, one)
    both, _ = screen(X, np.stack([one, other], axis=1), 0)
    np.testing.assert_array_equal(both[:, :1], screen(X, one[:, None], 0)[0])
    np.testing.assert_array_equal(both[:, 1:], screen(X, other[:, None], 0)[0])


@pytest.mark.parametrize("robust", [True, False])
def test_one_absurd_target_in_the_warm_up_is_not_fitted(robust: bool):
    X, y = waves(n=200)
    broken = np.where(np.arange(200) == 100, 1e3, y)
    scales, gains = [], []
    for target in (y, broken):
        learner = StreamLearner(StreamSettings(make_spec("linear", robust=robust), num_inputs=2, warmup=200))
        list(learner.learn(X, target[:, None]))
        scales.append(learner.target_scale[0])
        gains.append(learner.experts[0].gain)
    assert (scales[1] < 1.1 * scales[0]) == robust
    assert (gains[1] > 0.9 * gains[0]) == robust
