"""What each input contributes: to all predictions over the last rows, and to a single one."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from streamgp.core import mapped
from streamgp.precision import in_float64
from streamgp.stream.gains import fill_next, mean_at, predicted_at
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import Moments, moments_of

SHIFTS = 8  # other rows that each row takes a value from
Groups = Sequence[Sequence[int]]


def last_rows(state: StreamState) -> Float[np.ndarray, "n d"]:
    """Return the last rows that are kept, 65 at most, with their gaps filled."""
    groups = state.inputs.imputer.groups
    rows = np.concatenate([group.recent for group in groups], axis=1) if groups else np.empty((0, 0))
    return rows[~np.isnan(rows).any(axis=1)]


def kept_rows(state: StreamState) -> Float[np.ndarray, "n d"]:
    """Return `last_rows`, of which there must be 2 to compare.

    Raises
    ------
    ValueError
        If there are fewer, or no columns.
    """
    rows = last_rows(state)
    if len(rows) < 2 or not rows.shape[1]:
        raise ValueError(
            f"expected a model that has columns of X and has learnt 2 rows or more, got {rows.shape[1]} columns and "
            f"{state.rows} rows; learn more rows first"
        )
    return rows


def importance(
    settings: StreamSettings, state: StreamState, groups: Groups, log_exposure: Sequence[float] = ()
) -> Float[np.ndarray, "g e"]:
    """Return which share of each target's variance goes with each group of columns, whatever the task.

    Counts with an exposure need the log of one.
    """
    moments = moments_of(settings.spec)
    if moments is None:
        return total_effects(settings, state, groups)
    return variance_shares(settings, state, groups, moments, np.asarray(log_exposure, dtype=np.float64))[:, None]


@in_float64
def total_effects(settings: StreamSettings, state: StreamState, groups: Groups) -> Float[np.ndarray, "g e"]:
    """Return the share of the target's variance that goes with each group of columns, over the rows kept.

    Half the mean squared change of the prediction when the group takes the values that it has in another row (Jansen
    1999, the total effect, where groups are independent), over the variance by which targets are standardised.
    """
    return _half_squared_changes(kept_rows(state), groups, lambda X: mean_at(settings, state, X))


@in_float64
def variance_shares(
    settings: StreamSettings, state: StreamState, groups: Groups, moments: Moments, exposure: Float[np.ndarray, " x"]
) -> Float[np.ndarray, " g"]:
    """Return `total_effects` for targets that are not standardised, over the variance that is predicted of them.

    That is their mean variance in a row and the variance of their means between rows; of several moments, the sum.
    All rows have the log of one `exposure`, if there is one (x is 0 or 1).
    """
    rows = kept_rows(state)

    def told(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return moments(predicted_at(settings, state, _exposed(X, exposure)))

    mean, variance = told(rows)
    total = variance.mean(axis=0).sum() + mean.var(axis=0).sum()
    effects = _half_squared_changes(rows, groups, lambda X: told(X)[0]).sum(axis=1)
    return effects / total if total > 0.0 else np.zeros(len(effects))


def _exposed(rows: Float[np.ndarray, "n d"], exposure: Float[np.ndarray, " x"]) -> Float[np.ndarray, "n d+x"]:
    """Return rows with the log of one exposure in their last column, if there is one."""
    return np.column_stack([rows, np.tile(exposure, (len(rows), 1))])


def _half_squared_changes(
    rows: Float[np.ndarray, "n d"], groups: Groups, mean: Callable[[np.ndarray], np.ndarray]
) -> Float[np.ndarray, "g e"]:
    """Return half the mean squared change of `mean` when a group takes the values that it has in another row."""
    n = len(rows)
    shifts = np.unique(np.linspace(1, n - 1, min(SHIFTS, n - 1)).astype(int))
    moved = np.tile(rows, (len(groups), len(shifts), 1, 1))
    for g, columns in enumerate(groups):
        for s, shift in enumerate(shifts.tolist()):
            moved[g, s][:, list(columns)] = np.roll(rows, shift, axis=0)[:, list(columns)]
    found = mean(moved.reshape(-1, rows.shape[1]))
    change = found.reshape(len(groups), len(shifts), n, -1) - mean(rows)
    return 0.5 * np.square(change).mean(axis=(1, 2))


@in_float64
def contributions(
    settings: StreamSettings,
    state: StreamState,
    x: Float[np.ndarray, "1 d"],
    groups: Groups,
    seed: int,
    time: float | None = None,
    moments: Moments | None = None,
) -> tuple[Float[np.ndarray, "w e"], Float[np.ndarray, "w g e"]]:
    """Walk from each row kept to a row, and back: a group of columns at a time takes the values of the other.

    Groups change in a random order, and on the way back in the same one, so that each comes as often early as late.
    The mean changes estimate the Shapley values (Strumbelj and Kononenko 2014). Explained is the first of the
    `moments`, or else the mean of the target. All rows have the exposure of `x`, and its `time` if rows have one.

    Returns
    -------
    start, change
        What is predicted of the row that each walk is about, and how the prediction changes by each group, in units
        of the targets.
    """
    rows, rng = kept_rows(state), np.random.default_rng(seed)
    filled, _ = fill_next(settings, state, x)
    goal = filled[0, : rows.shape[1]]
    n, count = len(rows), len(groups)
    orders = rng.permuted(np.tile(np.arange(count), (n, 1)), axis=1)
    paths = np.empty((2, n, count + 1, rows.shape[1]))
    for w in range(n):
        for way, order in enumerate((orders[w], orders[w][::-1])):
            paths[way, w] = rows[w]
            for step, g in enumerate(order.tolist(), start=1):
                columns = list(groups[g])
                paths[way, w, step:, columns] = goal[columns, None]
    inputs = paths.reshape(-1, rows.shape[1])
    exposure = x[0, x.shape[1] - settings.spec.exposure :]
    predictive = mapped(predicted_at(settings, state, _exposed(inputs, exposure), time), settings.target_map)
    mean = predictive.mean if moments is None else moments(predictive)[0]
    found = np.asarray(mean).reshape(2, n, count + 1, -1)
    steps = np.diff(found, axis=2)
    change = np.empty_like(steps[0])
    for w in range(n):
        change[w] = 0.5 * (steps[0, w][np.argsort(orders[w])] + steps[1, w][np.argsort(orders[w][::-1])])
    return found[0, :, 0], change
