"""The fit of an online learner of many kernels: only the scale of the inputs comes from the warm-up."""

from typing import Any

import numpy as np

from streamgp.likelihoods import Categorical
from streamgp.likelihoods.from_targets import make_likelihood
from streamgp.models.base import FittedExpert
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.research.multikernel import (
    OMKLGF,
    OMKR,
    SFG,
    AdaRaker,
    FeedbackGraph,
    LogisticLoss,
    MultiKernel,
    Raker,
    SquaredLoss,
    draw_features,
    falling,
    squared_exponentials,
)
from streamgp.research.multikernel.omkr import group_by_kernel

NEIGHBOURS = 5  # M of the similarity graph, as in the paper
FEATURES = 100
# OMKR keeps so many rows.
CAPACITY = 500
# Standardised targets are a few units in size: no useful function is larger, and a step that is too long ends here.
RADIUS = 10.0


def make_multikernel(
    spec: Spec, X: np.ndarray, y: np.ndarray, num_classes: int, *, seed: int
) -> tuple[MultiKernel, list[FittedExpert]]:
    """Build the learner of `spec` for standardised warm-up rows, before it has learnt any.

    Inputs are divided by sqrt(D) as well, so that rows lie about as far apart in any number of inputs, and the
    dictionary's lengthscales suit. Rates fall with the square root of the rows, so that no horizon need be known.

    Parameters
    ----------
    X, y
        Standardised inputs (n, D); standardised targets (n, E), or class numbers (n, 1).
    num_classes
        Number of classes known.
    seed
        Seed of the frequencies.
    """
    assert spec.learner is not None and spec.lengthscales is not None
    dim, scales = X.shape[1], spec.lengthscales
    dictionary = squared_exponentials(scales)
    if spec.task == "classification":
        slots = max(2, num_classes)
        likelihood = make_likelihood(spec.likelihood, y[:, 0], num_classes, slots)
        assert isinstance(likelihood, Categorical)
        loss: Any = LogisticLoss(likelihood)
    else:
        loss = SquaredLoss(y.shape[1])
    features = spec.features_per_basis or FEATURES
    names = [f"kernel {scale:.3g}" for scale in scales]
    if spec.learner == "omkr":
        # With so many rows kept, a rate that fell for ever would leave less and less of any function.
        learner: Any = OMKR(*group_by_kernel(dictionary), loss, falling(least=CAPACITY**-0.5), dim, CAPACITY)
        features = learner.capacity
    else:
        bank = draw_features(dictionary, dim, features, keys.key(seed))
        features = bank.num_features
        match spec.learner:
            case "raker":
                learner = Raker(bank, loss, _rate(), radius=RADIUS)
            case "adaraker":
                learner = AdaRaker(bank, loss, radius=RADIUS)
            case "omkl-gf":
                learner = OMKLGF(bank, loss, _rate(), falling(), radius=RADIUS)
            case _:
                graph = FeedbackGraph.of(dictionary, dim, min(NEIGHBOURS, len(scales)))
                refine = spec.learner == "sfg-mkl-r"
                learner = SFG(bank, graph, loss, _rate(), falling(), radius=RADIUS, refine=refine)
    table = [FittedExpert(name, name, spec.dynamics[0], spec.noise[0], features, np.nan) for name in names]
    return MultiKernel(learner, tuple(names), dim, float(np.sqrt(dim)), spec.robust), table


def _rate() -> Any:
    # A step of 1/2 of the squared loss already meets its target.
    return falling(most=0.5)
