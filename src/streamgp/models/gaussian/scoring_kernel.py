"""What experts predict of a row and learn from its target, in C: `numerics/kernel/scoring.c`.

Its oracle is the form in NumPy, `streamgp.models.gaussian.row_scoring`.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.noise import NoiseKinds, NoiseState
from streamgp.likelihoods import noise_by_input, noise_features, recalibration, recalibration_by_spread
from streamgp.likelihoods.noise_by_input import NoiseByInput
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread
from streamgp.numerics import tree
from streamgp.numerics.native import address, function, structure
from streamgp.weights.stacked import StackedRules

# The fields of `scoring_t`, in order.
_COUNTS = "filters", "kinds", "outputs", "here", "inputs", "factors", "rests"
_OF_LAYER = noise_by_input.LEVELS | noise_features.KERNEL_CONSTANTS
_NUMBERS = "least", "trim", *_OF_LAYER
_GIVEN = "rules", "noise", "is_here", "log_weights", "log_rho", "is_constant", "shapes", "rates", "errors"
_GIVEN += "layer", "which", "map_rules", "std_factors", "counts", "helps", "spread"
_OF_ROW = "filter_loc", "filter_var", "row", "y", "is_outlier"
_FOUND = "loc", "var", "dof", "left", "weights", "each", "sound_loc", "wider", "phi", "factor"
_FOUND += "log_spread", "shares", "moments", "density", "outlying", "below", "u", "room"
_Fields = structure(_COUNTS, _NUMBERS, (*_GIVEN, *_OF_ROW, *_FOUND))


class Sizes(NamedTuple):
    """How many filters, kinds of noise, outputs and inputs there are."""

    filters: int
    kinds: int
    outputs: int
    inputs: int


class Learners(NamedTuple):
    """What learns from targets besides the filters and the weights: as in `ScoringState`."""

    noise: NoiseState | None
    levels: RecalibrationBySpread | None
    layer: NoiseByInput | None


class ScoringKernel:
    """The compiled form of a `RowScoring`.

    Parameters
    ----------
    sizes
        Of the ensemble.
    rules, kinds
        Its rules, whose weights are changed in place, and its kinds of noise.
    learners
        To go on from; they stay as they are.
    which
        The inputs that the noise follows; None: none.
    least, trim
        The log density to which those of outliers are bounded, and what is taken from weights in moments.
    rests
        Whether some filters may rest.
    """

    def __init__(
        self,
        sizes: Sizes,
        rules: StackedRules,
        kinds: NoiseKinds,
        learners: Learners,
        which: Int[np.ndarray, " d"] | None,
        least: float,
        trim: float,
        rests: bool,
    ) -> None:
        F, J, E, width = sizes
        factors = len(recalibration.STD_FACTORS)
        K, L = F * J, 0 if which is None else noise_features.num_features(len(which))
        self.log_weights = rules.log_mixed()
        here = None if isinstance(rules.here, slice) else np.asarray(rules.here, np.int64)
        found = self._learners(learners, kinds, F, E)
        assert rules.kernel is not None
        self._given: dict[str, Any] = found | {
            "rules": rules.kernel.at,
            "is_here": here,
            "log_weights": self.log_weights,
            "which": None if which is None else np.asarray(which, np.int64),
            "std_factors": recalibration.STD_FACTORS,
        }
        self._has = [each is not None for each in learners]
        room = K + 2 * F * E + 2 * E + 2 * L + 2 * K + rules.kernel.room
        empty = dict.fromkeys(("loc", "var", "sound_loc", "wider", "density", "below"), (K, E))
        empty |= dict.fromkeys(("dof", "weights", "each"), (K,)) | dict.fromkeys(
            ("factor", "log_spread", "u", "y"), (E,)
        )
        empty |= {"left": (J,), "phi": (E, L), "shares": (E, factors), "moments": (2, E), "room": (room,)}
        empty |= {"filter_loc": (F, E), "filter_var": (F,), "row": (width,)}
        row: dict[str, Any] = {name: np.empty(shape) for name, shape in empty.items()}
        row |= {"is_outlier": np.empty(F, bool), "outlying": np.empty(K, bool)}
        self._row, self._said = row, np.empty(2)
        arrays = {name: address(a) if isinstance(a, np.ndarray) else a for name, a in (self._given | row).items()}
        counts = F, J, E, K if here is None else len(here), 0 if which is None else len(which)
        numbers = {"least": least, "trim": trim} | _OF_LAYER
        self._rules = rules
        self._fields = _Fields(*counts, factors, rests, **numbers, **arrays)
        self._at, self._said_at = ctypes.addressof(self._fields), address(self._said)

    def _learners(self, learners: Learners, kinds: NoiseKinds, F: int, E: int) -> dict[str, Any]:
        """Return what the kernel needs of them, in arrays that it changes in place."""
        noise, levels, layer = learners
        found: dict[str, Any] = dict.fromkeys(_GIVEN[1:])
        if noise is not None:
            self._noise = kinds.kernel_fields(F, E)
            rho = kinds.numbers.correlation
            with np.errstate(divide="ignore"):
                found |= {"noise": self._noise.at, "log_rho": np.log(np.where(rho > 0.0, rho, 0.0))}
            found["is_constant"] = (~kinds.numbers.adapts).astype(np.float64)
            found |= {name: _twice(a) for name, a in zip(("shapes", "rates", "errors"), noise, strict=True)}
        if levels is not None:
            found["map_rules"] = recalibration_by_spread.KERNEL_CONSTANTS
            parts = zip(("counts", "helps", "spread"), (levels.counts, levels.helps, levels.spread), strict=True)
            found |= {name: _twice(a) for name, a in parts}
        if layer is not None:
            self._layer, self._layer_fields = noise_by_input.kernel_belief(layer)
            found["layer"] = ctypes.addressof(self._layer_fields)
        return found

    @property
    def learners(self) -> Learners:
        """Return what they know now."""
        has_noise, has_levels, has_layer = self._has
        given = self._given
        noise = NoiseState(*(given[name][0].copy() for name in ("shapes", "rates", "errors"))) if has_noise else None
        layer = tree.map(np.copy, self._layer) if has_layer else None
        maps = (given[name][0].copy() for name in ("counts", "helps", "spread")) if has_levels else ()
        return Learners(noise, RecalibrationBySpread(*maps) if has_levels else None, layer)

    def predict(
        self, loc: Float[np.ndarray, "f e"], var: Float[np.ndarray, " f"], gap: float, row: Float[np.ndarray, "1 w"]
    ) -> None:
        """Do what `RowScoring.predict` does."""
        to = self._row
        to["filter_loc"][...], to["filter_var"][...], to["row"][...] = loc, var, row[0]
        _functions()[0](self._at, gap)

    def moments(self) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """Return mean and variance of the mixture that was predicted last."""
        mean, variance = self._row["moments"]
        return mean, variance

    def mixture(self) -> list[Any]:
        """Return what `RowMixture` has of it."""
        has_noise, has_levels, has_layer = self._has
        known = (("weights", True), ("sound_loc", True), ("wider", True), ("dof", has_noise), ("factor", has_layer))
        known += (("shares", has_levels),)
        return [self._row[name].copy() if is_known else None for name, is_known in known]

    def learn(
        self, y: Float[np.ndarray, " e"], is_outlier: Bool[np.ndarray, " f"] | None
    ) -> tuple[bool, float, Float[np.ndarray, " k"] | None]:
        """Learn the target of the row that was predicted last.

        Returns
        -------
        flagged, score
            Whether it was an outlier to most of the weight, and the log density of the target.
        density
            None, or the log densities by the experts that the weights have yet to learn, in logs.
        """
        self._row["y"][...] = y
        if is_outlier is not None:
            self._row["is_outlier"][...] = is_outlier
        has_learnt = _functions()[1](self._at, is_outlier is not None, self._said_at)
        density = None if has_learnt else self._row["density"].ravel()[: len(self.log_weights)].copy()
        flagged, score = self._said.tolist()
        return flagged > 0.0, score, density


def _twice(a: Any) -> np.ndarray:
    """Return an array before a row, with room for it after the row."""
    found = np.empty((2, *np.shape(a)))
    found[0] = a
    return found


def is_compiled() -> bool:
    """Return whether the kernel was built."""
    return _functions() is not None


@cache
def _functions() -> Any:
    at, number, n = ctypes.c_void_p, ctypes.c_double, ctypes.c_int64
    predict, learn = function("predict_mixture", [at, number]), function("learn_target", [at, n, at], n)
    return None if predict is None else (predict, learn)
