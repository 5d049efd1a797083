"""What noise by input knows of a row before its target: numbers of its inputs and of what is predicted of it.

With x for the inputs, m and s for the mean and standard deviation of the mixture, and l = log s + 1, the features are

    phi = (1, x, |x| - 0.8, m, |m| - 0.8, (m - 1)+ - 0.08, (-m - 1)+ - 0.08, l, |l| - 0.5).

Besides, each of x, m and l lies in one of ten places, of which each has a tenth of its values. The cuts of
inputs are those of the warm-up. Those of m and l move with their mean and deviation, as if they were normal.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.likelihoods.running_moments import LEAST_VARIANCE
from streamgp.numerics import mixtures
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.numerics.student_t import ndtri

MAX_INPUTS = 30  # of more, those of which the warm-up says most: the cost of a row grows with their square
PLACES = 10
NORMAL_CUTS = ndtri(np.arange(1, PLACES) / PLACES)
EDGE = 4.0  # inputs, means and log standard deviations beyond count as these
_MEAN_ABSOLUTE, _MEAN_BEYOND = 0.8, 0.08  # of a standard normal variable, nearly, and of what it has beyond 1
_ABSOLUTE_LOG = 0.5  # from the absolute value of a log standard deviation
_LEAST_VAR = 1e-12
KERNEL_CONSTANTS = {
    "edge": EDGE,
    "mean_absolute": _MEAN_ABSOLUTE,
    "mean_beyond": _MEAN_BEYOND,
    "absolute_log": _ABSOLUTE_LOG,
    "least_var": _LEAST_VAR,
}
_LEAST_SHARE = 1e-4  # of the mean squared error, below which a log of the error says no more


@register
class NoiseInputs(Module):
    """The inputs that the noise follows, and where their places are cut.

    Attributes
    ----------
    which
        Their columns.
    cuts
        What lies at or below the first of a row is in place 0, above the last in place 9.
    """

    which: Int[AnyArray, " d"]
    cuts: Float[AnyArray, "d c"]

    @classmethod
    def of_rows(cls, X: Float[np.ndarray, "n w"], y: Float[np.ndarray, "n e"]) -> "NoiseInputs":
        """Choose inputs by rows of the warm-up: all, or the `MAX_INPUTS` that go with the size of the errors.

        The errors are those of a plane, and what counts is the correlation of their logarithm with x or with |x|.
        """
        which = np.arange(X.shape[1])
        if X.shape[1] > MAX_INPUTS:
            plane = np.column_stack([np.ones(len(X)), X])
            square = np.square(y - plane @ np.linalg.lstsq(plane, y, rcond=None)[0])
            size = np.log(square + _LEAST_SHARE * square.mean(0) + _LEAST_VAR)
            x = np.clip(X, -EDGE, EDGE)
            found = np.maximum(_correlation(x, size), _correlation(np.abs(x), size)).max(1)
            which = np.sort(np.argsort(-found, kind="stable")[:MAX_INPUTS])
        return cls(which, np.stack([_cuts(x) for x in X[:, which].T]))


def num_features(num_inputs: int) -> int:
    """Return how many features there are of so many inputs."""
    return 2 * num_inputs + 7


def num_places(num_inputs: int) -> int:
    """Return of how many numbers the places count, of so many inputs."""
    return num_inputs + 2


def features(
    which: Int[AnyArray, " d"],
    X: Float[AnyArray, "n w"],
    log_weights: Float[AnyArray, "n k"],
    loc: Float[AnyArray, "n k e"],
    var: Float[AnyArray, "n k e"],
) -> Float[AnyArray, "n e f"]:
    """Return the features of rows of which mixtures were predicted, from these columns of their inputs."""
    xp = namespace(X, log_weights, loc, var)
    with np.errstate(over="ignore", invalid="ignore"):
        return of_moments(which, X, *mixtures.moments_of_rows(xp.exp(log_weights), loc, var))


def of_moments(
    which: Int[AnyArray, " d"], X: Float[AnyArray, "n w"], m: Float[AnyArray, "n e"], v: Float[AnyArray, "n e"]
) -> Float[AnyArray, "n e f"]:
    """Return the features of rows with these means and variances."""
    xp = namespace(X, m, v)
    x, m = plain(X[:, which], 0.0, -EDGE, EDGE)[:, None], plain(m, 0.0, -EDGE, EDGE)[..., None]
    log_std = xp.minimum(xp.maximum(mixtures.log_std(v) + 1.0, -EDGE), EDGE)[..., None]
    if m.shape[1] > 1:
        x = xp.broadcast_to(x, (*m.shape[:2], x.shape[-1]))
    beyond = [xp.maximum(side - 1.0, 0.0) - _MEAN_BEYOND for side in (m, -m)]
    of_mean = [m, xp.abs(m) - _MEAN_ABSOLUTE, *beyond]
    of_std = [log_std, xp.abs(log_std) - _ABSOLUTE_LOG]
    return xp.concatenate([xp.ones_like(m), x, xp.abs(x) - _MEAN_ABSOLUTE, *of_mean, *of_std], axis=-1)


def mean_and_log_std(phi: Float[AnyArray, "... f"]) -> Float[AnyArray, "... 2"]:
    """Return m and l, which are among the features."""
    return namespace(phi).stack([phi[..., -6], phi[..., -2]], axis=-1)


def places(
    phi: Float[AnyArray, "*n e f"], cuts: Float[AnyArray, "*#n e d c"], moments: Float[AnyArray, "*#n e 2 3"]
) -> Bool[AnyArray, "*n e b p"]:
    """Return which place every number is in, from the features of rows and the moments of m and l before them."""
    xp = namespace(phi, cuts, moments)
    ones, d = (1,) * phi.ndim, cuts.shape[-2]
    t = (mean_and_log_std(phi) - moments[..., 1]) / xp.sqrt(moments[..., 2] + LEAST_VARIANCE)
    above = (phi[..., 1 : 1 + d, None] > cuts).sum(-1), (t[..., None] > np.reshape(NORMAL_CUTS, (*ones, -1))).sum(-1)
    return xp.concatenate(above, axis=-1)[..., None] == np.arange(PLACES).reshape(*ones, -1)


def plain(a: Float[AnyArray, "..."], missing: float, low: float | AnyArray, high: float | AnyArray) -> AnyArray:
    """Return numbers between two others, `missing` where there is none."""
    xp = namespace(a)
    return xp.minimum(xp.maximum(xp.where(xp.isnan(a), missing, a), low), high)


def _cuts(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " c"]:
    """Return where to cut an input: between its values where those are few, and at its deciles where not."""
    x = plain(x, 0.0, -EDGE, EDGE)
    values = np.unique(x)
    if len(values) > PLACES:
        return np.quantile(x, np.arange(1, PLACES) / PLACES)
    between = (values[1:] + values[:-1]) / 2.0
    return np.concatenate([between, np.full(PLACES - 1 - len(between), np.inf)])


def _correlation(a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "d e"]:
    """Return the absolute correlation of columns; zero of constant ones."""
    a, b = a - a.mean(0), b - b.mean(0)
    scale = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
    return np.abs(a.T @ b) / np.where(scale > 0.0, scale, np.inf)
