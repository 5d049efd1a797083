"""The interface of a family of models: the fit at the end of the warm-up, and its result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from streamgp.models.contract import StreamModel
from streamgp.models.spec import Spec
from streamgp.numerics.checkpoint.encoding import register


@register
@dataclass(frozen=True)
class FittedExpert:
    """What the table of experts says about one expert; `since`: after how many rows it was fitted anew, else 0."""

    name: str
    basis: str
    dynamics: str
    noise: str
    features: int
    gain: float
    since: int = 0


class FittedModel(NamedTuple):
    """A model before it has learnt any row, and its table of experts, in the model's order."""

    model: StreamModel
    experts: list[FittedExpert]


class WarmupRows(NamedTuple):
    """The rows that a model is fitted to.

    Attributes
    ----------
    X
        Standardised inputs (n, D); with an exposure, its log is the last column, as it came.
    y
        Targets (n, E): numbers standardised, labels and grades by their codes from 0, counts as they are.
    num_classes
        Of labels and grades.
    time_unit
        The usual time from one row to the next.
    """

    X: np.ndarray
    y: np.ndarray
    num_classes: int
    time_unit: float


@runtime_checkable
class ModelFamily(Protocol):
    """A family of models: which specifications it serves, which options it takes, and how it is fitted.

    Attributes
    ----------
    name
        By which `streamgp.models.options` says which options the family takes.
    tasks
        For which targets it has models.
    weighs_warmup
        Whether the warm-up's rows say how the race of the experts begins.
    """

    name: str
    tasks: tuple[str, ...]
    weighs_warmup: bool

    def serves(self, spec: Spec) -> bool:
        """Return whether a model of this specification is one of the family."""
        ...

    def spec(self, preset: Spec, **options: Any) -> Spec:
        """Return a preset of the family with the user's changes; it parses and checks them, once.

        Raises
        ------
        ValueError
            If the family does not have an option, or a value is not accepted.
        """
        ...

    def fit(
        self,
        spec: Spec,
        rows: WarmupRows,
        *,
        seed: int,
        progress: Callable[[int, int], None] | None,
        provisional_expert: Any = None,
    ) -> FittedModel:
        """Fit the model of a specification to the rows of a warm-up.

        `progress` is called with the number of fits done and to do. `provisional_expert` is the one that did best in
        the warm-up, for a family whose models take it in.
        """
        ...


@runtime_checkable
class RenewingFamily(ModelFamily, Protocol):
    """A family that fits experts anew as the stream goes on, for specifications that say so (`Spec.renew`)."""

    def renew(
        self,
        spec: Spec,
        fitted: FittedModel,
        state: Any,
        rows: WarmupRows,
        times: np.ndarray | None,
        *,
        learnt: int,
        searches: bool,
        seed: int,
    ) -> tuple[FittedModel, Any]:
        """Return the model and its state with new experts in the place of others; nothing changes its size.

        `rows`, with their `times`, are of the stream so far, in its order; `learnt` counts all that there were. With
        `searches` the fits may take seconds.
        """
        ...

    def conditioned_apart(self, model: Any, state: Any, rows: WarmupRows, times: np.ndarray | None) -> Any:
        """Return the state at the end of the warm-up, where some experts may learn only part of its rows."""
        ...


@runtime_checkable
class Paths(Protocol):
    """Joint draws of the targets of rows to come, many at a time, in standardised units."""

    def step(self, X: Float[np.ndarray, "n d"], gap: float | None = None) -> Float[np.ndarray, "n e"]:
        """Draw the next row of every path, of which these are the inputs; `gap` is the time since the row before."""
        ...

    def recalibrated(self, y: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
        """Return a row of all paths, in its order, as the errors of the rows so far suggest."""
        ...


@runtime_checkable
class PathFamily(ModelFamily, Protocol):
    """A family that draws the targets of several rows to come jointly."""

    def paths(
        self, model: Any, state: Any, weights: Float[np.ndarray, " k"], n: int, rng: np.random.Generator
    ) -> Paths:
        """Begin n paths after the rows learnt; each follows an expert, chosen by these weights."""
        ...
