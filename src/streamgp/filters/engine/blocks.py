"""Blocks of rows, on which both engines work."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.kalman import ExpertVariances
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module

BLOCK = 64  # rows: long enough for matrix products, short beside F (docs/research/performance.md)


@register
class Group(Module):
    """Experts of equal shape: G bases (leading axis), each with R dynamics that share its features."""

    basis: Basis
    noise: ExpertVariances
    dynamics: Dynamics


class ForecastInputs(Module):
    """For every row of the blocks, the inputs of a row that is to be forecast after it, and its time."""

    X: Float[AnyArray, "m b d"]
    tau: Float[AnyArray, "m b"]


class Blocks(Module):
    """Rows of a stream, m blocks of b; the last one filled up with rows that the mask leaves out.

    Where there are `later` rows, the filters forecast those in place of one-step-ahead predictions. The
    noise of a row may have an `extra` variance.
    """

    X: Float[AnyArray, "m b d"]
    y: Float[AnyArray, "m b e"]
    mask: Bool[AnyArray, "m b"]
    tau: Float[AnyArray, "m b"]
    later: ForecastInputs | None = None
    extra: Float[AnyArray, "m b"] | None = None


def in_blocks(
    X: AnyArray,
    y: AnyArray,
    mask: AnyArray,
    clock: AnyArray,
    later: AnyArray | None = None,
    horizon: int = 0,
    extra: AnyArray | None = None,
    length: int = BLOCK,
) -> Blocks:
    """Cut rows into blocks of this `length`; `clock` is the time since the row before the first.

    The rows `later` are to be forecast, each `horizon` units of time after the row in its place.
    """
    size = min(length, X.shape[0])
    padding = -X.shape[0] % size
    y = namespace(mask, y).where(mask[:, None], y, 0.0)
    tau = _taus(clock, size, padding)
    to_come = None if later is None else ForecastInputs(_split(later, size, padding), tau + horizon)
    X, y, mask = (_split(a, size, padding) for a in (X, y, mask))
    return Blocks(X, y, mask, tau, to_come, None if extra is None else _split(extra, size, padding))


def features(basis: Basis, blocks: Blocks) -> tuple[Float[AnyArray, "m b f"], Bool[AnyArray, " rows"]]:
    """Compute features of every row, zero for those left out, and which rows the basis was not built for."""
    m, b, d = blocks.X.shape
    rows = blocks.X.reshape(m * b, d)
    Phi = basis(rows)
    Phi = namespace(Phi).where(blocks.mask[:, :, None], Phi.reshape(m, b, -1), 0.0)
    return Phi, basis.outside(rows)


def forecast_features(basis: Basis, rows: ForecastInputs) -> Float[AnyArray, "m b f"]:
    """Compute the features of the rows to forecast."""
    m, b, d = rows.X.shape
    return basis(rows.X.reshape(m * b, d)).reshape(m, b, -1)


def member(stacked: Any, index: Any) -> Any:
    """Return one of a stack of modules."""
    return tree.map(lambda a: a[index], stacked)


def stack(trees: Sequence[Any]) -> Any:
    """Stack modules of equal shape as one, with a leading axis."""
    return tree.map(lambda *leaves: namespace(*leaves).stack(leaves), *trees)


def group_by_shape(bases: Sequence[Basis]) -> list[list[list[int]]]:
    """Group the positions of experts that can run as one batch: by shape of the basis, and in there by basis.

    Bases are compared as objects. A batch has equally many experts of each of its bases.
    """
    by_basis: dict[int, list[int]] = {}
    for i, basis in enumerate(bases):
        by_basis.setdefault(id(basis), []).append(i)
    by_shape: dict[tuple, list[list[int]]] = {}
    for members in by_basis.values():
        basis = bases[members[0]]
        shape = tree.form(basis), tuple((a.shape, a.dtype) for a in tree.leaves(basis))
        by_shape.setdefault((shape, len(members)), []).append(members)
    return list(by_shape.values())


def split_by_group(per_expert: Any, order: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> list:
    """Split an array over the experts, batched in this `order`, into one [G, R] for every group."""
    parts, at = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(per_expert[np.asarray(order[at : at + size])].reshape(shape))
        at += size
    return parts


def join_groups(parts: Sequence[Any]) -> Any:
    """Join arrays [G, R, ...] of all groups into one over the experts, as they are batched: see `split_by_group`."""
    return namespace(*parts).concatenate([a.reshape(a.shape[0] * a.shape[1], *a.shape[2:]) for a in parts])


def operations(rows: int, experts: int, features: int) -> float:
    """Return the operations of so many experts that learn so many rows, as products of matrices count them."""
    return float(rows) * experts * (4.0 * features**2 + 192.0 * features)


def _split(a: AnyArray, size: int, padding: int) -> AnyArray:
    """Cut rows into blocks of `size`, the last one filled with zeros (false in a mask)."""
    filled = namespace(a).pad(a, [(0, padding)] + [(0, 0)] * (a.ndim - 1))
    return filled.reshape(-1, size, *a.shape[1:])


def _taus(clock: Float[AnyArray, " n"], size: int, padding: int) -> Float[AnyArray, "m b"]:
    """Return the time from the end of the block before to each row of a block."""
    xp = namespace(clock)
    clock = xp.pad(clock, (0, padding), mode="edge").reshape(-1, size)
    start = xp.concatenate([xp.zeros_like(clock[:1, -1]), clock[:-1, -1]])
    return clock - start[:, None]
