"""The weight rules by the names that users give them."""

from collections.abc import Sequence

import numpy as np

from streamgp.weights.base import WeightRule
from streamgp.weights.mixture import auto
from streamgp.weights.rules import BMA, DMA, SoftBayes, fixed_share, markov, share
from streamgp.weights.stacking import ExponentiatedGradient, NewtonStep


def make_rule(
    name: str,
    groups: Sequence[int],
    *,
    delta: float,
    share_rate: float,
    switch: float,
    transition: Sequence[Sequence[float]] | None = None,
) -> WeightRule:
    """Return the weight rule of a name for experts whose bases are numbered by `groups`.

    Parameters
    ----------
    name
        ``bma``, ``bma-shutdown``, ``dma``, ``switching``, ``e-doebe``, ``soft-bayes``, ``stacking``,
        ``stacking-share``, ``stacking-newton``, ``auto``, or ``Q``.
    groups
        Experts of one basis have the same number; of these, ``e-doebe`` and ``auto`` take note.
    delta, share_rate
        Under ``e-doebe``: the rates of switching between two experts of a basis, and of a fresh start among all.
    switch
        Under ``switching``: the probability per row of leaving an expert.
    transition
        Of ``Q``: the matrix; its columns sum to one.

    Raises
    ------
    ValueError
        If `transition` has not a row and a column for each expert.
    """
    match name:
        case "bma":
            return BMA()
        case "bma-shutdown":
            return BMA(1e-16)
        case "switching":
            return fixed_share(len(groups), switch)
        case "e-doebe":
            return share(groups, delta, share_rate)
        case "dma":
            return DMA()
        case "soft-bayes":
            return SoftBayes()
        case "stacking":
            return ExponentiatedGradient()
        case "stacking-share":
            return ExponentiatedGradient(share=1e-3)
        case "stacking-newton":
            return NewtonStep()
        case "auto":
            return auto(groups)
        case _:
            Q = np.asarray(transition, dtype=float)
            if Q.shape != (len(groups), len(groups)):
                raise ValueError(
                    f"weights: expected a {len(groups)} x {len(groups)} matrix Q for the {len(groups)} experts "
                    f"that the warm-up kept, got shape {Q.shape}"
                )
            return markov(Q)
