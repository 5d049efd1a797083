"""What targets are: numbers, labels, counts or grades, and what that changes for the learner."""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.core import Predictive, StreamModel
from streamgp.fitting.screening import screen
from streamgp.likelihoods import AnyPredictive
from streamgp.models.gaussian.provisional import provisional_ensemble, provisional_scale
from streamgp.models.generalised.warmup import provisional_generalised
from streamgp.models.spec import Spec
from streamgp.numerics.standardise import Standardiser

# Of the weights, over the number of experts: twice what the slowest of the rules that share keeps for each.
TRIM = 0.05


@runtime_checkable
class Task(Protocol):
    """What the learner asks about targets; all arrays of targets are (n, E)."""

    def usual(self, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """The targets of the warm-up without glitches, which are to set no scale and not to be fitted."""
        ...

    def scale(self, y: np.ndarray, provisional: bool) -> Standardiser:
        """How targets are standardised, by those of the warm-up, or provisionally by the first of them."""
        ...

    def provisional(
        self, X: np.ndarray, y: np.ndarray, *, width: int, num_classes: int, time_unit: float, seed: int
    ) -> StreamModel:
        """The model of the warm-up's rows with inputs of so many columns; `X` and `y` are the rows so far."""
        ...

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """The first n rows of a prediction, as NumPy arrays in the units of the targets."""
        ...

    def constant(self, targets: Standardiser) -> list[float | None]:
        """For each target, its value where it had a single one in the rows that set its scale, else None."""
        ...

    def new_class(self, y: np.ndarray, num_classes: int) -> int | None:
        """The first row whose class is none of the first `num_classes`, if there is one."""
        ...


@dataclass(frozen=True)
class Regression:
    """Numbers: standardised by the warm-up, and predicted in their own units."""

    spec: Spec

    def usual(self, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """The targets, screened where the model is robust."""
        return screen(X, y, seed)[0] if self.spec.robust else y

    def scale(self, y: np.ndarray, provisional: bool) -> Standardiser:
        """Mean and standard deviation."""
        targets = Standardiser.empty(y.shape[1]).update(y)
        return provisional_scale(targets) if provisional else targets

    def provisional(
        self, X: np.ndarray, y: np.ndarray, *, width: int, num_classes: int, time_unit: float, seed: int
    ) -> StreamModel:
        """Experts that do not depend on the rows."""
        model = provisional_ensemble(width, y.shape[1], seed, self.spec.robust, self.spec.recalibrate)
        return replace(model, time_unit=jnp.asarray(time_unit))

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """Location and scale as the targets came."""
        assert isinstance(predictive, Predictive)
        scale = np.asarray(targets.scale)
        return Predictive(
            np.asarray(predictive.log_weights)[:n],
            np.asarray(targets.mean) + scale * np.asarray(predictive.loc)[:n],
            np.square(scale) * np.asarray(predictive.var)[:n],
            None if predictive.dof is None else np.asarray(predictive.dof)[:n],
            TRIM if self.spec.robust else 0.0,
            None if predictive.recalibration is None else np.asarray(predictive.recalibration)[:n],
        )

    def constant(self, targets: Standardiser) -> list[float | None]:
        """The mean of every target that never varied."""
        return [float(mean) if m2 == 0.0 else None for mean, m2 in zip(targets.mean, targets.m2, strict=True)]

    def new_class(self, y: np.ndarray, num_classes: int) -> int | None:
        """None."""
        return None


@dataclass(frozen=True)
class Counts:
    """Counts and grades: neither screened nor scaled."""

    spec: Spec

    def usual(self, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """The targets as they are."""
        return y

    def scale(self, y: np.ndarray, provisional: bool) -> Standardiser:
        """The identity."""
        return Standardiser.empty(y.shape[1])

    def provisional(
        self, X: np.ndarray, y: np.ndarray, *, width: int, num_classes: int, time_unit: float, seed: int
    ) -> StreamModel:
        """Experts whose likelihood depends on the targets so far."""
        targets = y[:, 0] / np.exp(X[:, -1]) if self.spec.exposure else y[:, 0]
        return provisional_generalised(self.spec, targets, num_classes, width, seed)

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """The prediction as it is."""
        return jax.tree.map(lambda a: np.asarray(a)[:n], predictive)

    def constant(self, targets: Standardiser) -> list[float | None]:
        """Nobody asks."""
        return [None] * len(np.asarray(targets.mean))

    def new_class(self, y: np.ndarray, num_classes: int) -> int | None:
        """None: grades are all named beforehand."""
        return None


@dataclass(frozen=True)
class Classification(Counts):
    """Labels, by codes from 0: new ones may come at any time."""

    def in_units(self, predictive: AnyPredictive, n: int, targets: Standardiser, num_classes: int) -> AnyPredictive:
        """The prediction, of the classes known so far."""
        return replace(super().in_units(predictive, n, targets, num_classes), known=num_classes)

    def new_class(self, y: np.ndarray, num_classes: int) -> int | None:
        """The first row with a code that is too large."""
        new = np.flatnonzero(y[:, 0] >= num_classes)
        return int(new[0]) if len(new) else None


def task_of(spec: Spec) -> Task:
    """The task of a specification."""
    return {"regression": Regression, "classification": Classification}.get(spec.task, Counts)(spec)
