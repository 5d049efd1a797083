"""Thresholds from costs, and what acting by them would have cost."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.evaluation.metrics import cost_threshold, decisions


def test_by_the_threshold_probabilities_at_their_word_cost_least():
    rng = np.random.default_rng(0)
    p = rng.beta(0.3, 6.0, size=400_000)
    happened = rng.random(len(p)) < p
    missed, false_alarm = 100.0, 4.0
    assert cost_threshold(missed, false_alarm) == 4.0 / 104.0

    def cost(threshold: float) -> float:
        act = p >= threshold
        return float(np.mean(missed * (happened & ~act) + false_alarm * (act & ~happened)))

    found = decisions(p, happened, missed, false_alarm)
    assert_allclose(found.cost, cost(found.threshold), rtol=1e-12)
    assert all(found.cost < cost(found.threshold * other) for other in (0.3, 0.6, 1.6, 3.0))
    assert_allclose((found.never, found.always), (100.0 * happened.mean(), 4.0 * (~happened).mean()), rtol=1e-12)
    assert found.cost < min(found.never, found.always)


def test_errors_are_counted():
    found = decisions(np.array([0.5, 0.49, 0.8, 0.1]), np.array([True, True, False, False]), 2.0, 2.0)
    assert found == (0.5, 1.0, 1.0, 1.0, 1, 1, 4)


@pytest.mark.parametrize(("missed", "false_alarm", "name"), [(0.0, 1.0, "missed"), (1.0, np.inf, "false_alarm")])
def test_costs_that_are_none(missed: float, false_alarm: float, name: str):
    with pytest.raises(ValueError, match=f"{name}: expected a finite cost above 0"):
        cost_threshold(missed, false_alarm)


def test_no_rows():
    with pytest.raises(ValueError, match="expected at least one row"):
        decisions(np.zeros(0), np.zeros(0, bool), 1.0, 1.0)
