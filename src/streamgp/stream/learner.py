"""One stream from its first row on: provisional predictions, the warm-up's fit, then the ensemble.

Everything that happens depends on the number of rows learnt, never on how they were cut into chunks.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.checkpoint.encoding import decode, encode
from streamgp.core import Info, Predictive, StreamModel
from streamgp.likelihoods import AnyPredictive
from streamgp.models.base import FittedExpert, WarmupRows
from streamgp.models.expert import Expert
from streamgp.models.families import family_of
from streamgp.models.gaussian.provisional import provisional_experts
from streamgp.models.gaussian.warmup import prior_log_weights
from streamgp.models.spec import Spec
from streamgp.numerics.batching import BATCH_SIZES, COMPILED_BATCH_SIZES, concatenate, split_batches
from streamgp.numerics.standardise import Standardiser, robust_standardiser
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.bounds import InputBounds
from streamgp.stream.forecast_queue import Forecasts, Origins
from streamgp.stream.imputation import Filled, Imputer
from streamgp.stream.lags import LaggedTargets
from streamgp.stream.tasks import TRIM, task_of

LEAST_BOUNDED = 16  # rows whose range says how far inputs may go
_Stretch = tuple[np.ndarray, np.ndarray, np.ndarray]
_PROBES = 1024  # rows that are predicted to find out what the columns matter
_MEASURED = BATCH_SIZES[0]  # at row counts that are multiples of it, if anything was missing so far
_MOST_EXTRA = 4.0  # times the variance of the target in the warm-up, for missing inputs of a row


class StreamLearner:
    """Predicts and learns in the units of the data, on NumPy arrays; float64 throughout.

    Until row `warmup`, rows are predicted by a provisional ensemble with default hyperparameters, standardised by and
    conditioned on the rows before: it is rebuilt at rows 1, 2, 4, 8, ... At row `warmup` the standardisation
    is frozen, the experts of `spec` are fitted to the rows so far, and the buffer is let go.

    With a horizon h, targets are learnt with the inputs of h rows before, and each row is predicted by the forecast
    that was made of it h rows before; the very first h rows, by the prior.

    Parameters
    ----------
    spec
        The model.
    num_inputs, num_outputs
        Columns of X and of y.
    warmup
        Rows to collect before the fit.
    seed
        Seed of everything random.
    timed
        Whether every row comes with a time stamp.
    progress
        Called during the fit with the number of fits done and to do.
    num_classes
        For labels, how many classes are known at the start, with codes from 0; for grades, how many there are.

    Raises
    ------
    ValueError
        If a basis of `spec` cannot take so many inputs, or the warm-up has no row with the longest lag and horizon;
        or if there are both times and a horizon: what will have changed depends on a time that is not known yet.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        num_inputs: int,
        num_outputs: int = 1,
        warmup: int = 1000,
        seed: int = 0,
        timed: bool = False,
        progress: Callable[[int, int], None] | None = None,
        num_classes: int = 0,
    ) -> None:
        width = num_inputs + num_outputs * len(spec.lags)
        spec.check(width, warmup)
        if timed and spec.horizon:
            raise ValueError(
                f"horizon: expected a stream without times, since that of the row {spec.horizon} rows ahead is not "
                f"known; leave the times out, or make them an input"
            )
        self._lags = LaggedTargets.empty(spec.lags, num_outputs)
        self._imputer = Imputer.empty(num_inputs - spec.exposure)
        self._unread: tuple[np.ndarray, ...] = ()  # complete rows that the imputer has yet to learn
        # Mean squared change of the prediction by a unit of each column; None while nothing was missing.
        self._gains: np.ndarray | None = None
        self.imputed_values = 0
        self.spec = spec
        self._task = task_of(spec)
        self.num_inputs = num_inputs
        self.num_outputs = num_outputs
        self.warmup = warmup
        self.seed = seed
        self.timed = timed
        self.progress = progress
        # Before the first label there is one class all the same: whatever comes has code 0.
        self.num_classes = max(num_classes, 1)
        self._work_starts = warmup + max(spec.horizon - 1, 0)  # the first row that the fitted ensemble predicts
        self.rows = 0
        self.outside_rows = 0
        self.flagged_rows = 0
        self.restarted: frozenset[int] = frozenset()  # filters that have had to start again
        self.experts: list[FittedExpert] = []
        # The warm-up's rows so far, (X, y, times) of each stretch; the arrays are never written to.
        self._kept: list[_Stretch] | None = [(np.zeros((0, num_inputs)), np.zeros((0, num_outputs)), np.zeros(0))]
        self._inputs = Standardiser.empty(width)
        self._bounds = InputBounds.none(width)
        self._targets = Standardiser.empty(num_outputs)
        with jax.enable_x64(True):
            self._model: StreamModel = self._provisional(np.zeros((0, width)), np.zeros((0, num_outputs)))
            self._state: Any = self._model.init(jax.random.key(seed), spec.horizon)
        self._origins = Origins.empty(spec.horizon, width)
        # Rows that come singly after the warm-up; while `_singly`, it and not `_state` knows what was learnt last.
        self._rowwise: Any = None
        self._singly = False
        self._forecasts = Forecasts()
        if spec.horizon:
            self._forecasts = Forecasts(((self._predict(np.zeros((spec.horizon, width))), None),))

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over and the fitted ensemble at work."""
        return self._kept is None

    @property
    def at_work(self) -> bool:
        """Whether the next row is, or was, predicted by the fitted ensemble."""
        return self.rows >= self._work_starts

    @property
    def longest_stretch(self) -> int:
        """How many of the coming rows are learnt in one go at most."""
        most = BATCH_SIZES[0] if self.at_work else self._next_boundary() - self.rows
        return most if self._gains is None else min(most, _MEASURED - self.rows % _MEASURED)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Rows of the pieces that reach the model."""
        return self._model.batch_sizes if self.warm else self._model.warmup_batch_sizes

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        last = self._rowwise.last_time if self._singly and self._rowwise else float(self._state.last_time)
        return None if np.isnan(last) else last

    @property
    def weights(self) -> np.ndarray:
        """The experts' weights for the next row."""
        if self._singly and self._rowwise:
            return np.exp(self._rowwise.log_weights)
        with jax.enable_x64(True):
            return self._model.expert_weights(self._state)

    @property
    def local_models(self) -> list[dict[str, Any]]:
        """When each local Gaussian process was born, where it is and what it believes, in the units of the data."""
        with jax.enable_x64(True):
            return self._model.describe_parts(self._state, self._inputs, self._targets)

    @property
    def rules(self) -> dict[str, float]:
        """How much each of several weight rules counts for the next row, by name; empty where there is one."""
        with jax.enable_x64(True):
            self._settle()
        return self._model.rule_weights(self._state) if self.experts else {}

    @property
    def target_scale(self) -> np.ndarray:
        """The standard deviations by which the targets are standardised now."""
        return np.asarray(self._targets.scale)

    @property
    def constant_targets(self) -> list[float | None]:
        """For each target, its value where it had a single one in the rows that set its scale, else None."""
        return self._task.constant(self._targets)

    def predict(self, X: np.ndarray, times: np.ndarray | None = None) -> AnyPredictive:
        """Predict each row as if it were the next one, in the units of the targets; inputs may be missing (NaN).

        With a horizon h, forecast the target h rows after the last one learnt, were each row's inputs those of that.
        """
        X, extra = self._filled(X)
        return self._predict(self._lags.widen_next(X, self._targets.mean), times, extra)

    def _predict(
        self, X: np.ndarray, times: np.ndarray | None = None, extra: np.ndarray | None = None
    ) -> AnyPredictive:
        parts = []
        # What is rounded by BLAS' threads would depend on how many there are.
        with jax.enable_x64(True), one_blas_thread():
            self._settle()
            for rows, size in split_batches(len(X), self._sizes):
                piece = self._piece(X[rows], None if times is None else times[rows], size)
                more = self._more(extra, rows, size)
                predictive = self._model.predict(self._state, piece["X"], piece["times"], **more)
                n = rows.stop - rows.start
                parts.append(self._task.in_units(predictive, n, self._targets, self.num_classes))
        return concatenate(parts)

    def learn(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None = None) -> Iterator[Info]:
        """Learn from the rows in order, telling of consecutive stretches what was predicted one step ahead.

        Inputs that are missing (NaN) are filled from what came before. A row with a target missing is predicted and
        nothing else; a stretch holds only such rows, or none.

        The number of experts changes at the end of the warm-up, so a stretch never crosses it. Nothing
        happens until the iterator is advanced, and a stretch is learnt when it is given.
        """
        at = 0
        while at < len(X):
            rows = slice(at, min(len(X), at + self.longest_stretch))
            unlabelled = _has_nan(y[rows])
            if unlabelled[0]:
                rows = slice(at, at + _leading(unlabelled))
                part = self._pass_over(X[rows], None if times is None else times[rows])
                at = rows.stop
                yield part
                continue
            rows = slice(at, at + min(_leading(~unlabelled), self._before_gap(X[rows])))
            learn = self._learn_stretch
            new = self._task.new_class(y[rows], self.num_classes)
            if new == 0:
                rows, learn = slice(at, at + 1), self._learn_new_class
            elif new is not None:
                rows = slice(at, at + new)
            part = learn(X[rows], y[rows], None if times is None else times[rows])
            at = rows.stop
            yield part

    def predict_one(self, x: np.ndarray, time: float = np.nan) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (E,) of one row after the warm-up; `learn_one` of it is then cheap."""
        if not self._learns_singly or np.isnan(x).any():
            predictive = self.predict(x[None], self._stamp(time))
            with jax.enable_x64(True):
                return np.asarray(predictive.mean[0]), np.asarray(predictive.std[0])
        x = self._bounds.clip(self._lags.widen_next(x[None], self._targets.mean))[0][0]
        return self._row_by_row().predict(x, time)

    def learn_one(self, x: np.ndarray, y: np.ndarray, time: float = np.nan) -> None:
        """Learn one row after the warm-up; without a horizon, not every covariance is touched each time."""
        if not self._learns_singly or np.isnan(x).any() or np.isnan(y).any():
            next(self.learn(x[None], y[None], self._stamp(time)))
            return
        self._unread += (x.copy(),)
        self._bounds, rows, beyond = self._bounds.learn(self._lags.widen_next(x[None], self._targets.mean))
        x = rows[0]
        predicted = self._row_by_row().predict(x, time)[0] if self._lags.lags else y
        outside, flagged = self._row_by_row().learn(x, y, time)
        self.outside_rows += outside or bool(beyond[0])
        self.flagged_rows += flagged
        self._lags = self._lags.learn((predicted if flagged else y)[None])
        self.rows += 1
        if self.rows % BATCH_SIZES[1] == 0:
            self._read()
            self._remeasure()

    def _stamp(self, time: float) -> np.ndarray | None:
        return np.array([time]) if self.timed else None

    @property
    def _learns_singly(self) -> bool:
        return self._model.has_single_row and not self.spec.horizon

    def _row_by_row(self) -> Any:
        if not self._singly:
            with jax.enable_x64(True):
                if self._rowwise is None:
                    trim = TRIM if self.spec.robust else 0.0
                    self._rowwise = self._model.single_row(self._inputs, self._targets, trim)
                self._rowwise.load(self._state.unsharded())
            self._singly = True
        return self._rowwise

    def _settle(self) -> None:
        """Make `_state` say what the rows that came singly have taught."""
        if self._singly and self._rowwise:
            self._state = self._rowwise.settle()
            self.restarted = self.restarted | frozenset(np.flatnonzero(self._rowwise.restarted).tolist())
            self._singly = False

    # Missing values

    def _before_gap(self, X: np.ndarray) -> int:
        """How many of the rows come before the stream's first gap; at that one, what columns matter is measured."""
        gaps = _has_nan(X)
        if self._gains is None and gaps[0]:
            self._gains = self._measured_gains()
        return len(X) if self._gains is not None else _leading(~gaps)

    def _read(self) -> Imputer:
        """The imputer after all rows that were learnt."""
        if self._unread:
            self._imputer = self._learnt(np.stack(self._unread))[1]
            self._unread = ()
        return self._imputer

    def _learnt(self, X: np.ndarray) -> tuple[Filled, Imputer]:
        width = self._imputer.width
        return self._imputer.learn(X[:, :width], *self._places())

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scale of the columns that may have gaps."""
        width = self._imputer.width
        return np.asarray(self._inputs.mean)[:width], self._inputs.scale[:width]

    def _filled(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows to predict, each as if it were the next one, without gaps; and what variance that adds."""
        if not np.isnan(X).any():
            return X, None
        imputer = self._read()
        gains = self._measured_gains() if self._gains is None else self._gains
        return self._joined(X, imputer.fill(X[:, : imputer.width], *self._places()), gains)

    def _filled_and_learnt(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows to learn, without gaps, and what variance that adds; the imputer learns them."""
        self._read()
        filled, self._imputer = self._learnt(X.copy())  # it keeps some rows, and the caller may write to its own
        self.imputed_values += int(np.isnan(X).sum())
        return self._joined(X, filled, self._gains)

    def _joined(
        self, X: np.ndarray, filled: Filled, gains: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if gains is None or not filled.var.any():
            return np.concatenate([filled.X, X[:, filled.X.shape[1] :]], axis=1), None
        extra = np.minimum(filled.var @ gains, _MOST_EXTRA)
        return np.concatenate([filled.X, X[:, filled.X.shape[1] :]], axis=1), extra

    def _remeasure(self) -> None:
        """At some row counts, find out again what columns matter to the model."""
        if self._gains is not None and self.rows % _MEASURED == 0:
            self._gains = self._measured_gains()

    def _measured_gains(self) -> np.ndarray:
        """By how much the prediction changes, squared and in standardised units, with each column: see `Imputer`."""
        imputer = self._read()
        if not self._model.takes_extra_variance or not self.rows:
            return np.zeros(imputer.width)
        base, moved, steps = imputer.probes(_PROBES, self._inputs.scale)

        def mean(X: np.ndarray) -> np.ndarray:
            wide = self._lags.widen_next(X, self._targets.mean)
            with jax.enable_x64(True):
                predictive = self._predict(wide, np.full(len(X), self.last_time) if self.timed else None)
                return np.asarray(predictive.mean) / np.asarray(self._targets.scale)

        change = mean(moved).reshape(imputer.width, len(base), -1) - mean(base)
        return np.square(change).mean(axis=(1, 2)) / np.square(steps)

    def _pass_over(self, X: np.ndarray, times: np.ndarray | None) -> Info:
        """Predict rows without a target, each as if it were the next one; they teach nothing."""
        n = len(X)
        self.imputed_values += int(np.isnan(X).sum())
        if self.spec.horizon:  # the forecast that the next target is to meet
            predictive, rules = jax.tree.map(lambda a: np.repeat(a[:1], n, axis=0), self._forecasts.parts[0])
        else:
            predictive, rules = (
                self.predict(X, times),
                np.tile([*self.rules.values()], (n, 1)) if self.rules else None,
            )
        weights = np.tile(self.weights, (n, 1)) if not self._model.mixes_experts else None
        return Info(predictive, np.zeros(n, bool), rules, weights)

    def _more(self, extra: np.ndarray | None, rows: slice, size: int) -> dict[str, Any]:
        """The rows' additional noise for a model that can take it, padded to `size` rows."""
        if extra is None or not self._model.takes_extra_variance:
            return {}
        return {"extra": jnp.asarray(np.pad(extra[rows], (0, size - (rows.stop - rows.start))))}

    def _next_boundary(self) -> int:
        """The next row count where something changes: the model is rebuilt, or a horizon ends."""
        ends = (1 << self.rows.bit_length(), self.spec.horizon, self.warmup, self._work_starts)
        return min(end for end in ends if end > self.rows)

    def _learn_stretch(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Info:
        with jax.enable_x64(True):
            self._settle()
        before = dict(vars(self))
        try:
            info = self._advance(X, y, times, y)
            if self._lags.lags and info.flagged is not None and info.flagged.any():
                vars(self).update(before)
                info = self._learn_without_glitches(X, y, times)
            return info
        except BaseException:
            # A fit that fails or is interrupted must not leave the stretch half learnt.
            vars(self).update(before)
            raise

    def _learn_without_glitches(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Info:
        """Learn rows some of which are outliers: as lags of the rows after them, what was predicted stands for them.

        Which rows are outliers depends on the lags, so that a batch is learnt anew for each that is found in it.
        """
        parts = []
        for at in range(0, len(X), COMPILED_BATCH_SIZES[0]):
            rows = slice(at, at + COMPILED_BATCH_SIZES[0])
            before, past = dict(vars(self)), y[rows].copy()
            known = np.zeros(len(past), bool)
            while True:
                info = self._advance(X[rows], y[rows], None if times is None else times[rows], past)
                found = np.flatnonzero(info.flagged & ~known)
                if not len(found):
                    break
                vars(self).update(before)
                known[found[0]] = True
                with jax.enable_x64(True):
                    past[found[0]] = np.asarray(info.predictive.mean)[found[0]]
            parts.append(info)
        return concatenate(parts)

    def _learn_new_class(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Info:
        """Learn a row with a label that no row had before, which was predicted among the classes known so far."""
        before = dict(vars(self))
        predictive = self.predict(X, times)
        try:
            while self.num_classes <= y[0, 0]:
                self._admit_class()
            return self._learn_stretch(X, y, times)._replace(predictive=predictive)
        except BaseException:
            vars(self).update(before)
            raise

    def _admit_class(self) -> None:
        with jax.enable_x64(True):
            if self._kept is None:
                self._model, self._state = self._model.add_class(self._state, self.num_classes, self.rows)
            self.num_classes += 1
            if self._kept is not None:
                self._rebuild()

    @property
    def _width(self) -> int:
        """Inputs of the model: columns of X, and lags."""
        return self.num_inputs + self.num_outputs * len(self.spec.lags)

    def _provisional(self, X: np.ndarray, y: np.ndarray, time_unit: float = 1.0) -> StreamModel:
        """Experts for the rows of the warm-up; what is assumed of labels and counts depends on the targets so far."""
        return self._task.provisional(
            X, y, width=self._width, num_classes=self.num_classes, time_unit=time_unit, seed=self.seed
        )

    def _standardiser(self, X: np.ndarray) -> Standardiser:
        """Of the inputs; the log of an exposure stays as it is."""
        columns = X * np.r_[np.ones(X.shape[1] - 1), 0.0] if self.spec.exposure else X
        return robust_standardiser(columns) if self.spec.robust else Standardiser.empty(X.shape[1]).update(columns)

    def _input_bounds(self, X: np.ndarray) -> InputBounds:
        """Of the rows of a warm-up; none of few rows, and of an exposure."""
        if not self.spec.robust or len(X) < LEAST_BOUNDED:
            return InputBounds.none(X.shape[1])
        columns = X.shape[1] - self.spec.exposure
        bounds, none = InputBounds.of(X), InputBounds.none(X.shape[1])
        return jax.tree.map(lambda a, b: np.where(np.arange(len(a)) % X.shape[1] < columns, a, b), bounds, none)

    def _advance(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None, past: np.ndarray) -> Info:
        """Learn rows; `past` are their targets as the rows after them are to see them."""
        # What BLAS' threads round depends on how many there are: of fits, and of all that is learnt.
        with jax.enable_x64(True), one_blas_thread():
            if self._kept is not None:
                stretch = (X.copy(), y.copy(), np.zeros(len(X)) if times is None else times.copy())
                self._kept = [*self._kept, stretch]
            X, extra = self._filled_and_learnt(X)
            inputs = self._lags.widen(X, past, self._targets.mean, own=self.spec.horizon > 0)
            pairs, self._origins = self._origins.paired(inputs)
            if self.rows < self.spec.horizon:  # no inputs go with these targets
                info = Info(self._predict(inputs), np.zeros(len(X), bool))
            else:
                info = self._update(pairs, y, times, inputs, None if self.spec.horizon else extra)
            self._lags = self._lags.learn(past)
            self.rows += len(X)
            self._remeasure()
            made = [(info.predictive, info.rules)]
            if self._kept is not None and (self.rows == self.warmup or self.rows.bit_count() == 1):
                self._rebuild()
                if self.spec.horizon:  # what is known of the last row is more by now
                    made = [jax.tree.map(lambda a: a[:-1], made[0]), self._last_forecast()]
            (predictive, rules), self._forecasts = self._forecasts.exchange(made)
            jax.block_until_ready(self._state)
        return info._replace(predictive=predictive, rules=rules)

    def _last_forecast(self) -> tuple[AnyPredictive, np.ndarray | None]:
        """From the last row learnt, and the weights of the rules."""
        rules = np.asarray([[*self.rules.values()]])
        return self._predict(self._origins.inputs[-1:]), rules if rules.size else None

    def _update(
        self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None, later: np.ndarray, extra: np.ndarray | None
    ) -> Info:
        """Learn pairs of inputs and targets; with a horizon, forecast from the `later` inputs after each of them."""
        parts = []
        self._bounds, X, beyond = self._bounds.learn(X)
        for rows, size in split_batches(len(X), self._sizes):
            piece = self._piece(X[rows], None if times is None else times[rows], size)
            n = rows.stop - rows.start
            target = np.zeros((size, self.num_outputs))
            target[:n] = (y[rows] - self._targets.mean) / self._targets.scale
            if not self._model.learns_far_inputs:
                target[:n][beyond[rows]] = np.nan  # inputs that nothing vouches for: predicted, but not learnt
            mask = np.arange(size) < n
            ahead = self._piece(later[rows], None, size)["X"] if self.spec.horizon else None
            self._state, info = self._model.update(
                self._state,
                piece["X"],
                jnp.asarray(target),
                jnp.asarray(mask),
                piece["times"],
                ahead,
                **self._more(extra, rows, size),
            )
            info = jax.tree.map(lambda a, n=n: np.asarray(a)[:n], info)
            rules = info.rules if self.experts else None  # of the provisional model nobody asks
            told = self._task.in_units(info.predictive, n, self._targets, self.num_classes)
            parts.append(info._replace(predictive=told, rules=rules))
            if self.warm:
                self.outside_rows += int((info.outside | beyond[rows]).sum())
                self.flagged_rows += 0 if info.flagged is None else int(info.flagged.sum())
                if info.non_finite is not None and info.non_finite.any():
                    self.restarted = self.restarted | frozenset(np.flatnonzero(info.non_finite.any(0)).tolist())
        return concatenate(parts)

    def _rebuild(self) -> None:
        """At a boundary of the warm-up: standardise by the rows so far and condition on them."""
        assert self._kept is not None
        X, y, times = stretch = concatenate(self._kept)
        self._kept = [stretch]
        # What was missing is filled again, by all that is known by now.
        X, extra = self._joined(X, self._imputer.refill(X[:, : self._imputer.width]), self._gains)
        ends, levels = self.rows == self.warmup, getattr(self._state, "levels", None)
        provisional_expert = self._best_provisional_expert() if ends else None
        usual = self._task.usual(X, y, self.seed)
        self._targets = self._task.scale(usual, provisional=not ends)
        if not ends:
            self._model = self._provisional(X, y, self._time_unit(times))
        # The first rows' lags are missing still, but now there is a mean to stand in for them.
        h = self.spec.horizon
        lags = LaggedTargets.empty(self.spec.lags, self.num_outputs)
        widened, X = (lags.widen(X, each, self._targets.mean, own=h > 0) for each in (usual, y))
        self._inputs, self._bounds = self._standardiser(widened), self._input_bounds(widened)
        self._origins = Origins.empty(h, X.shape[1]).paired(X)[1]
        if ends:
            self._fit(widened[: self.rows - h], usual[h:], times, provisional_expert)
        prior = self._state = self._model.init(jax.random.key(self.seed), h)
        info = None
        if self.rows > h and (not ends or self.spec.warmup_posterior == "condition"):
            stamps = times if self.timed else None
            info = self._update(X[: self.rows - h], y[h:], stamps, X[h:], None if h else extra)
        if ends:
            last_time = jnp.asarray(times[-1]) if self.timed else prior.last_time
            self._state = replace(self._state, last_time=last_time)
            # The fit has seen these rows: they may shape the beliefs, but tell little of the race of the experts.
            more = None if info is None else self._prior_log_weights(info, y[h:])
            self._state = self._model.with_prior_weights(self._state, more)
            self._kept = None
        if levels is not None:  # of targets that set the scale, or were fitted, the levels would tell little
            self._state = replace(self._state, levels=levels)
        if self._gains is not None:
            self._gains = self._measured_gains()

    def _best_provisional_expert(self) -> Expert | None:
        """The provisional filter that did best in the warm-up: it goes on beside those that are fitted."""
        if not self._weighs_warmup or self.spec.rule == "Q":  # a user's matrix counts the others alone
            return None
        experts = provisional_experts(self._width, self.seed)
        return experts[int(self.weights.reshape(len(experts), -1).sum(axis=1).argmax())]

    def _prior_log_weights(self, info: Info, y: np.ndarray) -> np.ndarray | None:
        """What the later half of the warm-up says of the experts, of which some are no good at all."""
        if not self._weighs_warmup:
            return None
        h = self.spec.horizon  # so many rows after the one that it was made at a forecast falls due
        n = (len(y) - h) // 2
        latest: Predictive = jax.tree.map(lambda a: a[len(y) - h - n : len(y) - h], info.predictive)
        density = np.asarray(latest.component_log_density(y[len(y) - n :]))
        return prior_log_weights(density / max(h, 1), self.experts)

    @property
    def _weighs_warmup(self) -> bool:
        """Whether the warm-up's rows say how the race of the experts begins; not in the papers' models."""
        spec = self.spec
        return spec.robust and family_of(spec).weighs_warmup and spec.warmup_posterior == "condition"

    def _time_unit(self, times: np.ndarray) -> float:
        """The usual time from one row to the next."""
        gaps = np.diff(times)
        return float(np.median(gaps[gaps > 0])) if self.timed and (gaps > 0).any() else 1.0

    def _fit(self, X: np.ndarray, y: np.ndarray, times: np.ndarray, provisional_expert: Expert | None) -> None:
        inputs = self._inputs.transform(self._bounds.clip(X)[0])
        targets = np.asarray((y - self._targets.mean) / self._targets.scale)
        rows = WarmupRows(inputs, targets, self.num_classes, self._time_unit(times))
        made = family_of(self.spec).fit(
            self.spec, rows, seed=self.seed, progress=self.progress, provisional_expert=provisional_expert
        )
        self._model, self.experts = jax.block_until_ready(made)

    def _piece(self, X: np.ndarray, times: np.ndarray | None, size: int) -> dict[str, Any]:
        """Standardised rows and their times, padded to `size` rows."""
        padded = np.zeros((size, X.shape[1]))
        padded[: len(X)] = self._inputs.transform(self._bounds.clip(X)[0])
        if times is None:
            return {"X": jnp.asarray(padded), "times": None}
        return {"X": jnp.asarray(padded), "times": jnp.asarray(np.pad(times, (0, size - len(X)), mode="edge"))}

    def __reduce__(self) -> tuple[Any, ...]:
        # Left to themselves, JAX's arrays would come out of a pickle or a copy in float32.
        return _put_together, encode(self.to_tree())

    def to_tree(self) -> dict[str, Any]:
        """Everything that a checkpoint needs, as nested dictionaries of plain values, arrays and modules."""
        with jax.enable_x64(True):
            self._settle()
        return {
            "imputer": self._read(),
            "gains": self._gains,
            "imputed_values": self.imputed_values,
            "spec": asdict(self.spec),
            "num_inputs": self.num_inputs,
            "num_outputs": self.num_outputs,
            "warmup": self.warmup,
            "seed": self.seed,
            "timed": self.timed,
            "num_classes": self.num_classes,
            "rows": self.rows,
            "outside_rows": self.outside_rows,
            "flagged_rows": self.flagged_rows,
            "restarted": sorted(self.restarted),
            "experts": [asdict(expert) for expert in self.experts],
            "kept": None if self._kept is None else concatenate(self._kept),
            "inputs": self._inputs,
            "bounds": self._bounds,
            "targets": self._targets,
            "lags": self._lags,
            "origins": self._origins,
            "forecasts": self._forecasts,
            "model": self._model,
            "state": self._state,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "StreamLearner":
        """The learner whose `to_tree` gave `tree`; it goes on as if nothing had happened."""
        settings = {
            name: tree[name] for name in ("num_inputs", "num_outputs", "warmup", "seed", "timed", "num_classes")
        }
        learner = cls(Spec(**tree["spec"]), **settings)
        learner.rows = tree["rows"]
        learner.outside_rows = tree["outside_rows"]
        learner.flagged_rows = tree.get("flagged_rows", 0)  # younger than some checkpoints
        learner.restarted = frozenset(tree.get("restarted", ()))
        learner.experts = [FittedExpert(**expert) for expert in tree["experts"]]
        learner._kept = None if tree["kept"] is None else [tree["kept"]]
        learner._inputs, learner._targets = tree["inputs"], tree["targets"]
        learner._bounds = tree.get("bounds", learner._bounds)  # younger than some checkpoints
        learner._lags, learner._origins, learner._forecasts = tree["lags"], tree["origins"], tree["forecasts"]
        learner._model, learner._state = tree["model"], tree["state"]
        if "imputer" in tree:  # younger than some checkpoints
            learner._imputer, learner._gains = tree["imputer"], tree["gains"]
            learner.imputed_values = tree["imputed_values"]
        return learner


def _has_nan(rows: np.ndarray) -> np.ndarray:
    """Which rows have a NaN."""
    return np.asarray(np.isnan(rows).any(axis=1))


def _leading(flags: np.ndarray) -> int:
    """How many of the flags are set before the first that is not."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _put_together(node: Any, arrays: dict[str, np.ndarray]) -> StreamLearner:
    return StreamLearner.from_tree(decode(node, arrays, {}))
