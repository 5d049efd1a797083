"""Side queries: their number, and their points.

The paper asks at past inputs, chosen by a determinantal point process (Mauduit, Berthier and Simonetto, Algorithm 1).
Past inputs alone cannot show an optimum that appears where nothing was evaluated, so other rules are here as well.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from streamgp.bandits.confidence import sparq_queries
from streamgp.bandits.kdpp import sample
from streamgp.bandits.regression import Hyperparameters, Posterior, gram
from streamgp.bandits.space import Box, Candidates
from streamgp.bases.kernels import SpectralKernel
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.pivoted_cholesky import pivoted_cholesky

Rule = Literal["past", "domain", "grid", "random", "maximisers"]
RULES = get_args(Rule)


@register
@dataclass(frozen=True)
class Budget:
    """So many side queries a step on average, asked when they are most informative.

    Each further query of a step gives less information than the one before. It is asked as long as it gives more, in
    nats, than a price, which rises after steps that asked for more than `per_step` and falls after others: a dual
    ascent on the budget. No step asks more than `burst` times as many.
    """

    per_step: float
    burst: float = 4.0

    def __post_init__(self) -> None:
        if not (0.0 < self.per_step < np.inf and self.burst >= 1.0):
            raise ValueError(f"Budget: expected per_step > 0 and burst >= 1, got {self.per_step} and {self.burst}")

    @property
    def max_queries(self) -> int:
        """Return how many queries a step may ask."""
        return int(np.ceil(self.per_step * self.burst))

    def affordable(self, gains: Float[np.ndarray, " n"], price: float) -> int:
        """Return how many of the queries, in order, give more than the price; `gains` never rise."""
        return int(np.sum(gains > price))

    def next_price(self, price: float, asked: int) -> float:
        """Return what the next step's queries must give: a tenth more where this one asked for twice the budget."""
        return price * float(np.exp(0.1 * (min(asked, self.max_queries) / self.per_step - 1.0)))


# In nats. An answer that halves the variance gives 0.35.
FIRST_PRICE = 0.5
QueryCount = str | int | Budget
_LOGARITHMIC = re.compile(r"(\d+(?:\.\d+)?) log t")


def check_query_count(count: QueryCount, rule: Rule) -> None:
    """Raise ValueError if there is no such number of queries, or no budget with this rule."""
    if isinstance(count, Budget):
        if rule != "domain":
            raise ValueError(f"num_queries: expected a Budget with query_rule='domain' alone, got {rule!r}")
        return
    whole = isinstance(count, Integral) and not isinstance(count, bool) and int(count) >= 0
    if not (whole or (isinstance(count, str) and _LOGARITHMIC.fullmatch(count))):
        raise ValueError(
            f"num_queries: expected a whole number of at least zero, '6 log t' with any factor, or a Budget, "
            f"got {count!r}"
        )


def queries_in_step(count: QueryCount, t: int) -> int:
    """Return how many queries step t asks, at most: a factor of log t, a constant, or what a budget allows."""
    if isinstance(count, Budget):
        return count.max_queries
    if isinstance(count, str):
        found = _LOGARITHMIC.fullmatch(count)
        assert found is not None
        return sparq_queries(t, float(found[1]))
    return count


def spread_evenly(space: Box | Candidates, n: int, rng: np.random.Generator) -> Float[np.ndarray, "m d"]:
    """Return n points that cover the space, shifted at random from step to step.

    They are a grid of one number, or of candidates on a line; else a scrambled Sobol sequence, or candidates drawn
    without replacement.
    """
    if n == 0:
        return np.zeros((0, len(space.groups)))
    if isinstance(space, Box) and len(space.parameters) == 1 and space.continuous.all():
        return ((np.arange(n) + rng.uniform()) / n)[:, None]
    if isinstance(space, Candidates):
        unit = space.unit
        if len(unit) <= n:
            return unit
        if unit.shape[1] == 1:
            order = np.argsort(unit[:, 0])
            return unit[order[((np.arange(n) + rng.uniform()) / n * len(unit)).astype(int)]]
    return space.draw(rng, n)


# The next queries are chosen among so many points of a box.
_DENSE_POINTS, _MAX_CANDIDATES = 256, 2_000
# Conditional variances below this share of the prior variance count as zero.
_RANK = 1e-6


def choose_past_inputs(
    locations: Float[np.ndarray, "n d"],
    kernel: SpectralKernel,
    hyper: Hyperparameters,
    n: int,
    swaps: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "m d"]:
    """Choose at most n distinct past inputs, by an approximate determinantal point process of that size.

    A greedy choice and, with `swaps`, a Markov chain from there (Mauduit, Berthier and Simonetto, Algorithms 2 and
    3). There are fewer where the kernel matrix has a lower rank.
    """
    n = min(n, len(locations))
    diagonal = np.full(len(locations), hyper.variance)
    if swaps:
        return locations[sample(gram(kernel, hyper, locations, locations), n, steps=swaps, rng=rng, jitter=_RANK)]

    def column(i: int) -> Float[np.ndarray, " n"]:
        return gram(kernel, hyper, locations, locations[i : i + 1])[:, 0]

    return locations[pivoted_cholesky(column, diagonal, n, tolerance=_RANK, rng=rng).chosen]


def choose_most_informative(
    points: Float[np.ndarray, "n d"], posterior: Posterior, noise_var: float, n: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"]]:
    """Choose n points, each the most informative given those before it and all observations; also return the nats."""
    column = _noisy_columns(points, posterior, noise_var)
    variances = np.square(posterior.at(points)[1])
    found = pivoted_cholesky(column, variances + noise_var, min(n, len(points)), tolerance=0.0, rng=rng)
    left = np.maximum(found.variances - noise_var, 0.0)
    return points[found.chosen], 0.5 * np.log1p(left / noise_var)


def _noisy_columns(
    points: Float[np.ndarray, "n d"], posterior: Posterior, noise_var: float
) -> Callable[[int], Float[np.ndarray, " n"]]:
    """Return a function to the columns of the posterior covariance of noisy answers at the points."""
    noiseless = posterior.columns(points)

    def column(i: int) -> Float[np.ndarray, " n"]:
        covariances = noiseless(i)
        covariances[i] += noise_var
        return covariances

    return column


def choose_maximisers(
    points: Float[np.ndarray, "n d"], posterior: Posterior, noise_var: float, factor: float, n: int
) -> Float[np.ndarray, "m d"]:
    """Choose points of the greatest upper bound one after the other, as if each had been answered by its mean.

    This is a batch of GP-BUCB (Desautels, Krause and Burdick 2014, Algorithm 1); `factor` is beta_t.
    """
    column = _noisy_columns(points, posterior, noise_var)
    mean, std = posterior.at(points)
    variance, rows, chosen = np.square(std), np.zeros((0, len(points))), []
    for _ in range(min(n, len(points))):
        scores = mean + factor * np.sqrt(np.maximum(variance, 0.0))
        scores[chosen] = -np.inf
        i = int(np.argmax(scores))
        row = (column(i) - rows[:, i] @ rows) / np.sqrt(variance[i] + noise_var)
        # The covariance is with the function, not with a noisy reward.
        row[i] -= noise_var / np.sqrt(variance[i] + noise_var)
        rows = np.concatenate([rows, row[None]])
        variance = variance - np.square(row)
        chosen.append(i)
    return points[chosen]


def draw_dense_points(space: Box | Candidates, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Return points among which to look for queries: all candidates unless they are very many, or many of a box."""
    if isinstance(space, Candidates):
        return space.unit if len(space.points) <= _MAX_CANDIDATES else space.draw(rng, _MAX_CANDIDATES)
    return space.draw(rng, _DENSE_POINTS)


def draw_uniformly(space: Box | Candidates, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Draw points independently, uniformly over the space."""
    if isinstance(space, Candidates):
        return space.unit[rng.integers(len(space.points), size=n)]
    return space.snap(rng.uniform(size=(n, len(space.groups))))
