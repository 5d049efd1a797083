"""The predictions of several targets, each by a model of its own, with the correlation of their errors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import correlation
from streamgp.likelihoods.mapped import MappedPredictive
from streamgp.likelihoods.predictive import Predictive, sample_by_scores
from streamgp.likelihoods.target_map import TargetMap
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module

Rows = Float[np.ndarray, "n e"]


class SideBySide(Module):
    """The distribution of several targets, of which each has its own mixture: in NumPy.

    Parameters
    ----------
    parts
        The prediction of each target, of the same rows.
    correlation
        For each row, how the errors of the targets go together, see `streamgp.likelihoods.correlation`.
    """

    parts: tuple[Predictive | MappedPredictive, ...]
    correlation: Float[AnyArray, "n e e"]

    @property
    def log_weights(self) -> Float[AnyArray, "n k"]:
        """Return the log of the weights of the first target's mixture."""
        return self.parts[0].log_weights

    @property
    def loc(self) -> Float[np.ndarray, "n k e"]:
        """Return the locations of the components; of a mixture of fewer the last one's again."""
        each = [np.asarray(part.loc)[:, :, 0] for part in self.parts]
        most = max(loc.shape[1] for loc in each)
        return np.stack([np.pad(loc, ((0, 0), (0, most - loc.shape[1])), mode="edge") for loc in each], axis=2)

    @property
    def mean(self) -> Rows:
        """Return the means."""
        return self._each(lambda part: part.mean)

    @property
    def variance(self) -> Rows:
        """Return the variances."""
        return self._each(lambda part: part.variance)

    @property
    def std(self) -> Rows:
        """Return the standard deviations."""
        return self._each(lambda part: part.std)

    def log_density(self, y: Rows) -> Float[np.ndarray, " n"]:
        """Return the log density of all targets, each by itself."""
        return self.marginal_log_density(y).sum(1)

    def marginal_log_density(self, y: Rows) -> Rows:
        """Return the log density of each target by itself."""
        return self._each(lambda part, y: np.asarray(part.log_density(y))[:, None], y)

    def joint_log_density(self, y: Rows) -> Float[np.ndarray, " n"]:
        """Return the joint log density of all targets with their correlation."""
        scores = correlation.scores_of(self.cdf(y))
        return self.log_density(y) + correlation.log_copula(np.asarray(self.correlation), scores)

    def moment_log_density(self, y: Rows) -> Float[np.ndarray, " n"]:
        """Return the log density under Gaussians with the same means and variances."""
        return self._each(lambda part, y: np.asarray(part.moment_log_density(y))[:, None], y).sum(1)

    def cdf(self, y: Rows) -> Rows:
        """Return the distribution function of each target at `y`."""
        return self._each(lambda part, y: part.cdf(y), y)

    def quantile(self, probability: float | Rows) -> Rows:
        """Return the quantile of each target; the probability is one for all, or each target's own."""
        rows = np.broadcast_to(np.asarray(probability, float), (len(self.log_weights), len(self.parts)))
        return self._each(lambda part, level: part.quantile(level), rows)

    def at_scores(self, z: Float[np.ndarray, "... n e"]) -> Float[np.ndarray, "... n e"]:
        """Return the targets whose normal scores are z."""
        return self._each(lambda part, z: part.at_scores(z), z)

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[np.ndarray, "... n e"]:
        """Draw targets jointly, by correlated scores."""
        return sample_by_scores(self, self.correlation, key, shape)

    def crps(self, y: Rows) -> Rows:
        """Return the continuous ranked probability score of each target."""
        return self._each(lambda part, y: part.crps(y), y)

    def counted(self) -> "SideBySide":
        """Return the mixtures of the components that count in means and variances: see `Predictive.counted`."""
        return SideBySide(tuple(part.counted() for part in self.parts), self.correlation)  # pyright: ignore

    def _each(self, of: Callable[..., Any], *rows: np.ndarray) -> Float[np.ndarray, "... e"]:
        """Return what is asked of each target, given its own of some numbers whose last axis are the targets."""
        found = [
            np.asarray(of(part, *(np.asarray(a)[..., e : e + 1] for a in rows))) for e, part in enumerate(self.parts)
        ]
        return np.concatenate(found, axis=-1)


NumericPredictive = Predictive | MappedPredictive | SideBySide
"""The predictions of measurements."""


def mapped(predictive: Any, target: TargetMap) -> Any:
    """Return the distribution of the target; as it is where the map changes nothing."""
    if target.changes_nothing:
        return predictive
    if isinstance(predictive, SideBySide):
        return SideBySide(tuple(mapped(part, target) for part in predictive.parts), predictive.correlation)
    return MappedPredictive(predictive, target)


def unmapped(predictive: Any) -> Any:
    """Return the distribution on the scale on which the model learns."""
    if isinstance(predictive, SideBySide):
        return SideBySide(tuple(unmapped(part) for part in predictive.parts), predictive.correlation)
    return predictive.base if isinstance(predictive, MappedPredictive) else predictive


def side_by_side(parts: Sequence[Any], correlation: Float[np.ndarray, "n e e"] | None = None) -> SideBySide:
    """Join the predictions of single targets, in NumPy; without a correlation they are independent."""
    if correlation is None:
        correlation = np.tile(np.eye(len(parts)), (len(parts[0].log_weights), 1, 1))
    return SideBySide(tuple(tree.map(np.asarray, part) for part in parts), correlation)
