"""Forecasts of each step by a regression of its own, and what they and paths of a model say together.

A model that predicts the next row can be asked for later ones by feeding it what it said: its errors then grow on
each other. A regression of the target h rows ahead on what is known now has no such errors, but knows only lines and
a few rows (on both Ben Taieb, Bontempi, Atiya and Sorjamaa 2012). The two are averaged by their variances (Bates and
Granger 1969), quantile by quantile, so that each keeps its shape (Ratcliff 1979). Where they lie further apart than
these allow, the model's is taken to be as large as that (as Birge 1932 did of measurements), since the regression's
was seen at this very distance. How their errors go together is what forecasts of past rows show.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import cho_factor, cho_solve

from streamgp.numerics.coding import harmonics
from streamgp.stream.recent_rows import RecentRows
from streamgp.stream.structural import COMPONENTS, forecasts, waves

HARMONICS = (2, 3)  # of each cycle of the calendar, beside its own
MOST_COLUMNS = 40  # known ahead; where there are more, none of X is used
ROWS_EACH = 5  # rows that each coefficient needs
PRIOR_ROWS = 1.0  # that the prior of coefficients and noise counts for
CORRELATION = 0.9  # of the errors of both, before anything is known of it
MOST_CORRELATION = 0.98
PRIOR_ORIGINS = 20.0  # that it counts for beside those of past forecasts
SMOOTHED = 3  # steps to either side, over which they are compared
DRAWS = 100  # from which the moments of a model's paths are taken, at least

LEVELS = (np.arange(200) + 0.5) / 200  # of the quantiles that say how errors are distributed


class Direct(NamedTuple):
    """What regressions say of the next h rows.

    Attributes
    ----------
    mean, var
        On the scale that is learnt; the variance is infinite where the rows were too few.
    errors
        Quantiles of the errors, at `LEVELS`, in units of their root mean square.
    past
        Errors of the same regressions in rows so far, each as many rows after an origin; NaN where there is none.
    """

    mean: Float[np.ndarray, "h e"]
    var: Float[np.ndarray, "h e"]
    errors: Float[np.ndarray, "h e l"]
    past: Float[np.ndarray, "o h e"]


def with_harmonics(X: Float[np.ndarray, "n w"], of_calendar: Bool[np.ndarray, " w"]) -> Float[np.ndarray, "n v"]:
    """Return the rows with more columns for pairs of sine and cosine among those of the calendar."""
    parts, at = [X], np.flatnonzero(of_calendar).tolist()
    while len(at) > 1:
        sine, cosine = X[:, at[0]], X[:, at[1]]
        if np.allclose(sine**2 + cosine**2, 1.0, equal_nan=True):
            parts += harmonics(sine, cosine, HARMONICS)
            at = at[1:]
        at = at[1:]
    return np.concatenate(parts, axis=1)


def direct(
    recent: RecentRows,
    ahead: Float[np.ndarray, "h w"],
    seasons: Sequence[int],
    of_calendar: Bool[np.ndarray, " w"],
    origins: Int[np.ndarray, " o"],
) -> Direct:
    """Regress each of the next targets on those known now and on its inputs.

    Of step h these are the last two targets and, of each season of s rows, the target of the latest such season
    before it and the one s rows ago. Where there are seasons, what models of level, trend and season said at that
    distance joins them, which stacks these (Breiman 1996). The regression is linear and Bayesian, standardised, for
    each target by itself.

    Parameters
    ----------
    recent
        The rows so far.
    ahead
        Inputs of the next rows, NaN where they are not known: such columns are left out.
    seasons
        Of how many rows each; those of which the rows show less than three are left out.
    of_calendar
        Which of the columns are of the calendar.
    origins
        How many of the rows lie before each past forecast that is asked for; h rows follow.
    """
    n, steps = len(recent.y), len(ahead)
    known = np.isfinite(ahead).all(axis=0)
    if known.sum() > MOST_COLUMNS:
        known &= of_calendar
    X = with_harmonics(np.concatenate([recent.X, ahead])[:, known], of_calendar[known])
    seasons = [s for s in seasons if 3 * s <= n]
    shape = steps, recent.y.shape[1]
    found = Direct(
        np.zeros(shape),
        np.full(shape, np.inf),
        np.zeros((*shape, len(LEVELS))),
        np.full((len(origins), *shape), np.nan),
    )
    Phi = waves(n + steps, seasons)
    for e, y in enumerate(recent.y.T):
        structural = [forecasts(y, Phi, component) for component in COMPONENTS] if seasons else []
        for h in range(2, steps + 1):
            back = [h, h + 1] + [each for s in seasons for each in (s * -(-h // s), s + h)]
            rows = np.arange(max(back), n + h)
            rows = rows[(rows < n) | (rows == n + h - 1)]
            features = np.column_stack(
                [
                    np.ones(len(rows)),
                    *(y[rows - each] for each in dict.fromkeys(back)),
                    *(each[rows - h + 1, h - 1] for each in structural),
                    X[rows],
                ]
            )
            if len(rows) - 1 - h < ROWS_EACH * features.shape[1]:
                break
            *own, errors = _regressed(features, y[rows[:-1]])
            for of_all, each in zip(found, own, strict=False):
                of_all[h - 1, e] = each
            by_row = np.full(n, np.nan)
            by_row[rows[:-1]] = errors
            found.past[:, h - 1, e] = by_row[origins + h - 1]
    return found


def _regressed(
    features: Float[np.ndarray, "n f"], y: Float[np.ndarray, " m"]
) -> tuple[float, float, Float[np.ndarray, " l"], Float[np.ndarray, " m"]]:
    """Return mean, variance and quantiles of the error of the target of the last row, by those before it.

    The errors of these come last, NaN where a row was of no use. The noise is that of the later third of the rows,
    predicted from the others, where it is larger than that of all.
    """
    use = np.isfinite(features[:-1]).all(axis=1) & np.isfinite(y)
    Z, target, last = features[:-1][use], y[use], features[-1]
    of_all = np.full(len(y), np.nan)
    if len(Z) < ROWS_EACH * Z.shape[1]:
        return 0.0, np.inf, np.zeros(len(LEVELS)), of_all
    center, scale = Z.mean(axis=0), Z.std(axis=0)
    center[0], scale[scale <= 0.0] = 0.0, 1.0
    middle, unit = target.mean(), max(float(target.std()), np.finfo(float).tiny)
    Z, x, u = (Z - center) / scale, (last - center) / scale, (target - middle) / unit
    first = 2 * len(Z) // 3
    prior = PRIOR_ROWS * np.eye(Z.shape[1])
    early = Z[:first].T @ Z[:first]
    found = cho_solve(cho_factor(prior + early), Z[:first].T @ u[:first])
    later = float(np.mean(np.square(u[first:] - Z[first:] @ found)))
    factor = cho_factor(prior + early + Z[first:].T @ Z[first:])
    found = cho_solve(factor, Z.T @ u)
    errors = u - Z @ found
    square = float(np.sum(np.square(errors)))
    noise = max((PRIOR_ROWS * later + square) / (PRIOR_ROWS + len(Z) - Z.shape[1]), later)
    var = unit**2 * noise * (1.0 + float(x @ cho_solve(factor, x)))
    size, of_all[use] = np.sqrt(square / len(Z)), unit * errors
    quantiles = np.quantile(errors, LEVELS) / (size if size > 0.0 else 1.0)
    return middle + unit * float(x @ found), var, quantiles, of_all


def correlation(own: Float[np.ndarray, "o p h e"], regressed: Float[np.ndarray, "o h e"]) -> Float[np.ndarray, "h e"]:
    """Return how the errors of a model's mean and those of a regression go together, by what past forecasts show.

    Parameters
    ----------
    own
        Errors of two or more paths of each origin: what two of them have in common is the error of the mean.
    regressed
        Errors of the regression at the same rows.
    """
    mean, count = own.mean(axis=1), own.shape[1]
    square = (count * np.square(mean) - np.square(own).mean(axis=1)) / (count - 1)  # without bias (a U-statistic)
    each = np.stack([square, np.square(regressed), mean * regressed])
    known = np.isfinite(each).all(axis=0)
    rows = known.sum(axis=0)
    own_square, other, cross = (
        _smoothed(np.where(known, moment, 0.0).sum(axis=0) / np.maximum(rows, 1), rows > 0) for moment in each
    )
    usual = np.full(rows.shape, CORRELATION)
    size = np.sqrt(np.maximum(own_square, 0.0)) * np.sqrt(other)
    found = np.divide(cross, size, out=usual.copy(), where=size > 0.0).clip(0.0, MOST_CORRELATION)
    return (PRIOR_ORIGINS * usual + rows * found) / (PRIOR_ORIGINS + rows)


def averaged(
    paths: Float[np.ndarray, "n h e"], other: Direct, correlation: Float[np.ndarray, "h e"]
) -> Float[np.ndarray, "n h e"]:
    """Return paths that go together as a model's do, and say of each step what it and a regression say together.

    The first step stays the model's own, and so do those whose regression has an infinite variance. Of the others
    the errors of both are taken to have this `correlation`.
    """
    center, var = paths.mean(axis=0), paths.var(axis=0)
    use = np.isfinite(other.var) & (other.var > 0.0) & (var > 0.0)
    use[:1] = False
    own, trusted = np.where(use, var, 1.0), np.where(use, other.var, 1.0)
    gap = np.where(use, np.square(center - other.mean), 0.0)
    shown = np.maximum(own, _smoothed(gap, use) - trusted)
    weight = trusted / (shown + trusted)  # of the model
    cross = 2.0 * correlation * weight * (1.0 - weight) * np.sqrt(shown) * np.sqrt(trusted)
    both = weight**2 * shown + (1.0 - weight) ** 2 * trusted + cross
    found = paths.copy()
    levels = (np.arange(len(paths)) + 0.5) / len(paths)
    for h, e in zip(*np.nonzero(use), strict=True):
        order = np.argsort(paths[:, h, e], kind="stable")
        errors = np.interp(levels, LEVELS, other.errors[h, e])
        off = weight[h, e] * np.sqrt(shown[h, e] / own[h, e]) * (paths[order, h, e] - center[h, e])
        off += (1.0 - weight[h, e]) * np.sqrt(trusted[h, e]) * errors
        middle = weight[h, e] * center[h, e] + (1.0 - weight[h, e]) * other.mean[h, e]
        size = off.std()
        found[order, h, e] = middle + (off - off.mean()) * (np.sqrt(both[h, e]) / size if size > 0.0 else 0.0)
    return found


def _smoothed(values: Float[np.ndarray, "h e"], use: Bool[np.ndarray, "h e"]) -> Float[np.ndarray, "h e"]:
    """Return the mean over the steps about each."""
    window = np.ones(2 * SMOOTHED + 1)
    total, count = (
        np.stack([np.convolve(each, window)[SMOOTHED:-SMOOTHED] for each in rows.T], axis=1)
        for rows in (values * use, use.astype(float))
    )
    return total / np.maximum(count, 1.0)
