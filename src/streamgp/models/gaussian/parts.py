"""The parts of an online ensemble: experts in groups of equal shape, rule and noise, and which filters work."""

from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.engine.blocks import Group
from streamgp.filters.noise import CONSTANT_NOISE, NoiseKinds
from streamgp.likelihoods.noise_features import NoiseInputs
from streamgp.models.agreement import check_ensemble
from streamgp.models.contract import Info, StreamModel
from streamgp.models.gaussian.resting import Resting
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.module import static_field
from streamgp.weights import WeightRule


class EnsembleParts(StreamModel):
    """What an ensemble is made of, for all that run one: block by block, row by row, or as programs of XLA."""

    takes_extra_variance: ClassVar[bool] = True

    groups: tuple[Group, ...]
    rule: WeightRule
    log_prior: Float[AnyArray, " k"]
    time_unit: Float[AnyArray, ""]
    order: tuple[int, ...] = static_field()
    names: tuple[str, ...] = static_field()
    num_inputs: int = static_field()
    num_outputs: int = static_field()
    noise: NoiseKinds = CONSTANT_NOISE
    guarded: bool = static_field(default=False)
    recalibrated: bool = static_field(default=False)
    rests: bool = static_field(default=False)
    noise_inputs: NoiseInputs | None = None

    @property
    def num_experts(self) -> int:
        """Return K, the number of experts: filters times kinds of noise."""
        return len(self.order) * self._copies

    @property
    def _copies(self) -> int:
        """Return how many experts each filter serves."""
        return len(self.noise)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Return (G, R) of every group."""
        return [group.noise.prior_var.shape for group in self.groups]

    def check_state(self, state: EnsembleState) -> None:
        """Raise ValueError if the state has other filters or weights than this ensemble."""
        check_ensemble(self.rule, self.order, self.shapes, state.filters, state.weights)
        if len(self.log_prior) != self.num_experts or (state.noise is not None) != self.noise.adapt:
            raise ValueError(f"expected {len(self.log_prior)} experts and their noise, got {self.num_experts}")

    def inputs_of(self, X: Float[AnyArray, "n d"]) -> tuple[AnyArray, AnyArray] | None:
        """Return the inputs of rows, and which of them the noise follows; None where it follows none."""
        return None if self.noise_inputs is None else (X, self.noise_inputs.which)

    def resting_after(self, state: EnsembleState, info: Info, seen: AnyArray, clock: AnyArray) -> Resting | None:
        """Return who rests, and how the others did, after some rows."""
        if state.resting is None:
            return None
        weights = namespace(seen).where(seen[:, None], info.predictive.weights, 0.0).sum(0)
        return state.resting.after(weights, seen.sum(), clock[-1])

    def live(self, state: EnsembleState) -> Bool[AnyArray, " filters"]:
        """Return which filters work: those that have an expert with weight, and do not rest."""
        live = np.ones(len(self.order), bool)
        if self.rule.shuts_down:
            log_weights = self.rule.predict(state.weights)
            live = namespace(log_weights).isfinite(log_weights).reshape(len(self.order), -1).any(axis=1)
        return live if state.asleep is None else live & ~state.asleep
