"""Maximisation of the upper confidence bound: many points evenly, then gradients and exchanges from the best."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from streamgp.bandits.parameters import Integer
from streamgp.bandits.space import Box, Candidates

Score = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, " n"]]
Allows = Callable[[Float[np.ndarray, "n d"]], Bool[np.ndarray, " n"]]
Slope = Callable[[Float[np.ndarray, " d"]], tuple[float, Float[np.ndarray, " d"]]]

# The number of points spread evenly over a box, for each parameter up to four.
POINTS = 512
# So many of the best points are improved on.
_CLIMBS = 4
# So many neighbours of a point known before are tried, at several distances.
_NEIGHBOURS = 8
# Within this distance, a second climb would end where the first did.
_NEIGHBOURHOOD = 0.1
_WIDTHS = (0.03, 0.01, 0.003)
_ROUNDS = 10
_TIE = 1e-12


def maximise(
    score: Score,
    slope: Slope | None,
    space: Box | Candidates,
    rng: np.random.Generator,
    near: Float[np.ndarray, "k d"],
    allows: Allows = lambda U: np.ones(len(U), dtype=bool),
) -> Float[np.ndarray, " d"]:
    """Return a point of the greatest score; one of them at random where several are equal.

    Of candidates all are scored. In a box, evenly spread points and some around those of `near` are; the best few
    climb by L-BFGS-B in the coordinates that are continuous, and by exchanging one whole number or category at a time
    in the others, until neither helps.

    Parameters
    ----------
    score
        Scores of points.
    slope
        Score and gradient at a point; None: scores are expensive and have no gradient. Then fewer points are tried,
        and the best few move to the best of ever nearer neighbours instead.
    near
        Points around which good ones may be, such as the last choices.
    allows
        Which points may be chosen; where none may, all may.
    """
    if isinstance(space, Candidates):
        points = _keep_allowed(space.unit, allows)
        return points[_argmax(score(points), rng)]
    size = POINTS * (min(len(space.parameters), 4) if slope else 1)
    points = _keep_allowed(np.concatenate([space.draw(rng, size), _draw_around(near, space, rng)]), allows)
    scores = score(points)
    chosen = _choose_starts(points, scores, _argmax(scores, rng))
    if slope is None:
        return _search_locally(points[chosen], scores[chosen], score, space, rng, allows)
    climbed = [_climb(points[i], float(scores[i]), score, slope, space) for i in chosen]
    ends, values = np.array([u for u, _ in climbed]), np.array([value for _, value in climbed])
    excluded = ~allows(ends)
    ends[excluded], values[excluded] = points[chosen][excluded], scores[chosen][excluded]
    return ends[_argmax(values, rng)]


def _keep_allowed(points: Float[np.ndarray, "n d"], allows: Allows) -> Float[np.ndarray, "m d"]:
    kept = allows(points)
    return points[kept] if kept.any() else points


def _choose_starts(points: Float[np.ndarray, "n d"], scores: Float[np.ndarray, " n"], best: int) -> list[int]:
    """Return the best point of all, and the best of those that are no neighbours of one before."""
    chosen = [best]
    for i in np.argsort(-scores, kind="stable"):
        if len(chosen) == _CLIMBS:
            break
        if np.abs(points[chosen] - points[i]).max(axis=1).min() > _NEIGHBOURHOOD:
            chosen.append(int(i))
    return chosen


def _argmax(values: Float[np.ndarray, " n"], rng: np.random.Generator) -> int:
    top = values.max()
    if not np.isfinite(top):
        raise FloatingPointError(f"expected finite scores, got {top}")
    return int(rng.choice(np.flatnonzero(values >= top - _TIE * max(1.0, abs(top)))))


def _draw_around(near: Float[np.ndarray, "k d"], space: Box, rng: np.random.Generator) -> Float[np.ndarray, "m d"]:
    """Draw neighbours of points, themselves among them, at distances from a tenth of the range down."""
    widths = 0.1 ** rng.uniform(1.0, 3.0, (len(near), _NEIGHBOURS, 1))
    cloud = near[:, None] + widths * rng.normal(size=(len(near), _NEIGHBOURS, near.shape[1]))
    return space.snap(np.concatenate([near, cloud.reshape(-1, near.shape[1])]))


def _climb(
    u: Float[np.ndarray, " d"], value: float, score: Score, slope: Slope, space: Box
) -> tuple[Float[np.ndarray, " d"], float]:
    """Improve a point by gradients and exchanges in turn."""
    for _ in range(_ROUNDS):
        before = value
        if space.continuous.any():
            u, value = _climb_by_gradient(u, value, slope, space)
        if not space.continuous.all():
            u, value = _climb_by_exchange(u, value, score, space)
        if value <= before + 1e-9 * max(1.0, abs(before)) or space.continuous.all():
            break
    return u, value


def _climb_by_gradient(
    u: Float[np.ndarray, " d"], value: float, slope: Slope, space: Box
) -> tuple[Float[np.ndarray, " d"], float]:
    moving = space.continuous

    def loss(part: Float[np.ndarray, " c"]) -> tuple[float, Float[np.ndarray, " c"]]:
        at = u.copy()
        at[moving] = part
        score, gradient = slope(at)
        return -score, -gradient[moving]

    bounds = [(0.0, 1.0)] * int(moving.sum())
    found = minimize(loss, u[moving], jac=True, method="L-BFGS-B", bounds=bounds)
    if -found.fun <= value:
        return u, value
    better = u.copy()
    better[moving] = np.clip(found.x, 0.0, 1.0)
    return better, -float(found.fun)


def _search_locally(
    U: Float[np.ndarray, "k d"],
    scores: Float[np.ndarray, " k"],
    score: Score,
    space: Box,
    rng: np.random.Generator,
    allows: Allows,
) -> Float[np.ndarray, " d"]:
    """Replace each point by the best of its neighbours, at ever smaller distances, and return the best of all."""
    for width in _WIDTHS:
        cloud = U[:, None] + width * rng.normal(size=(len(U), 2 * _NEIGHBOURS - 1, U.shape[1]))
        tried = []
        for u, c in zip(U, cloud, strict=True):
            others = np.concatenate([space.snap(c), _list_exchanges(u, space)])
            tried.append(np.concatenate([u[None], others[allows(others)]]))
        ends = np.cumsum([len(each) for each in tried])[:-1]
        found = np.split(score(np.concatenate(tried)), ends)
        U = np.array([each[np.argmax(values)] for each, values in zip(tried, found, strict=True)])
        scores = np.array([values.max() for values in found])
    return U[_argmax(scores, rng)]


def _climb_by_exchange(
    u: Float[np.ndarray, " d"], value: float, score: Score, space: Box
) -> tuple[Float[np.ndarray, " d"], float]:
    """Move to the best of all points that differ in one whole number or category, as long as one is better."""
    tried = _list_exchanges(u, space)
    while len(tried):
        scores = score(tried)
        best = int(np.argmax(scores))
        if scores[best] <= value:
            break
        u, value = tried[best], float(scores[best])
        tried = _list_exchanges(u, space)
    return u, value


def _list_exchanges(u: Float[np.ndarray, " d"], space: Box) -> Float[np.ndarray, "m d"]:
    found = []
    for one, columns in zip(space.parameters, space.columns, strict=True):
        if isinstance(one, Integer):
            here, largest = one.decode(u[columns]), one.high - one.low
            steps = [s for k in range(largest.bit_length()) for s in (-(2**k), 2**k)]
            values = [np.array(one.encode(v, "")) for s in steps if one.low <= (v := here + s) <= one.high]
        elif one.width > 1:
            values = [np.sqrt(0.5) * row for row in np.eye(one.width) if not row[np.argmax(u[columns])]]
        else:
            continue
        for value in values:
            other = u.copy()
            other[columns] = value
            found.append(other)
    return np.array(found).reshape(-1, len(u))
