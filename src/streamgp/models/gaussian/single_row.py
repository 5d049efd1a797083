"""An ensemble one row at a time, for robots and services: each predicted or learnt in tens of microseconds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.core import Predictive, recalibration, trimmed
from streamgp.filters.engine.blocks import num_features
from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.engine.rowfilter import RowPrediction
from streamgp.filters.guard import RowGuard
from streamgp.filters.kalman import FilterState
from streamgp.filters.noise import NoiseKinds, NoiseState
from streamgp.models.gaussian.delayed_feedback import ScoringState, drop_non_finite
from streamgp.models.gaussian.mixing import learns_from_target
from streamgp.models.gaussian.model import Ensemble
from streamgp.models.gaussian.resting import BLOCK
from streamgp.models.gaussian.row_stack import RowStack
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.precision import float64
from streamgp.numerics.standardise import Standardiser, standardise
from streamgp.weights import present


class Filters(NamedTuple):
    """The predictions of every stack, and mean (n, E) and variance of its filters, one stack after the other."""

    predictions: list[RowPrediction]
    loc: np.ndarray
    var: np.ndarray


class Experts(NamedTuple):
    """Mean (k, E), variance and degrees of freedom (None: Gaussian) of all experts."""

    loc: np.ndarray
    var: np.ndarray
    dof: np.ndarray | None


class SingleRow:
    """`predict` and `update` of an ensemble for blocks of one row, in the data's units.

    It starts from the state given to `load`, and keeps what it learns to itself until `flush` returns it. Call both
    inside `streamgp.numerics.precision.float64`. Rows that it is given it keeps until the next: they must stay as
    they are.
    """

    def __init__(self, model: Ensemble, inputs: Standardiser, targets: Standardiser, trim: float = 0.0) -> None:
        self._model, self._trim = model, trim
        self._inputs = np.asarray(inputs.mean), inputs.scale
        self._targets = np.asarray(targets.mean), targets.scale
        self._unit = float(model.time_unit)
        # Groups of equal shape are one stack here, whatever their bases, since every call into NumPy takes time.
        stacks: dict[tuple[int, int], list[int]] = {}
        for number, group in enumerate(model.groups):
            stacks.setdefault((num_features(group), group.noise.prior_var.shape[1]), []).append(number)
        self._members = list(stacks.values())
        ends = np.cumsum([group.noise.prior_var.size for group in model.groups])[:-1]
        order = np.split(np.asarray(model.order), ends)
        self._order = [np.concatenate([order[i] for i in members]) for members in self._members]
        self._one = model.num_experts == 1 and not (model.noise.adapt or model.recalibrated or model.rests)
        self._copies = len(model.noise.discounts)
        self._bases = [as_numpy(group.basis) for group in model.groups]
        self._learn_from_target = learns_from_target(model.rule, model.noise)

    def load(self, state: EnsembleState, renewed: Ensemble | None = None) -> None:
        """Go on from the ensemble's state, and with new experts in the places of the old ones if it was renewed."""
        if renewed is not None and renewed is not self._model:
            self._model = renewed
            self._bases = [as_numpy(group.basis) for group in renewed.groups]
        parts = [
            as_numpy((beliefs, group.dynamics, group.noise))
            for group, beliefs in zip(self._model.groups, state.filters, strict=True)
        ]
        self._resting = self._watched = as_numpy(state.resting)
        self._num_watched = 0
        asleep = np.zeros(len(self._model.order), bool) if self._resting is None else self._resting.asleep
        self._stacks = [
            RowStack(members, [parts[i] for i in members], places, ~asleep[places])
            for members, places in zip(self._members, self._order, strict=True)
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
        self._used = {i: self._bases[i] for stack in self._working for i in stack.groups}
        self._regions = [basis for basis in self._used.values() if type(basis).outside is not Basis.outside]
        self._asleep = None if self._resting is None else asleep
        raw = np.asarray(self._model.rule.predict(state.weights))
        self._set_scoring(state.scoring, present(raw, state.absent(self._copies)))
        self._learnt, self._passed, self._weight_sum = 0, 0.0, np.zeros(self._model.num_experts)
        self.score = np.nan  # log density of the last row learnt, as `Info.scores`
        self.last_time = float(state.last_time)
        self._last: tuple[np.ndarray, tuple[float, float], Filters] | None = None
        self._mixed: Experts | None = None
        self._moments: tuple[np.ndarray, np.ndarray] | None = None
        self._is_outside = False

    def predict(
        self, x: Float[np.ndarray, " d"], time: float = np.nan, extra: float = 0.0
    ) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """Return mean and standard deviation of the mixture for the row `x`, in the units of the targets."""
        center, scale = self._targets
        if self._one:
            _, (mean,), variance = self._predict_filters(x, time, extra)
        else:
            mean, variance = self._mean_and_variance(x, time, extra)
        return center + scale * mean, scale * np.sqrt(variance)

    def _mean_and_variance(self, x: np.ndarray, time: float, extra: float) -> tuple[np.ndarray, np.ndarray]:
        """Return those of the mixture, standardised; kept as `_predict_filters` is."""
        log_weights, loc, var, _ = self._mixture(x, time, extra)
        found = self._moments
        if found is None:
            weights = trimmed(np.exp(log_weights), self._trim)
            mean = weights @ loc
            variance = weights @ (var + np.square(loc - mean))
            if self._levels is not None:
                variance = variance * recalibration.variance_factor(recalibration.shares(self._levels))
            self._moments = found = np.asarray(mean), np.asarray(variance)
        return found

    def predictive(self, x: Float[np.ndarray, " d"], time: float = np.nan, extra: float = 0.0) -> Predictive:
        """Return the whole distribution for the row `x`, in the units of the targets."""
        log_weights, loc, var, dof = self._mixture(x, time, extra)
        center, scale = self._targets
        shares = None if self._levels is None else recalibration.shares(self._levels)[None]
        return Predictive(
            log_weights[None],
            (center + scale * loc)[None],
            (scale**2 * var)[None],
            None if dof is None else dof[None],
            self._trim,
            shares,
        )

    def _mixture(
        self, x: np.ndarray, time: float, extra: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return log weights, means, variances and degrees of freedom of the experts, standardised."""
        loc, var, dof = self._experts(x, time, extra)
        log_weights, loc, var = (np.asarray(a) for a in drop_non_finite(self.log_weights, loc, var))
        return log_weights, loc, var, dof

    def learn(
        self, x: Float[np.ndarray, " d"], y: Float[np.ndarray, " e"], time: float = np.nan, extra: float = 0.0
    ) -> tuple[bool, bool]:
        """Learn one row.

        Returns
        -------
        is_outside, flagged
            Whether it lay outside the region that some basis was built for, and whether it was an outlier to most of
            the weight.
        """
        predicted = self._predict_filters(x, time, extra)
        center, scale = self._targets
        y = (y - center) / scale
        is_outlier, flagged = self._learn_filters(predicted, y), False
        if self._one:
            flagged = is_outlier is not None and bool(is_outlier[0])
        else:
            gap = self._elapsed(time)
            if self._resting is not None:
                self._weight_sum += np.exp(self.log_weights)
                self._learnt, self._passed = self._learnt + 1, self._passed + gap
            with float64():
                row = (*self._filters(x, time, extra), y, np.asarray(gap), is_outlier)
                scoring, log_weights, is_flagged, score = self._learn_from_target(self._scoring, self._asleep, row)
                self._set_scoring(scoring, log_weights)
            flagged = is_flagged is not None and bool(is_flagged)
            if score is not None:
                self.score = float(score)
        if not np.isnan(time):
            self.last_time = time if np.isnan(self.last_time) else max(self.last_time, time)
        self._last = None
        return self._is_outside, flagged

    def _set_scoring(self, scoring: ScoringState, log_weights: AnyArray) -> None:
        """Go on with what learns from targets, and the experts' weights for the next row."""
        self._scoring, self.log_weights = scoring, np.asarray(log_weights)
        noise, levels = scoring.noise, scoring.levels
        self._noise = None if noise is None else NoiseState(*map(np.asarray, noise))
        self._levels = None if levels is None else np.asarray(levels)

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

    def _filters(self, x: np.ndarray, time: float, extra: float) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (f, E) and variance (f,) of every filter, in the user's order; NaN of those that rest."""
        found = self._predict_filters(x, time, extra)
        return self._by_filter(found.loc, np.nan), self._by_filter(found.var, np.nan)

    def _experts(self, x: np.ndarray, time: float, extra: float) -> Experts:
        """Return means and variances of the filters, and what all experts predict; kept as `_predict_filters` is."""
        loc, var = self._filters(x, time, extra)
        if self._mixed is None:
            var = np.broadcast_to(var[:, None], loc.shape)
            if self._noise is None:
                self._mixed = Experts(loc, var, None)
            else:
                for_one = NoiseState(*(a[None] for a in self._noise))
                gap = np.full(1, self._elapsed(time))
                # By the class, as elsewhere here: see `_predict_filters`.
                found = NoiseKinds.predict(self._model.noise, for_one, loc[None], var[None], gap)
                self._mixed = Experts(*(np.asarray(a[0]) for a in found))
        return self._mixed

    @property
    def restarted(self) -> Bool[np.ndarray, " filters"]:
        """Return which filters had to start again since `load`, in the user's order."""
        return self._by_filter(np.concatenate([stack.filters.restarted.ravel() for stack in self._working]), False)

    def flush(self) -> EnsembleState:
        """Return the ensemble's state; this object may go on from there."""
        filters: dict[int, FilterState] = {}
        for stack, members in zip(self._stacks, self._members, strict=True):
            filters |= dict(zip(members, stack.flush(), strict=True))
        self._last = None
        in_order = tuple(filters[i] for i in range(len(filters)))
        time = jnp.asarray(self.last_time)
        resting = self._resting
        if resting is not None:
            resting = resting.after(self._weight_sum, self._learnt, self._passed)
        return EnsembleState(in_order, self._scoring.weights, time, self._noise, None, self._levels, resting)

    def rest_is_due(self, scores: Sequence[float], at: int) -> bool:
        """Return whether filters may go to rest or wake after row `at`, the last of all rows since `load`."""
        if self._watched is None or at % BLOCK:
            return False
        new, self._num_watched = scores[self._num_watched :], len(scores)
        self._watched = self._watched.scored(np.asarray(new), at - len(new))
        return self._watched.is_due(at)

    def _predict_filters(self, x: np.ndarray, time: float, extra: float) -> Filters:
        """Predict a row by every filter; kept for `learn`, which follows the prediction of the same row."""
        when = self._elapsed(time), extra
        if self._last is not None and self._last[1] == when and (self._last[0] is x or (self._last[0] == x).all()):
            return self._last[2]
        row = standardise(x, *self._inputs)[None]
        with float64(), np.errstate(all="ignore"):  # the setting is for a user's own basis
            phis = {i: np.asarray(basis(row))[..., 0, :] for i, basis in self._used.items()}
            # By the class: to bind a method to a module makes another module, which takes tens of microseconds.
            self._is_outside = any(type(basis).outside(basis, row).any() for basis in self._regions)
        parts = [stack.predict(phis, *when) for stack in self._working]
        loc = np.concatenate([part.loc.reshape(-1, self._model.num_outputs) for part in parts])
        found = Filters(parts, loc, np.concatenate([part.var.ravel() for part in parts]))
        self._last, self._mixed, self._moments = (x, when, found), None, None
        return found

    def _elapsed(self, time: float) -> float:
        if np.isnan(time) or np.isnan(self.last_time):
            return 1.0
        return max((time - self.last_time) / self._unit, 0.0)
