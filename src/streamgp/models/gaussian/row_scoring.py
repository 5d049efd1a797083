"""What learns from targets besides the filters, a row at a time: weights, noise and recalibration, in few calls."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.core import noise_by_input
from streamgp.core.recalibration_by_spread import log_spread
from streamgp.filters.noise import NoiseKinds, NoiseState
from streamgp.models.gaussian.delayed_feedback import ScoringState, drop_non_finite, fill_missing_density
from streamgp.models.gaussian.target_values import mixed_levels, target_levels, target_values
from streamgp.numerics.arrays import logsumexp
from streamgp.weights import OUTLIER_LOG_DENSITY, Mixture, WeightRule, present
from streamgp.weights.scan import learn_row
from streamgp.weights.stacked import StackedRules

_ALL = np.ones(1, bool)


class Experts(NamedTuple):
    """Mean (k, E), variance and degrees of freedom (None: Gaussian) of all experts."""

    loc: np.ndarray
    var: np.ndarray
    dof: np.ndarray | None


class _Mixture(NamedTuple):
    """Log weights, means and variances of the experts, of which none is not finite.

    And the variances with the noise that the row's inputs tell, and the features of that (None: they tell nothing);
    and the log spread of it all (None: without recalibration).
    """

    log_weights: np.ndarray
    loc: np.ndarray
    var: np.ndarray
    wider: np.ndarray | None
    phi: np.ndarray | None
    log_spread: np.ndarray | None


class RowScoring:
    """`learn_from_targets` of one row after the other, without a horizon.

    Parameters
    ----------
    rule, kinds
        Of the ensemble.
    state
        To go on from.
    asleep
        Which filters rest; None: none ever do.
    inputs
        Which inputs the noise follows; None: none.

    Attributes
    ----------
    log_weights
        Those of the experts for the next row.
    noise, levels, layer
        As in the state.
    """

    def __init__(
        self,
        rule: WeightRule,
        kinds: NoiseKinds,
        state: ScoringState,
        asleep: Bool[np.ndarray, " f"] | None,
        inputs: Int[np.ndarray, " d"] | None,
    ) -> None:
        self._rule, self._kinds, self._copies = rule, kinds, len(kinds.discounts)
        self._rests = asleep is not None
        self._absent = None if asleep is None or not asleep.any() else np.repeat(asleep, self._copies)
        self._weights, self.noise, _, self.levels, self.layer = state
        self._inputs = inputs
        self._mixed: tuple[Experts, _Mixture] | None = None
        self._stacked = StackedRules.of(rule, self._weights, self._absent)
        self.log_weights = self._log_weights()

    @property
    def state(self) -> ScoringState:
        """Return the state."""
        rules = self._stacked
        weights = self._weights if rules is None else rules.now
        return ScoringState(weights, self.noise, None, self.levels, self.layer)

    def _log_weights(self) -> Float[np.ndarray, " k"]:
        rules = self._stacked
        if rules is None:
            return np.asarray(present(self._rule.predict(self._weights), self._absent))
        return rules.log_mixed()

    def experts(self, loc: Float[np.ndarray, "f e"], var: Float[np.ndarray, " f"], gap: float) -> Experts:
        """Return what the experts predict of a row, a time after the last one, from what the filters do."""
        spread = np.broadcast_to(var[:, None], loc.shape)
        if self.noise is None:
            return Experts(loc, spread, None)
        for_one = NoiseState(*(a[None] for a in self.noise))
        found = self._kinds.predict(for_one, loc[None], spread[None], np.full(1, gap))
        return Experts(*(np.asarray(a[0]) for a in found))

    def learn(
        self,
        experts: Experts,
        filters: tuple[Float[np.ndarray, "f e"], Float[np.ndarray, " f"]],
        y: Float[np.ndarray, " e"],
        gap: float,
        is_outlier: Bool[np.ndarray, " f"] | None,
        row: Float[np.ndarray, "1 w"],
    ) -> tuple[bool | None, float | None]:
        """Learn a `row`, of which `experts` and `filters` have predicted mean and variance, after a time `gap`.

        Returns
        -------
        flagged, score
            Whether the row was an outlier to most of the weight (None: no filter has a guard), and the log density of
            its target (NaN if it was; None: no filter ever rests).
        """
        dof = None if experts.dof is None else experts.dof[None]
        said, below = target_values(experts.loc[None], experts.var[None], dof, y[None], self._copies)
        density = np.asarray(fill_missing_density(said[0].sum(-1)))
        outlying = None if is_outlier is None or not is_outlier.any() else np.repeat(is_outlier, self._copies)
        flagged = None if is_outlier is None else False
        if outlying is not None:
            flagged = 1.0 - np.exp(self.log_weights[outlying]).sum() < 0.5
        score = None
        if self._rests:
            score = np.nan if flagged else float(logsumexp(self.log_weights + density))
        self._learn_levels(experts, below, y[None], dof, row, bool(flagged))
        if self.noise is not None:
            mean, spread = filters
            error, spread = y - mean, np.broadcast_to(spread[:, None], mean.shape)
            self.noise = self._kinds.update(self.noise, error, spread, np.asarray(gap), is_outlier)
        self._mixed = None
        self._weigh(density, outlying, OUTLIER_LOG_DENSITY * len(y))
        return flagged, score

    def mixture(
        self, experts: Experts, row: Float[np.ndarray, "1 w"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return log weights, means, variances and degrees of freedom of the experts in the prediction of a `row`."""
        mixed = self._mixture(experts, row)
        return mixed.log_weights, mixed.loc, mixed.var if mixed.wider is None else mixed.wider, experts.dof

    def factor(self, experts: Experts, row: Float[np.ndarray, "1 w"]) -> Float[np.ndarray, "1 e"] | None:
        """Return by what noise that follows the inputs multiplies the variances of a `row`; None if it does not."""
        phi = self._mixture(experts, row).phi
        return None if phi is None or self.layer is None else self.layer.factor(phi)

    def shares(self, experts: Experts, row: Float[np.ndarray, "1 w"]) -> Float[np.ndarray, "1 e j"] | None:
        """Return the shares of the recalibration of a `row`; None where there is none."""
        spread = self._mixture(experts, row).log_spread
        return None if self.levels is None or spread is None else self.levels.shares(spread)

    @property
    def rules(self) -> Float[np.ndarray, " r"] | None:
        """The weights of several rules for the next row; None of a single one."""
        weights: Any = self.state.weights
        return np.exp(weights.log_weights) if isinstance(self._rule, Mixture) else None

    def _mixture(self, experts: Experts, row: np.ndarray) -> _Mixture:
        """Return what `mixture` does, with the features of its noise; kept until a row is learnt."""
        if self._mixed is None or self._mixed[0] is not experts:
            log_weights, loc, var = drop_non_finite(self.log_weights, *experts[:2])
            phi = wider = spread = None
            if self.layer is not None:
                phi = noise_by_input.features(self._inputs, row, log_weights[None], loc[None], var[None])
                wider = var * self.layer.factor(phi)
            if self.levels is not None:
                spread = log_spread(log_weights[None], loc[None], (var if wider is None else wider)[None])
            self._mixed = experts, _Mixture(log_weights, loc, var, wider, phi, spread)
        return self._mixed[1]

    def _learn_levels(
        self,
        experts: Experts,
        below: Float[np.ndarray, "1 k e"],
        y: Float[np.ndarray, "1 e"],
        dof: np.ndarray | None,
        row: np.ndarray,
        flagged: bool,
    ) -> None:
        """Let noise by input and recalibration learn at which levels the targets came."""
        if self.levels is None and self.layer is None:
            return
        log_weights, loc, _, wider, phi, spread = self._mixture(experts, row)
        u = mixed_levels(log_weights[None], below)
        if self.layer is not None and wider is not None and phi is not None:
            square = noise_by_input.squared_scores(u, _ALL, np.array([flagged]))
            self.layer, *_ = self.layer.learn_rows(phi, square)
            if self.levels is not None:
                u = mixed_levels(log_weights[None], target_levels(loc[None], wider[None], dof, y, self._copies))
        if self.levels is not None and spread is not None:
            self.levels, _ = self.levels.learn_rows(u, spread, _ALL)

    def _weigh(self, density: Float[np.ndarray, " k"], outlying: Bool[np.ndarray, " k"] | None, least: float) -> None:
        """Let the rules learn what the experts said of a row."""
        rules = self._stacked
        if rules is not None and np.isfinite(density).all():
            outliers = None if outlying is None else outlying[None, rules.here]
            rules.learn(density[None, rules.here], outliers, least)
        else:
            state: Any = self.state.weights
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                self._weights = learn_row(self._rule, state, density, outlying, least, self._absent)
            self._stacked = StackedRules.of(self._rule, self._weights, self._absent)
        self.log_weights = self._log_weights()
