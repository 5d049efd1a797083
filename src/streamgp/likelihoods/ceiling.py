"""A ceiling on counts, so that one absurd count sets neither the rate nor the predictions.

A count above the ceiling is not learnt, and no expert is weighed by it. Predictions take the log of the rate to have
its mean at the log of the ceiling at most, and a variance of `WIDEST` at most: the mean of a log-normal rate grows as
the exponential of half its variance, which says nothing of counts where experts know next to nothing, and would be
all that their mixture's mean is about.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from streamgp.likelihoods.predictive import LatentPredictive
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register

# The ceiling as a multiple of the largest count believed so far, plus one.
FACTOR = 4.0
# The largest variance of the log rate: two standard deviations are a factor of 17 either way.
WIDEST = 2.0
# As in `streamgp.stream.bounds`: a row above adds so much to a count from which each other row takes one.
WORTH = 50
ENOUGH = 5 * WORTH
# This share of the nonzero counts of a warm-up, and one more, may be absurd.
SHARE = 0.02
# In fewer rows, no count is taken for absurd.
MIN_ROWS = 10


@register
class Ceiling(NamedTuple):
    """The largest rate believed, as the rows so far support it.

    When five rows in succession lie above the ceiling, or so many more than one in fifty, the least of them is
    believed, and the ceiling rises.

    Attributes
    ----------
    rate
        The largest believed, per exposure.
    count
        Of rows above the ceiling, as described at `WORTH`.
    least
        The least of the rates counted; infinite where there is none.
    """

    rate: Float[AnyArray, ""]
    count: Int[AnyArray, ""]
    least: Float[AnyArray, ""]


def starting_at(rate: Float[Array, ""]) -> Ceiling:
    """Return the ceiling of a stream of which this rate is believed before any row."""
    return Ceiling(rate, jnp.zeros((), int), jnp.full_like(rate, jnp.inf))


def believed(y: Float[np.ndarray, " n"], exposure: Float[np.ndarray, " n"]) -> float:
    """Return the largest rate of a warm-up that is no glitch: at most 2% of the counts above zero, and one, are.

    They are glitches if they lie above the ceiling that the others make. Infinite where there is no row.
    """
    rates = y / exposure
    if len(y) < MIN_ROWS:
        return float(rates.max(initial=0.0)) if len(y) else np.inf
    few = int(SHARE * np.sum(y > 0.0)) + 1
    others = np.sort(rates)[-1 - few]
    return float(rates[y <= limit(others, np.log(exposure))].max())


def limit(rate: Any, offset: AnyArray) -> AnyArray:
    """Return the largest count believed of rows with this log exposure, where this is the largest rate so far."""
    xp = namespace(offset)
    return xp.floor(FACTOR * (rate * xp.exp(offset) + 1.0))


def learn(
    ceiling: Ceiling, y: Float[AnyArray, " n"], offset: Float[AnyArray, " n"], mask: Bool[AnyArray, " n"]
) -> tuple[Ceiling, Float[AnyArray, " n"]]:
    """Return the ceiling after rows in order, and the limits before each; masked rows do nothing."""

    def step(ceiling: Ceiling, row: tuple[AnyArray, AnyArray, AnyArray]) -> tuple[Ceiling, AnyArray]:
        y, offset, keep = row
        most, rate = limit(ceiling.rate, offset), y / jnp.exp(offset)
        above = y > most
        count = jnp.where(above, ceiling.count + WORTH, jnp.maximum(ceiling.count - 1, 0))
        least = jnp.where(count > 0, jnp.where(above, jnp.minimum(ceiling.least, rate), ceiling.least), jnp.inf)
        risen = count >= ENOUGH
        new = Ceiling(
            jnp.where(risen, least, jnp.where(above, ceiling.rate, jnp.maximum(ceiling.rate, rate))),
            jnp.where(risen, 0, count),
            jnp.where(risen, jnp.inf, least),
        )
        return tree.map(lambda a, b: jnp.where(keep, a, b), new, ceiling), most

    return jax.lax.scan(step, ceiling, (y, offset, mask))


def bounded(predictive: LatentPredictive, most: Float[AnyArray, " n"]) -> LatentPredictive:
    """Return predictions of counts of which no more than `most` are believed."""
    top = jnp.log(most)[:, None] - predictive.likelihood.intercept  # type: ignore[attr-defined]
    loc = jnp.minimum(jnp.asarray(predictive.loc), top[:, :, None])
    return replace(predictive, loc=loc, cov=jnp.minimum(jnp.asarray(predictive.cov), WIDEST))
