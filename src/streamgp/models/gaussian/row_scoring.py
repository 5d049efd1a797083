"""What learns from targets besides the filters, a row at a time: weights, noise and recalibration."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.noise import NoiseKinds, NoiseState
from streamgp.likelihoods import noise_by_input, noise_features, recalibration, trimmed
from streamgp.likelihoods.recalibration_by_spread import log_spread
from streamgp.models.gaussian.delayed_feedback import ScoringState, drop_non_finite, fill_missing_density
from streamgp.models.gaussian.scoring_kernel import Learners, ScoringKernel, Sizes, is_compiled
from streamgp.models.gaussian.target_values import mixed_levels, target_levels, target_values
from streamgp.numerics.arrays import logsumexp
from streamgp.weights import OUTLIER_LOG_DENSITY, Mixture, WeightRule, present
from streamgp.weights.row import learn_row
from streamgp.weights.stacked import StackedRules


class RowMixture(NamedTuple):
    """Log weights (k), means and variances (k, E), degrees of freedom (None: Gaussian) of the experts.

    All are finite. Where noise follows the inputs, the variances are by its `factor` (E) larger; None where it does
    not. And the `shares` (E, j) of its recalibration; None where there is none.
    """

    log_weights: np.ndarray
    loc: np.ndarray
    var: np.ndarray
    dof: np.ndarray | None
    factor: np.ndarray | None
    shares: np.ndarray | None


class _Predicted(NamedTuple):
    """Mean and variance by every filter, the time since the last row, and mean, variance and degrees by each expert.

    And the mixture of those, with the features of its noise by input, and its log spread.
    """

    filters: tuple[np.ndarray, np.ndarray]
    gap: float
    experts: tuple[np.ndarray, np.ndarray, np.ndarray | None]
    mixture: RowMixture
    phi: np.ndarray | None
    log_spread: np.ndarray | None


class RowScoring:
    """`learn_from_targets` of one row after the other, without a horizon.

    It is done by the kernel in C, where that was built (`streamgp.models.gaussian.scoring_kernel`).

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
    sizes
        Of the ensemble.
    trim
        What is taken from weights in moments.

    Attributes
    ----------
    log_weights
        Those of the experts for the next row.
    """

    def __init__(
        self,
        rule: WeightRule,
        kinds: NoiseKinds,
        state: ScoringState,
        asleep: Bool[np.ndarray, " f"] | None,
        inputs: Int[np.ndarray, " d"] | None,
        sizes: Sizes,
        trim: float,
    ) -> None:
        self._rule, self._kinds, self._sizes, self._trim = rule, kinds, sizes, trim
        self._rests = asleep is not None
        self._absent = None if asleep is None or not asleep.any() else np.repeat(asleep, sizes.kinds)
        self._weights, self._inputs = state.weights, inputs
        self._least = OUTLIER_LOG_DENSITY * sizes.outputs
        self._predicted: _Predicted | None = None
        self._begin(Learners(state.noise, state.levels, state.layer))

    def _begin(self, learners: Learners) -> None:
        """Go on from the weights as they are, and what else has learnt."""
        self._learners, self._kernel = learners, None
        self._stacked = StackedRules.of(self._rule, self._weights, self._absent)
        if self._stacked is None or not is_compiled():
            self.log_weights = self._log_weights()
            return
        which = None if learners.layer is None else self._inputs
        given = self._stacked, self._kinds, learners, which, self._least, self._trim, self._rests
        self._kernel = ScoringKernel(self._sizes, *given)
        self.log_weights = self._kernel.log_weights

    def _log_weights(self) -> Float[np.ndarray, " k"]:
        rules = self._stacked
        if rules is None:
            return np.asarray(present(self._rule.predict(self._weights), self._absent))
        return rules.log_mixed()

    @property
    def state(self) -> ScoringState:
        """Return the state."""
        noise, levels, layer = self._learners if self._kernel is None else self._kernel.learners
        return ScoringState(self._weights_now, noise, None, levels, layer)

    @property
    def _weights_now(self) -> Any:
        return self._weights if self._stacked is None else self._stacked.now

    @property
    def rules(self) -> Float[np.ndarray, " r"] | None:
        """The weights of several rules for the next row; None of a single one."""
        if not isinstance(self._rule, Mixture):
            return None
        stacked = self._stacked
        logs: Any = self._weights.log_weights if stacked is None else stacked.in_users_order(stacked.of_rules)
        return np.exp(logs)

    def predict(
        self, loc: Float[np.ndarray, "f e"], var: Float[np.ndarray, " f"], gap: float, row: Float[np.ndarray, "1 w"]
    ) -> None:
        """Predict a `row`, a time after the last one, from what the filters do; `learn` learns the last of them."""
        if self._kernel is not None:
            self._kernel.predict(loc, var, gap, row)
            return
        dof, (noise, levels, layer) = None, self._learners
        filters = means, variances = loc, np.broadcast_to(var[:, None], loc.shape)
        if noise is not None:
            found = self._kinds.predict(NoiseState(*_one(*noise)), *_one(*filters), gap=np.full(1, gap))
            means, variances, dof = (np.asarray(a[0]) for a in found)
        experts = means, variances, dof
        log_weights, means, variances = drop_non_finite(self.log_weights, means, variances)
        phi = factor = spread = shares = None
        if layer is not None:
            phi = noise_features.features(self._inputs, row, *_one(log_weights, means, variances))
            factor = layer.factor(phi)[0]
            variances = variances * factor
        if levels is not None:
            spread = log_spread(*_one(log_weights, means, variances))
            shares = levels.shares(spread)[0]
        mixture = RowMixture(log_weights, means, variances, dof, factor, shares)
        self._predicted = _Predicted(filters, gap, experts, mixture, phi, spread)

    def mixture(self) -> RowMixture:
        """Return what was predicted last."""
        if self._kernel is not None:
            return RowMixture(*self._kernel.mixture())
        assert self._predicted is not None
        return self._predicted.mixture

    def moments(self) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """Return mean and variance of the same, which are there until the next row."""
        if self._kernel is not None:
            return self._kernel.moments()
        log_weights, loc, var, *_, shares = self.mixture()
        weights = trimmed(np.exp(log_weights), self._trim)
        mean = weights @ loc
        variance = weights @ (var + np.square(loc - mean))
        return mean, variance if shares is None else variance * recalibration.variance_factor(shares)

    def learn(
        self, y: Float[np.ndarray, " e"], is_outlier: Bool[np.ndarray, " f"] | None
    ) -> tuple[bool | None, float | None]:
        """Learn the target of the row that was predicted last.

        Returns
        -------
        flagged, score
            Whether the row was an outlier to most of the weight (None: no filter has a guard), and the log density of
            its target (NaN if it was; None: no filter ever rests).
        """
        density: np.ndarray | None
        if self._kernel is None:
            flagged, score, density = self._learn_in_numpy(y, is_outlier)
        else:
            flagged, score, density = self._kernel.learn(y, is_outlier)
        if density is not None:
            self._weigh(density, is_outlier)
        return None if is_outlier is None else flagged, score if self._rests else None

    def _learn_in_numpy(
        self, y: Float[np.ndarray, " e"], is_outlier: Bool[np.ndarray, " f"] | None
    ) -> tuple[bool, float, Float[np.ndarray, " k"]]:
        """Do what `ScoringKernel.learn` does, but for the weights."""
        assert self._predicted is not None
        (mean, spread), gap, (loc, var, dof), *_ = self._predicted
        said, below = target_values(*_one(loc, var, dof, y), kinds=self._sizes.kinds)
        density = np.asarray(fill_missing_density(said[0].sum(-1)))
        outlying, flagged, score = self._outlying(is_outlier), False, np.nan
        if outlying is not None:
            flagged = bool(1.0 - np.exp(self.log_weights[outlying]).sum() < 0.5)
        if self._rests and not flagged:
            score = float(logsumexp(self.log_weights + density))
        learners = self._learnt_levels(below, y, flagged)
        if learners.noise is not None:
            noise = self._kinds.update(learners.noise, y - mean, spread, np.asarray(gap), is_outlier)
            learners = learners._replace(noise=noise)
        self._learners = learners
        return flagged, score, density

    def _learnt_levels(
        self, below: Float[np.ndarray, "1 k e"], y: Float[np.ndarray, " e"], flagged: bool
    ) -> Learners:
        """Let noise by input and recalibration learn at which levels the targets came."""
        noise, levels, layer = self._learners
        assert self._predicted is not None
        *_, mixture, phi, spread = self._predicted
        u = mixed_levels(mixture.log_weights[None], below)
        if layer is not None and phi is not None:
            square = noise_by_input.squared_scores(u, np.ones(1, bool), np.array([flagged]))
            layer, *_ = layer.learn_rows(phi, square)
            wider = target_levels(*_one(mixture.loc, mixture.var, mixture.dof, y), kinds=self._sizes.kinds)
            u = mixed_levels(mixture.log_weights[None], wider)
        if levels is not None and spread is not None:
            levels, _ = levels.learn_rows(u, spread, np.ones(1, bool))
        return Learners(noise, levels, layer)

    def _outlying(self, is_outlier: Bool[np.ndarray, " f"] | None) -> Bool[np.ndarray, " k"] | None:
        """Return to which experts the row is an outlier; None if to none."""
        return None if is_outlier is None or not is_outlier.any() else np.repeat(is_outlier, self._sizes.kinds)

    def _weigh(self, density: Float[np.ndarray, " k"], is_outlier: Bool[np.ndarray, " f"] | None) -> None:
        """Let the rules learn what the experts said of a row."""
        rules, outlying = self._stacked, self._outlying(is_outlier)
        if rules is not None and np.isfinite(density).all():
            outliers = None if outlying is None else outlying[None, rules.here]
            rules.learn(density[None, rules.here], outliers, self._least)
            if self._kernel is None:
                self.log_weights = rules.log_mixed()
            else:
                self._kernel.log_weights[...] = rules.log_mixed()
            return
        learners = self._learners if self._kernel is None else self._kernel.learners
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            now = self._weights_now
            self._weights = learn_row(self._rule, now, density, outlying, self._least, self._absent)
        self._begin(learners)


def _one(*arrays: np.ndarray | None) -> Any:
    """Return arrays of a row as those of several."""
    return [None if a is None else a[None] for a in arrays]
