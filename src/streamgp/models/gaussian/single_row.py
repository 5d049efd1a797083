"""An ensemble one row at a time, for robots and services: each predicted or learnt in tens of microseconds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from streamgp.core import Predictive, recalibration, trimmed
from streamgp.filters.engine.blocks import num_features
from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.engine.rowfilter import RowFilter, RowPrediction
from streamgp.filters.kalman import FilterState
from streamgp.filters.noise import NoiseState
from streamgp.models.gaussian.delayed_feedback import drop_non_finite, fill_missing_density
from streamgp.models.gaussian.model import Ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics import student_t
from streamgp.numerics.standardise import Standardiser, standardise
from streamgp.precision import float64
from streamgp.weights import OUTLIER_LOG_DENSITY, scan_rule


class SingleRow:
    """`predict` and `update` of an ensemble for blocks of one row, in the data's units.

    It starts from the state given to `load`, and keeps what it learns to itself until `flush` returns it. Call both
    inside `streamgp.precision.float64`.
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
        self._stacks = list(stacks.values())
        ends = np.cumsum([group.noise.prior_var.size for group in model.groups])[:-1]
        order = np.split(np.asarray(model.order), ends)
        self._back = np.argsort(np.concatenate([order[i] for members in self._stacks for i in members]))
        self._one = model.num_experts == 1 and not model.noise.adapt and not model.recalibrated
        self._copies = len(model.noise.discounts)
        self._bases = [as_numpy(group.basis) for group in model.groups]

        def learn_weights(weights: Any, log_density: jax.Array, is_outlier: Any) -> tuple[Any, jax.Array]:
            least = OUTLIER_LOG_DENSITY * model.num_outputs
            weights, _ = scan_rule(model.rule, weights, log_density[None], None, is_outlier, least)
            return weights, model.rule.predict(weights)

        self._learn_weights = jax.jit(learn_weights)

    def load(self, state: EnsembleState, renewed: Ensemble | None = None) -> None:
        """Go on from the ensemble's state, and with new experts in the places of the old ones if it was renewed."""
        if renewed is not None and renewed is not self._model:
            self._model = renewed
            self._bases = [as_numpy(group.basis) for group in renewed.groups]
        parts = [
            as_numpy((beliefs, group.dynamics, group.noise))
            for group, beliefs in zip(self._model.groups, state.filters, strict=True)
        ]
        joined = [[parts[i] for i in members] for members in self._stacks]
        self._filters = [RowFilter(*jax.tree.map(lambda *a: np.concatenate(a), *members)) for members in joined]
        self._weights, self._noise, self._levels = state.weights, as_numpy(state.noise), as_numpy(state.levels)
        self.log_weights: np.ndarray | jax.Array = np.asarray(self._model.rule.predict(state.weights))
        self.last_time = float(state.last_time)
        self._last: tuple[np.ndarray, tuple[float, float], list[RowPrediction]] | None = None
        self._is_outside = False

    def predict(
        self, x: Float[np.ndarray, " d"], time: float = np.nan, extra: float = 0.0
    ) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """Return mean and standard deviation of the mixture for the row `x`, in the units of the targets."""
        center, scale = self._targets
        if self._one:
            (prediction,) = self._predict_filters(x, time, extra)
            mean, variance = prediction.loc[0, 0], prediction.var[0]
        else:
            log_weights, loc, var, _ = self._mixture(x, time, extra)
            weights = trimmed(np.exp(log_weights), self._trim)
            mean = weights @ loc
            variance = weights @ (var + np.square(loc - mean))
            if self._levels is not None:
                variance = variance * recalibration.variance_factor(recalibration.shares(self._levels))
        return center + scale * mean, scale * np.sqrt(variance)

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
        filters = self._collect(self._predict_filters(x, time, extra))
        loc, var, dof = self._experts(*filters, np.asarray(self._elapsed(time)))
        log_weights, loc, var = (np.asarray(a) for a in drop_non_finite(np.asarray(self.log_weights), loc, var))
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
        predictions = self._predict_filters(x, time, extra)
        center, scale = self._targets
        y = (y - center) / scale
        found = [filter.learn(a, y) for filter, a in zip(self._filters, predictions, strict=True)]
        is_outlier, flagged = None, False
        if found[0] is not None:
            is_outlier = np.concatenate([np.ravel(f) for f in found if f is not None])[self._back]
        if self._one:
            flagged = is_outlier is not None and bool(is_outlier[0])
        else:
            filters = self._collect(predictions)
            gap = np.asarray(self._elapsed(time))
            loc, var, dof = self._experts(*filters, gap)
            with np.errstate(over="ignore", invalid="ignore"):
                log_density = student_t.log_density(y - loc, var, None if dof is None else dof[:, None]).sum(-1)
                if self._noise is not None:
                    noise = self._model.noise
                    self._noise = noise.update(self._noise, y - filters[0], filters[1], gap, is_outlier)
            each = None if is_outlier is None else np.repeat(is_outlier, self._copies)
            flagged = each is not None and bool(np.exp(np.asarray(self.log_weights)) @ each > 0.5)
            if self._levels is not None:
                log_weights, loc, var = (a[None] for a in drop_non_finite(np.asarray(self.log_weights), loc, var))
                predictive = Predictive(log_weights, loc, var, None if dof is None else dof[None])
                self._levels = recalibration.learn(self._levels, predictive.levels(y[None])[0])
            with float64():
                rows = None if each is None else each[None]
                self._weights, self.log_weights = self._learn_weights(
                    self._weights, fill_missing_density(log_density), rows
                )
        if not np.isnan(time):
            self.last_time = time if np.isnan(self.last_time) else max(self.last_time, time)
        self._last = None
        return self._is_outside, flagged

    def _collect(self, predictions: list[RowPrediction]) -> tuple[Float[np.ndarray, "k e"], Float[np.ndarray, "k e"]]:
        """Join mean and variance of all filters in the user's order."""
        loc = np.concatenate([a.loc.reshape(-1, self._model.num_outputs) for a in predictions])[self._back]
        var = np.concatenate([a.var.reshape(-1) for a in predictions])[self._back]
        return loc, np.broadcast_to(var[:, None], loc.shape)

    def _experts(
        self, loc: Float[np.ndarray, "k e"], var: Float[np.ndarray, "k e"], gap: Float[np.ndarray, ""]
    ) -> tuple[Float[np.ndarray, "kinds e"], Float[np.ndarray, "kinds e"], Float[np.ndarray, " kinds"] | None]:
        """Return mean, variance and degrees of freedom (None: Gaussian) of all experts, from those of the filters."""
        if self._noise is None:
            return loc, var, None
        for_one = NoiseState(*(a[None] for a in self._noise))
        mean, scaled, dof = self._model.noise.predict(for_one, loc[None], var[None], gap[None])
        return np.asarray(mean[0]), np.asarray(scaled[0]), np.asarray(dof[0])

    @property
    def restarted(self) -> Bool[np.ndarray, " filters"]:
        """Return which filters had to start again since `load`, in the user's order."""
        return np.concatenate([filter.restarted.ravel() for filter in self._filters])[self._back]

    def flush(self) -> EnsembleState:
        """Return the ensemble's state; this object may go on from there."""
        filters: dict[int, FilterState] = {}
        for filter, members in zip(self._filters, self._stacks, strict=True):
            joined = filter.flush()
            ends = np.cumsum([len(self._model.groups[i].noise.prior_var) for i in members])
            for i, end in zip(members, ends, strict=True):
                part = slice(end - len(self._model.groups[i].noise.prior_var), end)
                filters[i] = jax.tree.map(lambda a, part=part: a[part], joined)
        self._last = None
        in_order = tuple(filters[i] for i in range(len(filters)))
        time = jnp.asarray(self.last_time)
        return EnsembleState(in_order, self._weights, time, self._noise, None, self._levels)

    def _predict_filters(self, x: np.ndarray, time: float, extra: float) -> list[RowPrediction]:
        """Predict a row by every filter; kept for `learn`, which follows the prediction of the same row."""
        when = self._elapsed(time), extra
        if self._last is not None and self._last[1] == when and (self._last[0] == x).all():
            return self._last[2]
        row = standardise(x, *self._inputs)[None]
        with float64(), np.errstate(all="ignore"):  # the setting is for a user's own basis
            phis = [np.asarray(basis(row))[..., 0, :] for basis in self._bases]
            # By the class: to bind a method to a module makes another module, which takes tens of microseconds.
            self._is_outside = any(type(basis).outside(basis, row).any() for basis in self._bases)
        predictions = [
            filter.predict(phis[members[0]] if len(members) == 1 else self._stack(phis, members), *when)
            for filter, members in zip(self._filters, self._stacks, strict=True)
        ]
        self._last = (x.copy(), when, predictions)
        return predictions

    def _stack(self, phis: list[np.ndarray], members: list[int]) -> np.ndarray:
        """Join the features of several groups; a basis without parameters gives one row for all copies."""
        copies = [np.shape(self._model.groups[i].noise.prior_var)[0] for i in members]
        shapes = [(n, phis[i].shape[-1]) for n, i in zip(copies, members, strict=True)]
        return np.concatenate([np.broadcast_to(phis[i], s) for i, s in zip(members, shapes, strict=True)])

    def _elapsed(self, time: float) -> float:
        if np.isnan(time) or np.isnan(self.last_time):
            return 1.0
        return max((time - self.last_time) / self._unit, 0.0)
