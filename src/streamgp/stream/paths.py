"""Paths of targets several rows ahead: what was drawn of a row is a lag of those after it."""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int

from streamgp.likelihoods import trimmed
from streamgp.models.base import PathFamily, Paths
from streamgp.numerics.precision import in_float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.direct_steps import DRAWS, averaged, correlation, direct
from streamgp.stream.missed_steps import with_missed
from streamgp.stream.passed_rows import SHORTEST_SEASON
from streamgp.stream.recent_rows import RecentRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import TRIM

ORIGINS, PATHS_EACH = 60, 2  # of past forecasts, by which the errors of model and regression are compared


def generator(settings: StreamSettings, state: StreamState) -> np.random.Generator:
    """Return what paths are drawn by, which depends on the seed and on the rows learnt."""
    return np.random.default_rng([settings.seed % 2**64, state.rows])


@in_float64
def draw_paths(
    settings: StreamSettings,
    state: StreamState,
    X: Float[np.ndarray, "h d"],
    times: Float[np.ndarray, " h"] | None,
    n: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "n h e"]:
    """Draw n paths of the targets of the next h rows, jointly, in the units of the targets.

    Where past targets are inputs, each step after the first is what the model and a regression of that step say
    together: see `streamgp.stream.direct_steps`. Without lags so is that of a row with inputs missing, if the clock
    has a season; all that the model needs for another row it is given.

    Parameters
    ----------
    X
        Inputs of these rows. What is missing (NaN) is drawn as well, each row given the one before.
    times
        Their time stamps; None: they come at the usual gaps. Steps of the clock before the first that had no row are
        passed over.

    Raises
    ------
    ValueError
        If the model is none whose targets can be drawn jointly, or forecasts directly, with a horizon.
    """
    family = settings.family
    if not isinstance(family, PathFamily) or settings.horizon:
        raise ValueError(
            f"forecast: expected an ensemble for numbers, and no horizon, got the model {settings.spec.model!r}"
            + (f" with the horizon {settings.horizon}" if settings.horizon else "")
        )
    if len(X):
        state = with_missed(settings, state, X, times)
    gaps: list[float | None] = [None] * len(X)
    if times is not None and state.last_time is not None:
        gaps = np.diff(times, prepend=state.last_time).tolist()
    drawn, past = n if state.recent is None else max(n, DRAWS), state.inputs.lags
    with one_blas_thread():
        paths = _begun(settings, state, drawn, rng)
        each = _fed(state, paths, state.inputs.paths(X, drawn, rng), gaps, past.known(drawn))
        found = _in_units(state, map(paths.recalibrated, each))
        if state.recent is not None:
            found = _with_regressions(settings, state, state.recent, found, X, rng)
    return settings.target_map.inverse(found[:n])


def _with_regressions(
    settings: StreamSettings,
    state: StreamState,
    recent: RecentRows,
    paths: Float[np.ndarray, "n h e"],
    X: Float[np.ndarray, "h d"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "n h e"]:
    """Return what these paths and a regression of each step say together, of rows that the model is not sure of."""
    ahead = state.inputs.coded(X)
    # Of these rows the model is not given all inputs.
    unsure = np.isnan(ahead).any(axis=1, keepdims=True) | (len(state.inputs.lags.lags) > 0)
    if not unsure.any():
        return paths
    origins = past_origins(state, recent, ahead)
    of_calendar = state.inputs.categories.of_calendar(ahead.shape[1])
    regressed = direct(recent, ahead, _seasons(state), of_calendar, origins)
    own = past_errors(settings, state, recent, origins, len(X), rng)
    known = regressed._replace(var=np.where(unsure, regressed.var, np.inf))
    return averaged(paths, known, correlation(own, regressed.past))


def _begun(settings: StreamSettings, state: StreamState, n: int, rng: np.random.Generator) -> Paths:
    """Begin n paths by the model and its weights."""
    weights = np.asarray(trimmed(state.weights, TRIM if settings.spec.robust else 0.0))
    assert isinstance(settings.family, PathFamily)
    return settings.family.paths(state.model, state.model_state, weights, n, rng)


def _fed(
    state: StreamState,
    paths: Paths,
    rows: Iterable[Float[np.ndarray, "n d"]],
    gaps: Iterable[float | None],
    past: Float[np.ndarray, "n l e"],
) -> Iterator[Float[np.ndarray, "n e"]]:
    """Yield row after row of paths, standardised; each has its own targets before, the oldest first."""
    for each, gap in zip(rows, gaps, strict=True):
        wide = np.concatenate([each, *(past[:, -lag] for lag in state.inputs.lags.lags)], axis=1)
        y = paths.step(state.inputs.standardised(wide), gap)
        yield y
        past = np.concatenate([past[:, 1:], _in_units(state, [y])], axis=1)


def _in_units(state: StreamState, rows: Iterable[Float[np.ndarray, "n e"]]) -> Float[np.ndarray, "n h e"]:
    """Return rows of standardised targets side by side, on the scale that is learnt."""
    return np.asarray(state.targets.mean) + np.asarray(state.targets.scale) * np.stack(list(rows), axis=1)


def past_origins(state: StreamState, recent: RecentRows, ahead: Float[np.ndarray, "h w"]) -> Int[np.ndarray, " o"]:
    """Return after how many of the last rows forecasts are made once more: none where inputs would not be known."""
    first, last = max(state.inputs.lags.lags, default=0), len(recent.y) - len(ahead)
    if np.isnan(ahead).any() or last - first < ORIGINS:
        return np.zeros(0, np.int64)
    return np.linspace(first, last, ORIGINS).astype(np.int64)


def past_errors(
    settings: StreamSettings,
    state: StreamState,
    recent: RecentRows,
    origins: Int[np.ndarray, " o"],
    steps: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "o p h e"]:
    """Return the errors of paths that the model, as it is now, draws of past rows from the targets before them."""
    shape = len(origins), PATHS_EACH, steps, settings.num_outputs
    if not len(origins):
        return np.zeros(shape)
    longest, each = max(state.inputs.lags.lags), np.repeat(origins, PATHS_EACH)
    rows = (recent.X[each + step] for step in range(steps))
    past = recent.y[each[:, None] + np.arange(-longest, 0)]
    drawn = _in_units(state, _fed(state, _begun(settings, state, len(each), rng), rows, [None] * steps, past))
    return (recent.y[each[:, None] + np.arange(steps)] - drawn).reshape(shape)


def _seasons(state: StreamState) -> list[int]:
    """Return after how many rows the stream may repeat itself: cycles of the clock, and long lags."""
    long = [lag for lag in state.inputs.lags.lags if lag >= SHORTEST_SEASON]
    return sorted({*long, *(season for season, _ in state.seasons if season >= SHORTEST_SEASON)})
