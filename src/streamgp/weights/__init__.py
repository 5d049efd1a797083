"""Rules that weigh experts by their predictions, in logarithms throughout.

A rule is three functions: `init` turns a log prior into the rule's state, `predict` gives the log weights for the
next row (they have not seen its target), `update` takes in every expert's log density of that target.
"""

from streamgp.weights.base import OUTLIER_LOG_DENSITY, Weighed, WeightRule, present, trust
from streamgp.weights.mixture import Mixture, MixtureState, auto, mixture
from streamgp.weights.row import weighed
from streamgp.weights.rules import (
    BMA,
    DMA,
    Markov,
    Share,
    SoftBayes,
    fixed_share,
    markov,
    share,
)
from streamgp.weights.scan import scan_rule
from streamgp.weights.stacking import ExponentiatedGradient, NewtonState, NewtonStep

__all__ = [
    "BMA",
    "DMA",
    "OUTLIER_LOG_DENSITY",
    "ExponentiatedGradient",
    "Markov",
    "Mixture",
    "MixtureState",
    "NewtonState",
    "NewtonStep",
    "Share",
    "SoftBayes",
    "Weighed",
    "WeightRule",
    "auto",
    "fixed_share",
    "markov",
    "mixture",
    "present",
    "scan_rule",
    "share",
    "trust",
    "weighed",
]
