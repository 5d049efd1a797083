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


def leaf_flags(X: Float[AnyArray, "n d"], splits: Splits, leaves: int) -> Float[AnyArray, "*stack n tl"]:
    """Flag the leaf of each tree that a row falls into, among so many, by 1 / sqrt(T)."""
    *stack, T, S = splits.threshold.shape
    if (compiled := _compiled(X, splits)) is None:
        leaf = _leaf_bits(X, splits)
        bits = np.left_shift(1, np.arange(leaves), dtype=np.int32).reshape(*(1,) * leaf.ndim, leaves)
        flags = namespace(X, splits.threshold).moveaxis(leaf[..., None] == bits, -3, -2).astype(X.dtype)
        return flags.reshape(*flags.shape[:-2], -1) / np.sqrt(T)
    found, columns = np.zeros((*stack, len(X), T * leaves)), np.empty((X.shape[1], _ROWS))
    X, splits = np.ascontiguousarray(X), _contiguous(splits)
    for g in np.ndindex(*stack):
        its, into = addresses(*(a[g] for a in splits)), addresses(columns, found[g])
        compiled[0](*X.shape, *addresses(X), T, S, *its, leaves, 1.0 / np.sqrt(T), *into)
    return found


def leaf_sums(
    X: Float[AnyArray, "n d"], splits: Splits, value: Float[AnyArray, "*stack e t l"]
) -> Float[AnyArray, "*stack n e"]:
    """Sum what the leaves of a row are worth in the trees of each of E targets, whose splits are (..., E, T, S)."""
    *stack, E, T, S = splits.threshold.shape
    if (compiled := _compiled(X, splits)) is None:
        xp = namespace(X, splits.threshold)
        leaf = xp.rint(xp.log2(_leaf_bits(X, splits).astype(X.dtype))).astype(np.int32)
        return xp.moveaxis(xp.take_along_axis(xp.asarray(value), leaf, axis=-1).sum(axis=-2), -1, -2)
    found, columns = np.zeros((*stack, len(X), E)), np.empty((X.shape[1], _ROWS))
    X, splits, value = np.ascontiguousarray(X), _contiguous(splits), np.ascontiguousarray(value, np.float64)
    for g in np.ndindex(*stack):
        its, into = addresses(*(a[g] for a in splits)), addresses(value[g], columns, found[g])
        compiled[1](*X.shape, *addresses(X), E, T, S, *its, value.shape[-1], *into)
    return found


def _leaf_bits(X: Float[AnyArray, "n d"], splits: Splits) -> Int[AnyArray, "*stack t n"]:
    """Return the leaf of each tree that a row falls into, as a bit: the lowest that all splits leave."""
    xp = namespace(X, splits.threshold)
    right = xp.asarray(X.T)[splits.feature] > splits.threshold[..., None]
    left_over = xp.bitwise_and.reduce(xp.where(right, splits.remaining[..., None], -1), axis=-2)
    return left_over & -left_over


def _compiled(X: AnyArray, splits: Splits) -> tuple[Any, Any] | None:
    """Return the kernel's `flag_leaves` and `sum_leaves`; None where it was not built, or is not for these arrays."""
    if namespace(X, *splits) is not np or X.dtype != np.float64 or splits.threshold.dtype != np.float64:
        return None
    return _functions()


@cache
def _functions() -> tuple[Any, Any] | None:
    n, at, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
    flag = function("flag_leaves", [n, n, at, n, n, at, at, at, n, number, at, at])
    add = function("sum_leaves", [n, n, at, n, n, n, at, at, at, n, at, at, at])
    return None if flag is None or add is None else (flag, add)


def _contiguous(splits: Splits) -> Splits:
    """Return the splits as the kernel reads them."""
    types = np.int32, np.float64, np.int32
    return Splits(*(np.ascontiguousarray(a, dtype) for a, dtype in zip(splits, types, strict=True)))


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
