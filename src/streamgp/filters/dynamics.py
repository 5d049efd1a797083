"""The dynamics of an expert's weights between rows: static, a random walk, or a return to the prior.

All are one first-order recursion, ``theta_t = decay theta_{t-1} + N(0, diffusion v I)`` with v the prior
variance, so that experts with different dynamics run side by side in one batch.
"""

import numpy as np
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module


@register
class Dynamics(Module):
    """First-order dynamics of the weights; build one with `static`, `random_walk` or `mean_reverting`.

    Parameters
    ----------
    decay
        Factor on the weights per unit of time, in (0, 1].
    diffusion
        Variance added per unit of time, relative to the prior variance.
    """

    decay: Float[AnyArray, "*batch"]
    diffusion: Float[AnyArray, "*batch"]

    def __post_init__(self) -> None:
        if type(self.decay) is float or type(self.diffusion) is float:
            raise TypeError("Dynamics holds arrays: build it with static(), random_walk(q) or mean_reverting(lam)")

    @property
    def name(self) -> str:
        """Return a short name for tables: ``static``, ``walk 0.001`` or ``revert 0.99``; `parse` reads it back."""
        if float(self.decay) < 1.0:
            return f"revert {float(self.decay)!r}"
        return "static" if float(self.diffusion) == 0.0 else f"walk {float(self.diffusion)!r}"

    def transition(self, tau: Float[AnyArray, "*n"]) -> Float[AnyArray, "*n"]:
        """Return a(tau), the factor on the mean after a time tau."""
        return self.decay**tau

    def process_variance(self, tau: Float[AnyArray, "*n"]) -> Float[AnyArray, "*n"]:
        """Return b(tau), the variance that the weights gain in a time tau, in prior variances.

        ``diffusion (1 - decay^(2 tau)) / (1 - decay^2)``, which is ``diffusion tau`` for a random walk.
        """
        xp = namespace(tau, self.decay)
        rate = 2.0 * xp.log(self.decay)
        safe = xp.where(rate < 0.0, rate, -1.0)
        return self.diffusion * xp.where(rate < 0.0, xp.expm1(safe * tau) / xp.expm1(safe), tau)

    def block(self, tau: Float[AnyArray, " n"]) -> tuple[Float[AnyArray, " n"], Float[AnyArray, "n n"]]:
        """Return (a, b) of a block: Cov(theta_i, theta_j) = a_i a_j Sigma + b_ij v I.

        `tau` is the time from the last row before the block to each of its rows, not decreasing.
        """
        return self.transition(tau), self.process_covariance(tau, tau)

    def process_covariance(self, one: Float[AnyArray, " n"], other: Float[AnyArray, " m"]) -> Float[AnyArray, "n m"]:
        """Return what the dynamics' noise adds to the covariance of the weights at two times, in prior variances."""
        xp = namespace(one, other, self.decay)
        one, other = one[:, None], other[None, :]
        return self.process_variance(xp.minimum(one, other)) * self.decay ** xp.abs(one - other)


def static() -> Dynamics:
    """Return the dynamics of weights that never move: the model sharpens forever (ordinary Bayesian regression)."""
    return Dynamics(np.asarray(1.0), np.asarray(0.0))


def random_walk(q: float) -> Dynamics:
    """Return the dynamics of weights that take a random-walk step of variance ``q v`` per unit of time.

    v is the prior variance. Directions that no row excites gain variance without bound; `mean_reverting` bounds it.
    """
    if not 0.0 <= q < float("inf"):
        raise ValueError(f"random_walk: expected a finite variance q >= 0 relative to the prior variance, got {q}")
    return Dynamics(np.asarray(1.0), np.asarray(float(q)))


def mean_reverting(lam: float) -> Dynamics:
    """Return the dynamics of weights that forget towards the prior, ``lam theta + N(0, (1 - lam^2) v I)``.

    Without data the weights return to the prior, variance v, so nothing grows without bound.
    """
    if not 0.0 < lam < 1.0:
        raise ValueError(f"mean_reverting: expected a factor strictly between 0 and 1, got {lam}")
    return Dynamics(np.asarray(float(lam)), np.asarray(1.0 - float(lam) ** 2))


def parse(text: str | float | int) -> Dynamics:
    """Parse dynamics from their name: ``static``, ``walk Q``, ``revert LAM``, or a number q (0 is static)."""
    words = str(text).split()
    try:
        match words:
            case ["static"]:
                return static()
            case ["walk", q]:
                return random_walk(float(q))
            case ["revert", lam]:
                return mean_reverting(float(lam))
            case [q]:
                return random_walk(float(q))
    except ValueError as error:
        raise ValueError(f"dynamics {text!r}: {error}") from None
    raise ValueError(f"dynamics: expected 'static', 'walk Q' or 'revert LAMBDA', got {text!r}")
