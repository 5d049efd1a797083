"""Joint draws of the targets of several rows to come.

A path is drawn from one expert, by the weights: its regression weights from the belief, its noise variance from the
inverse gamma distribution of its level. Then, row by row, the weights move as the dynamics say, a correlated error
carries over, and noise is added. So the first row of many paths is distributed as `Ensemble.predict` says, and
the rows of one path belong together: a target that was drawn can be an input of the rows after it.

Where the noise follows the inputs, it has learnt from means and spreads of the mixture, and an expert's own spread is
smaller. So of the first row the mixture is asked. Later each path takes the mean of its own expert, and the mixture's
variance of its first row, times what the variances of all experts have grown by since.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blocks import member
from streamgp.likelihoods import noise_features, recalibration
from streamgp.models.gaussian.model import Ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics import mixtures, tree


class _Row(NamedTuple):
    """A row before its noise: as drawn and as expected, the error carried over, and the size of the noise."""

    drawn: Float[np.ndarray, "m e"]
    center: Float[np.ndarray, "m e"]
    carried: Float[np.ndarray, "m e"]
    spread: Float[np.ndarray, "m e"]


@dataclass
class _Part:
    """The paths of one filter: its own, and of each path noise and the weights now."""

    paths: Int[np.ndarray, " m"]
    basis: Any
    dynamics: Dynamics
    prior_var: float
    noise_var: float
    correlation: Float[np.ndarray, " m"]
    unit: Float[np.ndarray, "m e"]  # of all variances
    center: Float[np.ndarray, "f e"]  # what the weights are expected to be
    weights: Float[np.ndarray, "m f e"]
    error: Float[np.ndarray, "m e"]

    def next(self, X: Float[np.ndarray, "m d"], tau: float, rng: np.random.Generator) -> _Row:
        """Move the weights by a time and return the row with these inputs."""
        time = np.asarray([tau])
        gained = self.dynamics.process_variance(time).item() * self.prior_var
        kept = self.dynamics.transition(time).item()
        self.center, self.weights = kept * self.center, kept * self.weights
        if gained:
            self.weights += np.sqrt(gained * self.unit)[:, None] * rng.normal(size=self.weights.shape)
        Phi = np.asarray(self.basis(X))
        drawn = np.matmul(Phi[:, None], self.weights)[:, 0]
        carried = (self.correlation**tau * (self.correlation > 0.0))[:, None] * self.error
        return _Row(drawn, Phi @ self.center, carried, np.sqrt(self.noise_var * self.unit))


class Paths:
    """Draw n paths from a state of an ensemble, a row at a time, in its standardised units.

    Parameters
    ----------
    weights
        Of the experts, (K,), by which each path chooses one; those whose beliefs are not finite are left out.
    """

    def __init__(
        self,
        model: Ensemble,
        state: EnsembleState,
        weights: Float[np.ndarray, " k"],
        n: int,
        rng: np.random.Generator,
    ) -> None:
        self._model, self._state = model, state
        self._rng, self._n, self._outputs = rng, n, model.num_outputs
        self._time_unit = float(model.time_unit)
        inputs = model.noise_inputs
        self._inputs = None if inputs is None else np.asarray(inputs.which)
        self._layer = tree.map(np.asarray, state.layer)
        # The mixture's variance of each path's first row, over the mean of what the experts drawn have of their own.
        self._relative: Float[np.ndarray, "n e"] | None = None
        self._levels = tree.map(np.asarray, state.levels)
        kinds = len(model.noise)
        filters = tree.map(np.asarray, state.filters)
        slots = [
            (g, b, r)
            for g, group in enumerate(model.groups)
            for b in range(group.noise.prior_var.shape[0])
            for r in range(group.noise.prior_var.shape[1])
        ]
        slots = [slots[at] for at in np.argsort(model.order)]
        beliefs = [(filters[g].mean[b, r], filters[g].cov[b, r]) for g, b, r in slots]
        finite = np.array([np.isfinite(mean).all() and np.isfinite(cov).all() for mean, cov in beliefs])
        weights = np.where(finite.repeat(kinds), weights, 0.0)
        chosen = np.sort(rng.choice(len(weights), size=n, p=weights / weights.sum()))
        noise = None if state.noise is None else tree.map(np.asarray, state.noise)
        self._parts: list[_Part] = []
        for number in np.unique(chosen // kinds).tolist():
            paths = np.flatnonzero(chosen // kinds == number)
            kind = chosen[paths] % kinds
            unit, error = np.ones((len(paths), self._outputs)), np.zeros((len(paths), self._outputs))
            if noise is not None:
                unit, error = model.noise.draw(noise, number, kind, rng), error + noise.error[number]
            (g, b, r), (mean, cov) = slots[number], beliefs[number]
            group, z = model.groups[g], rng.normal(size=(len(paths), *mean.shape))
            self._parts.append(
                _Part(
                    paths,
                    tree.map(np.asarray, member(group.basis, b)),
                    tree.map(np.asarray, member(member(group.dynamics, b), r)),
                    float(group.noise.prior_var[b, r]),
                    float(group.noise.noise_var[b, r]),
                    model.noise.numbers.correlation[kind],
                    unit,
                    mean,
                    mean + np.sqrt(unit)[:, None] * np.matmul(_root(cov), z),
                    error,
                )
            )

    def step(self, X: Float[np.ndarray, "n d"], gap: float | None = None) -> Float[np.ndarray, "n e"]:
        """Draw the next row of every path.

        Parameters
        ----------
        X
            The inputs of that row, one for each path.
        gap
            The time since the row before; None: the usual one.
        """
        y, tau = np.empty((self._n, self._outputs)), 1.0 if gap is None else max(gap / self._time_unit, 0.0)
        rows = [part.next(X[part.paths], tau, self._rng) for part in self._parts]
        wider = self._wider(X, gap, rows)
        for part, row in zip(self._parts, rows, strict=True):
            factor = wider[part.paths]
            part.error = row.carried + factor * row.spread * self._rng.normal(size=part.error.shape)
            y[part.paths] = row.center + factor * (row.drawn - row.center) + part.error
        return y

    def _wider(self, X: Float[np.ndarray, "n d"], gap: float | None, rows: list[_Row]) -> Float[np.ndarray, "n e"]:
        """Return by how much the noise by input widens the row of each path."""
        if self._layer is None or self._inputs is None:
            return np.ones((self._n, self._outputs))
        mean, own = np.empty((2, self._n, self._outputs))
        for part, row in zip(self._parts, rows, strict=True):
            mean[part.paths] = row.center + row.carried
            own[part.paths] = np.square(row.spread) + np.square(row.drawn - row.center)
        if self._relative is None:
            mean, variance = self._predicted(X, gap)
            self._relative = variance / own.mean(0)
        variance = self._relative * own.mean(0)
        return np.sqrt(self._layer.factor(noise_features.of_moments(self._inputs, X, mean, variance)))

    def _predicted(
        self, X: Float[np.ndarray, "n d"], gap: float | None
    ) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]:
        """Return mean and variance of the mixture for the next row, without the noise by input."""
        rows = X[:1] if (X[:1] == X).all() else X  # most paths begin with the same inputs
        times = None if gap is None else np.full(len(rows), np.asarray(self._state.last_time) + gap)
        found = tree.map(np.asarray, self._model.predict(self._state, rows, times))
        mean, variance = mixtures.moments_of_rows(
            np.exp(found.log_weights), found.loc, found.var / found.noise[:, None]
        )
        return np.broadcast_to(mean, (len(X), self._outputs)), np.broadcast_to(variance, (len(X), self._outputs))

    def recalibrated(self, y: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
        """Return a row of all paths moved, in its order, to recalibrated quantiles; its mean stays as it is."""
        if self._levels is None:
            return y
        new, n = np.empty_like(y), len(y)
        spread = mixtures.log_std(y.var(0)[None])
        for e, shares in enumerate(self._levels.shares(spread)[0]):
            levels = recalibration.level(np.tile(shares, (n, 1)), (np.arange(n) + 0.5) / n)
            order = np.argsort(y[:, e], kind="stable")
            moved = np.interp(levels * n - 0.5, np.arange(n), y[order, e])
            new[order, e] = moved + (y[:, e].mean() - moved.mean())
        return new


def _root(cov: Float[np.ndarray, "f f"]) -> Float[np.ndarray, "f f"]:
    """Return R = R' with R R = cov; of eigenvalues that rounding has made negative, zero.

    It moves little where `cov` does, whereas eigenvectors of nearly equal eigenvalues may turn.
    """
    values, vectors = np.linalg.eigh(cov)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
