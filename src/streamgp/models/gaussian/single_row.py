"""An ensemble one row at a time, for robots and services: each predicted or learnt in tens of microseconds."""

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.engine.rowfilter import RowPrediction
from streamgp.filters.guard import RowGuard
from streamgp.filters.kalman import FilterState
from streamgp.likelihoods import Predictive
from streamgp.models.contract import Info, Moments
from streamgp.models.gaussian.parts import EnsembleParts
from streamgp.models.gaussian.resting import BLOCK, rested
from streamgp.models.gaussian.row_scoring import RowScoring
from streamgp.models.gaussian.row_stack import RowStack
from streamgp.models.gaussian.scoring_kernel import Sizes
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics.native import library
from streamgp.numerics.precision import float64
from streamgp.numerics.standardise import Standardiser, standardise
from streamgp.numerics.threads import one_blas_thread

Row = Float[np.ndarray, "1 d"]

# Numbers in a matrix from which on OpenBLAS shares its product with a vector among threads that wait for each other.
_SHARED = 96 * 96


class Filters(NamedTuple):
    """The predictions of every stack, and mean (n, E) and variance of its filters, one stack after the other.

    They are of a `row`, standardised, that came `elapsed` units of time after the last one.
    """

    predictions: list[RowPrediction]
    loc: np.ndarray
    var: np.ndarray
    elapsed: float
    row: np.ndarray


class SingleRow:
    """The `RowEngine` of an ensemble. Call `load` and `flush` inside `streamgp.numerics.precision.float64`.

    Rows that it is given it keeps until the next: they must stay as they are.
    """

    def __init__(self, model: EnsembleParts, inputs: Standardiser, targets: Standardiser, trim: float = 0.0) -> None:
        self._model, self._trim = model, trim
        self._inputs = np.asarray(inputs.mean), inputs.scale
        self._targets = np.asarray(targets.mean), targets.scale
        self._unit = float(model.time_unit)
        self._threads = one_blas_thread() if _largest_product(model) >= _SHARED else nullcontext()
        # Groups of equal shape are one stack here, whatever their bases, since every call into NumPy takes time.
        stacks: dict[tuple[int, int], list[int]] = {}
        for number, group in enumerate(model.groups):
            stacks.setdefault((group.basis.num_features, group.noise.prior_var.shape[1]), []).append(number)
        self._members = list(stacks.values())
        ends = np.cumsum([group.noise.prior_var.size for group in model.groups])[:-1]
        order = np.split(np.asarray(model.order), ends)
        self._order = [np.concatenate([order[i] for i in members]) for members in self._members]
        self._one = model.num_experts == 1 and not (
            model.noise.adapt or model.recalibrated or model.rests or model.noise_inputs is not None
        )
        self._bases = [as_numpy(group.basis) for group in model.groups]
        self._rule = as_numpy(model.rule)

    def load(self, model: EnsembleParts, state: EnsembleState) -> None:
        """Go on from a state of the ensemble, or of one with new experts in their places."""
        if model is not self._model:
            self._model, self._rule = model, as_numpy(model.rule)
            self._bases = [as_numpy(group.basis) for group in model.groups]
        parts = [
            as_numpy((beliefs, group.dynamics, group.noise))
            for group, beliefs in zip(self._model.groups, state.filters, strict=True)
        ]
        self._resting = self._watched = as_numpy(state.resting)
        self._rows, self.is_due = 0 if self._resting is None else int(self._resting.at), False
        self._scores: list[float] = []  # log densities of the rows learnt
        asleep = np.zeros(len(self._model.order), bool) if self._resting is None else self._resting.asleep
        self._stacks = [
            RowStack(members, [parts[i] for i in members], places, ~asleep[places], turn / len(self._members))
            for turn, (members, places) in enumerate(zip(self._members, self._order, strict=True), 1)
        ]
        self._working = [stack for stack in self._stacks if not stack.is_empty]
        self._places = np.concatenate([stack.places for stack in self._working])
        self._in_order = np.array_equal(self._places, np.arange(len(self._model.order)))
        self._guard = None
        if self._model.guarded:
            self._guard = RowGuard(
                [stack.filters.guard for stack in self._working if stack.filters.guard is not None]
            )
            for stack, guard in zip(self._working, self._guard.parts, strict=True):
                stack.filters.guard = guard
        used = {i: self._bases[i] for stack in self._working for i in stack.groups}
        self._evaluators = {i: basis.evaluator() for i, basis in used.items()}
        self._regions = [basis for basis in used.values() if basis.is_bounded]
        resting, inputs = None if self._resting is None else asleep, as_numpy(self._model.noise_inputs)
        which = None if inputs is None else inputs.which
        model = self._model
        sizes = Sizes(len(model.order), len(model.noise), model.num_outputs, len(self._inputs[0]))
        scoring = as_numpy(state.scoring)
        self._scoring = RowScoring(self._rule, self._model.noise, scoring, resting, which, sizes, self._trim)
        self._learnt, self._passed, self._weight_sum = 0, 0.0, np.zeros(self._model.num_experts)
        self.last_time = float(state.last_time)
        self._last: tuple[np.ndarray, float, Filters] | None = None
        self._scored: Filters | None = None
        self._is_outside = False

    def moments(self, X: Row, times: np.ndarray | None = None, extra: np.ndarray | None = None) -> Moments:
        """Predict mean and standard deviation of the mixture."""
        center, scale = self._targets
        found = self._predict_filters(X, times, extra)
        if self._one:
            return Moments(center + scale * found.loc, scale * np.sqrt(found.var[:, None]))
        self._score(found)
        mean, variance = self._scoring.moments()
        return Moments((center + scale * mean)[None], (scale * np.sqrt(variance))[None])

    def _score(self, filters: Filters) -> None:
        """Let the scoring know what the filters predict, if it does not."""
        if self._scored is not filters:
            self._scoring.predict(*self._in_users_order(filters), filters.elapsed, filters.row)
            self._scored = filters

    def predict(
        self, X: Row, times: np.ndarray | None = None, extra: np.ndarray | None = None, ahead: float = 1.0
    ) -> Predictive:
        """Predict the whole distribution of a row, which without times is so many rows `ahead` of the last one."""
        self._score(self._predict_filters(X, times, extra, ahead))
        log_weights, loc, var, dof, factor, shares = self._scoring.mixture()
        center, scale = self._targets
        return Predictive(
            log_weights[None],
            (center + scale * loc)[None],
            (scale**2 * var)[None],
            None if dof is None else dof[None],
            self._trim,
            None if shares is None else shares[None],
            noise=None if factor is None else factor[None],
        )

    def update(
        self,
        X: Row,
        y: Float[np.ndarray, "1 e"],
        times: np.ndarray | None = None,
        *,
        later: np.ndarray | None = None,
        extra: np.ndarray | None = None,
        moved: np.ndarray | None = None,
    ) -> Info:
        """Learn a row; its prediction is not reported, and nothing is forecast."""
        predicted = self._predict_filters(X, times, extra)
        center, scale = self._targets
        target = (y[0] - center) / scale
        is_outlier, flagged = self._learn_filters(predicted, target), None
        if self._one:
            flagged = is_outlier
        else:
            if self._resting is not None:
                self._weight_sum += self.weights
                self._learnt, self._passed = self._learnt + 1, self._passed + predicted.elapsed
            self._score(predicted)
            is_flagged, score = self._scoring.learn(target, is_outlier)
            flagged = None if is_flagged is None else np.array([is_flagged])
            if score is not None:
                self._watch(score)
        if times is not None:
            self.last_time = float(times[0]) if np.isnan(self.last_time) else max(self.last_time, float(times[0]))
        self._last = None
        return Info(None, np.array([self._is_outside]), flagged=flagged)

    def _watch(self, score: float) -> None:
        """Look, at the end of a block of rows, whether filters may go to rest or wake."""
        self._scores.append(score)
        self._rows += 1
        if self._rows % BLOCK == 0 and self._watched is not None:
            block = np.asarray(self._scores[-BLOCK:])
            self._watched = self._watched.scored(block, self._rows - len(block))
            self.is_due = self._watched.is_due(self._rows)

    def _learn_filters(self, predicted: Filters, y: np.ndarray) -> Bool[np.ndarray, " filters"] | None:
        """Learn standardised targets in every filter; return which take them for outliers, None without guards."""
        error, var, is_outlier = y - predicted.loc, predicted.var, None
        if self._guard is not None:
            is_outlier, error, var = self._guard.learn(error, var)
            is_outlier = self._by_filter(is_outlier, False)
        step, std, at = error / var[:, None], np.sqrt(var), 0
        for stack, prediction in zip(self._working, predicted.predictions, strict=True):
            these, at = slice(at, at + prediction.var.size), at + prediction.var.size
            shape = prediction.loc.shape
            stack.filters.learn(prediction, step[these].reshape(shape), std[these].reshape(shape[:2]))
        return is_outlier

    def _by_filter(self, found: np.ndarray, missing: Any) -> np.ndarray:
        """Bring what the filters that work gave, one stack after the other, in the user's order.

        The others get `missing`.
        """
        if self._in_order:
            return found
        whole = np.full((len(self._model.order), *found.shape[1:]), missing, found.dtype)
        whole[self._places] = found
        return whole

    def _in_users_order(self, filters: Filters) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (f, E) and variance (f,) of every filter; NaN of those that rest."""
        return self._by_filter(filters.loc, np.nan), self._by_filter(filters.var, np.nan)

    @property
    def restarted(self) -> frozenset[int]:
        """Return which filters had to start again since `load`, in the user's order."""
        which = np.concatenate([stack.filters.restarted.ravel() for stack in self._working])
        return frozenset(np.flatnonzero(self._by_filter(which, False)).tolist())

    @property
    def log_weights(self) -> Float[np.ndarray, " k"]:
        """The logarithms of `weights`."""
        return self._scoring.log_weights

    @property
    def weights(self) -> Float[np.ndarray, " k"]:
        """The experts' weights for the next row."""
        return np.exp(self._scoring.log_weights)

    @property
    def rules(self) -> Float[np.ndarray, " r"] | None:
        """The weights of several rules for the next row; None of a single one."""
        return self._scoring.rules

    def flush(self) -> EnsembleState:
        """Return the ensemble's state; `load` it to go on."""
        filters: dict[int, FilterState] = {}
        for stack, members in zip(self._stacks, self._members, strict=True):
            filters |= dict(zip(members, stack.flush(), strict=True))
        self._last = None
        in_order = tuple(filters[i] for i in range(len(filters)))
        time = np.asarray(self.last_time)
        resting = self._resting
        if resting is not None:
            resting = resting.after(self._weight_sum, self._learnt, self._passed)
        state = EnsembleState.of([*in_order], self._scoring.state, time, resting)
        return state if resting is None else rested(self._model, state, np.asarray(self._scores))

    def _predict_filters(
        self, X: Row, times: np.ndarray | None, extra: np.ndarray | None, ahead: float = 1.0
    ) -> Filters:
        """Predict a row by every filter; kept for `update`, which follows the prediction of the same row."""
        elapsed, noise = ahead, 0.0 if extra is None else float(extra[0])
        if times is not None and not np.isnan(self.last_time):
            elapsed = max((float(times[0]) - self.last_time) / self._unit, 0.0)
        if self._last is not None:
            at, added, found = self._last
            if added == noise and found.elapsed == elapsed and (at is X or (at == X).all()):
                return found
        row = standardise(X, *self._inputs)
        with self._threads:
            with float64(), np.errstate(all="ignore"):  # the setting is for a user's own basis
                phis = {i: np.asarray(phi(row))[..., 0, :] for i, phi in self._evaluators.items()}
                self._is_outside = any(basis.outside(row).any() for basis in self._regions)
            parts = [stack.predict(phis, elapsed, noise) for stack in self._working]
        loc = np.concatenate([part.loc.reshape(-1, self._model.num_outputs) for part in parts])
        found = Filters(parts, loc, np.concatenate([part.var.ravel() for part in parts]), elapsed, row)
        self._last = X, noise, found
        return found


def _largest_product(model: EnsembleParts) -> float:
    """Return how many numbers the largest matrix has whose product with a vector a row asks BLAS for."""
    largest = max(group.basis.largest_product for group in model.groups)
    if library() is not None:  # the filters' products are the kernel's own
        return largest
    return max(largest, *(group.basis.num_features**2 for group in model.groups))
