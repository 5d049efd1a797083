"""The contract of every online model, what it returns besides the prediction, and what the learner asks of it."""

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module
from streamgp.numerics.standardise import Standardiser


class Info(NamedTuple):
    """The report of `update` on the rows that it has just learnt from.

    Attributes
    ----------
    predictive
        The one-step-ahead prediction of each row, made before its own target was seen: a `Predictive` or, of labels,
        counts and grades, a `streamgp.likelihoods.LatentPredictive`.
    outside
        True where a row lay outside the region that some basis was built for.
    rules
        Of each row, how much each of several weight rules counted before the target was seen; each row sums to one.
        None where a single rule weighs the experts.
    weights
        Of each row, how much each expert counted, where the prediction is no mixture with a component for each.
    flagged
        True where a row was an outlier to most of the weight, and hardly learnt. None for a model that has no guard.
    non_finite
        Of each row and filter, whether its numbers were not finite, so that it was left out. None if not looked for.
    scores
        Of each row, the log density of its target as the model has it; NaN where it does not count.
    """

    predictive: Any
    outside: Bool[AnyArray, " n"]
    rules: Float[AnyArray, "n r"] | None = None
    weights: Float[AnyArray, "n w"] | None = None
    flagged: Bool[AnyArray, " n"] | None = None
    non_finite: Bool[AnyArray, "n f"] | None = None
    scores: Float[AnyArray, " n"] | None = None


@runtime_checkable
class OnlineModel(Protocol):
    """A streaming model as three pure functions of an explicit state (a fixed-size pytree of arrays).

    `times`, where a model uses them, are the rows' own time stamps; ``None`` counts rows.
    """

    num_inputs: int
    num_outputs: int

    def init(self, key: Key) -> Any:
        """Return the state before any row."""
        ...

    def predict(self, state: Any, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None) -> Any:
        """Predict each row as if it were the next one. Never sees a target, never changes the state."""
        ...

    def update(
        self,
        state: Any,
        X: Float[AnyArray, "n d"],
        y: Float[AnyArray, "n e"],
        mask: Bool[AnyArray, " n"] | None = None,
        times: Float[AnyArray, " n"] | None = None,
    ) -> tuple[Any, Info]:
        """Learn from the rows in order; rows with a false `mask` are passed over and cost no time step."""
        ...


class Moments(NamedTuple):
    """Mean and standard deviation (n, E) of the targets of some rows."""

    mean: Float[np.ndarray, "n e"]
    std: Float[np.ndarray, "n e"]


@runtime_checkable
class FilterEngine(Protocol):
    """A model at work on blocks of rows, in the units of the data; what it learns is its own until `flush`."""

    @property
    def restarted(self) -> frozenset[int]:
        """The positions of the filters that started again, since their numbers were not finite."""
        ...

    def predict(
        self, X: Float[np.ndarray, "n d"], times: Float[np.ndarray, " n"] | None, extra: np.ndarray | None = None
    ) -> Any:
        """Predict each row as if it were the next one; the noise of a row may have an `extra` variance."""
        ...

    def update(
        self,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n e"],
        times: Float[np.ndarray, " n"] | None,
        *,
        later: Float[np.ndarray, "n d"] | None = None,
        extra: Float[np.ndarray, " n"] | None = None,
        moved: Bool[np.ndarray, " n"] | None = None,
    ) -> Info:
        """Learn rows in order, some of which were `moved` to the bounds; forecast from the `later` inputs, if any."""
        ...

    def flush(self) -> Any:
        """Return the model's state after the rows learnt."""
        ...


@runtime_checkable
class RowEngine(FilterEngine, Protocol):
    """A `FilterEngine` for blocks of one, which tells nothing of the prediction when it learns one."""

    @property
    def last_time(self) -> float:
        """The time stamp of the last row learnt; NaN without one."""
        ...

    @property
    def weights(self) -> Float[np.ndarray, " k"]:
        """The experts' weights for the next row."""
        ...

    @property
    def rules(self) -> Float[np.ndarray, " r"] | None:
        """The weights of several rules for the next row; None of a single one."""
        ...

    def predict(
        self,
        X: Float[np.ndarray, "1 d"],
        times: Float[np.ndarray, " 1"] | None,
        extra: np.ndarray | None = None,
        ahead: float = 1.0,
    ) -> Any:
        """Predict a row, which without times is so many rows `ahead` of the last one learnt."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether the model is to be flushed and loaded, as other parts of it may work from here on."""
        ...

    def load(self, model: Any, state: Any) -> None:
        """Go on from a state of the model, or of one with new experts in their places."""
        ...

    def moments(
        self, X: Float[np.ndarray, "1 d"], times: Float[np.ndarray, " 1"] | None, extra: np.ndarray | None = None
    ) -> Moments:
        """Predict mean and standard deviation of a row alone, which is quicker than to `predict`."""
        ...


class Described(NamedTuple):
    """What a model says of itself before the next row.

    Attributes
    ----------
    weights
        How much each expert counts.
    rules
        How much each of several weight rules counts, by name; empty where there is one.
    share_working
        Which share of the model's parts has worked, in the mean over the rows so far.
    """

    weights: Float[np.ndarray, " k"]
    rules: Mapping[str, float] = MappingProxyType({})
    share_working: float = 1.0


class StreamModel(Module):
    """An `OnlineModel` that `streamgp.stream.StreamLearner` can drive; every state has a `last_time`.

    Subclass it in a package of `streamgp.models`, give it `num_inputs` and `num_outputs`, and say what is not as it
    stands here. What some models can do besides is in the protocols below.
    """

    # Whether `predict` and `update` take variance that single rows' noise has in addition.
    takes_extra_variance: ClassVar[bool] = False
    # Whether the prediction is a mixture with a component for each expert; else `Info.weights` tells how they count.
    mixes_experts: ClassVar[bool] = True
    # Whether rows are learnt whose inputs are far outside all that was seen.
    learns_far_inputs: ClassVar[bool] = True
    # Sizes to which batches are padded for a model that compiles a program for each; none: they are not.
    padded_to: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def init(self, key: Key, horizon: int = 0) -> Any:
        """Return the state before any row, to forecast `horizon` rows ahead."""

    @abstractmethod
    def predict(
        self, state: Any, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None, **more: Any
    ) -> Any:
        """Predict each row as if it were the next one; `more` is ``extra``, where the model takes it."""

    @abstractmethod
    def update(
        self,
        state: Any,
        X: Float[AnyArray, "n d"],
        y: Float[AnyArray, "n e"],
        mask: Bool[AnyArray, " n"] | None = None,
        times: Float[AnyArray, " n"] | None = None,
        later: Float[AnyArray, "n d"] | None = None,
        **more: Any,
    ) -> tuple[Any, Info]:
        """Learn from the rows in order; with a horizon, forecast from the `later` inputs after each of them."""

    @abstractmethod
    def describe(self, state: Any) -> Described:
        """Return how much each expert counts in the next row, and what else there is to say."""

    def with_prior_weights(self, state: Any, prior_log_weights: Float[AnyArray, " k"] | None, rows: int) -> Any:
        """Return the state after so many `rows` with the weights at their prior, to which these are added."""
        return state


@runtime_checkable
class SingleRowModel(Protocol):
    """A model that learns row by row without touching every covariance each time."""

    def single_row(self, inputs: Standardiser, targets: Standardiser, trim: float, state: Any) -> RowEngine:
        """Return the engine for rows that come singly, loaded with a state."""
        ...


@runtime_checkable
class SeparableModel(Protocol):
    """A model of several outputs, each of which can go on by itself."""

    def of_output(self, state: Any, e: int) -> tuple[StreamModel, Any]:
        """Return the model of one of several outputs and its state."""
        ...


@runtime_checkable
class ClassModel(Protocol):
    """A model of labels, to which classes can be added."""

    def add_class(self, state: Any, num_classes: int, rows: int) -> tuple[StreamModel, Any]:
        """Return the model and its state with one class more than `num_classes`, after so many `rows`."""
        ...


@runtime_checkable
class SplittingModel(Protocol):
    """A model that splits into local ones."""

    def describe_parts(self, state: Any, inputs: Standardiser, targets: Standardiser) -> list[dict[str, Any]]:
        """Return the parts that the model has split into, in the units of the data."""
        ...
