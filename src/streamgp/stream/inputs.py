"""From the rows of X, gaps included, to the inputs that a model is given."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.models.spec import Spec
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.standardise import Standardiser, robust_standardiser
from streamgp.stream.bounds import Bounded, InputBounds
from streamgp.stream.categories import Categories
from streamgp.stream.imputation import Filled, Imputer
from streamgp.stream.lags import LaggedTargets
from streamgp.stream.level_effects import LevelEffects
from streamgp.stream.passed_rows import PassedRows
from streamgp.stream.tasks import task_of

MIN_BOUNDED = 16  # rows whose range says how far inputs may go
MAX_EXTRA = 4.0  # times the variance of the target in the warm-up, for missing inputs of a row

Extra = np.ndarray | None  # (n,) variance that the gaps of each row add, in standardised units of the targets
USUAL, FILLED, MOVED = range(3)  # a row's inputs: within bounds; beyond, and filled; beyond, and moved to the bounds


class ReadRows(NamedTuple):
    """Rows as the stream has read them.

    Attributes
    ----------
    X
        The rows (n, W) without gaps, lags left out.
    extra
        The variance that is added by what was missing, or too far out to be believed.
    kinds
        One of `USUAL`, `FILLED` and `MOVED` for each.
    are_whole
        Whether nothing was missing or beyond the bounds. The imputer learns such rows when `with_read` is called.
    """

    X: Float[np.ndarray, "n w"]
    extra: Extra
    kinds: Int[np.ndarray, " n"]
    are_whole: bool


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
    bounds, rest_bounds
        How far out the columns that may have gaps are believed, and the other inputs of the model.
    scaling
        Of the inputs of the model.
    categories
        Which columns of X hold codes of levels. What is said of columns here is said of those that stand for them.
    effects
        What the levels of columns with many are worth: such columns have no gaps and no bounds.
    """

    imputer: Imputer
    gains: Float[np.ndarray, " d"] | None
    lags: LaggedTargets
    bounds: InputBounds
    rest_bounds: InputBounds
    scaling: Standardiser
    categories: Categories
    effects: LevelEffects

    @classmethod
    def empty(cls, spec: Spec, num_inputs: int, num_outputs: int, categories: Categories) -> "StreamInputs":
        """Return what is known before any row."""
        columns = categories.width(num_inputs)
        width = columns + spec.num_past(num_outputs)
        return cls(
            Imputer.empty(columns - spec.exposure),
            None,
            LaggedTargets.empty(spec.lags, num_outputs, spec.exposure),
            *_split(InputBounds.none(width), columns - spec.exposure),
            Standardiser.empty(width),
            categories,
            LevelEffects.empty(
                len(categories.encoded), categories.statistics, spec.horizon, limited=task_of(spec).limits_levels
            ),
        )

    @property
    def width(self) -> int:
        """Inputs of the model."""
        return len(self.scaling.mean)

    @property
    def _own(self) -> int:
        """Columns that may have gaps."""
        return len(self.bounds.repeating)

    def coded(self, X: np.ndarray) -> np.ndarray:
        """Return rows, each as if it were the next one, with numbers for the codes of levels."""
        encoded = self.effects.columns > 0
        worth = self.effects.encode(X[:, self.categories.encoded]) if encoded else np.zeros((len(X), 0, 1))
        return self.categories(X, worth)

    def learn_levels(
        self, X: np.ndarray, values: np.ndarray, *, in_place: bool = False
    ) -> tuple[np.ndarray, "StreamInputs"]:
        """Return rows in order with numbers for codes, and what is known after them, whose targets have these values.

        For the values see `Task.level_values`. To learn `in_place` is for who owns the effects: see `LevelEffects`.
        """
        if not self.effects.columns:
            return self.categories(X, np.zeros((len(X), 0, 1))), self
        effects, worth = self.effects.learn(X[:, self.categories.encoded], values, in_place=in_place)
        return self.categories(X, worth), replace(self, effects=effects)

    def fill(self, X: np.ndarray) -> tuple[np.ndarray, Extra]:
        """Fill each row as if it were the next one."""
        X = self.coded(X)
        bounded = self.bounds.clip(X[:, : self._own])
        if not (np.isnan(X).any() or bounded.beyond.any()):
            return X, None
        filled = self.imputer.fill(_believed(bounded), *self._center_and_scale())
        return self._with_rest(X, _with_moved(filled, bounded, np.asarray(self.bounds.lightness)))

    def have_gaps(self, X: np.ndarray) -> Bool[np.ndarray, " n"]:
        """Return which of the next rows, in order, lack an input or have one beyond the bounds."""
        X = self.coded(X)
        beyond = self.bounds.learn(X[:, : self._own])[1].beyond
        return np.asarray(np.isnan(X).any(axis=1) | beyond.any(axis=1))

    def paths(self, X: np.ndarray, n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the next rows in order, each n times: with what is missing drawn, so that gaps add no variance."""
        X = self.coded(X)
        width = self._own
        bounded = self.bounds.clip(X[:, :width])
        drawn = self.imputer.paths(np.where(bounded.doubtful, np.nan, bounded.X), *self._center_and_scale(), n, rng)
        for row, own in zip(X, drawn, strict=True):
            yield np.concatenate([own, np.tile(row[width:], (n, 1))], axis=1)

    def doubtful(self, X: np.ndarray) -> Bool[np.ndarray, "n d"]:
        """Return which values of the next rows, in order, are taken for missing, as they lie beyond the bounds."""
        return self.bounds.learn(self.coded(X)[:, : self._own])[1].doubtful

    def surprised(self, X: np.ndarray, count: Int[np.ndarray, " d"]) -> "StreamInputs":
        """Return what is known after a row (1, D) by which so many targets spoke for values in doubt."""
        return replace(self, bounds=self.bounds.surprised(self.coded(X)[0, : self._own], count))

    def read(self, X: np.ndarray) -> tuple[ReadRows, "StreamInputs"]:
        """Fill the rows, in order and with numbers for codes, each from those before, and learn them.

        What lies beyond the bounds is as uncertain as what is missing, and the imputer learns none of it.
        """
        if (whole := self.read_whole(X)) is not None:
            return whole
        bounds, bounded = self.bounds.learn(X[:, : self._own])
        # A copy, since the imputer keeps rows, and the caller may write to its own.
        filled, imputer = self.imputer.learn(_believed(bounded), *self._center_and_scale())
        rows, extra = self._with_rest(X, _with_moved(filled, bounded, np.asarray(self.bounds.lightness)))
        moved = (bounded.beyond & ~bounded.doubtful).any(axis=1)
        kinds = np.where(moved, MOVED, np.where(bounded.doubtful.any(axis=1), FILLED, USUAL))
        return ReadRows(rows, extra, kinds, False), replace(self, imputer=imputer, bounds=bounds)

    def read_whole(self, X: np.ndarray) -> "tuple[ReadRows, StreamInputs] | None":
        """Read rows of which none lacks an input, or has one beyond the bounds; return None if some do."""
        own = X[:, : self._own]
        if not self.bounds.hold(own):
            return None
        inputs = replace(self, bounds=self.bounds.learn(own)[0]) if self.bounds.counts else self
        return ReadRows(X, None, np.zeros(len(X), np.int64), True), inputs

    def only_lack(self, X: np.ndarray) -> bool:
        """Return whether all that keeps rows from being whole are gaps, of which it is known what they matter."""
        return self.gains is not None and not self.bounds.clip(X[:, : self._own]).beyond.any()

    def with_read(self, X: np.ndarray) -> "StreamInputs":
        """Return what is known once the imputer has learnt rows that were whole, as `read` returned them."""
        return replace(self, imputer=self.imputer.learn(X[:, : self._own], *self._center_and_scale())[1])

    def refill(self, X: np.ndarray, *, robust: bool) -> tuple[np.ndarray, Extra]:
        """Fill all rows of a stream from its beginning by what is known now; if `robust`, values in doubt as well.

        Those are the values that would be in doubt by the bounds of these rows, were they to come after them. Rows
        have numbers for codes already.
        """
        own = X[:, : self._own]
        filled = self.imputer.refill(own)
        if robust and len(X) >= MIN_BOUNDED:
            doubtful = InputBounds.of(filled.X).clip(filled.X).doubtful & ~self._are_worth
            if doubtful.any():
                filled = self.imputer.refill(np.where(doubtful, np.nan, own))
        return self._with_rest(X, filled)

    @cached_property
    def _are_worth(self) -> Bool[np.ndarray, " d"]:
        """Which of the columns that may have gaps say what levels are worth."""
        return self.categories.are_worth(self._own)

    def _center_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and scale of the columns that may have gaps."""
        width = self._own
        return np.asarray(self.scaling.mean)[:width], self.scaling.scale[:width]

    def _with_rest(self, X: np.ndarray, filled: Filled) -> tuple[np.ndarray, Extra]:
        """Return all columns, and the variance that the gaps add."""
        rows = np.concatenate([filled.X, X[:, filled.X.shape[1] :]], axis=1)
        if self.gains is None or not filled.var.any():
            return rows, None
        return rows, np.minimum(filled.var @ self.gains, MAX_EXTRA)

    def bounded(self, X: np.ndarray) -> tuple[np.ndarray, Bool[np.ndarray, " n"], "StreamInputs"]:
        """Return rows as the model takes them, with lags that lie beyond moved to the bounds.

        Return also which did, and what is known after these rows. The other columns were bounded when they were read.
        """
        width = self._own
        if X.shape[1] == width or (not self.rest_bounds.counts and self.rest_bounds.hold(X[:, width:])):
            return X, np.zeros(len(X), bool), self
        bounds, rest = self.rest_bounds.learn(X[:, width:])
        inputs = self if bounds is self.rest_bounds else replace(self, rest_bounds=bounds)
        return np.concatenate([X[:, :width], rest.X], axis=1), np.asarray(rest.beyond.any(axis=1)), inputs

    def clip(self, X: np.ndarray) -> tuple[np.ndarray, Bool[np.ndarray, "n w"]]:
        """Return rows as the model takes them, moved to the bounds where they lie beyond, and where they do."""
        least, greatest = self._ends
        clipped = np.minimum(np.maximum(X, least), greatest)
        return clipped, clipped != X

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest value of every input of the model."""
        (least, greatest), (rest_least, rest_greatest) = self.bounds.ends, self.rest_bounds.ends
        if not len(rest_least):
            return least, greatest
        return np.concatenate([least, rest_least]), np.concatenate([greatest, rest_greatest])

    def standardised(self, X: np.ndarray) -> np.ndarray:
        """Return the model's inputs, within the bounds, centred and scaled."""
        return self.scaling.transform(self.clip(X)[0])

    def scaled_by(self, X: np.ndarray, spec: Spec) -> "StreamInputs":
        """Return the same with scaling and bounds by the rows `X` of a warm-up, lags included."""
        of_calendar = self.categories.of_calendar(X.shape[1])
        bounds, rest = _split(_bounds(X, spec, self._are_worth, of_calendar), self._own)
        return replace(self, scaling=_scaling(X, spec, of_calendar), bounds=bounds, rest_bounds=rest)

    def with_lags(self, lags: tuple[int, ...], y: np.ndarray, passed: PassedRows) -> "StreamInputs":
        """Return the same with these lags at the end of a warm-up, whose usual targets are `y`, as lags."""
        known = self.lags
        if lags != known.lags or len(passed.after):
            empty = LaggedTargets.empty(lags, y.shape[1], known.exposed)
            known = empty.learn(passed.whole(y, max(lags, default=0)), known.outliers)
        return replace(self, lags=replace(known, outliers=known.outliers.with_usual(y)))


def _split(bounds: InputBounds, width: int) -> tuple[InputBounds, InputBounds]:
    """Return the bounds of the columns that may have gaps, and of the rest: a past target may well come again."""
    return bounds.columns(slice(0, width)), bounds.columns(slice(width, None), remembers=False)


def _believed(bounded: Bounded) -> np.ndarray:
    """Return the rows with gaps where they lie beyond the bounds."""
    return np.where(bounded.beyond, np.nan, bounded.X)


def _with_moved(filled: Filled, bounded: Bounded, lightness: np.ndarray) -> Filled:
    """Return the rows with values beyond at the bounds, but those in doubt.

    They are as uncertain as if they were missing, and by how far what would be filled in is from there: in full where
    tails are light (see `InputBounds`), as a glitch is then more likely.
    """
    moved = bounded.beyond & ~bounded.doubtful
    if not moved.any():
        return filled
    upper, lower = np.split(lightness, 2)
    distance = bounded.X - filled.X
    apart = np.where(moved, np.square(distance * np.where(distance > 0.0, upper, lower)), 0.0)
    return Filled(np.where(moved, bounded.X, filled.X), filled.var + apart)


def _scaling(X: np.ndarray, spec: Spec, of_calendar: Bool[np.ndarray, " w"]) -> Standardiser:
    """Return mean and scale of the columns; the log of an exposure stays as it is.

    Those of the calendar have what they have over whole cycles, of which the rows may show a part.
    """
    columns = X * np.r_[np.ones(X.shape[1] - 1), 0.0] if spec.exposure else X
    found = robust_standardiser(columns) if spec.robust else Standardiser.empty(X.shape[1]).update(columns)
    if not of_calendar.any():
        return found
    m2 = np.where(of_calendar, 0.5 * np.asarray(found.count), found.m2)
    return replace(found, mean=np.where(of_calendar, 0.0, found.mean), m2=m2)


def _bounds(
    X: np.ndarray, spec: Spec, are_worth: Bool[np.ndarray, " d"], of_calendar: Bool[np.ndarray, " w"]
) -> InputBounds:
    """Return the bounds of the rows; none of few rows, of an exposure, and of what levels are worth.

    Those of the calendar are known.
    """
    if not spec.robust or len(X) < MIN_BOUNDED:
        return InputBounds.none(X.shape[1])
    bounds = InputBounds.of(X)
    free = np.arange(X.shape[1]) >= X.shape[1] - spec.exposure
    free[: len(are_worth)] |= are_worth
    edge = np.where(np.tile(free, 2), np.inf, bounds.edge)
    return replace(bounds, edge=np.where(np.tile(of_calendar, 2), 1.0, edge))
