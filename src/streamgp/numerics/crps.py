"""The continuous ranked probability score of mixtures of Student's t."""

from collections.abc import Sequence
from math import pi, sqrt

import numpy as np
from jaxtyping import Float

from streamgp.numerics import student_t
from streamgp.numerics.arrays import AnyArray, is_jax, namespace
from streamgp.numerics.mixtures import Mixtures, Values

# Components that together add less than this share to the distance of two draws are merged.
NEGLIGIBLE_SHARE = 1e-3
# The width of the cells within which many components are merged, in standard deviations.
CELL_WIDTH = 0.5
# The most Gaussians under a transformation of JAX, where sizes are fixed. Further ones are merged.
MAX_TRACED = 128
# Up to so many components, none are merged; up to so many Gaussians, distances are computed in double precision.
_MAX_EXACT = 32
_FAR = 1e15  # standard deviations; its square can still be held in single precision
_CACHED = 1 << 16  # numbers per array that stay in a core's cache


def mixture_crps(
    m: Mixtures, y: Float[AnyArray, " c"], at_y: Values, components: int | None = None
) -> Float[AnyArray, " c"]:
    """Return E|Y - y| - E|Y - Y'| / 2 (Grimit et al. 2006, Eq. 5), from what `mixtures.evaluate` returns at y.

    `components` is how many there were before those without weight were left out, in NumPy: the score is as before.
    """
    xp = namespace(m.loc, y)
    density = xp.exp(at_y.log_density)
    distance = student_t.expected_distance(y[:, None] - m.loc, m.scale * m.scale, m.dof, density, at_y.below)
    # Where nearly all weight is on a point that was met, rounding is more than what is left.
    return xp.maximum((m.weights * distance).sum(1) - 0.5 * mean_distance(m, components), 0.0)


def mean_distance(m: Mixtures, components: int | None = None) -> Float[AnyArray, " c"]:
    """Return E|Y - Y'| of two independent draws from each mixture; `components` as in `mixture_crps`."""
    if is_jax(m.loc):
        return _pairwise_distance(*_keep_heaviest(*gaussians(m)))
    if not len(m.loc):
        return np.zeros(0, m.loc.dtype)
    of_all = int(components or m.loc.shape[1])
    single = of_all * (1 if m.dof is None else 3) > _MAX_EXACT
    if of_all > _MAX_EXACT:
        sizes, parts = merged_gaussians(m, of_all)
    else:
        parts = gaussians(m)
        sizes = np.full(len(m.loc), parts[0].shape[1])
    rows = np.argsort(-sizes, kind="stable")  # the first of a batch decides its width
    distance = np.empty(len(rows), m.loc.dtype)
    at = 0
    with np.errstate(over="ignore", under="ignore"):
        while at < len(rows):
            some = rows[at : at + max(1, 2 * _CACHED // int(sizes[rows[at]]) ** 2)]
            distance[some] = _pairwise_distance(*(a[some, : sizes[some[0]]] for a in parts), single=single)
            at += len(some)
    return distance


Gaussians = tuple[Float[AnyArray, "c g"], Float[AnyArray, "c g"], Float[AnyArray, "c g"]]


def gaussians(m: Mixtures) -> Gaussians:
    """Return weights, means and standard deviations of Gaussians that stand for the components.

    A t is a Gaussian whose standard deviation S is random. Three Gaussians, the nodes of Gauss' quadrature, stand for
    it: with its E S^j, j = -3, ..., 2.
    """
    xp = namespace(m.loc)
    if m.dof is None:
        return m.weights, m.loc, xp.sqrt(m.var)
    nodes, weights = _quadrature_nodes(_weighted_std_moments(m))
    return weights.reshape(len(m.loc), -1), xp.repeat(m.loc, 3, axis=1), nodes.reshape(len(m.loc), -1)


def _weighted_std_moments(m: Mixtures) -> list[Float[AnyArray, "c k"]]:
    """Return E S^j, j = -3, ..., 2, of each component's standard deviation, times its weight."""
    xp = namespace(m.loc)
    sd, weights = xp.sqrt(m.var), xp.maximum(m.weights, xp.sqrt(xp.finfo(m.loc.dtype).tiny))
    powers = [weights / (sd * m.var), weights / m.var, weights / sd, weights, weights * sd, weights * m.var]
    if m.dof is None or m.log_ratio is None:
        return powers
    return [a * b for a, b in zip(powers, student_t.std_moments(m.dof, m.log_ratio), strict=True)]


def merged_gaussians(m: Mixtures, components: int) -> tuple[np.ndarray, Gaussians]:
    """Return `gaussians` with components that lie close together merged, and how many are left of each mixture.

    Those whose means share a cell, `CELL_WIDTH` standard deviations wide, become three Gaussians with the moments
    of all their standard deviations, widened by the variance of their means. All whose share is negligible among so
    many `components` are in one cell.
    """
    (c, k), sd = m.loc.shape, np.sqrt(m.var)
    off = m.loc - (m.weights * m.loc).sum(1, keepdims=True)
    adds = m.weights * (sd + np.abs(off))
    octave = np.floor(0.5 * np.log2(sd))
    cell = octave * 4e6 + np.clip(np.floor(off / (CELL_WIDTH * np.exp2(2.0 * octave))), -1e6, 1e6)
    cell = np.where(adds * components < NEGLIGIBLE_SHARE * adds.sum(1, keepdims=True), np.inf, cell)
    order = (np.argsort(cell, axis=1) + k * np.arange(c)[:, None]).ravel()
    cell = cell.ravel()[order]
    new = np.append(True, cell[1:] != cell[:-1])
    new[::k] = True
    first = np.flatnonzero(new)
    sums = [
        np.add.reduceat(a.ravel()[order], first)
        for a in (*_weighted_std_moments(m), m.weights * off, m.weights * off * off)
    ]
    mean = sums[6] / sums[3]
    between = np.maximum(sums[7] / sums[3] - mean * mean, 0.0)
    nodes, weights = (a.ravel() for a in _quadrature_nodes([a[None] for a in sums[:6]]))
    row = first // k
    sizes = np.bincount(row, minlength=c)
    place = 3 * (np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes))
    at = (np.repeat(row, 3), np.repeat(place, 3) + np.tile(np.arange(3), len(first)))
    filled = np.zeros((3, c, 3 * sizes.max()))
    filled[2] = 1.0
    values = weights, np.repeat(mean, 3), np.sqrt(nodes * nodes + np.repeat(between, 3))
    for table, value in zip(filled, values, strict=True):
        table[at] = value
    return 3 * sizes, (filled[0], filled[1], filled[2])


def _quadrature_nodes(sums: Sequence[AnyArray]) -> tuple[Float[AnyArray, "c g 3"], Float[AnyArray, "c g 3"]]:
    """Compute nodes S and weights, from weights times E S^j, j = -3, ..., 2: Gauss (Golub and Welsch 1969)."""
    xp = namespace(sums[0])
    # The standard deviations of a single Gaussian are one number, up to rounding.
    least = float(xp.finfo(sums[0].dtype).eps) ** 0.6
    total, mean = sums[0], sums[1] / sums[0]
    raw, power = [], total
    for a in sums:
        raw.append(a / power)
        power = power * mean
    # Central moments of the node over its mean, then the recurrence of the orthogonal polynomials.
    d2 = raw[2] - 1.0
    d3 = raw[3] - 3.0 * raw[2] + 2.0
    d4 = raw[4] - 4.0 * raw[3] + 6.0 * raw[2] - 3.0
    d5 = raw[5] - 5.0 * raw[4] + 10.0 * raw[3] - 10.0 * raw[2] + 4.0
    b1 = xp.maximum(d2, least)
    a1 = d3 / b1
    b2 = (d4 - 2.0 * a1 * d3 + (a1 * a1 - 2.0 * b1) * d2) / b1 + b1
    a2 = (d5 - 2.0 * a1 * d4 + (a1 * a1 - 2.0 * b1) * d3 + 2.0 * a1 * b1 * d2) / (b1 * xp.maximum(b2, least))
    a2 = xp.clip(a2, -1.0, 1e4)  # no node is negative
    b2 = xp.maximum(b2, least)
    # The eigenvalues of the Jacobi matrix [[0, s, 0], [s, a1, r], [0, r, a2]], s^2 = b1, r^2 = b2: Cardano's formula.
    third = (a1 + a2) / 3.0
    size = xp.sqrt((third**2 + (a1 - third) ** 2 + (a2 - third) ** 2 + 2.0 * (b1 + b2)) / 6.0)
    determinant = -third * ((a1 - third) * (a2 - third) - b2) - b1 * (a2 - third)
    angle = xp.arccos(xp.clip(0.5 * determinant / size**3, -1.0, 1.0)) / 3.0
    turns = np.reshape(2.0 * pi / 3.0 * np.arange(3), (1, 1, 3)).astype(size.dtype)
    x = third[..., None] + 2.0 * size[..., None] * xp.cos(angle[..., None] + turns)
    a1, b1, b2 = a1[..., None], b1[..., None], b2[..., None]
    weights = 1.0 / (1.0 + x * x / b1 + xp.square((x - a1) * x - b1) / (b1 * b2))
    nodes = xp.abs(mean[..., None] * (1.0 + x))
    # The measure was S^-3 times the one that is asked for.
    return nodes, total[..., None] * weights / weights.sum(-1, keepdims=True) * nodes * nodes * nodes


def _keep_heaviest(weights: AnyArray, loc: AnyArray, sd: AnyArray) -> Gaussians:
    """Keep those that add most to the distance; all beyond `MAX_TRACED` become one of their mean and variance."""
    xp = namespace(loc)
    if loc.shape[1] <= MAX_TRACED:
        return weights, loc, sd
    adds = weights * (sd + xp.abs(loc - (weights * loc).sum(1, keepdims=True)))
    order = xp.argsort(-adds, axis=1)
    weights, loc, sd = (xp.take_along_axis(a, order, axis=1) for a in (weights, loc, sd))
    top, rest = slice(0, MAX_TRACED - 1), slice(MAX_TRACED - 1, None)
    mass = weights[:, rest].sum(1, keepdims=True)
    # With nothing left over, the last one has no weight; it still needs a variance.
    share = xp.maximum(weights[:, rest], xp.finfo(loc.dtype).tiny)
    share = share / share.sum(1, keepdims=True)
    mean = (share * loc[:, rest]).sum(1, keepdims=True)
    variance = (share * (xp.square(sd[:, rest]) + xp.square(loc[:, rest] - mean))).sum(1, keepdims=True)
    pairs = ((weights, mass), (loc, mean), (sd, xp.sqrt(variance)))
    weights, loc, sd = (xp.concatenate([a[:, top], b], axis=1) for a, b in pairs)
    return weights, loc, sd


def _pairwise_distance(
    weights: Float[AnyArray, "c g"], loc: Float[AnyArray, "c g"], sd: Float[AnyArray, "c g"], single: bool = False
) -> AnyArray:
    """Return the mean distance of two draws from mixtures of Gaussians, the distances in single precision or not."""
    xp = namespace(loc)
    own = (weights * weights * sd).sum(1) * (2.0 / sqrt(pi))
    if loc.shape[1] == 1:
        return own
    loc = loc - xp.take_along_axis(loc, xp.argmax(weights, axis=1)[:, None], axis=1)
    unit = (weights * (sd + xp.abs(loc))).sum(1, keepdims=True)
    # The bound is reached with no weight to speak of only.
    loc, sd = xp.clip(loc / unit, -(_FAR**2), _FAR**2), sd / unit
    if single:
        # In units of their mean distance and from the heaviest one on, single precision leaves six digits.
        weights, loc, sd = (a.astype(np.float32) for a in (weights, loc, sd))
    if loc.shape[1] % 2 == 0:
        # Around a circle of an odd number, every two meet once.
        pad = xp.zeros_like(loc[:, :1])
        weights, loc, sd = (xp.concatenate([a, b], axis=1) for a, b in ((weights, pad), (loc, pad), (sd, pad + 1)))
    distance = xp.abs(_following(loc) - loc[:, None])
    std = xp.sqrt(_following(sd * sd) + (sd * sd)[:, None])
    z = distance / xp.maximum(std, distance / _FAR + xp.finfo(loc.dtype).tiny)
    density, tail = student_t.upper_tail(z)
    tail *= z
    density -= tail
    density *= std
    density *= 2.0
    density += distance
    # Each pair is one number whatever their order, and the sum is in double precision: how rows are cut into batches,
    # and which components are left out there, is no matter.
    density *= _following(weights) * weights[:, None]
    both = density.sum((1, 2), dtype=unit.dtype)
    return own + 2.0 * unit[:, 0] * both


def _following(a: Float[AnyArray, "c g"]) -> Float[AnyArray, "c h g"]:
    """Return, for each of g entries in a circle, the h = (g - 1) / 2 that follow it."""
    g = a.shape[1]
    h = (g - 1) // 2
    if isinstance(a, np.ndarray):
        twice = np.concatenate([a, a[:, :h]], axis=1)
        return np.lib.stride_tricks.sliding_window_view(twice, g, axis=1)[:, 1:]
    return a[:, (np.arange(1, h + 1)[:, None] + np.arange(g)) % g]
