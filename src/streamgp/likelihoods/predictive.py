"""The predictive distribution of numbers: a mixture over experts."""

import sys
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from streamgp.likelihoods import correlation, recalibration
from streamgp.numerics import keys, mixtures, student_t, tree
from streamgp.numerics.arrays import AnyArray, is_traced, namespace
from streamgp.numerics.crps import mixture_crps
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.numerics.quantiles import mixture_quantiles

_FURTHEST = 8.0  # score of a level that is held to be neither 0 nor 1
# Arrays are processed in parts of so many elements, which fit in a core's cache.
_BATCH_ELEMENTS = 1 << 15


def trimmed(weights: Float[AnyArray, "*n k"], trim: float) -> Float[AnyArray, "*n k"]:
    """Return weights less `trim` over their number, those that had no more at zero; they sum to one again.

    Every expert keeps some weight, lest it be lost for good. In a mean over hundreds of experts those remainders let
    the worst of them count. The result does not depend on rounding, since the weights move steadily.
    """
    if trim == 0.0:
        return weights
    xp = namespace(weights)
    left = xp.maximum(weights - trim / weights.shape[-1], 0.0)
    return left / left.sum(-1, keepdims=True)


class Predictive(Module):
    """A mixture for every row, of Gaussians or Student's t: the distribution of the next target, noise included.

    Parameters
    ----------
    log_weights
        Log of the mixture weights of each row; each row sums to one in probability. ``-inf`` marks
        a component that is switched off.
    loc, var
        Mean and variance of each component and output, in the units of the target.
    dof
        Degrees of freedom of each component, at least 5; infinite for a Gaussian. None: all are Gaussians.
    trim
        Mean and variance leave out of each weight as much as `trim` over the number of components, so that components
        of next to no weight have no part in them, however far out. Density and quantiles are of the whole mixture.
    recalibration
        For each row and output, the shares of the map by which the levels of the mixture are recalibrated, see
        `recalibration`: distribution function, density, quantiles, variance and scores are of the
        recalibrated distribution, the mean is not. None: no map.
    correlation
        For each row, how the errors of its outputs go together, see `correlation`: `joint_log_density`
        and `sample` know of it. None: outputs are independent given the component.
    limits
        For each row and output, the two ends beyond which a transformed target is not believed to lie, on the scale
        that is learnt: see `streamgp.likelihoods.MappedPredictive`. None: no ends.
    noise
        For each row and output, the factor by which noise that follows the inputs has multiplied `var`, see
        `streamgp.likelihoods.noise_by_input`. None: it follows none.
    """

    log_weights: Float[AnyArray, "n k"]
    loc: Float[AnyArray, "n k e"]
    var: Float[AnyArray, "n k e"]
    dof: Float[AnyArray, "n k"] | None = None
    trim: float = static_field(default=0.0)
    recalibration: Float[AnyArray, "n e j"] | None = None
    correlation: Float[AnyArray, "n e e"] | None = None
    limits: Float[AnyArray, "n 2 e"] | None = None
    noise: Float[AnyArray, "n e"] | None = None

    @property
    def weights(self) -> Float[AnyArray, "n k"]:
        """Return the mixture weights; rows sum to one."""
        return namespace(self.log_weights).exp(self.log_weights)

    @property
    def mean(self) -> Float[AnyArray, "n e"]:
        """Return the mean of the mixture, without components of next to no weight where `trim` says so."""
        return (trimmed(self.weights, self.trim)[:, :, None] * self.loc).sum(1)

    @property
    def variance(self) -> Float[AnyArray, "n e"]:
        """Return the variance of the same components: within them plus between their means; as recalibrated."""
        return self.moments[1]

    @property
    def moments(self) -> tuple[Float[AnyArray, "n e"], Float[AnyArray, "n e"]]:
        """Return `mean` and `variance`, in fewer calls than one after the other."""
        # Each attribute is read once, since reading attributes of a module is slow.
        loc, var, levels = self.loc, self.var, self.recalibration
        mean, variance = mixtures.moments_of_rows(trimmed(self.weights, self.trim), loc, var)
        return mean, variance if levels is None else recalibration.variance_factor(levels) * variance

    @property
    def std(self) -> Float[AnyArray, "n e"]:
        """Return the standard deviation of the mixture (the square root of `variance`)."""
        variance = self.variance
        return namespace(variance).sqrt(variance)

    def component_log_density(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, "n k"]:
        """Return the log density of `y` under each component, summed over outputs (independent given it)."""
        dof = None if self.dof is None else self.dof[:, :, None]
        return student_t.log_density(y[:, None, :] - self.loc, self.var, dof).sum(-1)

    def log_density(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, " n"]:
        """Return the joint log density of all outputs, independent given the component."""
        mixture = mixtures.log_sum(self.log_weights + self.component_log_density(y))
        if self.recalibration is None:
            return mixture
        return mixture + recalibration.log_density(self.recalibration, self.levels(y)).sum(-1)

    def marginal_log_density(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, "n e"]:
        """Return the log density of each output by itself."""
        m = self.flat()
        at_y = mixtures.evaluate(m, y.ravel())
        density = mixtures.log_sum(namespace(m.weights).log(m.weights) + at_y.log_density).reshape(y.shape)
        if self.recalibration is None:
            return density
        return density + recalibration.log_density(self.recalibration, mixtures.cdf(m, at_y).reshape(y.shape))

    def joint_log_density(self, y: Float[np.ndarray, "n e"]) -> Float[np.ndarray, " n"]:
        """Return the joint log density of all outputs with their correlation, in NumPy."""
        marginal = np.asarray(self.marginal_log_density(y).sum(1))
        if self.correlation is None:
            return marginal
        scores = correlation.scores_of(np.asarray(self.cdf(y)))
        return marginal + correlation.log_copula(np.asarray(self.correlation), scores)

    def moment_log_density(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, " n"]:
        """Return the log density under one Gaussian with the mixture's mean and variance (Waxman and Djuric 2024)."""
        return student_t.log_density(y - self.mean, self.variance, None).sum(-1)

    def cdf(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, "n e"]:
        """Return the distribution function of each output at `y`: the probability integral transform."""
        u = self.levels(y)
        return u if self.recalibration is None else recalibration.below(self.recalibration, u)

    def levels(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, "n e"]:
        """Return the distribution function of the mixture itself, before it is recalibrated."""
        m = mixtures.flatten(self.log_weights, self.loc, self.var, self.dof)
        return mixtures.cdf(m, mixtures.evaluate(m, y.ravel())).reshape(y.shape)

    def quantile(self, probability: float | Float[AnyArray, "*#n_e"]) -> Float[AnyArray, "n e"]:
        """Return the quantile of each output, by Halley's method inside a bracket (to about 1e-9 of the scale).

        The probability is one for all, or each output's own, (n, e).
        """
        p, probability = _in_one_library(self, probability)
        (n, _, e), v = p.loc.shape, p.recalibration
        levels = namespace(probability).broadcast_to(probability, (n, e))
        levels = levels if v is None else recalibration.level(v, levels)
        return mixture_quantiles(p.flat(), [levels.ravel()])[0].reshape(n, e)

    def at_scores(self, z: Float[np.ndarray, "... n e"]) -> Float[np.ndarray, "... n e"]:
        """Return the targets whose normal scores are z: quantiles of Phi(z), of each output, in NumPy."""
        p = tree.map(np.asarray, self)
        levels = scipy.special.ndtr(np.clip(z, -_FURTHEST, _FURTHEST)).reshape(-1, *z.shape[-2:])
        m, found = p.flat(), []
        step = max(1, _BATCH_ELEMENTS // p.loc.size)
        for at in range(0, len(levels), step):
            part = levels[at : at + step]
            part = part if p.recalibration is None else recalibration.level(p.recalibration, part)
            found.append(mixture_quantiles(mixtures.repeated(m, len(part)), [part.ravel()])[0].reshape(part.shape))
        return np.concatenate(found).reshape(z.shape)

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[np.ndarray, "... n e"]:
        """Draw targets: a component for each row, then from it (a t is a Gaussian of random variance).

        With a `correlation`, by correlated scores instead, of which the outputs are the quantiles.
        """
        if self.correlation is not None:
            return sample_by_scores(self, self.correlation, key, shape)
        p, (pick, noise, scale) = tree.map(np.asarray, self), map(keys.generator, keys.split(key, 3))
        rows = np.arange(len(p.loc))
        component = _components(p.weights, pick.random((*shape, len(rows))))
        var = p.var[rows, component]
        if p.dof is not None:
            dof = p.dof[rows, component][..., None]
            half = 0.5 * np.where(np.isinf(dof), 2.0, dof)
            gamma = scale.standard_gamma(np.broadcast_to(half, var.shape))
            var = np.where(np.isinf(dof), var, student_t.squared_scale(var, dof) * half / gamma)
        return p.loc[rows, component] + np.sqrt(var) * noise.standard_normal(var.shape)

    def crps(self, y: Float[AnyArray, "n e"]) -> Float[AnyArray, "n e"]:
        """Return the continuous ranked probability score, E|Y - y| - E|Y - Y'| / 2 (Grimit et al. 2006, Eq. 5).

        Of Gaussians exact. Student's t's count as three Gaussians each in E|Y - Y'|: that is within 0.1% from 10
        degrees of freedom on; at 5 it is within 0.1% for components of like scales, and 0.7% where a narrow one with
        most of the weight stands beside a wide one. Of more than 32 components, those whose locations lie within a
        fraction of their scale are taken together, and so are those that add little, and distances have six digits:
        within 0.1% on streams, unless the target is met to a thousandth of what some component expects. Recalibrated
        mixtures are within 1% as a rule, and within 4% where recalibration moves levels far.
        """
        p, y = _in_one_library(self, y)
        m = p.flat()
        at_y = mixtures.evaluate(m, y.ravel())
        crps = mixture_crps(m, y.ravel(), at_y)
        if p.recalibration is not None:
            v = p.recalibration.reshape(-1, p.recalibration.shape[-1])
            levels = [namespace(crps).full_like(crps, level) for level in (0.05, 0.5, 0.95)]
            xs = mixture_quantiles(m, levels)
            crps = crps + recalibration.crps_change(v, levels, xs, y.ravel(), mixtures.cdf(m, at_y))
        return crps.reshape(y.shape)

    def weighted(self) -> "Predictive":
        """Return the mixture in NumPy without components that weigh nothing in every row, as resting experts do.

        Density and distribution function are the same; `trim`, a share of all components, is left behind.
        """
        kept = (self.log_weights != -np.inf).any(0)
        if kept.all():
            return self
        dof = None if self.dof is None else self.dof[:, kept]
        log_weights, loc, var = (a[:, kept] for a in (self.log_weights, self.loc, self.var))
        return Predictive(log_weights, loc, var, dof, recalibration=self.recalibration, correlation=self.correlation)

    def counted(self) -> "Predictive":
        """Return the mixture of the components that count in mean and variance, in NumPy: see `trim`."""
        p = tree.map(np.asarray, self)
        with np.errstate(divide="ignore"):
            log_weights = np.log(trimmed(p.weights, p.trim))
        return Predictive(log_weights, p.loc, p.var, p.dof, recalibration=p.recalibration)

    def flat(self) -> mixtures.Mixtures:
        """Return the mixture of every row and output, with what all scores need: see `streamgp.numerics.mixtures`."""
        return mixtures.flatten(self.log_weights, self.loc, self.var, self.dof)


def _in_one_library(p: Predictive, given: Any) -> tuple[Any, Any]:
    """Return a prediction and numbers in NumPy, or in JAX where it is tracing one of the two."""
    dtype = p.loc.dtype
    if is_traced(given, p):
        jnp = sys.modules["jax"].numpy
        return tree.map(jnp.asarray, p), jnp.asarray(given, dtype)
    return tree.map(np.asarray, p), np.asarray(given, dtype)


def _components(weights: Float[np.ndarray, "n k"], u: Float[np.ndarray, "... n"]) -> Any:
    """Return the component of each row at which the sum of the weights passes the row's level u."""
    sums = np.cumsum(weights, axis=1)
    upper = (sums / sums[:, -1:])[:, :-1]
    each = [
        np.searchsorted(ends, levels, side="right") for ends, levels in zip(upper, np.moveaxis(u, -1, 0), strict=True)
    ]
    return np.moveaxis(np.stack(each), 0, -1) if each else np.zeros(u.shape, int)


def sample_by_scores(
    of: Any, correlation: Float[AnyArray, "n e e"], key: Key, shape: tuple[int, ...]
) -> Float[np.ndarray, "... n e"]:
    """Draw outputs jointly: the values of a distribution `at_scores` that are correlated."""
    alone = keys.generator(key).standard_normal((*shape, *correlation.shape[:2]))
    return of.at_scores((np.linalg.cholesky(np.asarray(correlation)) @ alone[..., None])[..., 0])
