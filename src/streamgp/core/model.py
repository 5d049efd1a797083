"""The contract of every online model, and what it returns besides the prediction."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Key

from streamgp.numerics.arrays import AnyArray


class Info(NamedTuple):
    """What `update` tells about the rows that it has just learnt from.

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
    sick
        Of each row and filter, whether its numbers were not finite, so that it was left out. None if not looked for.
    """

    predictive: Any
    outside: Bool[AnyArray, " n"]
    rules: Float[AnyArray, "n r"] | None = None
    weights: Float[AnyArray, "n w"] | None = None
    flagged: Bool[AnyArray, " n"] | None = None
    sick: Bool[AnyArray, "n f"] | None = None


@runtime_checkable
class OnlineModel(Protocol):
    """A streaming model as three pure functions of an explicit state (a fixed-size pytree of arrays).

    `times`, where a model uses them, are the rows' own time stamps; ``None`` counts rows.
    """

    num_inputs: int
    num_outputs: int

    def init(self, key: Key[Array, ""]) -> Any:
        """The state before any row."""
        ...

    def predict(self, state: Any, X: Float[Array, "n d"], times: Float[Array, " n"] | None = None) -> Any:
        """Predict each row as if it were the next one. Never sees a target, never changes the state."""
        ...

    def update(
        self,
        state: Any,
        X: Float[Array, "n d"],
        y: Float[Array, "n e"],
        mask: Bool[Array, " n"] | None = None,
        times: Float[Array, " n"] | None = None,
    ) -> tuple[Any, Info]:
        """Learn from the rows in order; rows with a false `mask` are passed over and cost no time step."""
        ...
