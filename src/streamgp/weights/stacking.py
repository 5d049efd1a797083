"""Online Bayesian stacking: rules that seek the best lasting blend of the experts (Waxman, Llorente and Djuric 2025).

Stacking gives a target the density w'r, where r are the experts' densities of it. The weights that would have
given all targets the highest density are those of the best portfolio that is rebalanced at every row, with r for the
returns of a day: online portfolio selection follows it. `SoftBayes` is of this family too.

All rules here learn from ``x = r / w'r``, minus the gradient of the row's log loss. It is 1 in the mean over w, at
most 1 / w_k for expert k, and does not change if all densities are multiplied by one number.
"""

import sys
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, logsumexp, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import cholesky, cholesky_solve
from streamgp.numerics.module import Module, static_field
from streamgp.weights.base import LogWeights, fresh_start, normalised, quiet, relative

# A weight below e^-this can gain no more at one row: the logs of the weights stay finite, whatever the densities.
_MAX_LOG_RATIO = np.log(1e12)
# The most steps of the interior-point method; about ten are usual.
_MAX_STEPS = 60


@register
class ExponentiatedGradient(LogWeights):
    """Stacking by exponentiated gradient: ``w <- w exp(rate x)``, normalised (Helmbold et al. 1998).

    With G_t = max_k x_k of row t, the log loss over T rows exceeds that of any sequence of blends u with S switches
    (S = 0: of any single blend) by at most

        (ln K + S ln(K / share) + (T - 1 - S) ln(1 / (1 - share))) / rate + rate / 8 sum_t G_t^2.

    Derivation: a row lowers KL(u, w) by rate u'x - ln sum_k w_k exp(rate x_k), where u'x - 1 is at least ln u'x, the
    row's regret, and the logarithm at most rate + rate^2 G_t^2 / 8 (Hoeffding). A share costs ln(1 / (1 - share)) at
    a row where u stays, and ln(K / share) where it moves (as in Herbster and Warmuth 1998). This holds on any data,
    but is worth something only where ratios are bounded: if no expert is ever worse than the best by a factor of more
    than 1 / c, then G_t <= 1 / c, and without switches the rate c sqrt(8 ln K / T) gives sqrt(T ln K / 2) / c, the
    bound of Helmbold et al.

    Outliers do not keep to that. A row at which an expert of weight w_k was by far the best takes up to rate / w_k
    nats off all others, and without a share they earn them back at the pace of `rate` a row: one row can decide a
    stream. With a share no weight is below share / K, so that G_t <= K / share, and no expert stays lost.

    Parameters
    ----------
    rate
        The learning rate; 0.05 is that of Helmbold et al.'s experiments.
    share
        Probability, per row, of a fresh start: the weights move this far towards equal ones.
    """

    rate: float = static_field(default=0.05)
    share: float = static_field(default=0.0)

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < np.inf:
            raise ValueError(f"ExponentiatedGradient: expected a positive learning rate, got {self.rate}")
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"ExponentiatedGradient: expected a share in [0, 1), got {self.share}")

    @quiet
    def update(self, state: Float[AnyArray, " k"], log_density: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Raise each log weight by the rate times its share of the gradient, and normalise."""
        xp = namespace(state, log_density)
        log_density = relative(state, log_density)
        total = logsumexp(state + log_density)
        ratio = xp.exp(xp.minimum(log_density - total, _MAX_LOG_RATIO))
        raised = xp.where(xp.isfinite(total), state + self.rate * ratio, state)
        # The maximum may be 1e10, and the logarithm of a sum would be lost in rounding beside it.
        return self.moved(normalised(raised - raised.max()))

    def moved(self, log_weights: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Return the weights after a fresh start."""
        return fresh_start(log_weights, self.share)


@register
class NewtonState(Module):
    """Log weights for the next row, and the quadratic below the log score so far: b'p - p'A p / 2 for a blend p."""

    log_weights: Float[AnyArray, " k"]
    A: Float[AnyArray, "k k"]
    b: Float[AnyArray, " k"]


@register
class NewtonStep(Module):
    """Stacking by the online Newton step (Agarwal, Hazan, Kale and Schapire 2006), with a rate of its own per row.

    The weights are ``w = (1 - mixing) p + mixing / K``, where p is the point of the simplex that is nearest to A^-1 b
    in the norm of A. To p the gradient of the log score of w is ``x = ((1 - mixing) r + mixing mean(r)) / w'r``, and
    its largest entry Z is at most K / mixing. A row adds ``beta x x'`` to A, which starts as I, and ``(1 + beta) x``
    to b, which starts as the prior weights p_1, with beta = 3 / (1 + 2 Z). The paper has one beta for all rows, to be
    chosen from a bound on all ratios that are to come; 3 / (1 + 2 Z) is what its proof needs of each row, since

        ln z <= (z - 1) - beta (z - 1)^2 / 2    for 0 <= z <= Z.

    So it follows the regularised leader on quadratics that lie below the log score. The log loss over T rows exceeds
    that of any blend ``(1 - mixing) u + mixing / K``, on any data, by at most

        |u - p_1|^2 / 2 + sum_t x_t' A_t^-1 x_t,    where sum_t beta_t x_t' A_t^-1 x_t <= ln |A_T|.

    Where Z is bounded that is of the order Z K ln T; a gradient step has sqrt(T). The best unmixed blend is at most
    T ln(1 / (1 - mixing)) better. There is no bound against blends that change: all rows count alike for ever.

    The state holds K^2 numbers, and a row costs some ten Cholesky factors of K x K matrices, 3 K^3 flops or so: next
    to nothing for 30 experts, about as much as the experts themselves for 100. It is not practical above a few
    hundred.

    Parameters
    ----------
    mixing
        The part of the weights that is spread evenly. It keeps every weight above mixing / K.
    """

    mixing: float = static_field(default=1e-3)

    shuts_down = False

    def __post_init__(self) -> None:
        if not 0.0 < self.mixing < 1.0:
            raise ValueError(f"NewtonStep: expected a mixing in (0, 1), got {self.mixing}")

    @quiet
    def init(self, log_prior: Float[AnyArray, " k"]) -> NewtonState:
        """Start from the prior, with A = I."""
        xp = namespace(log_prior)
        eye = xp.eye(len(log_prior), dtype=log_prior.dtype)
        return NewtonState(fresh_start(log_prior, self.mixing), eye, xp.exp(log_prior))

    def predict(self, state: NewtonState) -> Float[AnyArray, " k"]:
        """Return the weights so far."""
        return state.log_weights

    @quiet
    def update(self, state: NewtonState, log_density: Float[AnyArray, " k"]) -> NewtonState:
        """Add the row to the quadratic, and move to its best blend."""
        xp = namespace(state.log_weights, log_density)
        log_density = relative(state.log_weights, log_density)
        total = logsumexp(state.log_weights + log_density)
        ratio = xp.exp(log_density - total)
        x = (1.0 - self.mixing) * ratio + self.mixing * xp.mean(ratio)
        beta = 3.0 / (1.0 + 2.0 * xp.max(x))
        A, b = state.A + beta * xp.outer(x, x), state.b + (1.0 + beta) * x
        after = NewtonState(fresh_start(xp.log(nearest_blend(A, b)), self.mixing), A, b)
        return tree.map(lambda new, old: xp.where(xp.isfinite(total), new, old), after, state)


def nearest_blend(A: Float[AnyArray, "k k"], b: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
    """Find the point p of the simplex nearest to A^-1 b in the norm of `A`: it has the least p'A p / 2 - b'p.

    By an interior point with predictor and corrector (Mehrotra 1992), from the centre of the simplex. The gap between
    its objective and the least one ends below 64 eps of the mean diagonal entry of `A`, however ill-conditioned; no
    entry is ever exactly zero.

    Parameters
    ----------
    A
        Symmetric and positive definite.
    b
        The linear part.
    """
    K, xp = len(b), namespace(A, b)
    scale = xp.trace(A) / K
    A, b = A / scale, b / scale
    even = xp.full(K, 1.0 / K, b.dtype)
    slope = A @ even - b
    # Feasible at once: the slope is one number for all (the multiplier of the sum) plus a positive price of each.
    price = slope - slope.min() + 0.1 * (slope.max() - slope.min()) + 1e-3

    def unfinished(at: tuple) -> Any:
        step, p, price = at
        return (step < _MAX_STEPS) & (p @ price > 64.0 * np.finfo(b.dtype).eps)

    def improve(at: tuple) -> tuple:
        step, p, price = at
        L = cholesky(A + xp.diag(price / p))
        along_one = cholesky_solve(L, xp.ones((K, 1), b.dtype))[:, 0]

        def direction(target: AnyArray) -> tuple:
            """Return Newton's step to p * price = target, the sum of p kept."""
            free = cholesky_solve(L, (b - A @ p + target / p)[:, None])[:, 0]
            to_p = free - along_one * (free.sum() / along_one.sum())
            return to_p, (target - price * (p + to_p)) / p

        mean = p @ price / K
        to_p, to_price = direction(xp.zeros_like(p))
        reached = (p + _longest(p, to_p) * to_p) @ (price + _longest(price, to_price) * to_price) / K
        to_p, to_price = direction((reached / mean) ** 3 * mean - to_p * to_price)
        length = 0.995 * xp.minimum(_longest(p, to_p), _longest(price, to_price))
        p = p + length * to_p
        return step + 1, p / p.sum(), price + length * to_price

    at: tuple = (0, even, price)
    if xp is not np:
        return sys.modules["jax"].lax.while_loop(unfinished, improve, at)[1]
    while unfinished(at):
        at = improve(at)
    return at[1]


def _longest(x: Float[AnyArray, " k"], step: Float[AnyArray, " k"]) -> Any:
    """Return the longest part of a step, at most all of it, that leaves a positive x no less than zero."""
    xp = namespace(x, step)
    with np.errstate(divide="ignore", invalid="ignore"):
        return xp.minimum(1.0, xp.min(xp.where(step < 0.0, -x / step, xp.inf)))
