"""Reference predictions for tests of change: by the weights of some rows ago, and by the experts that do not adapt.

After a change the weights of an ensemble go within a few rows to the experts that follow it, and so do predictions:
of its errors little is left to be seen. What the experts that led before say of the same rows is known as well. Their
mixture by the weights of some rows ago, and that of those among them whose function and noise do not change, are
what a change is measured against. They are worse predictions in ordinary times, though not by much.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.likelihoods import Predictive, SideBySide
from streamgp.likelihoods.predictive import trimmed
from streamgp.models.base import FittedExpert
from streamgp.numerics.checkpoint.encoding import register

# A change should be found within so many rows.
LAG = 12
# There are two references: by earlier weights, and by the steady experts.
KINDS = 2


class Experts(NamedTuple):
    """What every expert said of some rows.

    Attributes
    ----------
    parts
        The mixtures: one of all targets, or one of each.
    table
        What is known of the experts; empty before the fit.
    """

    parts: tuple[Predictive, ...]
    table: tuple[FittedExpert, ...]

    @classmethod
    def of(cls, predictive: Any, table: tuple[FittedExpert, ...]) -> "Experts | None":
        """Return those of a prediction; None if it has no experts of numbers."""
        given = predictive.parts if isinstance(predictive, SideBySide) else (predictive,)
        parts = tuple(part for part in given if isinstance(part, Predictive))
        return cls(parts, table) if len(parts) == len(given) else None

    def take(self, where: Any) -> "Experts":
        """Return what they said of some of the rows."""
        parts = [
            Predictive(*(np.asarray(a)[where] for a in (part.log_weights, part.loc, part.var)), trim=part.trim)
            for part in self.parts
        ]
        return Experts(tuple(parts), self.table)


def steady_experts(table: tuple[FittedExpert, ...]) -> Bool[np.ndarray, " k"]:
    """Return which experts neither forget nor adapt their noise."""
    return np.array([expert.dynamics == "static" and expert.noise == "constant" for expert in table], bool)


@register
@dataclass(frozen=True)
class EarlierWeights:
    """The log weights of the latest rows, the oldest first (LAG, K); no row: none are known. No method changes it."""

    log_weights: Float[np.ndarray, "lag k"]

    @classmethod
    def start(cls) -> "EarlierWeights":
        """Return the weights that are known before the first row: none."""
        return cls(np.zeros((0, 0)))

    def update(self, new: Float[np.ndarray, "n k"]) -> tuple["EarlierWeights", Float[np.ndarray, "n k"]]:
        """Return the weights after rows with `new` ones, and those in force so many rows before each.

        Where the experts are others, their first weights stand for the earlier ones.
        """
        known = self.log_weights
        if not len(known) or known.shape[1] != new.shape[1]:
            known = np.repeat(new[:1], LAG, axis=0)
        every = np.vstack([known, new])
        return replace(self, log_weights=every[len(new) :].copy()), every[: len(new)]


def references(
    part: Predictive, target: int, earlier: Float[np.ndarray, "n k"], steady: Bool[np.ndarray, " s"]
) -> tuple[Float[np.ndarray, "n r"], Float[np.ndarray, "n r"]]:
    """Return the means and the standard deviations (n, KINDS) of the references of a target.

    A standard deviation is the geometric mean of those of the experts, so that none of little weight, whose noise has
    grown with the change, hides it.
    """
    loc, var = (np.asarray(a)[:, :, target] for a in (part.loc, part.var))
    there = np.isfinite(loc) & np.isfinite(var) & (var > 0.0)
    means, deviations = [], []
    for which in (None, steady):
        log_weights = np.where(there, earlier, -np.inf)
        if which is not None and len(which) == loc.shape[1]:
            chosen = np.where(which, log_weights, -np.inf)
            log_weights = np.where(np.isfinite(chosen).any(axis=1, keepdims=True), chosen, log_weights)
        most = log_weights.max(axis=1, keepdims=True)
        weights = np.exp(log_weights - np.where(np.isfinite(most), most, 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            weights = weights / weights.sum(axis=1, keepdims=True)
            if which is None:
                weights = trimmed(weights, part.trim)
        counts = weights > 0.0
        means.append(np.where(counts, weights * np.where(counts, loc, 0.0), 0.0).sum(axis=1))
        logs = np.log(np.where(counts, var, 1.0))
        deviations.append(np.exp(0.5 * np.where(counts, weights * logs, 0.0).sum(axis=1)))
    return np.stack(means, axis=1), np.stack(deviations, axis=1)
