"""The state of an ensemble for numbers: beliefs, weights, noise, pending forecasts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.kalman import FilterState
from streamgp.filters.noise import NoiseState
from streamgp.likelihoods.noise_by_input import NoiseByInput
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread
from streamgp.models.gaussian.delayed_feedback import PendingForecasts, ScoringState
from streamgp.models.gaussian.resting import Resting
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module


@register
class EnsembleState(Module):
    """Belief of every filter (of each group a `FilterState`), weights, clock, level of the noise.

    `pending` holds the forecasts whose targets have not come yet, where the ensemble forecasts several rows ahead;
    `levels` the maps of its recalibration, where it is recalibrated; `resting` says which
    filters rest, where they may; `layer` how the noise follows the inputs, where it does.
    """

    filters: tuple[FilterState, ...]
    weights: Any
    last_time: Float[AnyArray, ""]
    noise: NoiseState | None = None
    pending: PendingForecasts | None = None
    levels: RecalibrationBySpread | None = None
    resting: Resting | None = None
    layer: NoiseByInput | None = None

    @property
    def horizon(self) -> int:
        """Return how many rows ahead forecasts are; 0 where each row is predicted from its own inputs."""
        return 0 if self.pending is None else self.pending.horizon

    @property
    def scoring(self) -> ScoringState:
        """Return all that learns from targets besides the filters."""
        return ScoringState(self.weights, self.noise, self.pending, self.levels, self.layer)

    @classmethod
    def of(
        cls, filters: Sequence[Any], scoring: ScoringState, last_time: AnyArray, resting: Resting | None = None
    ) -> "EnsembleState":
        """Join the beliefs of the filters and the rest of a state."""
        weights, noise, pending, levels, layer = scoring
        return cls(tuple(filters), weights, last_time, noise, pending, levels, resting, layer)

    @property
    def arrays(self) -> list[Any]:
        """Return the means and covariances of the filters."""
        return [a for beliefs in self.filters for a in (beliefs.mean, beliefs.cov)]

    @property
    def decides_who_rests(self) -> bool:
        """Return whether filters may go to rest or wake: not in the warm-up."""
        return self.resting is not None and not np.isnan(self.resting.at)

    @property
    def asleep(self) -> Bool[AnyArray, " f"] | None:
        """Return which filters rest, in the user's order; None where none ever do."""
        return None if self.resting is None else self.resting.asleep

    def absent(self, copies: int) -> Bool[AnyArray, " k"] | None:
        """Return which experts rest, of which every filter serves so many; None where none ever do."""
        return None if self.resting is None else self.resting.absent(copies)

    def of_output(self, e: int) -> "EnsembleState":
        """Return the state of one of several outputs, whose covariances are those of all."""
        at = slice(e, e + 1)

        def of_filter(beliefs: Any) -> Any:
            guard = beliefs.guard
            if guard is not None:
                guard = guard._replace(level=guard.level[..., at], last=guard.last[..., at])
            return replace(beliefs, mean=beliefs.mean[..., at], guard=guard)

        noise = self.noise
        if noise is not None:
            noise = noise._replace(rate=noise.rate[..., at], error=noise.error[..., at])
        levels = None if self.levels is None else self.levels.of_output(e)
        layer = None if self.layer is None else self.layer.of_output(e)
        return replace(self, filters=tuple(map(of_filter, self.filters)), noise=noise, levels=levels, layer=layer)
