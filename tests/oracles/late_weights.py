"""Weights of rows that are predicted late, one expert at a time in plain Python, from the formulas of the papers.

Soft-Bayes (Orseau, Lattimore and Legg 2017) over the experts, and a fixed share (Herbster and Warmuth 1998) between
it and the weights in time, each label counting as if one in a hundred came from anywhere.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats

RATE, SWITCH, ANYWHERE = 0.1, 0.01, 0.01 * math.exp(-4.0)  # the last per deviation of the target


class PlainLateWeights:
    """Weights as probabilities; `own` are those in time of the row in question, zero where an expert is not there."""

    def __init__(self, experts: int) -> None:
        self.experts = [1.0 / experts] * experts
        self.in_time = 0.5

    def averaged(self, own: Sequence[float]) -> list[float]:
        """Return the weights of a row."""
        late = self._present(own)
        return [self.in_time * a + (1.0 - self.in_time) * b for a, b in zip(own, late, strict=True)]

    def learn(self, own: Sequence[float], density: Sequence[float], scale: float) -> None:
        """Learn from each expert's density of a row's target; an expert that is not there keeps its share."""
        p = [each + ANYWHERE / scale for each in density]
        late = self._present(own)
        by_late = math.fsum(a * b for a, b in zip(late, p, strict=True))
        p = [each if there > 0.0 else by_late for each, there in zip(p, own, strict=True)]
        by_own = math.fsum(a * b for a, b in zip(own, p, strict=True))
        kept = self.in_time * by_own / (self.in_time * by_own + (1.0 - self.in_time) * by_late)
        self.in_time = (1.0 - SWITCH) * kept + 0.5 * SWITCH
        total = math.fsum(w * b for w, b in zip(self.experts, p, strict=True))
        self.experts = [w * (1.0 - RATE + RATE * b / total) for w, b in zip(self.experts, p, strict=True)]

    def _present(self, own: Sequence[float]) -> list[float]:
        total = math.fsum(w for w, there in zip(self.experts, own, strict=True) if there > 0.0)
        return [w / total if there > 0.0 else 0.0 for w, there in zip(self.experts, own, strict=True)]


def densities(predictive: Any, y: float) -> list[float]:
    """Return the density of a target under each expert of a mixture (of one row, of one target)."""
    loc, var = predictive.loc[0, :, 0], predictive.var[0, :, 0]
    if predictive.dof is None:
        return scipy.stats.norm.pdf(y, loc, np.sqrt(var)).tolist()
    scale = np.sqrt(var * (1.0 - 2.0 / predictive.dof[0]))
    return scipy.stats.t.pdf(y, predictive.dof[0], loc, scale).tolist()
