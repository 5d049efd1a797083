"""A row of each of some keys: its features, its prediction, and the update by its target."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet import targets
from streamgp.fleet.experts import FleetExperts, Predicted, log_normalised
from streamgp.fleet.features import FeatureMap
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.prior import PooledPrior
from streamgp.fleet.renewal import renewed
from streamgp.fleet.scales import YOUNG, PoolScales
from streamgp.fleet.states import KeyScores, KeyStates
from streamgp.fleet.steps import Steps
from streamgp.likelihoods import TargetMap
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.mixtures import log_sum

# An outlier becomes a lag of later rows as at most so many standard deviations.
BELIEVED = 1.0
QUANTILES = (0.05, 0.5, 0.95)


class Ahead(NamedTuple):
    """A prediction with all that learning the row needs."""

    mixture: Mixture
    predicted: Predicted
    center: Float[np.ndarray, "n c"]
    scale: Float[np.ndarray, "n c"]
    Z: Float[np.ndarray, "n z"]

    @property
    def expected(self) -> Float[np.ndarray, "n e"]:
        """What the experts say by themselves, whatever their last errors."""
        p = self.predicted
        return self.center[:, :1] + self.scale[:, :1] * (p.loc - p.carried)


@register
@dataclass(frozen=True)
class FleetModel:
    """What the warm-up found for all keys, and the priors that keys go on from.

    The last one is the newest of the whole fleet, `by_group` says which are those of its groups. `target` maps what
    is learnt to the targets.
    """

    features: FeatureMap
    scales: PoolScales
    experts: FleetExperts
    steps: Steps
    priors: list[PooledPrior]
    by_group: list[int] = field(default_factory=list)
    target: TargetMap = field(default_factory=TargetMap)

    @property
    def unit(self) -> float:
        """The usual gap between two rows of a key."""
        return self.steps.unit

    @property
    def width(self) -> int:
        """How many past targets of each key are kept."""
        return self.features.width

    def prior_of(self, group: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return which priors new keys of these groups start from; that of the fleet in groups without one."""
        own = np.array([*self.by_group, len(self.priors) - 1])
        return own[np.where((group >= 0) & (group < len(self.by_group)), group, -1)]

    def born(self, which: Int[np.ndarray, " n"]) -> KeyStates:
        """Return the states of new keys, which start from these of the priors."""
        rate = self.experts.shape(np.zeros(1))[0]
        return KeyStates.born(which, self.width, 1 + self.features.num_inputs, self.priors, rate)

    def renewed(self, states: KeyStates, which: Int[np.ndarray, " n"]) -> KeyStates:
        """Return the states with beliefs that go on from these of the priors, see `streamgp.fleet.renewal`."""
        return replace(states, beliefs=renewed(states.beliefs, self.priors, which))

    def share(self, states: KeyStates) -> Float[np.ndarray, "n e"]:
        """Return which share of each expert's last error its next prediction has."""
        return np.where(self.experts.carries, states.carried.share, 0.0)

    def predict(self, states: KeyStates, X: Float[np.ndarray, "n d"], times: Float[np.ndarray, " n"]) -> Ahead:
        """Predict the next row of each key."""
        center, scale = self.scales.locate(states.moments)
        Z = self.features.standardise(states.past, X, times, center, scale)
        return self._ahead(states, Z, times, center, scale)

    def _ahead(
        self, states: KeyStates, Z: np.ndarray, times: np.ndarray, center: np.ndarray, scale: np.ndarray
    ) -> Ahead:
        beliefs = states.beliefs
        since = (times - beliefs.time) / self.unit
        tau = np.where(since > 0.0, since, 0.0)  # NaN before the first row
        # Nothing is known yet of where a new key lies.
        extra = np.where(states.moments.count[:, 0] == 0.0, np.square(self.scales.spread[0] / scale[:, 0]), 0.0)
        c, s = center[:, :1], scale[:, :1]
        carried = self.share(states) * states.carried.last / s
        p = self.experts.predict(beliefs, self.priors, self.features(Z), tau, extra, states.learnt, carried)
        mixture = Mixture(log_normalised(beliefs.log_weights), c + s * p.mean, s * s * p.var, p.dof)
        return Ahead(mixture, p, center, scale, Z)

    def learn(
        self,
        states: KeyStates,
        ahead: Ahead,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        times: Float[np.ndarray, " n"],
        scored: bool = True,
    ) -> tuple[KeyStates, Float[np.ndarray, " n"]]:
        """Learn targets, on the scale that is learnt, of rows that `ahead` predicts; return states, log densities."""
        scale = ahead.scale[:, 0]
        young = states.moments.count[:, 0] < YOUNG
        u = (y - ahead.center[:, 0]) / scale
        learnt = self.experts.learn(states.beliefs, ahead.predicted, u, ~young, states.learnt)
        log_density: Any = log_sum(ahead.mixture.log_weights + learnt.log_densities) - np.log(scale)
        given = self.target.inverse(y)
        log_density = log_density + self.target.log_slope(given)
        is_outlier, is_shift = learnt.is_outlier, learnt.is_shift
        mean, std = ahead.mixture.moments
        near = np.clip(y, mean - BELIEVED * std, mean + BELIEVED * std)
        past = np.concatenate([states.past[:, 1:], np.where(is_outlier & ~young, near, y)[:, None]], axis=1)
        values = np.column_stack([y, X])
        carried = states.carried.learn(past[:, -1], ahead.expected, scale)
        moments = self.scales.learn_row(states.moments, past, values, ahead.scale, is_outlier | is_shift)
        # The key keeps its beliefs at another level.
        if is_shift.any():
            at = np.flatnonzero(is_shift)
            past[at, :-1] += (y - mean)[at, None]
            center = ahead.center[at, 0] + (y - mean)[at]
            moments.move(at, *self.scales.after_shift(center, scale[at]))
            carried.last[at] = 0.0
        beliefs = self.experts.in_unit(
            learnt.beliefs, states.learnt + 1, self.scales.locate(moments)[1][:, 0] / scale
        )
        scores = states.scores
        if scored:
            scores = self._scored(states, ahead, given, log_density)
        return (
            replace(
                states,
                past=past,
                moments=moments,
                carried=carried,
                beliefs=replace(beliefs, time=np.fmax(times, states.beliefs.time)),
                scores=scores,
                last=given,
                total=states.total + given,
                learnt=states.learnt + 1,
                flagged=states.flagged + is_outlier,
            ),
            log_density,
        )

    def pass_over(self, states: KeyStates, ahead: Ahead) -> KeyStates:
        """Return the states after rows without a target: what `ahead` predicted of them stands as their lag.

        Young keys, whose scale comes from their last targets, know nothing of such rows.
        """
        young = states.moments.count[:, 0] < YOUNG
        on = self.going_on(states, ahead)
        carried = replace(on.carried, last=np.where(young[:, None], states.carried.last, on.carried.last))
        return replace(on, past=np.where(young[:, None], states.past, on.past), carried=carried)

    def going_on(self, states: KeyStates, ahead: Ahead) -> KeyStates:
        """Return the states with what `ahead` predicted as the last targets."""
        mean = ahead.mixture.moments[0]
        past = np.concatenate([states.past[:, 1:], mean[:, None]], axis=1)
        return replace(states, past=past, carried=states.carried.going_on(mean, ahead.expected, ahead.scale[:, 0]))

    def _scored(self, states: KeyStates, ahead: Ahead, y: np.ndarray, log_density: np.ndarray) -> KeyScores:
        below = targets.levels(ahead.mixture, y, self.target)
        error = y - targets.moments(ahead.mixture, self.target)[0]
        covered = (below > QUANTILES[0]) & (below < QUANTILES[-1])
        running = states.total / np.where(states.learnt > 0, states.learnt, np.nan)
        return states.scores.add(y, error, log_density, covered.astype(float), states.last, running)
