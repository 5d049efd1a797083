"""Beliefs of keys under a newer prior: what their own rows have shown stays, what they borrow is what all keys show.

A belief N(mu, V) of whitened weights w, theta = m + L w, is the prior N(0, I) times what the rows say, which has the
precision V^-1 - I. Under the prior N(m', S'), in the same units N(c, Q^-1), it is V' = (V^-1 + Q - I)^-1 and
mu' = mu + V' (Q c - (Q - I) mu). Of experts that forget this is an approximation.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.prior import PooledPrior
from streamgp.fleet.states import KeyBeliefs
from streamgp.numerics.linalg import less_certain, solve_lower

# A key keeps its prior if under the new one the mean square of its weights' means, which is to be one, is above this:
# it is like no other.
MOST_APART = 2.0


class _Units(NamedTuple):
    """How whitened weights of an old prior become those of a new one: ``w' = inverse (w - center)``.

    `used` are the features that the expert has, `more` is Q - I in the old units.
    """

    used: Int[np.ndarray, " u"]
    center: Float[np.ndarray, " u"]
    inverse: Float[np.ndarray, "u u"]
    more: Float[np.ndarray, "u u"]

    @classmethod
    def of(cls, old: PooledPrior, new: PooledPrior, expert: int) -> "_Units":
        """Return those of an expert."""
        used = np.flatnonzero(np.diag(old.root[expert]) > 0.0)
        before, after = (each.root[expert][np.ix_(used, used)] for each in (old, new))
        center = solve_lower(before, (new.mean - old.mean)[expert, used, None])[:, 0]
        inverse = solve_lower(after, before)
        return cls(used, center, inverse, inverse.T @ inverse - np.eye(len(used)))

    def apart(self, mean: Float[np.ndarray, "n f"]) -> Float[np.ndarray, " n"]:
        """Return the mean square of the means in the new units."""
        return np.square((mean[:, self.used] - self.center) @ self.inverse.T).mean(1)

    def renewed(
        self, mean: Float[np.ndarray, "n f"], cov: Float[np.ndarray, "n f f"]
    ) -> tuple[Float[np.ndarray, "n f"], Float[np.ndarray, "n f f"]]:
        """Return means and covariances under the new prior, in its units."""
        mean, cov, square = mean.copy(), cov.copy(), np.ix_(np.arange(len(cov)), self.used, self.used)
        mu, V = mean[:, self.used], less_certain(cov[square], self.more)
        pull = self.center + self.center @ self.more - mu @ self.more
        mu = mu + (V @ pull[..., None])[..., 0]
        mean[:, self.used] = (mu - self.center) @ self.inverse.T
        cov[square] = self.inverse @ V @ self.inverse.T
        return mean, cov


def renewed(beliefs: KeyBeliefs, priors: list[PooledPrior], which: Int[np.ndarray, " n"]) -> KeyBeliefs:
    """Return the beliefs of keys under these of the priors, but of those that are not like other keys, or damaged."""
    mean, cov, prior = beliefs.mean.copy(), beliefs.cov.copy(), beliefs.prior.copy()
    experts, features = priors[0].mean.shape
    i, j = np.tril_indices(features)
    for old, new in np.unique(np.stack([prior, which], axis=1)[prior != which], axis=0).tolist():
        at = np.flatnonzero((beliefs.prior == old) & (which == new))
        units = [_Units.of(priors[old], priors[new], e) for e in range(experts)]
        apart = np.stack([each.apart(mean[at, e]) for e, each in enumerate(units)])
        # False of what is not finite as well.
        at = at[(apart <= MOST_APART).all(0) & np.isfinite(cov[at]).all((1, 2))]
        V = np.empty((len(at), features, features))
        new_mean, new_cov = mean[at], cov[at]
        for e, each in enumerate(units):
            V[:, i, j] = V[:, j, i] = cov[at, e]
            new_mean[:, e], whole = each.renewed(mean[at, e], V)
            new_cov[:, e] = whole[:, i, j]
        sound = np.isfinite(new_mean).all((1, 2)) & np.isfinite(new_cov).all((1, 2))
        sound &= (new_cov[:, :, i == j] > 0.0).all((1, 2))
        at = at[sound]
        mean[at], cov[at], prior[at] = new_mean[sound], new_cov[sound], new
    return replace(beliefs, mean=mean, cov=cov, prior=prior)
