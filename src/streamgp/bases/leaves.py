"""Leaves of boosted trees: how they are looked up, and the splits of scikit-learn's trees.

Leaves are looked up without walking down the trees (Lucchese et al. 2015): number a tree's leaves from left to
right. Each split that sends x to the right rules out the leaves on its left; of those that no split rules out
the leftmost is the leaf of x. Sets of leaves are the bits of an integer. On a CPU that is done by the kernel in C.
"""

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.bases.base import Evaluator
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.native import addresses, function

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

_ROWS = 64  # `BLOCK` of the kernel's trees.c


class Splits(NamedTuple):
    """The splits of T trees.

    The input that each split looks at; its threshold, which sends rows with larger values to the right (infinite
    where a tree has fewer splits); and the leaves that it leaves in the race then, as bits.
    """

    feature: Int[AnyArray, "*stack t s"]
    threshold: Float[AnyArray, "*stack t s"]
    remaining: Int[AnyArray, "*stack t s"]


def leaf_flags(splits: Splits, leaves: int) -> Evaluator:
    """Return what flags the leaf of each tree that a row falls into, among so many, by 1 / sqrt(T)."""
    *stack, T, S = splits.threshold.shape
    value = 1.0 / np.sqrt(T)
    compiled = _prepared(splits, 0)

    def flag(X: AnyArray) -> AnyArray:
        if compiled is None or not _is_plain(X):
            leaf = _leaf_bits(X, splits)
            bits = np.left_shift(1, np.arange(leaves), dtype=np.int32).reshape(*(1,) * leaf.ndim, leaves)
            flags = namespace(X, splits.threshold).moveaxis(leaf[..., None] == bits, -3, -2).astype(X.dtype)
            return flags.reshape(*flags.shape[:-2], -1) / np.sqrt(T)
        found, (function, each) = np.zeros((*stack, len(X), T * leaves)), compiled
        X, columns = np.ascontiguousarray(X), np.empty((X.shape[1], _ROWS))
        for (_, its), part in zip(each, found.reshape(-1, *found.shape[-2:]), strict=True):
            function(*X.shape, *addresses(X), T, S, *its, leaves, value, *addresses(columns, part))
        return found

    return flag


def leaf_sums(splits: Splits, value: Float[AnyArray, "*stack e t l"]) -> Evaluator:
    """Return what sums the worth of a row's leaves in the trees of each of E targets, of splits (..., E, T, S)."""
    *stack, E, T, S = splits.threshold.shape
    compiled = _prepared(splits, 1, value)

    def add(X: AnyArray) -> AnyArray:
        if compiled is None or not _is_plain(X):
            xp = namespace(X, splits.threshold)
            leaf = xp.rint(xp.log2(_leaf_bits(X, splits).astype(X.dtype))).astype(np.int32)
            return xp.moveaxis(xp.take_along_axis(xp.asarray(value), leaf, axis=-1).sum(axis=-2), -1, -2)
        found, (function, each) = np.zeros((*stack, len(X), E)), compiled
        X, columns = np.ascontiguousarray(X), np.empty((X.shape[1], _ROWS))
        for (_, its), part in zip(each, found.reshape(-1, *found.shape[-2:]), strict=True):
            *of_splits, worth = its
            function(*X.shape, *addresses(X), E, T, S, *of_splits, value.shape[-1], worth, *addresses(columns, part))
        return found

    return add


def _leaf_bits(X: Float[AnyArray, "n d"], splits: Splits) -> Int[AnyArray, "*stack t n"]:
    """Return the leaf of each tree that a row falls into, as a bit: the lowest that all splits leave."""
    xp = namespace(X, splits.threshold)
    right = xp.asarray(X.T)[splits.feature] > splits.threshold[..., None]
    left_over = xp.bitwise_and.reduce(xp.where(right, splits.remaining[..., None], -1), axis=-2)
    return left_over & -left_over


def _is_plain(X: AnyArray) -> bool:
    return namespace(X) is np and X.dtype == np.float64


def _prepared(splits: Splits, which: int, *more: AnyArray) -> tuple[Any, list[tuple[Any, list[Any]]]] | None:
    """Return a function of the kernel, and for each of the stack what it is given, with where that is.

    None where it was not built, or is not for these arrays.
    """
    if namespace(*splits) is not np or splits.threshold.dtype != np.float64 or (functions := _functions()) is None:
        return None
    types, each = (np.int32, np.float64, np.int32, np.float64), []
    arrays = [np.ascontiguousarray(a, dtype) for a, dtype in zip((*splits, *more), types, strict=False)]
    for g in np.ndindex(*splits.threshold.shape[: -2 - len(more)]):
        held = [a[g] for a in arrays]
        each.append((held, addresses(*held)))
    return functions[which], each


@cache
def _functions() -> tuple[Any, Any] | None:
    n, at, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
    flag = function("flag_leaves", [n, n, at, n, n, at, at, at, n, number, at, at])
    add = function("sum_leaves", [n, n, at, n, n, n, at, at, at, n, at, at, at])
    return None if flag is None or add is None else (flag, add)


def splits_of(booster: "HistGradientBoostingRegressor", leaves: int) -> Splits:
    """Return the splits (T, leaves - 1) of a booster's trees."""
    # Nodes come parents before children and left before right; scikit-learn has no public name for them.
    trees = [_splits(predictor.nodes, leaves - 1) for (predictor,) in booster._predictors]
    return Splits(*(np.stack(part) for part in zip(*trees, strict=True)))


def _splits(
    nodes: np.ndarray, most: int
) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"], Int[np.ndarray, " s"]]:
    """Return feature, threshold and remaining leaves of a tree's splits, padded with splits that never go right."""
    feature, remaining = np.zeros((2, most), np.int32)
    threshold = np.full(most, np.inf)
    splits = np.flatnonzero(nodes["is_leaf"] == 0)
    feature[: len(splits)], threshold[: len(splits)] = nodes["feature_idx"][splits], nodes["num_threshold"][splits]
    before = np.cumsum(nodes["is_leaf"], dtype=int) - nodes["is_leaf"]  # leaves on the left of each node
    for s, node in enumerate(splits):
        ruled_out = range(before[nodes["left"][node]], before[nodes["right"][node]])
        remaining[s] = ~sum(1 << leaf for leaf in ruled_out)
    return feature, threshold, remaining
