"""From the warm-up into the stream: honest bands before, no jump after."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from streamgp.models.base import FittedExpert
from streamgp.models.contract import Info
from streamgp.models.gaussian.warmup import prior_log_weights
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

# As the default, but small.
SMALL = replace(
    make_spec("default", bases=["linear", "fourier"], features_per_basis=20),
    dynamics=("static", "revert 0.95"),
    noise=("constant", "adaptive 0.8"),
)


def errors(spec: Spec, X: np.ndarray, y: np.ndarray, warmup: int) -> tuple[np.ndarray, StreamLearner]:
    learner = StreamLearner(StreamSettings(spec, num_inputs=X.shape[1], warmup=warmup))
    means = [info.predictive.mean[:, 0] for info in learner.learn(X, y[:, None])]
    return np.concatenate(means) - y, learner


def test_the_first_rows_after_the_warm_up_are_as_good_as_those_before():
    """Equal weights for all experts cost a factor of thousands here."""
    X = np.random.default_rng(0).normal(size=(240, 2))
    error, _ = errors(SMALL, X, X @ [1.0, 0.5], 200)
    after = np.sqrt(np.mean(np.square(error[200:])))
    assert after < 3e-3


def test_the_papers_models_and_a_fresh_start_begin_with_equal_weights():
    X = np.random.default_rng(0).normal(size=(64, 2))
    for spec in (replace(SMALL, robust=False), replace(SMALL, warmup_posterior="prior")):
        _, learner = errors(spec, X, X @ [1.0, 0.5], 64)
        np.testing.assert_allclose(learner.weights, learner.weights[0])
        assert not any("provisional" in expert.name for expert in learner.experts)


def test_the_provisional_model_stays_in_the_race():
    """Its best filter: here the plane, where only trees were asked for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    spec = replace(SMALL, bases=("trees",), dynamics=("static",))
    error, learner = errors(spec, X, X @ [1.0, 0.5], 120)
    assert np.sqrt(np.mean(np.square(error[120:]))) < 0.02
    best = learner.experts[int(learner.weights.argmax())]
    assert best.basis == "provisional linear"


def expert(basis: str) -> FittedExpert:
    return FittedExpert(basis, basis, "static", "constant", 1, 0.0)


def test_what_the_warm_up_says_is_bounded_and_trees_rank_no_higher_than_others():
    rng = np.random.default_rng(0)
    density = rng.normal(size=(100, 4)) * 0.01 + [0.0, -0.5, 2.0, -500.0]
    weights = prior_log_weights(
        density, [expert(name) for name in ("linear", "fourier", "trees without lags", "spline")]
    )
    assert weights[2] == weights[0] == 0.0
    assert weights[1] == pytest.approx(-0.5 * 10, abs=0.1)  # a hundred rows count as ten
    assert weights[3] == -20.0


def test_one_row_of_the_warm_up_decides_nothing():
    density = np.zeros((100, 2))
    density[:, 1] -= 0.5
    density[50, 0] = -1e6  # a glitch, by which the worse expert is the less surprised
    weights = prior_log_weights(density, [expert("linear"), expert("fourier")])
    assert weights[0] > weights[1]


def _noise(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 7.0 * rng.normal(size=len(X)) + 3.0


def _walk(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 100.0 * np.cumsum(rng.normal(size=len(X)))


def _uneven(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[:, 0] + 0.5 * np.exp(X[:, 1]) * rng.normal(size=len(X))


@pytest.mark.parametrize("target", [_noise, _walk, _uneven])
def test_bands_of_the_warm_up_hold_what_they_say(target):
    n, start = 700, 50
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = target(X, rng)[:, None]
    learner = StreamLearner(StreamSettings(make_spec("linear"), num_inputs=2, warmup=n + 1))
    at = [info.predictive.cdf(y[learner.rows - len(info.outside) : learner.rows]) for info in learner.learn(X, y)]
    inside = np.abs(np.concatenate(at)[start:, 0] - 0.5)
    for level in (0.5, 0.9, 0.95):
        standard_error = np.sqrt(level * (1 - level) / (n - start))
        assert abs(np.mean(inside < level / 2) - level) < 0.08 + 1.5 * standard_error


@pytest.mark.parametrize("unit", [1.0, 1e5])
def test_the_very_first_bands_are_wide(unit: float):
    """One or two rows say little of the scale: in 40 short streams the rows after them are rarely far outside."""
    y = unit * (10.0 + np.random.default_rng(1).normal(size=(4, 40)))
    learner = StreamLearner(StreamSettings(make_spec("linear"), num_inputs=1, num_outputs=40, warmup=10))
    at = [info.predictive.cdf(y[i : i + 1]) for i, info in enumerate(_singly(learner, y))]
    outside = np.abs(np.concatenate(at)[1:] - 0.5) > 0.475
    assert outside.mean() < 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / outside.size)


def _singly(learner: StreamLearner, y: np.ndarray) -> Iterator[Info]:
    for row in y:
        yield from learner.learn(np.zeros((1, 1)), row[None])
