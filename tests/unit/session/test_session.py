"""A session: what it records, that it is the learner's own stream, and that it goes on from its tree."""

from collections.abc import Callable

import numpy as np
import pytest

from streamgp.estimators.result import collect
from streamgp.estimators.shown import Given
from streamgp.evaluation import Alarms, Conformal, RegressionMetrics, ScoredRows, StepsAhead, results
from streamgp.models.registry import make_spec
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.session import Session
from streamgp.stream.arrivals import Arrivals
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp.table import Chunk
from streamgp.table.chunks import cut
from streamgp.table.frames import FrameLike

ROWS, WARMUP = 90, 24


def stream() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(ROWS, 2))
    return X, X[:, :1] - 2.0 * X[:, 1:] + 0.2 * rng.normal(size=(ROWS, 1))


def run(chunk: int, scored_after: int = WARMUP) -> tuple[list[ScoredRows], RegressionMetrics, StreamLearner]:
    X, y = stream()
    learner = StreamLearner(StreamSettings(make_spec("e-doebe", bases=["linear"]), num_inputs=2, warmup=WARMUP))
    metrics = RegressionMetrics(["y"], scored_after)
    session = Session(learner, metrics)
    chunks = [
        Chunk(X[i : i + chunk], y[i : i + chunk], None, np.arange(ROWS)[i : i + chunk]) for i in range(0, ROWS, chunk)
    ]
    return [part for each in chunks for part in session.feed(each)], metrics, learner


@pytest.mark.parametrize("chunk", [10, ROWS])
def test_every_row_once_in_order(chunk: int):
    parts, metrics, learner = run(chunk)
    _, y = stream()
    np.testing.assert_array_equal(np.concatenate([part.scores.y for part in parts]), y)
    assert metrics.rows == learner.rows == ROWS
    at = 0
    for part in parts:
        assert part.start == at % chunk
        n = len(part.scores.y)
        if at < WARMUP:
            assert at + n <= WARMUP
            assert part.weights is None
        else:
            assert part.weights is not None
            assert part.weights.shape == (n, len(learner.experts))
            np.testing.assert_allclose(part.weights.sum(1), 1.0, rtol=1e-12)
        at += n


def test_chunks_do_not_matter():
    few, metrics, _ = run(ROWS)
    many, others, _ = run(10)
    for name in ("mean", "std", "q05", "q50", "q95", "pit", "crps", "log_density", "moment_log_density"):
        a, b = (np.concatenate([getattr(part.scores, name) for part in parts]) for parts in (few, many))
        # The CRPS of many components has six digits.
        np.testing.assert_allclose(a, b, rtol=1e-6 if name == "crps" else 1e-8, atol=1e-12)
    assert metrics.result()["pll"] == pytest.approx(others.result()["pll"], rel=1e-9)


def test_scores_in_standardised_units():
    """The log density of (y - m) / s under the prediction in those units is that of y plus log s."""
    _, metrics, learner = run(ROWS)
    _, y = stream()
    found = results(metrics, learner)
    unit = np.log(y[:WARMUP].std())
    assert found["pll_standardised"] == pytest.approx(found["pll"] + unit, rel=1e-12)
    assert found["pll_moment_standardised"] == pytest.approx(found["pll_moment"] + unit, rel=1e-12)
    _, metrics, learner = run(ROWS, scored_after=ROWS)
    assert results(metrics, learner)["pll_standardised"] is None


def test_weights_move_out_of_the_parts():
    """Those of hundreds of experts are nearly all that an evaluation holds: two copies would be twice as much."""
    parts, metrics, learner = run(10)
    expected = np.concatenate([part.weights for part in parts if part.weights is not None])
    given = Given(np.arange(ROWS), ROWS, FrameLike(), {"targets": ["y"]})
    found = collect(parts, results(metrics, learner), learner, given, single=True)
    assert np.isnan(found.weights[:WARMUP]).all()
    np.testing.assert_array_equal(found.weights[WARMUP:], expected)
    assert all(part.weights is None for part in parts)


def full(**more) -> Session:
    """A session with bands, alarms and forecasts of several rows."""
    learner = StreamLearner(StreamSettings(make_spec("linear"), num_inputs=2, warmup=WARMUP))
    parts = {"bands": Conformal(0.8, ["y"], WARMUP), "alarms": Alarms(["y"]), "horizons": StepsAhead(4, ["y"])}
    return Session(learner, RegressionMetrics(["y"], WARMUP), **(parts | more))


def late(delay: int) -> Session:
    session = full(alarms=None, horizons=None)
    session.arrivals = Arrivals(LateLabels(session.learner), delay)
    return session


@pytest.mark.parametrize("make", [full, lambda: late(3)])
def test_a_session_goes_on_from_its_tree(make: Callable[[], Session]):
    X, y = stream()
    y[60:] += 9.0  # which the alarms find
    rows = Chunk(X, y, None, np.arange(ROWS))
    whole, first = make(), make()
    expected = list(whole.feed(rows))
    parts = list(first.feed(cut(rows, slice(0, 47))))
    second = Session.from_tree(decode(*encode(first.to_tree()), {}))
    parts += second.feed(cut(rows, slice(47, None)))
    for name in ("mean", "std", "log_density"):
        one, other = (np.concatenate([getattr(part.scores, name) for part in each]) for each in (parts, expected))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    for name in ("rows", "scored_rows", "pll", "rmse", "crps"):
        assert second.results()[name] == pytest.approx(whole.results()[name], rel=1e-9)
    assert second.results()["conformal"]["coverage"] == whole.results()["conformal"]["coverage"]
    if whole.alarms is not None:
        assert [alarm.row for alarm in second.alarms.found] == [alarm.row for alarm in whole.alarms.found] != []
