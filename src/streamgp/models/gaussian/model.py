"""An online ensemble: experts of equal shape run as one batch, a rule weighs them.

The prediction of a row is the mixture of its experts' predictions (Lu et al. 2022, Eq. 20; Waxman and Djuric
2024, Eq. 14), with weights that have not seen the row's target.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.engine import cpu, devices
from streamgp.filters.engine.blocks import Group, group_by_shape, split_by_group, stack
from streamgp.filters.engine.clock import advance, elapsed
from streamgp.filters.kalman import ExpertVariances, prior_state
from streamgp.filters.noise import CONSTANT_NOISE, NoiseKinds
from streamgp.likelihoods import Predictive
from streamgp.likelihoods.noise_by_input import NoiseByInput
from streamgp.likelihoods.noise_features import NoiseInputs
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread
from streamgp.models.contract import Described, Info, RowEngine
from streamgp.models.expert import Expert
from streamgp.models.gaussian.delayed_feedback import PendingForecasts
from streamgp.models.gaussian.mixing import learn_weights, mix
from streamgp.models.gaussian.parts import EnsembleParts
from streamgp.models.gaussian.resting import Resting, rested
from streamgp.models.gaussian.single_row import SingleRow
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, is_traced
from streamgp.numerics.batching import concatenate
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import WeightRule
from streamgp.weights.experts import expert_weights, prior_weights, rule_weights


@register
class Ensemble(EnsembleParts):
    """A mixture of streaming experts.

    Build it with `ensemble`. Experts keep the order in which they were given, whatever their grouping. Where noise
    adapts, each of them is a filter that serves several experts, one for each kind of noise.
    """

    def init(self, key: Key, horizon: int = 0) -> EnsembleState:
        """Return the prior state, to forecast `horizon` rows ahead; `key` is not used."""
        given = [group.noise.prior_var for group in self.groups]
        prior_vars = cpu.as_numpy(given) if cpu.supports(self.log_prior, *given) else given
        filters = [
            prior_state(group.basis.num_features, self.num_outputs, prior_var, self.guarded)
            for group, prior_var in zip(self.groups, prior_vars, strict=True)
        ]
        noise = self.noise.init(len(self.order), self.num_outputs) if self.noise.adapt else None
        layer = None
        if self.noise_inputs is not None:
            layer = NoiseByInput.start(self.num_outputs, cpu.as_numpy(self.noise_inputs))
        pending = (
            PendingForecasts.empty(horizon, len(self.order), self.num_outputs, noise, layer) if horizon else None
        )
        levels = RecalibrationBySpread.start(self.num_outputs) if self.recalibrated else None
        who = Resting.start(len(self.order)) if self.rests and not horizon else None
        first, no_time = prior_weights(self.rule, self.log_prior), np.full((), np.nan, self.time_unit.dtype)
        return EnsembleState(tuple(filters), first, no_time, noise, pending, levels, who, layer)

    def describe(self, state: EnsembleState) -> Described:
        """Return the weight of each expert and of each rule in the next row, and how many filters have worked."""
        weights = expert_weights(self.rule, state.weights, state.absent(self._copies))
        working = 1.0 if state.resting is None else state.resting.share_working
        return Described(weights, rule_weights(self.rule, state.weights), working)

    def with_prior_weights(
        self, state: EnsembleState, prior_log_weights: Float[AnyArray, " k"] | None, rows: int
    ) -> EnsembleState:
        """Return the state after so many `rows` with the weights at their prior, to which these are added."""
        who = None if state.resting is None else Resting.start(len(self.order), rows)
        return replace(state, weights=prior_weights(self.rule, self.log_prior, prior_log_weights), resting=who)

    def single_row(self, inputs: Standardiser, targets: Standardiser, trim: float, state: EnsembleState) -> RowEngine:
        """Return the `SingleRow` of this ensemble: it learns one row at a time, in the units of the data."""
        single = SingleRow(self, inputs, targets, trim)
        single.load(self, state)
        return single

    def of_output(self, state: EnsembleState, e: int) -> tuple["Ensemble", EnsembleState]:
        """Return the ensemble of one of several outputs and its state."""
        return replace(self, num_outputs=1), state.of_output(e)

    def _runs_on_cpu(self, state: EnsembleState, *rows: Any) -> bool:
        """Return whether all but the filters is NumPy's, which run where their work is for; if not, XLA does all."""
        sound = all(a.dtype == np.float64 for a in state.arrays)
        return sound and cpu.supports(self.log_prior, *rows) and not is_traced(self, state)

    def predict(
        self,
        state: EnsembleState,
        X: Float[AnyArray, "n d"],
        times: Float[AnyArray, " n"] | None = None,
        extra: Float[AnyArray, " n"] | None = None,
    ) -> Predictive:
        """Predict each row as if it were the next one; with a horizon, as the one so many rows after the last.

        The noise of a row may have an `extra` variance.
        """
        if not self._runs_on_cpu(state, X):
            return self._predict_compiled(state, X, times, extra)
        rule, X, times, extra = cpu.as_numpy((self.rule, X, times, extra))
        state = _with_filters_of(state)
        tau = elapsed(self.time_unit, state.last_time, X, times, state.horizon)
        live = self.live(state)
        parts = devices.predict_groups(
            self.groups, state.filters, X, tau, split_by_group(live, self.order, self.shapes)
        )
        return mix(rule, self.noise, self.order, state.scoring, parts, tau, extra, live, self.inputs_of(X))

    def _predict_compiled(self, state: EnsembleState, *rows: Any) -> Predictive:
        from streamgp.models.gaussian import compiled  # which imports JAX

        return compiled.predict(self, state, *rows)

    def update(
        self,
        state: EnsembleState,
        X: Float[AnyArray, "n d"],
        y: Float[AnyArray, "n e"],
        mask: Bool[AnyArray, " n"] | None = None,
        times: Float[AnyArray, " n"] | None = None,
        later: Float[AnyArray, "n d"] | None = None,
        extra: Float[AnyArray, " n"] | None = None,
    ) -> tuple[EnsembleState, Info]:
        """Learn from the rows in order and return the one-step-ahead prediction of each.

        Rows with a false `mask` change nothing; their entry in the returned prediction is NaN. The noise of a row
        may have an `extra` variance, with which it is predicted and learnt.

        A state with a horizon h needs for each row the inputs of the row that is h rows `later`. The forecast of each
        of those is then returned, as `predict` gives it once the row itself is learnt. The weights and the noise
        learn from such forecasts when their targets arrive.
        """
        if (later is None) != (state.pending is None):
            raise ValueError("update: expected inputs of `later` rows with a state that has a horizon, and only then")
        who = None if mask is not None or is_traced(state, X) or not state.decides_who_rests else state.resting
        if who is not None and who.rows_left < len(X):
            return self._update_in_two(who.rows_left, state, X, y, times, extra)
        mask = np.ones(X.shape[0], bool) if mask is None else mask
        if self._runs_on_cpu(state, X, y):
            rows = cpu.as_numpy((X, y, mask, times, later, extra))
            after, info = self._update_in_numpy(cpu.as_numpy(self.rule), _with_filters_of(state), *rows)
        else:
            after, info = self._update_compiled(state, X, y, mask, times, later, extra)
        if who is None:
            return after, info
        scores = np.asarray(info.scores)
        alarm = who.alarm(scores, int(who.at))
        if alarm is not None and alarm < len(X):
            return self._update_in_two(alarm, state, X, y, times, extra, info)
        return rested(self, after, scores), info

    def _update_in_numpy(
        self,
        rule: WeightRule,
        state: EnsembleState,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n e"],
        seen: Bool[np.ndarray, " n"],
        times: Float[np.ndarray, " n"] | None,
        later: Float[np.ndarray, "n d"] | None,
        extra: Float[np.ndarray, " n"] | None,
    ) -> tuple[EnsembleState, Info]:
        clock, last_time = advance(self.time_unit, state.last_time, seen, times)
        alive = split_by_group(self.live(state), self.order, self.shapes)
        filters, parts, outside = devices.update_groups(
            self.groups, state.filters, (X, y, seen, clock, extra), alive, later, state.horizon
        )
        scoring, info = learn_weights(
            rule,
            self.noise,
            self.order,
            state.scoring,
            parts,
            outside,
            y,
            seen,
            clock,
            state.asleep,
            self.inputs_of(X if later is None else later),
        )
        who = self.resting_after(state, info, seen, clock)
        return EnsembleState.of(filters, scoring, np.asarray(last_time), who), info

    def _update_in_two(
        self, n: int, state: EnsembleState, X: Any, y: Any, times: Any, extra: Any, said: Info | None = None
    ) -> tuple[EnsembleState, Info]:
        """Learn n rows, after which filters may rest or wake, and then the others; of the n it was `said` already."""
        state, info = self.update(state, X[:n], y[:n], None, _part(times, slice(n)), None, _part(extra, slice(n)))
        if said is not None:
            info = tree.map(lambda a: a[:n], said)  # as if other rows had come after, to the last bit
        rest = slice(n, None)
        state, more = self.update(state, X[n:], y[n:], None, _part(times, rest), None, _part(extra, rest))
        return state, concatenate([info, more])

    def _update_compiled(self, state: EnsembleState, *rows: Any) -> tuple[EnsembleState, Info]:
        from streamgp.models.gaussian import compiled  # which imports JAX

        return compiled.update(self, state, *rows)


def _part(rows: AnyArray | None, part: slice) -> AnyArray | None:
    return None if rows is None else rows[part]


def _with_filters_of(state: EnsembleState) -> EnsembleState:
    """Return a state in NumPy, but for the filters, which stay where they are."""
    return replace(cpu.as_numpy(replace(state, filters=())), filters=state.filters)


def ensemble(
    experts: Sequence[Expert],
    rule: WeightRule,
    *,
    num_outputs: int = 1,
    log_prior: Any = None,
    time_unit: float = 1.0,
    kinds: NoiseKinds = CONSTANT_NOISE,
    guarded: bool = False,
    recalibrated: bool = False,
    rests: bool = False,
    noise_inputs: NoiseInputs | None = None,
) -> Ensemble:
    """Group experts by shape into one model.

    Parameters
    ----------
    experts
        Experts over the same inputs. Those that hold the same basis object share its features.
    rule
        How the weights follow the experts' predictions.
    num_outputs
        E, the number of targets.
    log_prior
        Log of the initial weights; uniform by default.
    time_unit
        The length of one time step, for streams with time stamps.
    kinds
        Kinds of noise, constant by default. Each of `experts` then serves as one expert of each kind: the rule and
        `log_prior` count them all.
    guarded
        Whether every filter has a guard against outliers (see `streamgp.filters.guard`).
    recalibrated
        Whether the mixture's levels are recalibrated as the stream goes on (see
        `streamgp.likelihoods.recalibration_by_spread`).
    rests
        Whether filters of next to no weight rest (see `streamgp.models.gaussian.resting`).
    noise_inputs
        The inputs that the noise follows (see `streamgp.likelihoods.noise_features`); None: it follows none.
    """
    if not experts:
        raise ValueError("ensemble: expected at least one expert, got none")
    groups, order = [], []
    for rows in group_by_shape([expert.basis for expert in experts]):
        basis = stack([experts[members[0]].basis for members in rows])
        noise = stack([stack([ExpertVariances(experts[i].prior_var, experts[i].noise_var) for i in m]) for m in rows])
        dynamics = stack([stack([experts[i].dynamics for i in members]) for members in rows])
        groups.append(Group(basis, noise, dynamics))
        order.extend(i for members in rows for i in members)
    k = len(experts) * len(kinds)
    log_prior = np.full(k, -np.log(k)) if log_prior is None else log_prior
    return Ensemble(
        groups=tuple(groups),
        rule=rule,
        log_prior=log_prior,
        time_unit=np.asarray(float(time_unit)),
        order=tuple(order),
        names=tuple(expert.name for expert in experts),
        num_inputs=experts[0].basis.num_inputs,
        num_outputs=num_outputs,
        noise=kinds,
        guarded=guarded,
        recalibrated=recalibrated,
        rests=rests,
        noise_inputs=noise_inputs,
    )
