"""Paths of targets several rows ahead: what was drawn of a row is a lag of those after it."""

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import trimmed
from streamgp.models.base import PathFamily
from streamgp.numerics.precision import in_float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.direct_steps import DRAWS, averaged, direct
from streamgp.stream.missed_steps import with_missed
from streamgp.stream.passed_rows import SHORTEST_SEASON
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import TRIM


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
    mean, scale = np.asarray(state.targets.mean), np.asarray(state.targets.scale)
    lags, drawn = state.inputs.lags, n if state.recent is None else max(n, DRAWS)
    found, past = np.empty((drawn, len(X), settings.num_outputs)), lags.known(drawn)
    with one_blas_thread():
        weights = np.asarray(trimmed(state.weights, TRIM if settings.spec.robust else 0.0))
        paths = family.paths(state.model, state.model_state, weights, drawn, rng)
        for step, rows in enumerate(state.inputs.paths(X, drawn, rng)):
            wide = np.concatenate([rows, *(past[:, -lag] for lag in lags.lags)], axis=1)
            y = paths.step(state.inputs.standardised(wide), gaps[step])
            found[:, step] = mean + scale * paths.recalibrated(y)
            past = np.concatenate([past[:, 1:], mean + scale * y[:, None]], axis=1)
        ahead = state.inputs.coded(X)
        # Of these rows the model is not given all inputs.
        unsure = np.isnan(ahead).any(axis=1, keepdims=True) | (len(lags.lags) > 0)
        if state.recent is not None and unsure.any():
            of_calendar = state.inputs.categories.of_calendar(ahead.shape[1])
            regressed = direct(state.recent, ahead, _seasons(state), of_calendar)
            found = averaged(found, regressed._replace(var=np.where(unsure, regressed.var, np.inf)))
    return settings.target_map.inverse(found[:n])


def _seasons(state: StreamState) -> list[int]:
    """Return after how many rows the stream may repeat itself: cycles of the clock, and long lags."""
    long = [lag for lag in state.inputs.lags.lags if lag >= SHORTEST_SEASON]
    return sorted({*long, *(season for season, _ in state.seasons if season >= SHORTEST_SEASON)})
