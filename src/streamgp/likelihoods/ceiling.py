"""A ceiling on counts, so that one absurd count sets neither the rate nor the predictions.

A count above the ceiling is not learnt, and no expert is weighed by it. Predictions take the log of the rate to have
its mean at the log of the ceiling at most, and a variance of `WIDEST` at most: the mean of a log-normal rate grows as
the exponential of half its variance, which says nothing of counts where experts know next to nothing, and would be
all that their mixture's mean is about.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.likelihoods.latent_predictive import LatentPredictive
from streamgp.numerics.arrays import AnyArray
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


def starting_at(rate: Float[AnyArray, ""]) -> Ceiling:
    """Return the ceiling of a stream of which this rate is believed before any row."""
    return Ceiling(np.asarray(rate), np.asarray(0), np.asarray(np.inf))


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


def limit(rate: Any, offset: Any) -> Any:
    """Return the largest count believed of rows with this log exposure, where this is the largest rate so far."""
    return np.floor(FACTOR * (rate * np.exp(offset) + 1.0))


def learn(
    ceiling: Ceiling, y: Float[AnyArray, " n"], offset: Float[AnyArray, " n"], mask: Bool[AnyArray, " n"]
) -> tuple[Ceiling, Float[AnyArray, " n"]]:
    """Return the ceiling after rows in order, and the limits before each; masked rows do nothing."""
    rate, count, least = float(ceiling.rate), int(ceiling.count), float(ceiling.least)
    rates, limits = y / np.exp(offset), np.empty(len(y))
    for i, keep in enumerate(np.asarray(mask).tolist()):
        limits[i] = most = limit(rate, offset[i])
        if not keep:
            continue
        above = y[i] > most
        count = count + WORTH if above else max(count - 1, 0)
        least = min(least, rates[i]) if above else least
        rate = rate if above else max(rate, rates[i])
        if count >= ENOUGH:
            rate, count = least, 0
        least = least if count else np.inf
    return Ceiling(np.asarray(rate), np.asarray(count), np.asarray(least)), limits


def bounded(predictive: LatentPredictive, most: Float[AnyArray, " n"]) -> LatentPredictive:
    """Return predictions of counts of which no more than `most` are believed."""
    top = np.log(most)[:, None] - predictive.likelihood.intercept  # type: ignore[attr-defined]
    loc = np.minimum(predictive.loc, top[:, :, None])
    return replace(predictive, loc=loc, cov=np.minimum(predictive.cov, WIDEST))
