"""Online learning with many kernels by gradient steps: cheap, but without error bars of their own.

`MultiKernel` makes a learner an `OnlineModel`: `Raker` and `AdaRaker` (Shen, Chen and Giannakis 2019), `SFG`
(SFG-MKL and SFG-MKL-R, Ghari and Shen 2021), `OMKLGF` (Ghari and Shen 2020) or `OMKR` (Sahoo, Hoi and Li 2014).
"""

from streamgp.research.multikernel.bipartite import OMKLGF
from streamgp.research.multikernel.experts import FeatureBank, draw_features
from streamgp.research.multikernel.feedback import SFG, FeedbackGraph
from streamgp.research.multikernel.graph import (
    KernelDictionary,
    dominating_set,
    neighbours,
    similarity,
    squared_exponentials,
)
from streamgp.research.multikernel.losses import LogisticLoss, SquaredLoss
from streamgp.research.multikernel.model import MultiKernel
from streamgp.research.multikernel.omkr import OMKR
from streamgp.research.multikernel.raker import AdaRaker, Raker
from streamgp.research.multikernel.rates import Rate, constant, falling

__all__ = [
    "OMKLGF",
    "OMKR",
    "SFG",
    "AdaRaker",
    "FeatureBank",
    "FeedbackGraph",
    "KernelDictionary",
    "LogisticLoss",
    "MultiKernel",
    "Raker",
    "Rate",
    "SquaredLoss",
    "constant",
    "dominating_set",
    "draw_features",
    "falling",
    "neighbours",
    "similarity",
    "squared_exponentials",
]
