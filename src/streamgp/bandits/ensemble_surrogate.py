"""The streaming ensemble as the surrogate, which needs no choice of a kernel or of a pace of forgetting.

Experts of every pairing of a lengthscale, a pace of forgetting and a noise level learn from each observation, in
constant memory, and weights follow those that predicted the rewards best. An expert that reverts to the prior is a
Gaussian process with TV-GP-UCB's temporal kernel, so this is a mixture over that method's eps, kernel and noise.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.bandits.history import History
from streamgp.bandits.outliers import LIMIT, MIN_ROWS, clip_outliers, mark_outliers
from streamgp.bandits.regression import Hyperparameters
from streamgp.bandits.surrogate import Predictor, fixed_or_default
from streamgp.bases import Fourier, HilbertSpace
from streamgp.bases.base import Basis
from streamgp.filters.dynamics import parse
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.numerics.batching import split_batches
from streamgp.numerics.checkpoint.field_types import check_state, check_value
from streamgp.numerics.precision import in_float64
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import share

# Lengthscales as shares of a parameter's range, times sqrt(d).
LENGTHSCALES = (0.05, 0.1, 0.2, 0.4)
DYNAMICS = ("static", "revert 0.995", "revert 0.98", "revert 0.92", "revert 0.7")
# Noise variances in units of the reward's variance.
NOISE_VARS = (1e-4, 1e-3, 1e-2, 1e-1)
_TERMS, _FREQUENCIES = 40, 64
# Shares of weight per observation: between the dynamics and noises of a lengthscale, and among all.
_SWITCH, _SHARE = 0.01, 0.002
# Rows are padded to few batch sizes, so that few programs are compiled.
# So many first observations are screened by each other.
_FIRST_ROWS = 16
# The scale of the rewards counts as known after so many observations.
SCALE_ROWS = 128


class EnsembleSurrogate:
    """A mixture of streaming Gaussian processes over unit coordinates, in the units of the reward.

    Until observation 128 the scale of the rewards is that of those so far: at numbers 1, 2, 4, 8, ... the ensemble
    begins anew with a better one and learns them again. From then on only the ensemble's own state is kept.
    """

    @in_float64
    def __init__(self, groups: Int[np.ndarray, " d"], seed: int, *, robust: bool = False) -> None:
        self._groups, self._robust, width = groups, robust, len(groups)
        self._model = _make_model(width, int(groups.max()) + 1, seed)
        self._key = keys.key(seed)
        self._state: Any = self._model.init(self._key)
        nothing = {"U": np.zeros((0, width)), "y": np.zeros(0), "times": np.zeros(0)}
        self._first_rows: dict[str, np.ndarray] | None = nothing  # None once the scale is taken as known
        self._scale = Standardiser.empty(1)
        self._count = 0

    def observe(self, history: History) -> History:
        """Learn what came since the last time and is not flagged; what is flagged no longer is learnt as of now."""
        if not history.unscreened.any():
            return history
        marked = self._mark(history) if self._robust and len(history.y) >= MIN_ROWS else history
        if (marked.flagged & ~history.flagged & ~history.unscreened).any():
            # The first observations have turned out to hold a glitch.
            kept = marked.where(~marked.flagged)
            self._first_rows = {"U": kept.U, "y": kept.y, "times": kept.times}
            self._scale, self._state = self._restart(self._first_rows)
            self._count = len(kept.y)
        else:
            accepted = (history.unscreened | history.flagged) & ~marked.flagged
            self.learn(history.U[accepted], history.y[accepted], history.time)
        return replace(marked, z_scores=np.nan_to_num(marked.z_scores))

    def _mark(self, history: History) -> History:
        """Mark outliers by their predictions; the first few, whose predictions say little yet, by each other."""
        if self._first_rows is not None and len(history.y) <= _FIRST_ROWS:
            outlying = (clip_outliers(history.y) != history.y) & ~(history.outlying & ~history.flagged)
            side = np.where(outlying, np.sign(history.y - np.median(history.y)), 0.0)
            return replace(
                history, z_scores=LIMIT * side, outlying=history.outlying | outlying, added_noise=np.abs(side)
            )
        new = np.flatnonzero(history.unscreened)
        errors, variances = np.zeros(len(history.y)), np.ones(len(history.y))
        mean, variances[new] = self._moments(self._state, history.U[new], history.time, noise=True)
        errors[new] = history.y[new] - mean
        return mark_outliers(history, np.arange(len(history.y)), lambda _: (errors, variances))

    def screen(self, history: History) -> History:
        """Return the history as it is: `observe` has screened it."""
        return history

    def learn(self, U: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], time: float) -> None:
        """Learn rewards that were all observed at one time, none before the last; on an error, none of them."""
        if len(y) == 0:
            return
        rows = {"U": U, "y": y, "times": np.full(len(y), time)}
        count, first_rows, scale, state = self._count + len(y), self._first_rows, self._scale, self._state
        if first_rows is not None:
            first_rows = {name: np.concatenate([first_rows[name], rows[name]]) for name in rows}
        if first_rows is not None and self._count.bit_length() != count.bit_length():
            scale, state = self._restart(first_rows)
            first_rows = first_rows if count < SCALE_ROWS else None
        else:
            state = self._update(state, scale, **rows)
        self._count, self._first_rows, self._scale, self._state = count, first_rows, scale, state

    @in_float64
    def _restart(self, rows: dict[str, np.ndarray]) -> tuple[Standardiser, Any]:
        """Return the scale of these rows, and the state of an ensemble that has learnt them in it."""
        scale = Standardiser.empty(1).update(rows["y"][:, None])
        return scale, self._update(self._model.init(self._key), scale, **rows)

    @in_float64
    def _update(self, state: Any, scale: Standardiser, U: np.ndarray, y: np.ndarray, times: np.ndarray) -> Any:
        z = scale.transform(y[:, None])
        for rows, _ in split_batches(len(y)):
            state, _ = self._model.update(state, _centre(U)[rows], z[rows], None, times[rows])
        return state

    def at(self, U: Float[np.ndarray, "n d"], time: float) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return mean and standard deviation of the function at a time, without noise."""
        mean, variance = self._moments(self._state, U, time)
        return mean, np.sqrt(variance)

    @in_float64
    def _moments(
        self, state: Any, U: Float[np.ndarray, "n d"], time: float, *, noise: bool = False
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return mean and variance of the function, or of rewards with their `noise`."""
        if not len(U):
            return np.zeros(0), np.zeros(0)
        means, variances = [], []
        noise_vars = 0.0 if noise else np.tile(NOISE_VARS, len(LENGTHSCALES) * len(DYNAMICS))
        for rows, size in split_batches(len(U)):
            mixture = self._model.predict(state, _centre(U[rows]), np.full(size, time))
            weights, loc = np.asarray(mixture.weights[0]), np.asarray(mixture.loc)[:, :, 0]
            var = np.asarray(mixture.var)[:, :, 0] - noise_vars
            mean = loc @ weights
            means.append(mean)
            variances.append((var + np.square(loc - mean[:, None])) @ weights)
        scale = self._unit
        variance = np.maximum(np.concatenate(variances), 0.0)
        return float(self._scale.mean[0]) + scale * np.concatenate(means), scale**2 * variance

    def hyperparameters(self, history: History) -> Hyperparameters:
        """Return those by which side queries among past inputs are chosen; the experts have their own."""
        return fixed_or_default(history, {}, self._groups)

    def refit(self, history: History) -> History:
        """Return the history as it is: the weights choose among the experts' hyperparameters."""
        return history

    def predictor(self, history: History, pending: Float[np.ndarray, "k d"] | None = None) -> Predictor:
        """Return the mixture of the next step, as if the `pending` points had come out as expected."""
        state = self._state
        if pending is not None and len(pending):
            expected, times = self.at(pending, history.time)[0], np.full(len(pending), history.time)
            state = self._update(state, self._scale, pending, expected, times)

        def at(U: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
            mean, variance = self._moments(state, U, history.next_time)
            return mean, np.sqrt(variance)

        return Predictor(at, level=float(self._scale.mean[0]), scale=self._unit)

    @property
    def _unit(self) -> float:
        return float(self._scale.scale[0])

    @property
    @in_float64
    def weights(self) -> dict[str, float]:
        """Return the present weight of every expert, by name."""
        values = np.exp(np.asarray(self._model.rule.predict(self._state.weights)))
        return dict(zip(self._model.names, values.tolist(), strict=True))

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the arguments of the constructor."""
        return {"state": self._state, "kept": self._first_rows, "scale": self._scale, "count": self._count}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take back what `to_tree` returned."""
        check_state(self._model, tree["state"])
        check_value("the scale", tree["scale"], Standardiser)
        check_value("the number of observations", tree["count"], int)
        check_value("the first observations", tree["kept"], dict[str, np.ndarray] | None)
        self._state, self._first_rows = tree["state"], tree["kept"]
        self._scale, self._count = tree["scale"], tree["count"]


def _make_model(width: int, parameters: int, seed: int) -> Ensemble:
    """Make one expert for each lengthscale, dynamics and noise; those of a lengthscale share its features."""
    corners = np.stack([-np.ones(width), np.ones(width)])
    experts, groups = [], []
    for number, lengthscale in enumerate(LENGTHSCALES):
        start = lengthscale * float(np.sqrt(parameters))
        basis: Basis
        if width == 1:
            basis = HilbertSpace.from_data(corners, num_features=_TERMS, start=start, key=keys.key(seed))
        else:
            key = keys.fold_in(keys.key(seed), number)
            basis = Fourier.from_data(corners, num_features=2 * _FREQUENCIES, start=start, key=key)
        for dynamics in DYNAMICS:
            for noise_var in NOISE_VARS:
                name = f"lengthscale {lengthscale:g}, {dynamics}, noise {noise_var:g}"
                experts.append(Expert(basis, np.asarray(1.0), np.asarray(noise_var), parse(dynamics), name))
                groups.append(number)
    largest = len(DYNAMICS) * len(NOISE_VARS)
    return ensemble(experts, share(groups, _SWITCH / (largest - 1), _SHARE))


def _centre(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Move from [0, 1] to [-1, 1], about which the Hilbert-space box is symmetric."""
    return 2.0 * U - 1.0
