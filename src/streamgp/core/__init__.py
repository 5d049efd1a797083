"""The parts of every model: the predictive distribution, its recalibration, and the contract of an online model.

No algebra of a particular model lives here.
"""

from streamgp.core.mapped import MappedPredictive
from streamgp.core.model import (
    ClassModel,
    Described,
    FilterEngine,
    Info,
    Moments,
    OnlineModel,
    RowEngine,
    SeparableModel,
    SingleRowModel,
    SplittingModel,
    StreamModel,
)
from streamgp.core.predictive import Predictive, trimmed
from streamgp.core.side_by_side import NumericPredictive, SideBySide, mapped, side_by_side, unmapped
from streamgp.core.target_map import TargetMap
from streamgp.numerics.arrays import AnyArray, namespace

__all__ = [
    "AnyArray",
    "ClassModel",
    "Described",
    "FilterEngine",
    "Info",
    "MappedPredictive",
    "Moments",
    "NumericPredictive",
    "OnlineModel",
    "Predictive",
    "RowEngine",
    "SeparableModel",
    "SideBySide",
    "SingleRowModel",
    "SplittingModel",
    "StreamModel",
    "TargetMap",
    "mapped",
    "namespace",
    "side_by_side",
    "trimmed",
    "unmapped",
]
