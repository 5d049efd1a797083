"""From the rows of X, gaps included, to the inputs that a model is given."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from streamgp.checkpoint.encoding import register
from streamgp.models.spec import Spec
from streamgp.numerics.standardise import Standardiser, robust_standardiser
from streamgp.stream.bounds import InputBounds
from streamgp.stream.categories import Categories
from streamgp.stream.imputation import Filled, Imputer
from streamgp.stream.lags import LaggedTargets

MIN_BOUNDED = 16  # rows whose range says how far inputs may go
MAX_EXTRA = 4.0  # times the variance of the target in the warm-up, for missing inputs of a row

Extra = np.ndarray | None  # (n,) variance that the gaps of each row add, in standardised units of the targets


@register
@dataclass(frozen=True)
class StreamInputs:
    """What is known of the inputs after some rows; no method changes it.

    Attributes
    ----------
    imputer
        Fills the gaps of the columns of X, but for an exposure.
    gains
        Mean squared change of the prediction by a unit of each column (see `streamgp.stream.gains`); None while
        nothing was missing.
    lags
        The last targets, where they are inputs.
    bounds
        How far out the inputs of the model are believed.
    scaling
        Of the inputs of the model.
    categories
        Which columns of X hold codes of levels. What is said of columns here is said of those of 0 and 1 that stand
        for them.
    """

    imputer: Imputer
    gains: Float[np.ndarray, " d"] | None
    lags: LaggedTargets
    bounds: InputBounds
    scaling: Standardiser
    categories: Categories

    @classmethod
    def empty(cls, spec: Spec, num_inputs: int, num_outputs: int, categories: Categories) -> "StreamInputs":
        """Return what is known before any row."""
        columns = categories.width(num_inputs)
        width = columns + num_outputs * len(spec.lags)
        return cls(
            Imputer.empty(columns - spec.exposure),
            None,
            LaggedTargets.empty(spec.lags, num_outputs),
            InputBounds.none(width),
            Standardiser.empty(width),
            categories,
        )

    @property
    def width(self) -> int:
        """Inputs of the model."""
        return len(self.scaling.mean)

    def fill(self, X: np.ndarray) -> tuple[np.ndarray, Extra]:
        """Fill each row as if it were the next one."""
        X = self.categories(X)
        if not np.isnan(X).any():
            return X, None
        return self._with_rest(X, self.imputer.fill(X[:, : self.imputer.width], *self._center_and_scale()))

    def paths(self, X: np.ndarray, n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the next rows in order, each n times: with what is missing drawn, so that gaps add no variance."""
        X = self.categories(X)
        width = self.imputer.width
        drawn = self.imputer.paths(X[:, :width], *self._center_and_scale(), n, rng)
        for row, own in zip(X, drawn, strict=True):
            yield np.concatenate([own, np.tile(row[width:], (n, 1))], axis=1)

    def fill_and_learn(self, X: np.ndarray) -> tuple[np.ndarray, Extra, "StreamInputs"]:
        """Fill the rows in order, each from those before; the imputer learns them."""
        X = self.categories(X)
        own = X[:, : self.imputer.width].copy()  # the imputer keeps rows, and the caller may write to its own
        filled, imputer = self.imputer.learn(own, *self._center_and_scale())
        return *self._with_rest(X, filled), replace(self, imputer=imputer)

    def refill(self, X: np.ndarray) -> tuple[np.ndarray, Extra]:
        """Fill all rows of a stream from its beginning by what is known now."""
        X = self.categories(X)
        return self._with_rest(X, self.imputer.refill(X[:, : self.imputer.width]))

    def _center_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and scale of the columns that may have gaps."""
        width = self.imputer.width
        return np.asarray(self.scaling.mean)[:width], self.scaling.scale[:width]

    def _with_rest(self, X: np.ndarray, filled: Filled) -> tuple[np.ndarray, Extra]:
        """Return all columns, and the variance that the gaps add."""
        rows = np.concatenate([filled.X, X[:, filled.X.shape[1] :]], axis=1)
        if self.gains is None or not filled.var.any():
            return rows, None
        return rows, np.minimum(filled.var @ self.gains, MAX_EXTRA)

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, Bool[np.ndarray, " n"], "StreamInputs"]:
        """Return rows moved to the bounds where they lie beyond, which did, and what is known after them."""
        bounds, rows, beyond = self.bounds.learn(X)
        return rows, beyond, self if bounds is self.bounds else replace(self, bounds=bounds)

    def standardised(self, X: np.ndarray) -> np.ndarray:
        """Return the model's inputs, within the bounds, centred and scaled."""
        return self.scaling.transform(self.bounds.clip(X)[0])

    def scaled_by(self, X: np.ndarray, spec: Spec) -> "StreamInputs":
        """Return the same with scaling and bounds by the rows `X` of a warm-up, lags included."""
        return replace(self, scaling=_scaling(X, spec), bounds=_bounds(X, spec))

    def with_lags(self, lags: tuple[int, ...], y: np.ndarray) -> "StreamInputs":
        """Return the same with other lags, after the rows with the targets `y`."""
        if lags == self.lags.lags:
            return self
        return replace(self, lags=LaggedTargets.empty(lags, y.shape[1]).learn(y))


def _scaling(X: np.ndarray, spec: Spec) -> Standardiser:
    """Return mean and scale of the columns; the log of an exposure stays as it is."""
    columns = X * np.r_[np.ones(X.shape[1] - 1), 0.0] if spec.exposure else X
    return robust_standardiser(columns) if spec.robust else Standardiser.empty(X.shape[1]).update(columns)


def _bounds(X: np.ndarray, spec: Spec) -> InputBounds:
    """Return the bounds of the rows; none of few rows, and of an exposure."""
    if not spec.robust or len(X) < MIN_BOUNDED:
        return InputBounds.none(X.shape[1])
    bounds = InputBounds.of(X)
    return replace(
        bounds,
        edge=np.where(np.arange(2 * X.shape[1]) % X.shape[1] < X.shape[1] - spec.exposure, bounds.edge, np.inf),
    )
