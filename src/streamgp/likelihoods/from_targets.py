"""The likelihood by its name, as targets alone determine it."""

import numpy as np

from streamgp.likelihoods.base import Likelihood
from streamgp.likelihoods.categorical import Categorical
from streamgp.likelihoods.counts import NegativeBinomial, Poisson
from streamgp.likelihoods.ordinal import Ordinal

# The intercept of a class that no row has had: its probability is zero to working precision.
NEVER = -1e3


def make_likelihood(name: str, y: np.ndarray, num_classes: int, slots: int) -> Likelihood:
    """Return the likelihood to begin with, from targets (n,) alone, counts per exposure; with `slots` classes."""
    match name:
        case "categorical":
            counts = np.bincount(y.astype(int), minlength=slots) + 0.5
            known = np.arange(slots) < num_classes
            logits = np.log(counts) - np.log(counts[known]).mean()
            return Categorical(slots, np.where(known, logits, NEVER))
        case "ordinal":
            return Ordinal.from_targets(y, num_classes)
        case "poisson":
            return Poisson.from_targets(y)
        case _:
            return NegativeBinomial.from_targets(y)
