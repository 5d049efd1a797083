"""The memory of each method of time-varying GP optimisation: the observations that it keeps, and their noise.

All of them choose by an upper confidence bound of a Gaussian process. They differ in the observations that they still
use, in the noise that they give to old ones, and in how the function is correlated over time.
"""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.bandits.confidence import restart_length
from streamgp.numerics.checkpoint.encoding import register

EPS, GAMMA = 0.03, 0.9
WINDOW = restart_length(EPS, 10**9)
# Observations with less correlation or weight are dropped.
_MIN_CORRELATION, _MIN_WEIGHT = 1e-2, 1e-3


@register
@dataclass(frozen=True)
class Memory:
    """The rule of one method; a field that is None plays no part.

    Attributes
    ----------
    window
        Only so many steps back count.
    restart
        Everything is forgotten every so many steps.
    eps
        The function of two times is correlated by (1 - eps)^(|t - t'| / 2).
    gamma
        An observation of age a has the noise variance of a fresh one times gamma^-a.
    injected
        An observation of age a has the noise variance of a fresh one times a^2 + 1, and is used as long as that is at
        most log t; the newest always is.
    reuse
        With `injected`: side answers are kept as well, and age as observations do, until they say less than the
        prior. Otherwise they are used in their own step alone.
    """

    window: int | None = None
    restart: int | None = None
    eps: float | None = None
    gamma: float | None = None
    injected: bool = False
    reuse: bool = False

    def keeps(
        self,
        steps: Int[np.ndarray, " n"],
        ages: Float[np.ndarray, " n"],
        answer: Bool[np.ndarray, " n"],
        t: int,
        signal: float,
    ) -> Bool[np.ndarray, " n"]:
        """Mark the observations that are used after t steps.

        Parameters
        ----------
        steps, ages
            How many steps, and how much time, each lies back.
        answer
            Which of them are answers to side queries.
        signal
            The variance of the function over that of the noise of a fresh observation.
        """
        kept = np.ones(len(steps), dtype=bool)
        if self.window is not None:
            kept &= steps < self.window
        if self.restart is not None:
            kept &= steps < t % self.restart + answer  # answers after a block's last step are the next block's
        if self.eps is not None:
            kept &= self.correlation(ages) > _MIN_CORRELATION
        if self.gamma is not None:
            kept &= self.inflation(ages) < 1.0 / _MIN_WEIGHT
        if self.injected:
            largest = np.where(answer, signal if self.reuse else 0.0, np.log(max(t, 1)))
            newest = steps == steps[~answer].min(initial=t)
            kept &= (self.inflation(ages) <= largest) | np.where(answer, steps == 0, newest)
        return kept

    def inflation(self, ages: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the factor by which the noise variance of an observation has grown."""
        if self.injected:
            return 1.0 + np.square(ages)
        return self.gamma**-ages if self.gamma is not None else np.ones(len(ages))

    def correlation(self, apart: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """Return the correlation of the function with itself so much later."""
        return (1.0 - (self.eps or 0.0)) ** (0.5 * np.abs(apart))


METHODS = ("sparq-gp-ucb", "gp-ucb", "r-gp-ucb", "sw-gp-ucb", "tv-gp-ucb", "w-gp-ucb", "ensemble")
"""The methods of `TimeVaryingOptimizer`, by name; see `memory_of`."""


def memory_of(
    method: str, *, window: int = WINDOW, eps: float = EPS, gamma: float = GAMMA, reuse: bool = False
) -> Memory:
    """Return the memory of a method.

    - ``gp-ucb``: everything counts, for good (Srinivas et al. 2010).
    - ``r-gp-ucb``: restarts every `window` steps (Bogunovic, Scarlett and Cevher 2016, who recommend 12 eps^-1/4, the
      default; Zhou and Shroff 2021).
    - ``sw-gp-ucb``: the last `window` steps (Zhou and Shroff 2021).
    - ``tv-gp-ucb``: a temporal kernel (Bogunovic, Scarlett and Cevher 2016, Eq. 5).
    - ``w-gp-ucb``: weighted regression, weights gamma^-t (Deng et al. 2022), which is noise that grows with age.
    - ``sparq-gp-ucb``: uncertainty injection, and side answers (Mauduit, Berthier and Simonetto, Algorithm 1).

    Raises
    ------
    ValueError
        If the method is unknown, or a parameter has no sense.
    """
    if not isinstance(window, Integral) or not window >= 1 or not 0.0 < eps < 1.0 or not 0.0 < gamma < 1.0:
        raise ValueError(
            f"expected a whole window >= 1 and eps and gamma between 0 and 1, got {window}, {eps} and {gamma}"
        )
    match method:
        case "gp-ucb":
            return Memory()
        case "r-gp-ucb":
            return Memory(restart=window)
        case "sw-gp-ucb":
            return Memory(window=window)
        case "tv-gp-ucb":
            return Memory(eps=eps)
        case "w-gp-ucb":
            return Memory(gamma=gamma)
        case "sparq-gp-ucb":
            return Memory(injected=True, reuse=reuse)
    raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
