"""What each input contributes: to all predictions over the stream, and to a single one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from streamgp.numerics.precision import in_float64
from streamgp.numerics.shapley import shapley_effects
from streamgp.numerics.standardise import far_out
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.batches import predict_rows
from streamgp.stream.rows import RawRows
from streamgp.stream.sample import RowSample
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import moments_of
from streamgp.stream.warmup import known_rows, passed_over, reread

PAST_TARGETS = "past targets"
MOST_ODD = 0.5  # of the rows; where it is more, none is left out
COMPARED = 64  # rows that a single one is explained by
_BLOCK = 64  # rows of the sample over which the relation is taken to be the same
_BLOCKS = 16  # at most
Groups = Sequence[Sequence[int]]


def kept_rows(settings: StreamSettings, state: StreamState) -> Float[np.ndarray, "n d"]:
    """Return inputs of rows of the whole stream without gaps, 64 at most, of which there must be 2 to compare.

    Raises
    ------
    ValueError
        If there are fewer, or no columns.
    """
    columns = state.inputs.imputer.width
    rows = _sampled(settings, state).first(COMPARED).rows.X[:, :columns]
    if len(rows) < 2 or not columns:
        raise _too_little(columns, len(rows))
    return rows


def _too_little(columns: int, rows: int) -> ValueError:
    return ValueError(
        f"expected a model that has columns of X and has learnt 2 rows or more of which it keeps a sample, as older "
        f"versions did not, got {columns} columns and {rows} such rows; learn more rows first"
    )


def _sampled(settings: StreamSettings, state: StreamState) -> RowSample:
    """Return a sample of the rows learnt, as the model takes them, without absurd ones."""
    sample = _of_warmup(settings, state) if state.sample is None else state.sample
    rows = sample.rows
    X, beyond = state.inputs.clip(rows.X)
    odd = np.asarray(beyond.any(axis=1) if settings.spec.robust else far_out(rows.X).any(axis=1))
    if moments_of(settings.spec) is None and not settings.task.flags_outliers:
        odd |= far_out(rows.y).any(axis=1)
    if odd.any() and odd.mean() > MOST_ODD:  # of many columns each may be odd in other rows
        return replace(sample, rows=rows._replace(X=X))
    return sample.where(~odd)


def _of_warmup(settings: StreamSettings, state: StreamState) -> RowSample:
    """Return a sample of the rows of the warm-up so far."""
    known, h = known_rows(state), settings.horizon
    _, usual, read, _ = reread(settings, state, known)
    past, lags = settings.task.as_lags(known.y, known.X), state.inputs.lags.emptied()
    X = lags.widen_among(read, past, passed_over(settings, state), own=h > 0)
    rows = RawRows(X[: max(len(X) - h, 0)], known.y[h:], None)
    return RowSample.empty(X.shape[1], settings.num_outputs).offer(rows, (usual != known.y).any(axis=1)[h:])


def has_influence(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether there are inputs of the model, and rows enough, for `influence`."""
    return len(_sampled(settings, state).rows.X) > 1 and state.inputs.width > settings.spec.exposure


@in_float64
def influence(
    settings: StreamSettings,
    state: StreamState,
    groups: Mapping[str, Sequence[int]],
    log_exposure: Sequence[float] = (),
) -> dict[str, Float[np.ndarray, " e"]]:
    """Return which share of each target's variance over the stream predictions take from each input, by its name.

    Past targets, where they are inputs, are one entry after the `groups`. Shares are at least 0 and sum to at most
    one: they are Shapley effects of what the model of now predicts of a sample of all rows (see
    `streamgp.numerics.shapley`), times the share of the targets' variance that this explains. Of counts and labels
    that is as the model has it: of labels the sum over their indicators. Counts with an exposure need the log of one.

    Raises
    ------
    ValueError
        If there are no inputs, or fewer than 2 rows.
    """
    rows, entries = _sampled(settings, state).rows, dict(groups)
    if lags := state.inputs.lags.lags:
        first = state.inputs.imputer.width
        entries[_unlike(PAST_TARGETS, groups)] = list(range(first, first + len(lags) * settings.num_outputs))
    if len(rows.X) < 2 or not entries:
        raise _too_little(state.inputs.imputer.width, len(rows.X))
    X = rows.X.copy()
    if settings.spec.exposure:
        X[:, -1] = log_exposure
    last = state.last_time
    predicted = predict_rows(settings, state, X, None if last is None else np.full(len(X), last))
    moments = moments_of(settings.spec)
    if moments is None:
        f = np.asarray(predicted.mean)
        size = _explained(rows.y, f)
    else:
        f, variance = moments(predicted)
        total = variance.mean(axis=0).sum() + f.var(axis=0).sum()
        size = f.var(axis=0) / total if total > 0.0 else np.zeros(f.shape[1])
    with one_blas_thread():
        shares = size * shapley_effects(X, f, list(entries.values()), settings.seed)
    return dict(zip(entries, shares if moments is None else shares.sum(axis=1, keepdims=True), strict=True))


def _unlike(name: str, others: Mapping[str, object]) -> str:
    """Return a name that is none of the others."""
    return _unlike(f"{name} of the model", others) if name in others else name


def _explained(y: Float[np.ndarray, "n e"], f: Float[np.ndarray, "n e"]) -> Float[np.ndarray, " e"]:
    """Return which share of the targets' variance goes with the predictions of one model.

    The predictions have one slope for all rows and then, as the relation may have been steeper or flatter at other
    times, one more within each block of rows; not between blocks, where a level that drifts would pass for it.
    """
    n = len(y)
    count = min(max(n // _BLOCK, 1), _BLOCKS)
    blocks = np.arange(n) * count // n
    found = np.zeros(y.shape[1])
    for e in range(y.shape[1]):
        if not (np.ptp(y[:, e]) > 0.0 and np.ptp(f[:, e]) > 0.0):
            continue
        target, line = ((each[:, e] - each[:, e].mean()) / each[:, e].std() for each in (y, f))
        rest = target - (line @ target / n) * line
        within = line - (np.bincount(blocks, line) / np.bincount(blocks))[blocks]
        met, size = np.bincount(blocks, within * rest), np.bincount(blocks, np.square(within))
        slopes = np.divide(met, size, out=np.zeros(count), where=size > 0.0)
        rest = rest - slopes[blocks] * within
        freedom = max(n - 2 - count, 1)  # so that chance explains nothing
        found[e] = min(max(1.0 - np.square(rest).sum() / freedom, 0.0), 1.0)
    return found


@in_float64
def contributions(
    rows: Float[np.ndarray, "w d"],
    x: Float[np.ndarray, "1 d"],
    exposure: Float[np.ndarray, " s"],
    groups: Groups,
    seed: int,
    mean_at: Callable[[np.ndarray], np.ndarray],
) -> tuple[Float[np.ndarray, "w e"], Float[np.ndarray, "w g e"]]:
    """Walk from each of some rows to a row, and back: a group of columns at a time takes the values of the other.

    Groups change in a random order, and on the way back in the same one, so that each comes as often early as late.
    The mean changes estimate the Shapley values (Strumbelj and Kononenko 2014). All rows have the
    exposure of `x`, which is empty or one number.

    Parameters
    ----------
    rows, x
        Without gaps.
    exposure
        The log of that of `x`; empty where there is none.
    mean_at
        Predicts what is explained of rows, (n, E).

    Returns
    -------
    start, change
        What is predicted of the row that each walk is about, and how the prediction changes by each group, in units
        of the targets.
    """
    rng, goal = np.random.default_rng(seed), x[0]
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
    exposed = np.column_stack([inputs, np.tile(exposure, (len(inputs), 1))])
    found = mean_at(exposed).reshape(2, n, count + 1, -1)
    steps = np.diff(found, axis=2)
    change = np.empty_like(steps[0])
    for w in range(n):
        change[w] = 0.5 * (steps[0, w][np.argsort(orders[w])] + steps[1, w][np.argsort(orders[w][::-1])])
    return found[0, :, 0], change
