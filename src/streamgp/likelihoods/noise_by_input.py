"""Noise that follows the inputs: the variance of a row is multiplied by e^h, where h is linear in features of it.

The level u = F(y) at which a target comes, under the mixture as it is, has the normal score g = Phi^-1(u). Where the
errors of some kind of row are larger than those of another, the scores show it. With

    h = w' phi,   phi = (1, x, |x| - 0.8, m, |m| - 0.8, (m - 1)+ - 0.08, (-m - 1)+ - 0.08, l, |l| - 0.5),

x being the inputs, m and s the mixture's mean and standard deviation, and l = log s + 1: all known before the target,
the variance of every expert, belief and noise, is multiplied by e^h. So the prediction stays a mixture, whose mean is
as it was.

The tails of the mixture are heavier than normal ones, so that the score of the same target under the wider mixture is
not g e^(-h/2). They are taken for those of Student's t with d = 6 degrees of freedom, of which, nearly, g^2 is
c log(1 + t^2 / d) with c = d ((8 d + 1) / (8 d + 3))^2 (Hill 1970). With the variance e^h times as large it is

    r = c log(1 + (exp(g^2 / c) - 1) e^-h),

whose mean is 1 once h is right. The weights w learn by a step of natural gradient a row. With P for their covariance,

    s = 2 + phi' P phi,   w += P phi (r - 1) / s,   P -= P phi phi' P / s,

which is the Kalman step for the target h + r - 1 with noise of variance 2: the inverse of the Fisher information of
h, 1/2, in a row. As the target depends on h, rows are learnt one by one. The weights also walk a little.

An outlier, to the guard of the filters, is learnt only if e^h makes a usual row of it, with r up to 9.

Where the noise is constant, all that is learnt of h is error. So h is multiplied by the probability that a mixture of
the two, with the layer and without, gives the former: a fixed share (Herbster and Warmuth 1998) by the density of t.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics import mixtures
from streamgp.numerics.arrays import AnyArray, is_jax, namespace, scan
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.numerics.native import address, function
from streamgp.numerics.student_t import ndtri

MAX_INPUTS = 30  # of more, those of which the warm-up says most: the cost of a row grows with their square
CONSTANT_VAR, PRIOR_VAR = 0.1, 0.05  # of the weight of the constant, and of the others
WALK = 3e-5  # variance that a weight gains from row to row, over its prior one
MAX_LOG_VARIANCE = 3.0
MAX_RATIO = 9.0  # the most that r counts for
MAX_SQUARE = 18.0  # the most that g^2 counts for
DOF = 6.0
TAIL = DOF * ((8.0 * DOF + 1.0) / (8.0 * DOF + 3.0)) ** 2  # c
FISHER = 2.0  # inverse of the information on h in a row
SWITCHING = 1e-3  # chance per row that the layer begins to help, or ceases to
KERNEL_CONSTANTS = WALK, MAX_LOG_VARIANCE, MAX_RATIO, MAX_SQUARE, FISHER, SWITCHING, DOF, TAIL
_EDGE = 4.0  # inputs, means and log standard deviations beyond count as these
_MEAN_ABSOLUTE, _MEAN_BEYOND = 0.8, 0.08  # of a standard normal variable, nearly, and of what it has beyond 1
_ABSOLUTE_LOG = 0.5  # from the absolute value of a log standard deviation
_LEAST_LEVEL, _LEAST_OF_OUTLIERS = 1e-5, 1e-16
_LEAST_VAR = 1e-12
FEATURE_CONSTANTS = {
    "least_level": _LEAST_LEVEL,
    "least_of_outliers": _LEAST_OF_OUTLIERS,
    "edge": _EDGE,
    "mean_absolute": _MEAN_ABSOLUTE,
    "mean_beyond": _MEAN_BEYOND,
    "absolute_log": _ABSOLUTE_LOG,
    "least_var": _LEAST_VAR,
}
_LARGEST_SQUARE = 100.0
_LEAST_SHARE = 1e-4  # of the mean squared error, below which a log of the error says no more


@register
class NoiseByInput(Module):
    """What is believed of w for every output.

    Attributes
    ----------
    mean, cov
        Of the weights.
    share
        The probability that it is better with the layer than without.
    """

    mean: Float[AnyArray, "e f"]
    cov: Float[AnyArray, "e f f"]
    share: Float[AnyArray, " e"]

    @classmethod
    def start(cls, num_outputs: int, num_inputs: int) -> "NoiseByInput":
        """Return the belief before any row."""
        var = prior_var(num_features(num_inputs))
        cov = np.tile(np.diag(var), (num_outputs, 1, 1))
        return cls(np.zeros((num_outputs, len(var))), cov, np.full(num_outputs, 0.5))

    def of_output(self, e: int) -> "NoiseByInput":
        """Return the belief of one output."""
        return NoiseByInput(*(a[e : e + 1] for a in (self.mean, self.cov, self.share)))

    def factor(self, phi: Float[AnyArray, "n e f"]) -> Float[AnyArray, "n e"]:
        """Return the factor e^h of the variance, of rows with features phi."""
        return variance_factor(self.mean[None], self.share[None], phi)

    def learn_rows(
        self, phi: Float[AnyArray, "n e f"], square: Float[AnyArray, "n e"]
    ) -> tuple["NoiseByInput", Float[AnyArray, "n e f"], Float[AnyArray, "n e"]]:
        """Learn `squared_scores` in order; return also mean and share before each row."""
        compiled = None if is_jax(phi, square, self.mean) else _compiled()
        if compiled is not None:
            return self._learn_compiled(compiled, phi, square)
        var = prior_var(phi.shape[-1])

        def step(state: tuple, row: tuple) -> tuple[tuple, tuple]:
            mean, cov, share = state
            return _learn(mean, cov, share, row[0], row[1], var), (mean, share)

        given = tuple(namespace(phi, square).asarray(a) for a in (self.mean, self.cov, self.share))
        after, (means, shares) = scan(step, given, (phi, square))
        return NoiseByInput(*after), means, shares

    def _learn_compiled(self, compiled: Any, phi: np.ndarray, square: np.ndarray) -> tuple["NoiseByInput", Any, Any]:
        n, E, F = phi.shape
        mean, cov, share = (np.array(a, np.float64, order="C") for a in (self.mean, self.cov, self.share))
        given = [np.ascontiguousarray(a, np.float64) for a in (phi, square, prior_var(F), KERNEL_CONSTANTS)]
        means, shares, memory = np.empty((n, E, F)), np.empty((n, E)), np.empty(F)
        compiled(n, E, F, *(address(a) for a in (*given, mean, cov, share, means, shares, memory)))
        return NoiseByInput(mean, cov, share), means, shares


def num_features(num_inputs: int) -> int:
    """Return how many features there are of so many inputs."""
    return 2 * num_inputs + 7


def prior_var(num_features: int) -> Float[np.ndarray, " f"]:
    """Return the prior variance of every weight."""
    return np.array([CONSTANT_VAR] + [PRIOR_VAR] * (num_features - 1))


def variance_factor(
    mean: Float[AnyArray, "#n e f"], share: Float[AnyArray, "#n e"], phi: Float[AnyArray, "n e f"]
) -> Float[AnyArray, "n e"]:
    """Return e^h of rows, each with its own belief or all with one."""
    xp = namespace(mean, phi)
    h = xp.minimum(xp.maximum((mean * phi).sum(-1), -MAX_LOG_VARIANCE), MAX_LOG_VARIANCE)
    return xp.exp(share * h)


def features(
    inputs: Int[AnyArray, " d"],
    X: Float[AnyArray, "n w"],
    log_weights: Float[AnyArray, "n k"],
    loc: Float[AnyArray, "n k e"],
    var: Float[AnyArray, "n k e"],
) -> Float[AnyArray, "n e f"]:
    """Return the features of rows of which mixtures were predicted, from these `inputs` of theirs."""
    xp = namespace(X, log_weights, loc, var)
    with np.errstate(over="ignore", invalid="ignore"):
        return of_moments(inputs, X, *mixtures.moments_of_rows(xp.exp(log_weights), loc, var))


def of_moments(
    inputs: Int[AnyArray, " d"], X: Float[AnyArray, "n w"], m: Float[AnyArray, "n e"], v: Float[AnyArray, "n e"]
) -> Float[AnyArray, "n e f"]:
    """Return the features of rows with these means and variances."""
    xp = namespace(X, m, v)
    x, m = _plain(X[:, inputs], 0.0, -_EDGE, _EDGE)[:, None], _plain(m, 0.0, -_EDGE, _EDGE)[..., None]
    log_std = xp.minimum(xp.maximum(mixtures.log_std(v) + 1.0, -_EDGE), _EDGE)[..., None]
    if m.shape[1] > 1:
        x = xp.broadcast_to(x, (*m.shape[:2], x.shape[-1]))
    beyond = [xp.maximum(side - 1.0, 0.0) - _MEAN_BEYOND for side in (m, -m)]
    of_mean = [m, xp.abs(m) - _MEAN_ABSOLUTE, *beyond]
    of_std = [log_std, xp.abs(log_std) - _ABSOLUTE_LOG]
    return xp.concatenate([xp.ones_like(m), x, xp.abs(x) - _MEAN_ABSOLUTE, *of_mean, *of_std], axis=-1)


def _plain(a: Float[AnyArray, "..."], missing: float, low: Any, high: Any) -> AnyArray:
    """Return numbers between two others, `missing` where there is none."""
    xp = namespace(a)
    return xp.minimum(xp.maximum(xp.where(xp.isnan(a), missing, a), low), high)


def squared_scores(
    u: Float[AnyArray, "n e"], learnt: Bool[AnyArray, " n"], flagged: Bool[AnyArray, " n"] | None
) -> Float[AnyArray, "n e"]:
    """Return g^2 of the levels at which targets came: NaN in rows that are not learnt, negative of outliers."""
    xp = namespace(u, learnt)
    least = _LEAST_LEVEL if flagged is None else xp.where(flagged, _LEAST_OF_OUTLIERS, _LEAST_LEVEL)[:, None]
    g = ndtri(_plain(u, 0.5, least, 1.0 - least))
    square = g * g if flagged is None else xp.where(flagged[:, None], -g * g, g * g)
    return xp.where(learnt[:, None] & xp.isfinite(u), square, xp.nan)


def chosen_inputs(X: Float[np.ndarray, "n w"], y: Float[np.ndarray, "n e"]) -> Int[np.ndarray, " d"]:
    """Return which inputs the features are made of: all, or the `MAX_INPUTS` that go with the size of the errors.

    The errors are those of a plane, and what counts is the correlation of their logarithm with x or with |x|.
    """
    if X.shape[1] <= MAX_INPUTS:
        return np.arange(X.shape[1])
    plane = np.column_stack([np.ones(len(X)), X])
    square = np.square(y - plane @ np.linalg.lstsq(plane, y, rcond=None)[0])
    size = np.log(square + _LEAST_SHARE * square.mean(0) + _LEAST_VAR)
    x = np.clip(X, -_EDGE, _EDGE)
    found = np.maximum(_correlation(x, size), _correlation(np.abs(x), size)).max(1)
    return np.sort(np.argsort(-found, kind="stable")[:MAX_INPUTS])


def _correlation(a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "d e"]:
    """Return the absolute correlation of columns; zero of constant ones."""
    a, b = a - a.mean(0), b - b.mean(0)
    scale = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
    return np.abs(a.T @ b) / np.where(scale > 0.0, scale, np.inf)


def _rescaled(square: Float[AnyArray, " e"], h: Float[AnyArray, " e"]) -> Float[AnyArray, " e"]:
    """Return the squared score of a target whose variance is e^h times as large as that by which it has `square`."""
    xp = namespace(square, h)
    return TAIL * xp.log1p(xp.expm1(xp.clip(square, 0.0, _LARGEST_SQUARE) / TAIL) * xp.exp(-h))


def _learn(
    mean: Float[AnyArray, "e f"],
    cov: Float[AnyArray, "e f f"],
    share: Float[AnyArray, " e"],
    phi: Float[AnyArray, "e f"],
    square: Float[AnyArray, " e"],
    var: Float[np.ndarray, " f"],
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Learn one row; what `numerics/kernel/log_variance.c` does for many."""
    xp = namespace(mean, phi, square)
    seen = xp.isfinite(square)
    square, phi = xp.where(seen, square, 0.0), xp.where(seen[:, None], phi, 0.0)
    h = xp.clip((mean * phi).sum(-1), -MAX_LOG_VARIANCE, MAX_LOG_VARIANCE)
    seen &= (square >= 0.0) | (_rescaled(-square, h) <= MAX_RATIO)
    square = xp.minimum(xp.abs(square), MAX_SQUARE)
    rescaled = _rescaled(square, h)
    odds = share * xp.exp(-0.5 * h - 0.5 * (DOF + 1.0) / TAIL * (rescaled - square))
    new_share = (1.0 - SWITCHING) * odds / (odds + 1.0 - share) + 0.5 * SWITCHING
    wider = cov + WALK * np.diag(var)[None]
    gain = (wider @ phi[..., None])[..., 0]
    s = FISHER + (phi * gain).sum(-1, keepdims=True)
    ratio = xp.minimum(rescaled, MAX_RATIO)[:, None]
    new_mean = mean + gain * (ratio - 1.0) / s
    new_cov = wider - gain[:, :, None] * gain[:, None] / s[..., None]
    return (
        xp.where(seen[:, None], new_mean, mean),
        xp.where(seen[:, None, None], new_cov, cov),
        xp.where(seen, new_share, share),
    )


@cache
def _compiled() -> Any:
    """Return the compiled recursion, or None where it was not built."""
    return function("learn_log_variances", [ctypes.c_int64, ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 10])
