"""Shapley effects: the shares of inputs in the variance of a function, from rows of inputs and the function's values.

Shapley effects (Owen 2014; Song, Nelson and Staum 2016): the value of a set of inputs is the variance of the best
prediction of the function from these inputs alone, and an input's share is what it adds to those before it, averaged
over all orders. Shares are at least 0 and sum to one, whether inputs are independent or not: an interaction is shared
equally by those in it, and so is what two inputs say that are copies of each other.

The best prediction from some inputs is a linear regression on terms of them alone: the columns themselves, curves
of their ranks where the function is curved, and products of two inputs' terms where it needs these. As regressions on
nested sets of terms are steps of one Cholesky factor, an order of all inputs costs one. Correlations that are within
chance count as none, so that many inputs that are independent are not mistaken for each other. What no term explains
is shared in proportion, or, where it is much, by how much a forest takes it from each input.
"""

from collections.abc import Sequence
from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from streamgp.numerics.ranks import average_ranks

# The smallest number of orders where there are too many inputs for all orders.
ORDERS = 256
# Up to so many inputs, all orders are taken.
_ALL_ORDERS = 5
# The number of rounds, and the most products in each.
_ROUNDS, _PRODUCTS = 2, 48
# The number of half periods of the fastest wave over the ranks.
_WAVES = 6
# The most terms of an input that are multiplied with terms of others.
_CROSSED = 4
# From so many inputs on, only the first term of each is multiplied.
_MANY = 50
# A correlation beyond so many standard errors is not chance.
_CHANCE = 3.3
# Smaller shares of the variance are neglected.
_NEGLIGIBLE = 1e-3
# From this unexplained share of the variance on, a forest is fitted.
_FOREST_FROM = 0.05
# The ridge keeps the equations solvable where inputs are copies of each other.
_RIDGE = 1e-6


class _Terms(NamedTuple):
    """Terms (n, p) with mean 0 and variance 1, and the two inputs (p,) that each belongs to, perhaps the same."""

    values: Float[np.ndarray, "n p"]
    first: Int[np.ndarray, " p"]
    second: Int[np.ndarray, " p"]

    def largest(self, f: np.ndarray, most: int) -> "_Terms":
        """Return so many at most: those that explain the most each by itself."""
        if self.values.shape[1] <= most:
            return self
        kept = np.sort(np.argsort(-_explained(self.values, f), kind="stable")[:most])
        return _Terms(self.values[:, kept], self.first[kept], self.second[kept])

    def joined(self, other: "_Terms") -> "_Terms":
        return _Terms(*(np.concatenate(pair, axis=-1) for pair in zip(self, other, strict=True)))


def shapley_effects(
    X: Float[np.ndarray, "n d"], f: Float[np.ndarray, "n e"], groups: Sequence[Sequence[int]], seed: int = 0
) -> Float[np.ndarray, "g e"]:
    """Return each input's share of the variance of each function: they sum to one, or are 0 of a constant.

    Parameters
    ----------
    X, f
        Rows, and the functions' values there, without noise.
    groups
        The columns of X of each input.
    seed
        Of the orders, where not all of them are taken, and of the forest.
    """
    largest, f = np.abs(f).max(axis=0, initial=0.0), f - f.mean(axis=0)
    size = np.sqrt(np.square(f).mean(axis=0))
    # A smaller size is rounding.
    varies = size > 1e-13 * largest
    shares = np.zeros((len(groups), f.shape[1]))
    if not varies.any() or not len(groups):
        return shares
    f = f[:, varies] / size[varies]
    terms, rest = _explaining(X, f, groups)
    found = np.zeros((len(groups), f.shape[1]))
    if terms.values.shape[1]:
        found = _shared(terms, f, len(groups), seed)
    left = np.square(rest).mean(axis=0)
    if left.max() > _FOREST_FROM:
        found = found + left * _by_forest(X, rest, groups, seed)
    total = found.sum(axis=0)
    shares[:, varies] = found / np.where(total > 0.0, total, 1.0)
    return shares


def _explaining(
    X: np.ndarray, f: np.ndarray, groups: Sequence[Sequence[int]]
) -> tuple[_Terms, Float[np.ndarray, "n e"]]:
    """Return the terms that functions of unit variance are made of, and what they leave."""
    n, own = len(X), [X[:, list(columns)] for columns in groups]
    lines = [_orthonormal(columns) for columns in own]
    curves = [_curves(*each) for each in zip(own, lines, strict=True)]
    linear = _joined(n, lines).largest(f, n // 2)
    rest = _left(linear, f)
    # An input may be curved in what another one says in a line, so that its curve counts before that one is known.
    telling = [curve if _tells(curve, f) or _tells(curve, rest) else curve[:, :0] for curve in curves]
    terms = linear.joined(_joined(n, telling).largest(f, n // 4))
    rest = _left(terms, f)
    few = 1 if len(groups) > _MANY else _CROSSED
    crossed = _joined(n, [np.hstack(each)[:, :few] for each in zip(lines, curves, strict=True)])
    for _ in range(_ROUNDS):
        if _is_explained(rest):
            break
        products = _products(crossed, rest, most=min(_PRODUCTS, n // 8))
        if not products.values.shape[1]:
            break
        terms = terms.joined(products)
        rest = _left(terms, f)
    return terms, rest


def _joined(n: int, each: Sequence[np.ndarray]) -> _Terms:
    """Return the terms of all inputs, in their order."""
    which = np.repeat(np.arange(len(each)), [values.shape[1] for values in each])
    return _Terms(np.concatenate([np.zeros((n, 0)), *each], axis=1), which, which)


def _tells(values: Float[np.ndarray, "n k"], f: np.ndarray) -> bool:
    """Return whether uncorrelated terms explain more of functions than chance does, and than is negligible."""
    n, k = values.shape
    whole = np.square(f).mean(axis=0).sum()
    chance = (k + _CHANCE * np.sqrt(2.0 * k)) / n * whole
    return bool(_explained(values, f).sum() > max(chance, _NEGLIGIBLE * f.shape[1]))


def _is_explained(rest: Float[np.ndarray, "n e"]) -> bool:
    return bool(np.square(rest).mean(axis=0).max() < _NEGLIGIBLE)


def _orthonormal(columns: Float[np.ndarray, "n k"], after: Float[np.ndarray, "n m"] | None = None) -> np.ndarray:
    """Return terms of unit variance, without correlation, that span columns beyond the mean and those `after`."""
    n: int = len(columns)
    kept = [] if after is None else list(after.T)
    found: list[np.ndarray] = []
    for column in columns.T:
        spread = np.abs(column - column[0]).max()
        if not spread > 0.0:
            continue
        rest = (column - column[0]) / spread
        rest = before = rest - rest.mean()
        # A single pass would lose digits.
        for _ in range(2):
            for other in kept:
                rest = rest - other * (other @ rest) / n
        if np.square(rest).sum() > 1e-6 * np.square(before).sum() > 0.0:
            found.append(rest * np.sqrt(n / np.square(rest).sum()))
            kept.append(found[-1])
    return np.stack(found, axis=1) if found else np.zeros((n, 0))


def _curves(columns: Float[np.ndarray, "n k"], linear: np.ndarray) -> Float[np.ndarray, "n m"]:
    """Return squares of the normal scores of an input's columns and waves of their ranks, beyond what is linear."""
    n = len(columns)
    ranks = [(average_ranks(column) - 0.5) / n for column in columns.T if len(np.unique(column)) > 2]
    curves = [np.square(ndtri(rank)) for rank in ranks]
    curves += [np.cos(np.pi * k * rank) for k in (*range(2, _WAVES + 1), 1) for rank in ranks]
    return _orthonormal(np.stack(curves, axis=1), linear) if curves else np.zeros((n, 0))


def _explained(values: Float[np.ndarray, "n k"], f: np.ndarray) -> Float[np.ndarray, " k"]:
    """Return how much of the functions' variance each term by itself explains."""
    return np.square(values.T @ f / len(f)).sum(axis=1)


def _products(crossed: _Terms, rest: np.ndarray, most: int) -> _Terms:
    """Return the products of terms of two inputs that explain what is left beyond chance, `most` at most."""
    n, values = len(rest), crossed.values
    mean, square = values.T @ values / n, np.square(values).T @ np.square(values) / n
    spread = square - np.square(mean)
    met = np.stack([(values * each[:, None]).T @ values / n for each in rest.T], axis=2)
    left = np.square(rest).mean(axis=0).sum()
    gain = np.square(met).sum(axis=2) / (np.where(spread > 1e-9, spread, np.inf) * left)
    gain[~(crossed.first[:, None] < crossed.first)] = 0.0
    a, b = np.unravel_index(np.argsort(-gain, axis=None)[:most], gain.shape)
    candidates = max(int((gain > 0.0).sum()), 1)
    beyond = gain[a, b] > max((2.0 * np.log(candidates) + 4.0) / n, 0.1 * _NEGLIGIBLE)
    a, b = a[beyond], b[beyond]
    products = values[:, a] * values[:, b] - mean[a, b]
    return _Terms(products / np.sqrt(spread[a, b]), crossed.first[a], crossed.first[b])


def _weights(terms: _Terms, f: np.ndarray) -> Float[np.ndarray, "p e"]:
    n, p = terms.values.shape
    gram = terms.values.T @ terms.values / n
    return np.linalg.solve(gram + _RIDGE * np.eye(p), terms.values.T @ f / n)


def _left(terms: _Terms, f: np.ndarray) -> Float[np.ndarray, "n e"]:
    return f - terms.values @ _weights(terms, f) if terms.values.shape[1] else f


def _shared(terms: _Terms, f: np.ndarray, count: int, seed: int) -> Float[np.ndarray, "g e"]:
    """Return how much of the variance each input adds to those before it, on average over the orders."""
    weights, cov = _weights(terms, f), _covariance(terms)
    met = cov @ weights
    found = np.zeros((count, f.shape[1]))
    # These terms are correlated with no other, so their shares are the same in every order.
    apart = (cov != 0.0).sum(axis=1) == 1
    for owners in (terms.first, terms.second):
        np.add.at(found, owners[apart], 0.5 * np.square(met[apart]) / np.diag(cov)[apart, None])
    if apart.all():
        return found
    cov, met, first, second = cov[np.ix_(~apart, ~apart)], met[~apart], terms.first[~apart], terms.second[~apart]
    inputs, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    first, second = places[: len(first)], places[len(first) :]
    added = np.zeros((len(inputs), f.shape[1]))
    orders = _orders(len(inputs), seed)
    for order in orders:
        place = np.empty(len(inputs), np.int64)
        place[order] = np.arange(len(inputs))
        last = np.maximum(place[first], place[second])
        at = np.lexsort((first != second, last))
        root = np.linalg.cholesky(cov[np.ix_(at, at)])
        steps = np.square(solve_triangular(root, met[at], lower=True))
        np.add.at(added, order[last[at]], steps)
    found[inputs] += added / len(orders)
    return found


def _covariance(terms: _Terms) -> Float[np.ndarray, "p p"]:
    """Return the covariance of terms, those within chance as 0, made positive definite."""
    n, p = terms.values.shape
    cov = terms.values.T @ terms.values / n
    within = np.abs(cov) < _CHANCE / np.sqrt(n)
    same = (terms.first[:, None] == terms.first) & (terms.second[:, None] == terms.second)
    cov[(within | (same & (terms.first == terms.second))) & ~np.eye(p, dtype=bool)] = 0.0
    values, vectors = np.linalg.eigh(cov)
    if values[0] < _RIDGE:
        mended = cov + (vectors * (np.maximum(values, _RIDGE) - values)) @ vectors.T
        # Terms that are correlated with none stay so.
        alone = (cov != 0.0).sum(axis=1) == 1
        mended[alone] = mended[:, alone] = 0.0
        mended[alone, alone] = 1.0
        cov = 0.5 * (mended + mended.T)
    return cov


def _orders(count: int, seed: int) -> Int[np.ndarray, "k count"]:
    """Return all orders of a few; of more some, in which inputs come about as often at each place."""
    if factorial(min(count, _ALL_ORDERS + 1)) <= factorial(_ALL_ORDERS):
        return np.array(list(permutations(range(count))))
    draws, turns = -(-ORDERS // (2 * count)), min(count, ORDERS // 2)
    drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(count), (draws, 1)), axis=1)
    starts = np.arange(turns) * count // turns
    turned = drawn[:, (starts[:, None] + np.arange(count)) % count].reshape(-1, count)
    return np.concatenate([turned, turned[:, ::-1]])


def _by_forest(
    X: np.ndarray, rest: np.ndarray, groups: Sequence[Sequence[int]], seed: int
) -> Float[np.ndarray, "g e"]:
    """Return by how much a forest takes what is left from each input; it sums to one."""
    from sklearn.ensemble import ExtraTreesRegressor  # heavy, and seldom needed

    taken = np.empty((len(groups), rest.shape[1]))
    for e, each in enumerate(rest.T):
        forest = ExtraTreesRegressor(50, min_samples_leaf=5, random_state=seed % 2**32).fit(X, each)
        taken[:, e] = [forest.feature_importances_[list(columns)].sum() for columns in groups]
    return taken
