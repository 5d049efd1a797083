"""Noise that follows the inputs: the variance of a row is multiplied by e^h, where h is made of features of it.

The level u = F(y) at which a target comes, under the mixture as it is, has the normal score g = Phi^-1(u). Where the
errors of some kind of row are larger than those of another, the scores show it. With the features phi of a row and
the places that its inputs, mean and spread lie in (see `streamgp.likelihoods.noise_features`), all known before the
target,

    h = w' phi + q (the sum of b over the places),

and the variance of every expert, belief and noise, is multiplied by e^h. So the prediction stays a mixture, whose
mean is as it was.

The tails of the mixture are heavier than normal ones, so that the score of the same target under the wider mixture is
not g e^(-h/2). They are taken for those of Student's t with d = 6 degrees of freedom, of which, nearly, g^2 is
c log(1 + t^2 / d) with c = d ((8 d + 1) / (8 d + 3))^2 (Hill 1970). With the variance e^h times as large it is

    r(h) = c log(1 + (exp(g^2 / c) - 1) e^-h),

whose mean is 1 once h is right. The weights w learn by a step of natural gradient a row, as if there were no places.
With P for their covariance and r of h = w' phi,

    s = 2 + phi' P phi,   w += P phi (r - 1) / s,   P -= P phi phi' P / s,

which is the Kalman step for the target h + r - 1 with noise of variance 2: the inverse of the Fisher information of
h, 1/2, in a row. As the target depends on h, rows are learnt one by one. The weights also walk a little.

The places tell what no plane can: noise that jumps at some value of an input. Their effects b learn by the same step,
with r of h = w' phi + the whole sum of b, but the variances v of each by itself (as in Graepel et al. 2010, Eq. 9):

    s = 2 + the sum of v,   b += v (r - 1) / s,   v -= v^2 / s.

An outlier, to the guard of the filters, is learnt only if e^h makes a usual row of it, with r up to 9.

Where the noise is constant, all that is learnt of h is error. So h is multiplied by the probability that a mixture of
the two, with the layer and without, gives the former: a fixed share (Herbster and Warmuth 1998) by the density of t.
And q is the probability, by the same rule, that it is better with the places than without.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.likelihoods import running_moments
from streamgp.likelihoods.noise_features import (
    NORMAL_CUTS,
    PLACES,
    NoiseInputs,
    mean_and_log_std,
    num_features,
    num_places,
    places,
    plain,
)
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, is_jax, namespace, scan
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.numerics.native import addresses, function, structure
from streamgp.numerics.student_t import ndtri

CONSTANT_VAR, PRIOR_VAR, STEP_VAR = 0.1, 0.05, 0.025  # of the weight of the constant, of the others, of an effect
WALK = 3e-5  # variance that a weight or an effect gains from row to row, over its prior one
MAX_LOG_VARIANCE = 3.0
MAX_RATIO = 9.0  # the most that r counts for
MAX_SQUARE = 18.0  # the most that g^2 counts for
DOF = 6.0
TAIL = DOF * ((8.0 * DOF + 1.0) / (8.0 * DOF + 3.0)) ** 2  # c
FISHER = 2.0  # inverse of the information on h in a row
SWITCHING = 1e-3  # chance per row that the layer begins to help, or ceases to
START = np.array([[20.0, 0.0, 1.0], [20.0, 0.0, 0.1]])  # rows, mean and variance of m and of l before any is known
LEVELS = {"least_level": 1e-5, "least_of_outliers": 1e-16}  # at which targets count
_RULES = WALK, MAX_LOG_VARIANCE, MAX_RATIO, MAX_SQUARE, FISHER, SWITCHING, DOF, TAIL
_VARIANCES = CONSTANT_VAR, PRIOR_VAR, STEP_VAR
_LARGEST_SQUARE = 100.0
BELIEFS = "mean", "cov", "share", "steps", "steps_var", "helps", "moments"


@register
class NoiseByInput(Module):
    """What is believed of h for every output.

    Attributes
    ----------
    mean, cov
        Of the weights.
    share
        The probability that it is better with the layer than without.
    steps, steps_var
        Effects of the places, and their variances.
    helps
        The probability that it is better with the places than without.
    moments
        Of mean and log spread of what is predicted: rows, mean and variance (see `running_moments`).
    cuts
        Of the inputs; they stay.
    """

    mean: Float[AnyArray, "e f"]
    cov: Float[AnyArray, "e f f"]
    share: Float[AnyArray, " e"]
    steps: Float[AnyArray, "e b p"]
    steps_var: Float[AnyArray, "e b p"]
    helps: Float[AnyArray, " e"]
    moments: Float[AnyArray, "e 2 3"]
    cuts: Float[AnyArray, "e d c"]

    @classmethod
    def start(cls, num_outputs: int, inputs: NoiseInputs) -> "NoiseByInput":
        """Return the belief before any row."""
        E, d = num_outputs, len(inputs.which)
        var, half = _prior_var(num_features(d)), np.full(E, 0.5)
        steps, moments = np.zeros((E, num_places(d), PLACES)), np.tile(START, (E, 1, 1))
        cov, cuts = np.tile(np.diag(var), (E, 1, 1)), np.tile(inputs.cuts, (E, 1, 1))
        return cls(np.zeros((E, len(var))), cov, half, steps, np.full_like(steps, STEP_VAR), half, moments, cuts)

    def of_output(self, e: int) -> "NoiseByInput":
        """Return the belief of one output."""
        return tree.map(lambda a: a[e : e + 1], self)

    def factor(self, phi: Float[AnyArray, "*n e f"]) -> Float[AnyArray, "*n e"]:
        """Return the factor e^h of the variance, of rows with features phi."""
        of_rows = self if phi.ndim == 2 else tree.map(lambda a: a[None], self)
        return namespace(phi, self.share).exp(of_rows.share * _log_variances(of_rows, phi).used)

    def learn_rows(
        self,
        phi: Float[AnyArray, "n e f"],
        square: Float[AnyArray, "n e"],
        later: Float[AnyArray, "n e f"] | None = None,
    ) -> tuple["NoiseByInput", Float[AnyArray, "n e"], Float[AnyArray, "n e"]]:
        """Learn `squared_scores` in order.

        Returns
        -------
        belief
            After all rows.
        factor
            Of the variance of each row, before it is learnt.
        factor_later
            Of the rows with features `later`, each once its row is learnt; `factor` again without them.
        """
        compiled = None if is_jax(phi, square, self.mean) else _compiled()
        if compiled is not None:
            return self._learn_compiled(compiled, phi, square, later)
        given = tree.map(namespace(phi, square).asarray, self)

        def step(belief: NoiseByInput, row: tuple) -> tuple["NoiseByInput", tuple]:
            phi, square, *to_come = row
            after = _learn(belief, phi, square)
            return after, (belief.factor(phi), *map(after.factor, to_come))

        after, factors = scan(step, given, (phi, square) if later is None else (phi, square, later))
        return after, factors[0], factors[-1]

    def _learn_compiled(self, compiled: Any, phi: np.ndarray, square: np.ndarray, later: Any) -> tuple[Any, Any, Any]:
        n, E, F = phi.shape
        belief, kernel = kernel_belief(self)
        given = [None if a is None else np.ascontiguousarray(a, np.float64) for a in (phi, square, later)]
        factor, room = np.empty((n, E)), np.empty(2 * F)
        factor_later = factor if later is None else np.empty((n, E))
        compiled(n, ctypes.addressof(kernel), *addresses(*given, factor, factor_later, room))
        return belief, factor, factor_later


class _LogVariances(NamedTuple):
    """h by the plane alone, with all of the places' sum, and with that by the probability that it helps.

    And which place each number is in.
    """

    plane: AnyArray
    whole: AnyArray
    used: AnyArray
    places: AnyArray


def squared_scores(
    u: Float[AnyArray, "n e"], learnt: Bool[AnyArray, " n"], flagged: Bool[AnyArray, " n"] | None
) -> Float[AnyArray, "n e"]:
    """Return g^2 of the levels at which targets came: NaN in rows that are not learnt, negative of outliers."""
    xp = namespace(u, learnt)
    least, of_outliers = LEVELS.values()
    least = least if flagged is None else xp.where(flagged, of_outliers, least)[:, None]
    g = ndtri(plain(u, 0.5, least, 1.0 - least))
    square = g * g if flagged is None else xp.where(flagged[:, None], -g * g, g * g)
    return xp.where(learnt[:, None] & xp.isfinite(u), square, xp.nan)


def kernel_belief(belief: NoiseByInput) -> tuple[NoiseByInput, Any]:
    """Return a copy of a belief, and the structure by which the kernel changes the copy in place."""
    own = tree.map(lambda a: np.array(a, np.float64, order="C"), belief)
    rules = np.array([*_RULES, *_VARIANCES, *running_moments.KERNEL_CONSTANTS, *NORMAL_CUTS])
    E, d = own.cuts.shape[:2]
    arrays = (rules, own.cuts, *(getattr(own, name) for name in BELIEFS))
    kernel = _Belief(E, d, *addresses(*arrays))
    kernel.rules_kept = rules  # as long as the structure
    return own, kernel


def _prior_var(num_features: int) -> Float[np.ndarray, " f"]:
    """Return the prior variance of every weight."""
    return np.array([CONSTANT_VAR] + [PRIOR_VAR] * (num_features - 1))


def _log_variances(belief: NoiseByInput, phi: Float[AnyArray, "*n e f"]) -> _LogVariances:
    xp = namespace(belief.mean, phi)
    plane, here = (belief.mean * phi).sum(-1), places(phi, belief.cuts, belief.moments)
    more = xp.where(here, belief.steps, 0.0).sum((-1, -2))
    plane, whole, used = (
        xp.clip(h, -MAX_LOG_VARIANCE, MAX_LOG_VARIANCE) for h in (plane, plane + more, plane + belief.helps * more)
    )
    return _LogVariances(plane, whole, used, here)


def _rescaled(square: Float[AnyArray, " e"], h: Float[AnyArray, " e"]) -> Float[AnyArray, " e"]:
    """Return the squared score of a target whose variance is e^h times as large as that by which it has `square`."""
    xp = namespace(square, h)
    return TAIL * xp.log1p(xp.expm1(xp.clip(square, 0.0, _LARGEST_SQUARE) / TAIL) * xp.exp(-h))


def _shared(share: AnyArray, h: AnyArray, ratio: AnyArray, other_h: AnyArray, other_ratio: AnyArray) -> AnyArray:
    """Return the probability that the one log variance is better than the other, after a row."""
    odds = share * namespace(h).exp(0.5 * (other_h - h) + 0.5 * (DOF + 1.0) / TAIL * (other_ratio - ratio))
    return (1.0 - SWITCHING) * odds / (odds + 1.0 - share) + 0.5 * SWITCHING


def _learn(belief: NoiseByInput, phi: Float[AnyArray, "e f"], square: Float[AnyArray, " e"]) -> NoiseByInput:
    """Learn one row; what `numerics/kernel/log_variance.c` does for many."""
    xp = namespace(belief.mean, phi, square)
    seen = xp.isfinite(square)
    square, phi = xp.where(seen, square, 0.0), xp.where(seen[:, None], phi, 0.0)
    plane, whole, used, here = _log_variances(belief, phi)
    seen &= (square >= 0.0) | (_rescaled(-square, used) <= MAX_RATIO)
    square = xp.minimum(xp.abs(square), MAX_SQUARE)
    of_plane, of_whole, of_used = (_rescaled(square, h) for h in (plane, whole, used))
    share = _shared(belief.share, used, of_used, 0.0 * used, square)
    helps = _shared(belief.helps, whole, of_whole, plane, of_plane)
    wider = belief.cov + WALK * np.diag(_prior_var(phi.shape[-1]))[None]
    gain = (wider @ phi[..., None])[..., 0]
    s = FISHER + (phi * gain).sum(-1, keepdims=True)
    mean = belief.mean + gain * (xp.minimum(of_plane, MAX_RATIO)[:, None] - 1.0) / s
    cov = wider - gain[:, :, None] * gain[:, None] / s[..., None]
    var = belief.steps_var + WALK * STEP_VAR
    at = xp.where(here, var, 0.0)
    s = FISHER + at.sum((-1, -2))[:, None, None]
    steps = belief.steps + at * (xp.minimum(of_whole, MAX_RATIO)[:, None, None] - 1.0) / s
    moments = running_moments.learn(belief.moments, mean_and_log_std(phi))
    learnt = NoiseByInput(mean, cov, share, steps, var - at * at / s, helps, moments, belief.cuts)
    return tree.map(lambda a, b: xp.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, b), learnt, belief)


_Belief = structure(("outputs", "inputs"), (), ("rules", "cuts", *BELIEFS))


@cache
def _compiled() -> Any:
    """Return the compiled recursion, or None where it was not built."""
    return function("learn_log_variances", [ctypes.c_int64, *[ctypes.c_void_p] * 7])
