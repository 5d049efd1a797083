"""Quantiles and scores of mixtures of Student's t, many at a time: in NumPy, or in JAX within its transformations."""

from collections.abc import Sequence
from math import log, pi, sqrt
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float

from streamgp.numerics import student_t
from streamgp.numerics.arrays import AnyArray, namespace

# Components that together add so little to the distance of two draws count as one.
LIGHT = 1e-3
NEAR = (
    0.5  # width, in standard deviations, of the cells within which components are taken together, if there are many
)
HEAVIEST = 128  # under a transformation of JAX, which knows no sizes: all but so many
_FEW = 32  # up to so many, none are taken together, and distances are computed in double precision
_FAR = 1e15  # standard deviations; its square still has a place in single precision
_ENDLESS = 1e20  # degrees of freedom that are a Gaussian to all digits, where infinity would not do
_AT_ONCE = 1 << 16  # numbers per array that stay in a core's cache
_TOLERANCE = 1e-10
_ROUGH = 1e-4  # what a search leaves to the one after it
_STEPS = 100
_LOG_2PI = log(2.0 * pi)


class Mixtures(NamedTuple):
    """One mixture a row; `dof` is finite, or None where all components are Gaussian.

    `log_norm` is the log density of each component at its own mean, `log_ratio` that of `student_t.log_gamma_ratio`.
    """

    weights: Float[AnyArray, "c k"]
    loc: Float[AnyArray, "c k"]
    var: Float[AnyArray, "c k"]
    dof: Float[AnyArray, "c k"] | None
    scale: Float[AnyArray, "c k"]
    log_norm: Float[AnyArray, "c k"]
    log_ratio: Float[AnyArray, "c k"] | None


class Values(NamedTuple):
    """Of every component at a point: its distance in units of the scale, log density, distribution function."""

    t: Float[AnyArray, "c k"]
    log_density: Float[AnyArray, "c k"]
    below: Float[AnyArray, "c k"]


def flatten(
    log_weights: Float[AnyArray, "n k"],
    loc: Float[AnyArray, "n k e"],
    var: Float[AnyArray, "n k e"],
    dof: Float[AnyArray, "n k"] | None,
) -> Mixtures:
    """The mixtures of n rows and e outputs as n e of one, those of a row side by side."""
    xp = namespace(log_weights, loc, var, *(() if dof is None else (dof,)))
    n, k, e = loc.shape

    def each(a: AnyArray) -> AnyArray:
        a = a[:, :, None] if a.ndim == 2 else a
        return xp.moveaxis(xp.broadcast_to(a, (n, k, e)), 1, 2).reshape(n * e, k)

    weights, loc, var = each(xp.exp(log_weights)), each(loc), each(var)
    if dof is None:
        return Mixtures(weights, loc, var, None, xp.sqrt(var), -0.5 * (_LOG_2PI + xp.log(var)), None)
    finite = xp.minimum(xp.asarray(dof), _ENDLESS)
    log_ratio, dof = each(student_t.log_gamma_ratio(0.5 * finite)), each(finite)
    scale2 = student_t.squared_scale(var, dof)
    return Mixtures(weights, loc, var, dof, xp.sqrt(scale2), log_ratio - 0.5 * (_LOG_2PI + xp.log(scale2)), log_ratio)


def evaluate(m: Mixtures, x: Float[AnyArray, " c"]) -> Values:
    """Every component of each mixture at its own point."""
    xp = namespace(m.loc, x)
    t = (x[:, None] - m.loc) / m.scale
    if m.dof is None:
        return Values(t, m.log_norm - 0.5 * t * t, student_t.ndtr(t))
    kernel = xp.log1p(t * t / m.dof)
    below = student_t.ndtr(xp.copysign(student_t.hill(kernel, m.dof), t))
    return Values(t, m.log_norm - (0.5 * m.dof + 0.5) * kernel, below)


def log_sum(a: Float[AnyArray, "n k"]) -> Float[AnyArray, " n"]:
    """Log of the sum of exponentials over the components."""
    xp = namespace(a)
    top = a.max(1)
    return top + xp.log(xp.exp(a - top[:, None]).sum(1))


def cdf(m: Mixtures, at_y: Values) -> Float[AnyArray, " c"]:
    """The mixtures' distribution functions, from what `evaluate` gives at y."""
    return (m.weights * at_y.below).sum(1)


def moments(m: Mixtures) -> tuple[Float[AnyArray, " c"], Float[AnyArray, " c"]]:
    """Mean and standard deviation."""
    xp = namespace(m.loc)
    mean = (m.weights * m.loc).sum(1)
    return mean, xp.sqrt((m.weights * (m.var + xp.square(m.loc - mean[:, None]))).sum(1))


class _Search(NamedTuple):
    """Where the quantile may be, where it was last sought, and whether it is found."""

    low: Float[AnyArray, " c"]
    high: Float[AnyArray, " c"]
    x: Float[AnyArray, " c"]
    found: AnyArray


def quantiles(m: Mixtures, probabilities: Sequence[Any]) -> list[Float[AnyArray, " c"]]:
    """Where the distribution functions reach each of the probabilities, to 1e-9 of the scale there.

    A probability is a number for all mixtures, or an array with one for each.
    """
    xp = namespace(m.loc)
    mean, std = moments(m)
    rough = _standardised(m, mean, std) if xp is np else None
    found = []
    for probability in probabilities:
        probability = xp.broadcast_to(xp.asarray(probability, mean.dtype), mean.shape)
        # No distribution has its quantile further from the mean (Cantelli's inequality).
        low, high = -xp.sqrt((1.0 - probability) / probability), xp.sqrt(probability / (1.0 - probability))
        aim = _ndtri(xp)(probability)
        start = xp.clip(aim, low, high)
        if rough is not None:
            sides = [side.astype(np.float32) for side in (low, high, start, probability, aim)]
            search = _Search(*sides[:3], found=np.zeros(start.shape, bool))
            start = _find(rough, search, sides[3], sides[4], _ROUGH).astype(start.dtype)
        search = _Search(mean + std * low, mean + std * high, mean + std * start, xp.zeros(mean.shape, bool))
        found.append((_find_traced if xp is jnp else _find)(m, search, probability, aim))
    return found


def _standardised(m: Mixtures, mean: Float[AnyArray, " c"], std: Float[AnyArray, " c"]) -> Mixtures:
    """The mixtures with mean zero and variance one, in single precision: a step there costs a third."""
    unit = std[:, None]
    moved = m._replace(
        loc=(m.loc - mean[:, None]) / unit,
        var=m.var / (unit * unit),
        scale=m.scale / unit,
        log_norm=m.log_norm + np.log(unit),
    )
    return jax.tree.map(lambda a: a.astype(np.float32), moved)


def _find(
    m: Mixtures, search: _Search, probability: Any, aim: Any, tolerance: float = _TOLERANCE
) -> Float[np.ndarray, " c"]:
    result, rows = np.empty_like(search.x), np.arange(len(search.x))
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            search = _halley(m, search, probability, aim, tolerance)
            result[rows] = search.x
            going = ~search.found
            if not going.any():
                break
            # Few rows need more than two or three steps.
            rows, search = rows[going], _Search(*(a[going] for a in search))
            probability, aim = probability[going], aim[going]
            m = jax.tree.map(lambda a, going=going: a[going], m)
    return result


def _find_traced(m: Mixtures, search: _Search, probability: Any, aim: Any) -> Float[AnyArray, " c"]:
    def step(carry: tuple) -> tuple:
        return _halley(m, carry[0], probability, aim), carry[1] + 1

    def going(carry: tuple) -> Array:
        return ~carry[0].found.all() & (carry[1] < _STEPS)

    return jax.lax.while_loop(going, step, (search, 0))[0].x


def _halley(m: Mixtures, search: _Search, probability: Any, aim: Any, tolerance: float = _TOLERANCE) -> _Search:
    """One step of Halley's method on the normal score of the distribution function, which is nearly a line.

    Where it leaves the bracket, the bracket is halved.
    """
    xp = namespace(m.loc)
    low, high, x, found = search
    values = evaluate(m, x)
    densities = m.weights * xp.exp(values.log_density)
    pull = values.t / m.scale
    if m.dof is not None:
        pull = pull * (m.dof + 1.0) / (m.dof + values.t * values.t)
    below, density, slope = (m.weights * values.below).sum(1), densities.sum(1), -(densities * pull).sum(1)
    low, high = xp.where(below <= probability, x, low), xp.where(below >= probability, x, high)
    score = _ndtri(xp)(below)
    normal = xp.exp(-0.5 * score * score) / sqrt(2.0 * pi)
    rate = density / normal
    newton = (aim - score) / rate
    bend = 0.5 * newton * (slope / density + score * rate)
    moved = x + newton / xp.clip(1.0 + bend, 0.5, 2.0)
    # What a step leaves is of the third order.
    left = xp.abs(newton * rate) * (bend * bend + xp.square(newton * rate))
    inside = (moved > low) & (moved < high)
    closed = high - low <= 4.0 * xp.finfo(x.dtype).eps * xp.maximum(xp.abs(low), xp.abs(high))
    exact = xp.abs(newton) <= 4.0 * xp.finfo(x.dtype).eps * xp.abs(x)
    moved = xp.where(inside, moved, xp.where(exact, x, 0.5 * (low + high)))
    now = (inside & (left <= tolerance)) | closed | exact
    return _Search(low, high, xp.where(found, x, moved), found | now)


def _ndtri(xp: ModuleType):
    return scipy.special.ndtri if xp is np else jax.scipy.special.ndtri


def crps(m: Mixtures, y: Float[AnyArray, " c"], at_y: Values) -> Float[AnyArray, " c"]:
    """E|Y - y| - E|Y - Y'| / 2 (Grimit et al. 2006, Eq. 5), from what `evaluate` gives at y."""
    xp = namespace(m.loc, y)
    density = xp.exp(at_y.log_density)
    distance = student_t.expected_distance(y[:, None] - m.loc, m.scale * m.scale, m.dof, density, at_y.below)
    # Where nearly all weight is on a point that was met, rounding is more than what is left.
    return xp.maximum((m.weights * distance).sum(1) - 0.5 * mean_distance(m), 0.0)


def mean_distance(m: Mixtures) -> Float[AnyArray, " c"]:
    """E|Y - Y'| of two independent draws from each mixture."""
    if namespace(m.loc) is jnp:
        return _pairs(*_heaviest(*gaussians(m)))
    if not len(m.loc):
        return np.zeros(0, m.loc.dtype)
    if m.loc.shape[1] > _FEW:
        sizes, parts = gaussians_of_neighbours(m)
    else:
        parts = gaussians(m)
        sizes = np.full(len(m.loc), parts[0].shape[1])
    rows = np.argsort(sizes)
    distance = np.empty(len(rows), m.loc.dtype)
    at = 0
    with np.errstate(over="ignore", under="ignore"):
        while at < len(rows):
            some = rows[at : at + max(1, 2 * _AT_ONCE // int(sizes[rows[at]]) ** 2)]
            distance[some] = _pairs(*(a[some, : sizes[some[-1]]] for a in parts))
            at += len(some)
    return distance


Gaussians = tuple[Float[AnyArray, "c g"], Float[AnyArray, "c g"], Float[AnyArray, "c g"]]


def gaussians(m: Mixtures) -> Gaussians:
    """Weights, means and standard deviations of Gaussians that stand for the components.

    A t is a Gaussian whose standard deviation S is random. Three Gaussians, the nodes of Gauss' quadrature, stand for
    it: with its E S^j, j = -3, ..., 2.
    """
    xp = namespace(m.loc)
    if m.dof is None:
        return m.weights, m.loc, xp.sqrt(m.var)
    nodes, weights = _three_nodes(_spread_sums(m))
    return weights.reshape(len(m.loc), -1), xp.repeat(m.loc, 3, axis=1), nodes.reshape(len(m.loc), -1)


def _spread_sums(m: Mixtures) -> list[Float[AnyArray, "c k"]]:
    """E S^j, j = -3, ..., 2, of each component's standard deviation, times its weight."""
    xp = namespace(m.loc)
    sd, weights = xp.sqrt(m.var), xp.maximum(m.weights, xp.sqrt(xp.finfo(m.loc.dtype).tiny))
    powers = [weights / (sd * m.var), weights / m.var, weights / sd, weights, weights * sd, weights * m.var]
    if m.dof is None or m.log_ratio is None:
        return powers
    return [a * b for a, b in zip(powers, student_t.std_moments(m.dof, m.log_ratio), strict=True)]


def gaussians_of_neighbours(m: Mixtures) -> tuple[np.ndarray, Gaussians]:
    """`gaussians` of components that lie close together, in one; and how many there are of each mixture.

    Those whose means share a cell `NEAR` standard deviations wide become three Gaussians with the moments of all
    their standard deviations, widened by the spread of their means. All that add next to nothing share a cell.
    """
    (c, k), sd = m.loc.shape, np.sqrt(m.var)
    off = m.loc - (m.weights * m.loc).sum(1, keepdims=True)
    adds = m.weights * (sd + np.abs(off))
    octave = np.floor(0.5 * np.log2(sd))
    cell = octave * 4e6 + np.clip(np.floor(off / (NEAR * np.exp2(2.0 * octave))), -1e6, 1e6)
    cell = np.where(adds * k < LIGHT * adds.sum(1, keepdims=True), np.inf, cell)
    order = (np.argsort(cell, axis=1) + k * np.arange(c)[:, None]).ravel()
    cell = cell.ravel()[order]
    new = np.append(True, cell[1:] != cell[:-1])
    new[::k] = True
    first = np.flatnonzero(new)
    sums = [
        np.add.reduceat(a.ravel()[order], first) for a in (*_spread_sums(m), m.weights * off, m.weights * off * off)
    ]
    mean = sums[6] / sums[3]
    between = np.maximum(sums[7] / sums[3] - mean * mean, 0.0)
    nodes, weights = (a.ravel() for a in _three_nodes([a[None] for a in sums[:6]]))
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


def _three_nodes(sums: Sequence[AnyArray]) -> tuple[Float[AnyArray, "c g 3"], Float[AnyArray, "c g 3"]]:
    """Nodes S and their weights, from weights times E S^j, j = -3, ..., 2: Gauss' quadrature (Golub, Welsch 1969)."""
    xp = namespace(sums[0])
    least = float(xp.finfo(sums[0].dtype).eps) ** 0.6  # a single Gaussian's spread is zero but for rounding
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


def _heaviest(weights: AnyArray, loc: AnyArray, sd: AnyArray) -> Gaussians:
    """Those that add most to the distance; all but `HEAVIEST` become one of their mean and variance."""
    xp = namespace(loc)
    if loc.shape[1] <= HEAVIEST:
        return weights, loc, sd
    adds = weights * (sd + xp.abs(loc - (weights * loc).sum(1, keepdims=True)))
    order = xp.argsort(-adds, axis=1)
    weights, loc, sd = (xp.take_along_axis(a, order, axis=1) for a in (weights, loc, sd))
    top, rest = slice(0, HEAVIEST - 1), slice(HEAVIEST - 1, None)
    mass = weights[:, rest].sum(1, keepdims=True)
    # With nothing left over, the last one has no weight; it still needs a variance.
    share = xp.maximum(weights[:, rest], xp.finfo(loc.dtype).tiny)
    share = share / share.sum(1, keepdims=True)
    mean = (share * loc[:, rest]).sum(1, keepdims=True)
    spread = (share * (xp.square(sd[:, rest]) + xp.square(loc[:, rest] - mean))).sum(1, keepdims=True)
    pairs = ((weights, mass), (loc, mean), (sd, xp.sqrt(spread)))
    weights, loc, sd = (xp.concatenate([a[:, top], b], axis=1) for a, b in pairs)
    return weights, loc, sd


def _pairs(weights: Float[AnyArray, "c g"], loc: Float[AnyArray, "c g"], sd: Float[AnyArray, "c g"]) -> AnyArray:
    """The mean distance of two draws from mixtures of Gaussians."""
    xp = namespace(loc)
    own = (weights * weights * sd).sum(1) * (2.0 / sqrt(pi))
    if loc.shape[1] == 1:
        return own
    loc = loc - xp.take_along_axis(loc, xp.argmax(weights, axis=1)[:, None], axis=1)
    unit = (weights * (sd + xp.abs(loc))).sum(1, keepdims=True)
    # The bound is reached with no weight to speak of only.
    loc, sd = xp.clip(loc / unit, -(_FAR**2), _FAR**2), sd / unit
    if loc.shape[1] > _FEW and loc.dtype == np.float64:
        # In units of their spread and from the heaviest one on, single precision leaves six digits.
        weights, loc, sd = (a.astype(np.float32) for a in (weights, loc, sd))
    if loc.shape[1] % 2 == 0:
        # Around a circle of an odd number, every two meet once.
        pad = xp.zeros_like(loc[:, :1])
        weights, loc, sd = (xp.concatenate([a, b], axis=1) for a, b in ((weights, pad), (loc, pad), (sd, pad + 1)))
    distance = xp.abs(_next(loc) - loc[:, None])
    spread = xp.sqrt(_next(sd * sd) + (sd * sd)[:, None])
    z = distance / xp.maximum(spread, distance / _FAR + xp.finfo(loc.dtype).tiny)
    density, tail = student_t.upper_tail(z)
    tail *= z
    density -= tail
    density *= spread
    density *= 2.0
    density += distance
    density *= _next(weights)
    both = (density.sum(1) * weights).sum(1)
    return own + 2.0 * unit[:, 0] * both


def _next(a: Float[AnyArray, "c g"]) -> Float[AnyArray, "c h g"]:
    """To every one of g entries in a circle, the h = (g - 1) / 2 that follow it."""
    g = a.shape[1]
    h = (g - 1) // 2
    if isinstance(a, np.ndarray):
        twice = np.concatenate([a, a[:, :h]], axis=1)
        return np.lib.stride_tricks.sliding_window_view(twice, g, axis=1)[:, 1:]
    return a[:, (np.arange(1, h + 1)[:, None] + np.arange(g)) % g]
