"""What is said of the first target, before any is known: the inputs of its row are all there is."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Predictive

AGREE = 0.1  # of their median: inputs within that agree
FEWEST = 3  # inputs that may agree by more than chance


def first_guess(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return what the target of each row may be near; 0: nothing is known.

    Where more than half of the inputs agree they measure one quantity, as polls of one approval do, and the target is
    taken for one measurement more.
    """
    known = ~np.isnan(X)
    if X.shape[1] < FEWEST or not known.any():
        return np.zeros(len(X))
    middle = np.nanmedian(np.where(known.any(axis=1, keepdims=True), X, 0.0), axis=1)
    near = (np.abs(X - middle[:, None]) <= AGREE * np.abs(middle)[:, None]).sum(axis=1)
    return np.where((near >= FEWEST) & (near > 0.5 * known.sum(axis=1)), middle, 0.0)


def guessed(predictive: Predictive, X: Float[np.ndarray, "n d"]) -> Predictive:
    """Return a prediction that knows no target, moved to where the inputs of each row suggest."""
    guess = first_guess(X)
    scale = np.maximum(AGREE * np.abs(guess), 1.0)[:, None, None]
    return replace(predictive, loc=guess[:, None, None] + scale * predictive.loc, var=scale**2 * predictive.var)
