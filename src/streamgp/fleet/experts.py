"""The filters of some keys' experts, one row of each key at a time: a textbook Kalman filter for all of them at once.

Expert e of a key: ``theta_t = m + a (theta_(t-1) - m) + N(0, (1 - a^2) S)`` with the prior N(m, S) that the key was
born with and a = decay^tau, ``y_t = phi' theta_t + N(0, s2 z_t)``. In whitened weights, theta = m + L w, S = L L',
and features psi = L' phi, that is ``w_t = a w_(t-1) + N(0, (1 - a^2) I)``, ``y_t - phi' m = psi' w_t + noise``.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.guard import LEVEL_MEMORY, Guard, bounded, learn
from streamgp.filters.kalman import predict_row
from streamgp.filters.noise import MAX_LEARNT, MIN_FACTOR
from streamgp.fleet.prior import PooledPrior
from streamgp.fleet.scales import REACH
from streamgp.fleet.states import KeyBeliefs, identity
from streamgp.numerics import student_t
from streamgp.numerics.checkpoint.encoding import register

# The share of the weights that is dealt out evenly after every row.
SHARE = 0.005
# This share of the experts' weight decides whether a row is an outlier, and whether the stream has shifted.
HALF = 0.5
# Rounding may have reduced a predictive variance by this share of the noise variance.
TOLERATED = 1e-6
# So many rows whose errors are carried on say as much of the weights as one row with an error of its own.
TOGETHER = 4.0


@cache
def _triangle(features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and columns of a lower triangle's entries, where each of the matrix is there, and the diagonal."""
    i, j = np.tril_indices(features)
    place = np.zeros((features, features), np.int64)
    place[i, j] = place[j, i] = np.arange(len(i))
    return i, j, place.ravel(), place.diagonal().copy()


class Predicted(NamedTuple):
    """Predictions of a row of each key, in the key's scale, and what learning the row will need.

    Attributes
    ----------
    mean, var, dof
        Of every expert with every kind of noise.
    loc, filter_var, gain, shrink
        Of the filters: mean, with what is carried, and variance, P psi, and the factor a on the mean.
    is_broken
        Which filters' beliefs were of no use: they start again from the prior.
    carried
        What of the last errors is in `loc`, besides what the filters say.
    """

    mean: Float[np.ndarray, "n k"]
    var: Float[np.ndarray, "n k"]
    dof: Float[np.ndarray, "n k"]
    loc: Float[np.ndarray, "n e"]
    filter_var: Float[np.ndarray, "n e"]
    gain: Float[np.ndarray, "n e f"]
    shrink: Float[np.ndarray, "n e"]
    is_broken: Bool[np.ndarray, "n e"]
    carried: Float[np.ndarray, "n e"]


class Learnt(NamedTuple):
    """What a row taught each key, its log densities, and whether it was an outlier or the stream has shifted."""

    beliefs: KeyBeliefs
    log_densities: Float[np.ndarray, "n k"]
    is_outlier: Bool[np.ndarray, " n"]
    is_shift: Bool[np.ndarray, " n"]


@register
@dataclass(frozen=True)
class FleetExperts:
    """What the experts of all keys have in common.

    Attributes
    ----------
    decay
        Factor on the deviation of the weights from the prior, per unit of time; 1: the weights stand still.
    noise_var
        In units of the key's scale.
    carries
        Whose errors are carried on, see `streamgp.fleet.carried`.
    discount
        Of the levels of noise that every filter is paired with; see `streamgp.filters.noise`.
    start
        Shape of the distribution of the keys' levels of noise, which is what is known of a new key's: the more the
        keys are alike in it, the larger. It says no more than the rows in memory would.
    """

    decay: Float[np.ndarray, " e"]
    noise_var: Float[np.ndarray, " e"]
    carries: Bool[np.ndarray, " e"]
    discount: Float[np.ndarray, " j"]
    start: float

    def shape(self, rows: Float[np.ndarray, " n"] | Int[np.ndarray, " n"]) -> Float[np.ndarray, "n j"]:
        """Return the shape of the levels' distributions after so many rows of each key: a <- d a + 1/2 for each."""
        most = 0.5 / (1.0 - self.discount)
        return most - (most - self._first) * self.discount ** rows[:, None]

    @property
    def _first(self) -> Float[np.ndarray, " j"]:
        return np.minimum(self.start, 0.5 / (1.0 - self.discount))

    def in_unit(
        self, beliefs: KeyBeliefs, rows: Int[np.ndarray, " n"], factor: Float[np.ndarray, " n"]
    ) -> KeyBeliefs:
        """Return the beliefs where the unit of the target has become `factor` times what it was in so many rows.

        What the rows have shown of the noise is in the unit of old; what was known before is in units of the key's.
        Where the unit was wrong by more than `REACH` times, they have taught nothing of use, and all starts again.
        """
        prior = (self._first * self.discount ** rows[:, None])[:, None]
        seen = np.maximum(beliefs.rate - prior, 0.0) / np.square(factor)[:, None, None]
        least = MIN_FACTOR * self.shape(rows)[:, None]
        beliefs = replace(beliefs, rate=np.maximum(np.minimum(beliefs.rate, prior) + seen, least))
        was_wrong = np.abs(np.log(factor)) > np.log(REACH)
        if not was_wrong.any():
            return beliefs
        return self._restarted(beliefs, np.repeat(was_wrong[:, None], len(self.decay), axis=1), rows)

    def precision(self, beliefs: KeyBeliefs, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n e"]:
        """Return what one over the level of noise is expected to be, from what the longest memory holds of it."""
        return (self.start + self.shape(rows)[:, None, -1]) / (self.start + beliefs.rate[..., -1])

    def predict(
        self,
        beliefs: KeyBeliefs,
        priors: list[PooledPrior],
        phi: Float[np.ndarray, "n f"],
        tau: Float[np.ndarray, " n"],
        extra: Float[np.ndarray, " n"],
        rows: Int[np.ndarray, " n"],
        carried: Float[np.ndarray, "n e"],
    ) -> Predicted:
        """Predict a row of each key, `tau` after the last of the `rows` learnt.

        `extra` is variance besides the noise's, `carried` what of the last errors the row is expected to have.
        """
        shrink = self.decay ** tau[:, None]
        rest = 1.0 - shrink * shrink
        loc, psi = _whitened(beliefs.prior, priors, phi)
        features = phi.shape[1]
        place = _triangle(features)[2]
        # Every place is in range: clip is the mode that does not look.
        cov = np.take(beliefs.cov, place, axis=-1, mode="clip").reshape(*psi.shape, features)
        noise = self.noise_var + extra[:, None]
        gain, var = predict_row((cov @ psi[..., None])[..., 0], psi, shrink * shrink, rest, noise)
        off = shrink * np.vecdot(beliefs.mean, psi)
        # Also where a number is not finite.
        is_broken = ~((var >= (1.0 - TOLERATED) * noise) & np.isfinite(off) & np.isfinite(var))
        if is_broken.any():
            gain = np.where(is_broken[..., None], psi, gain)
            var = np.where(is_broken, np.vecdot(psi, psi) + noise, var)
            off = np.where(is_broken, 0.0, off)
        loc = loc + off + carried
        shape = self.shape(rows)
        factor = beliefs.rate / (shape[:, None] - 1.0)
        n, filters, kinds = factor.shape
        scaled = (var[..., None] * factor).reshape(n, -1)
        dof = np.tile(2.0 * shape, (1, filters))
        return Predicted(np.repeat(loc, kinds, axis=1), scaled, dof, loc, var, gain, shrink, is_broken, carried)

    def learn(
        self,
        beliefs: KeyBeliefs,
        p: Predicted,
        y: Float[np.ndarray, " n"],
        may_shift: Bool[np.ndarray, " n"],
        rows: Int[np.ndarray, " n"],
    ) -> Learnt:
        """Learn the target of the row that `p` predicts, after so many; the covariances given are overwritten.

        Of a row that shows that the stream has shifted, for most of the experts' weight, nothing else is learnt: it
        is a change (see `streamgp.filters.guard`) that is off by about as much as the row before.
        """
        if p.is_broken.any():
            beliefs = self._restarted(beliefs, p.is_broken, rows)
        error = y[:, None] - p.loc
        guard = Guard(beliefs.level[..., None], beliefs.run, beliefs.agreement, beliefs.last[..., None])
        is_outlier: Any
        log_densities: Any
        z = error / np.sqrt(p.filter_var)
        guard, is_outlier, raised = learn(guard, z[..., None], self._level_memory(rows))
        weights = np.exp(beliefs.log_weights).reshape(*z.shape, -1).sum(-1)
        alike = (z * beliefs.last > 0.0) & (np.abs(np.log2(np.abs(z / beliefs.last))) <= 1.0)
        shows = (guard.last[..., 0] != 0.0) & ~is_outlier & alike
        is_shift = may_shift & (np.vecdot(weights, shows) > HALF)
        used, shortened = bounded(raised)
        var = p.filter_var * used + np.where(self.carries, TOGETHER - 1.0, 0.0) * self.noise_var
        learns = np.where(is_shift, 0.0, 1.0)[:, None]
        gain = p.gain * (learns / np.sqrt(var))[..., None]
        step = learns * (error + p.carried) * shortened / np.sqrt(var)
        mean = p.shrink[..., None] * beliefs.mean + step[..., None] * gain
        i, j, _, diagonal = _triangle(gain.shape[-1])
        keep = p.shrink * p.shrink
        cov = beliefs.cov
        cov *= keep[..., None]
        cov[..., diagonal] += (1.0 - keep)[..., None]
        product = np.take(gain, i, axis=-1, mode="clip")
        product *= np.take(gain, j, axis=-1, mode="clip")
        cov -= product
        before, after = (self.shape(n)[:, None] for n in (rows, rows + 1))
        rate = self._noise(beliefs.rate, z * z, is_outlier, before, after)
        log_densities = student_t.log_density(y[:, None] - p.mean, p.var, p.dof)
        log_weights = self._weighed(beliefs.log_weights, p, error / np.sqrt(raised), log_densities, is_outlier)
        new = replace(
            beliefs,
            mean=mean,
            cov=cov,
            level=guard.level[..., 0],
            run=guard.run * learns,
            agreement=guard.agreement,
            last=guard.last[..., 0] * learns,
            rate=np.where(is_shift[:, None, None], beliefs.rate * (after / before), rate),
            log_weights=np.where(is_shift[:, None], beliefs.log_weights, log_weights),
        )
        return Learnt(new, log_densities, np.vecdot(weights, is_outlier) > HALF, is_shift)

    def _noise(
        self,
        rate: Float[np.ndarray, "n e j"],
        square: Float[np.ndarray, "n e"],
        is_outlier: Bool[np.ndarray, "n e"],
        before: Float[np.ndarray, "n 1 j"],
        after: Float[np.ndarray, "n 1 j"],
    ) -> Float[np.ndarray, "n e j"]:
        """Return the rates of the levels of noise after a row, of which an outlier hardly counts.

        Their shapes were `before`, and are `after`.
        """
        level = rate / before
        squares = np.where(
            is_outlier[..., None], np.minimum(square[..., None], MAX_LEARNT * level), square[..., None]
        )
        new = self.discount * rate + 0.5 * np.where(np.isfinite(squares), squares, level)
        return np.maximum(new, MIN_FACTOR * after)

    def _level_memory(self, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n 1 1"]:
        """Return the discount of the level of the squared innovations, of which a new key's is as little known."""
        return np.minimum(LEVEL_MEMORY, 1.0 - 1.0 / (2.0 * self.start + rows + 1.0))[:, None, None]

    def _weighed(
        self,
        log_weights: Float[np.ndarray, "n k"],
        p: Predicted,
        error: Float[np.ndarray, "n e"],
        log_density: Float[np.ndarray, "n k"],
        is_outlier: Bool[np.ndarray, "n e"],
    ) -> Float[np.ndarray, "n k"]:
        """Weigh the experts by a row, of which an outlier counts as one that is just none; deal out a share evenly.

        Fixed share (Herbster and Warmuth 1998), in logarithms from start to end.
        """
        some = np.flatnonzero(is_outlier.any(1))
        if len(some):
            kinds = log_weights.shape[1] // error.shape[1]
            log_density = log_density.copy()
            log_density[some] = student_t.log_density(np.repeat(error[some], kinds, axis=1), p.var[some], p.dof[some])
        after = log_normalised(log_weights + log_density)
        return np.logaddexp(after + np.log1p(-SHARE), np.log(SHARE / log_weights.shape[1]))

    def _restarted(
        self, beliefs: KeyBeliefs, which: Bool[np.ndarray, "n e"], rows: Int[np.ndarray, " n"]
    ) -> KeyBeliefs:
        """Return the beliefs, of which some filters start again from the prior."""
        wide = which[..., None]
        return replace(
            beliefs,
            mean=np.where(wide, 0.0, beliefs.mean),
            cov=np.where(wide, identity(beliefs.mean.shape[-1]), beliefs.cov),
            level=np.where(which, 1.0, beliefs.level),
            run=np.where(which, 0.0, beliefs.run),
            agreement=np.where(which, 0.0, beliefs.agreement),
            last=np.where(which, 0.0, beliefs.last),
            rate=np.where(wide, self.shape(rows)[:, None], beliefs.rate),
            resets=beliefs.resets + which.any(-1),
        )


def log_normalised(log_weights: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Return log weights whose exponentials add up to one."""
    below = log_weights - log_weights.max(-1, keepdims=True)
    return below - np.log(np.exp(below).sum(-1, keepdims=True))


def _whitened(
    which: Int[np.ndarray, " n"], priors: list[PooledPrior], phi: Float[np.ndarray, "n f"]
) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e f"]]:
    """Return phi' m and L' phi by the prior of each key."""
    first = int(which[0]) if len(which) else 0
    if (which == first).all():
        prior = priors[first]
        return phi @ prior.mean.T, np.ascontiguousarray(np.swapaxes(phi @ prior.root, 0, 1))
    loc = np.empty((len(phi), len(priors[0].mean)))
    psi = np.empty((*loc.shape, phi.shape[1]))
    for each in np.unique(which).tolist():
        rows = which == each
        loc[rows] = phi[rows] @ priors[each].mean.T
        psi[rows] = np.swapaxes(phi[rows] @ priors[each].root, 0, 1)
    return loc, psi
