"""The streaming ensemble as the model of a moving function: neither its kernel nor its forgetting is to be chosen.

Experts of every pairing of a lengthscale, a pace of forgetting and a noise level learn from each observation, in
constant memory, and weights follow those that predicted the rewards best. An expert that reverts to the prior is a
Gaussian process with TV-GP-UCB's temporal kernel, so this is a mixture over that method's eps, kernel and noise.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from streamgp.bandits.belief import View, known_or_default
from streamgp.bandits.history import History
from streamgp.bandits.regression import Hyperparameters
from streamgp.bandits.trust import FAR, FEWEST, drawn_in, judge
from streamgp.bases import Fourier, HilbertSpace
from streamgp.bases.base import Basis
from streamgp.filters.dynamics import parse
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics.batching import split_batches
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import share

LENGTHSCALES = (0.05, 0.1, 0.2, 0.4)  # in shares of a parameter's range, times sqrt(d)
DYNAMICS = ("static", "revert 0.995", "revert 0.98", "revert 0.92", "revert 0.7")
NOISE_VARS = (1e-4, 1e-3, 1e-2, 1e-1)  # in squared standard deviations of the reward
_TERMS, _FREQUENCIES = 40, 64
_SWITCH, _SHARE = 0.01, 0.002  # per observation: between the dynamics and noises of a lengthscale, and among all
_LEARNT, _SCORED = (64, 8, 1), (512, 64)  # rows that reach the ensemble at once, filled up: few programs
_SCREENED = 16  # observations that are judged by each other
SETTLED = 128  # observations after which the scale of the rewards is taken as known


class Surrogate:
    """A mixture of streaming Gaussian processes over unit coordinates, in the units of the reward.

    Until observation 128 the scale of the rewards is that of those so far: at numbers 1, 2, 4, 8, ... the ensemble
    begins anew with a better one and learns them again. From then on nothing is kept but the ensemble's own state.
    """

    def __init__(self, groups: Int[np.ndarray, " d"], seed: int, *, robust: bool = False) -> None:
        self._groups, self._robust, width = groups, robust, len(groups)
        with jax.enable_x64(True):
            self._model = _model(width, int(groups.max()) + 1, seed)
            self._key = jax.random.key(seed)
            self._state: Any = self._model.init(self._key)
        self._kept: dict[str, np.ndarray] | None = {
            "U": np.zeros((0, width)), "y": np.zeros(0), "times": np.zeros(0)
        }  # fmt: skip
        self._scale = Standardiser.empty(1)
        self._count = 0

    def take(self, history: History) -> History:
        """Learn what came since the last time as far as it is believed; what is believed late is learnt as of now."""
        if not history.unjudged.any():
            return history
        marked = self._marked(history) if self._robust and len(history.y) >= FEWEST else history
        if (marked.flagged & ~history.flagged & ~history.unjudged).any():
            kept = marked.where(~marked.flagged)  # the beginning has turned out to hold a glitch
            self._kept = {"U": kept.U, "y": kept.y, "times": kept.times}
            self._scale, self._state = self._anew(self._kept)
            self._count = len(kept.y)
        else:
            believed = (history.unjudged | history.flagged) & ~marked.flagged
            self.learn(history.U[believed], history.y[believed], history.time)
        return replace(marked, surprise=np.nan_to_num(marked.surprise))

    def _marked(self, history: History) -> History:
        """Judged by their predictions; the first few, which have none worth the name, by each other."""
        if self._kept is not None and len(history.y) <= _SCREENED:
            astray = (drawn_in(history.y) != history.y) & ~(history.beyond & ~history.flagged)
            side = np.where(astray, np.sign(history.y - np.median(history.y)), 0.0)
            return replace(history, surprise=FAR * side, beyond=history.beyond | astray, doubt=np.abs(side))
        new = np.flatnonzero(history.unjudged)
        errors, variances = np.zeros(len(history.y)), np.ones(len(history.y))
        mean, variances[new] = self._moments(self._state, history.U[new], history.time, noise=True)
        errors[new] = history.y[new] - mean
        return judge(history, np.arange(len(history.y)), lambda _: (errors, variances))

    def settle(self, history: History) -> History:
        """Nothing to do: what is believed is known as soon as it is told."""
        return history

    def learn(self, U: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], time: float) -> None:
        """Learn rewards that were all observed at one time, none before the last; on an error, none of them."""
        if len(y) == 0:
            return
        rows = {"U": U, "y": y, "times": np.full(len(y), time)}
        count, kept, scale, state = self._count + len(y), self._kept, self._scale, self._state
        if kept is not None:
            kept = {name: np.concatenate([kept[name], rows[name]]) for name in rows}
        if kept is not None and self._count.bit_length() != count.bit_length():
            scale, state = self._anew(kept)
            kept = kept if count < SETTLED else None
        else:
            state = self._updated(state, scale, **rows)
        self._count, self._kept, self._scale, self._state = count, kept, scale, state

    def _anew(self, kept: dict[str, np.ndarray]) -> tuple[Standardiser, Any]:
        scale = Standardiser.empty(1).update(kept["y"][:, None])
        with jax.enable_x64(True):
            state = self._model.init(self._key)
        return scale, self._updated(state, scale, **kept)

    def _updated(self, state: Any, scale: Standardiser, U: np.ndarray, y: np.ndarray, times: np.ndarray) -> Any:
        z = scale.transform(y[:, None])
        with jax.enable_x64(True):
            for rows, size in split_batches(len(y), _LEARNT):
                mask = np.arange(size) < rows.stop - rows.start
                filled = [_filled(values[rows], size) for values in (_centred(U), z, times)]
                X, targets, when = (jnp.asarray(values) for values in filled)
                state, _ = self._model.update(state, X, targets, jnp.asarray(mask), when)
        return state

    def at(self, U: Float[np.ndarray, "n d"], time: float) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of the function at a time, noise left out."""
        mean, variance = self._moments(self._state, U, time)
        return mean, np.sqrt(variance)

    def _moments(
        self, state: Any, U: Float[np.ndarray, "n d"], time: float, *, noise: bool = False
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and variance of the function, or of rewards with their `noise`."""
        if not len(U):
            return np.zeros(0), np.zeros(0)
        means, variances = [], []
        noise_vars = 0.0 if noise else np.tile(NOISE_VARS, len(LENGTHSCALES) * len(DYNAMICS))
        with jax.enable_x64(True):
            for start in range(0, len(U), _SCORED[0]):
                part = _centred(U[start : start + _SCORED[0]])
                size = min(size for size in _SCORED if size >= len(part))
                X, when = jnp.asarray(_filled(part, size)), jnp.full(size, time)
                mixture = self._model.predict(state, X, when)
                weights, loc = np.asarray(mixture.weights[0]), np.asarray(mixture.loc)[: len(part), :, 0]
                var = np.asarray(mixture.var)[: len(part), :, 0] - noise_vars
                mean = loc @ weights
                means.append(mean)
                variances.append((var + np.square(loc - mean[:, None])) @ weights)
        scale = self._unit
        variance = np.maximum(np.concatenate(variances), 0.0)
        return float(self._scale.mean[0]) + scale * np.concatenate(means), scale**2 * variance

    def hyperparameters(self, history: History) -> Hyperparameters:
        """Those by which side queries among past inputs are chosen; the experts have their own."""
        return known_or_default(history, {}, self._groups)

    def refit(self, history: History) -> History:
        """Nothing to do: the weights do it."""
        return history

    def view(self, history: History, pending: Float[np.ndarray, "k d"] | None = None) -> View:
        """The mixture as the choice of the next point needs it; what is `pending` is taken to come as expected."""
        state = self._state
        if pending is not None and len(pending):
            expected, times = self.at(pending, history.time)[0], np.full(len(pending), history.time)
            state = self._updated(state, self._scale, pending, expected, times)

        def at(U: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
            mean, variance = self._moments(state, U, history.next_time)
            return mean, np.sqrt(variance)

        return View(at, level=float(self._scale.mean[0]), scale=self._unit)

    @property
    def _unit(self) -> float:
        return float(self._scale.scale[0])

    @property
    def weights(self) -> dict[str, float]:
        """How much every expert counts now, by name."""
        with jax.enable_x64(True):
            values = np.exp(np.asarray(self._model.rule.predict(self._state.weights)))
        return dict(zip(self._model.names, values.tolist(), strict=True))

    def to_tree(self) -> dict[str, Any]:
        """What a checkpoint needs beside the arguments of the constructor."""
        return {"state": self._state, "kept": self._kept, "scale": self._scale, "count": self._count}

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from what `to_tree` gave."""
        self._state, self._kept = tree["state"], tree["kept"]
        self._scale, self._count = tree["scale"], tree["count"]


def _model(width: int, parameters: int, seed: int) -> Ensemble:
    """One expert for each lengthscale, dynamics and noise; those of a lengthscale share its features."""
    corners = np.stack([-np.ones(width), np.ones(width)])
    experts, groups = [], []
    for number, lengthscale in enumerate(LENGTHSCALES):
        start = lengthscale * float(np.sqrt(parameters))
        basis: Basis
        if width == 1:
            basis = HilbertSpace.from_data(corners, num_features=_TERMS, start=start, key=jax.random.key(seed))
        else:
            key = jax.random.fold_in(jax.random.key(seed), number)
            basis = Fourier.from_data(corners, num_features=2 * _FREQUENCIES, start=start, key=key)
        for dynamics in DYNAMICS:
            for noise_var in NOISE_VARS:
                name = f"lengthscale {lengthscale:g}, {dynamics}, noise {noise_var:g}"
                experts.append(Expert(basis, jnp.asarray(1.0), jnp.asarray(noise_var), parse(dynamics), name))
                groups.append(number)
    largest = len(DYNAMICS) * len(NOISE_VARS)
    return ensemble(experts, share(groups, _SWITCH / (largest - 1), _SHARE))


def _centred(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """From [0, 1] to [-1, 1], about which the Hilbert-space box is symmetric."""
    return 2.0 * U - 1.0


def _filled(values: np.ndarray, size: int) -> np.ndarray:
    return np.pad(values, ((0, size - len(values)), *((0, 0),) * (values.ndim - 1)), mode="edge")
