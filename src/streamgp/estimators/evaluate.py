"""Test, then train, with an estimator."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamgp.estimators.base import StreamEstimator, warmup_for
from streamgp.estimators.monitor import WatchedRows
from streamgp.evaluation.prequential import prequential, restore_skipped_rows, results
from streamgp.progress import progress_bar

if TYPE_CHECKING:  # who has a fleet has imported it
    from streamgp.fleet import StreamingGPFleet

CHUNK = 1024  # rows scored between two steps of the progress bar


def evaluate(
    model: "StreamEstimator | StreamingGPFleet",
    X: Any,
    y: Any = None,
    times: Any = None,
    *,
    exposure: Any = None,
    conformal: float | None = None,
    alarms: bool = False,
    progress: bool = True,
) -> Any:
    """Test-then-train: predict every row before its target is seen, score it, then learn it.

    The model goes on from where it stands, and has learnt all rows afterwards. Metrics are taken over the
    rows after the warm-up. A new classifier knows no label before it has come, unless `partial_fit` named it before.

    Parameters
    ----------
    model
        An estimator, new or already at work; or a fleet, with a frame for `X` and nothing else: see its `evaluate`.
    X, y, times, exposure
        As in the model's `partial_fit`; rows in the order of the stream. Those that ``missing="skip"`` leaves out
        are NaN in the result, and so are the scores of those whose target is missing.
    conformal
        The share of targets, such as 0.9, that bands beside the model's own are to hold, whatever the stream does:
        see `streamgp.evaluation.Conformal`. For numbers and counts.
    alarms
        Tell when the stream changes, in ``alarms`` of the result and ``model.alarms_``: see `Monitor`, whose default
        rate of false alarms holds. For numbers and counts.
    progress
        Show a progress bar on a terminal.

    Raises
    ------
    ValueError
        As `partial_fit` does, and if `conformal` is no share, or it or `alarms` are asked for of labels or grades.

    Returns
    -------
    Evaluation or ClassificationEvaluation
        Arrays with one entry per row, ``mean``, ``std``, ``log_density``, ``weights``, ..., and ``metrics``. Labels
        and grades have ``probabilities`` and ``predicted`` in place of mean, std and quantiles.
    """
    if not isinstance(model, StreamEstimator):
        if alarms or any(given is not None for given in (y, times, exposure, conformal)):
            raise ValueError("evaluate: expected a fleet and a frame that holds keys, times and targets, and no more")
        return model.evaluate(X)
    if y is None:
        raise ValueError("evaluate: expected the targets y as well, unless the model is a fleet")
    with model._access.lock:
        return _evaluated(model, X, y, times, exposure, conformal, alarms, progress)


def _evaluated(
    model: StreamEstimator,
    X: Any,
    y: Any,
    times: Any,
    exposure: Any,
    conformal: float | None,
    alarms: bool,
    progress: bool,
) -> Any:
    """Evaluate as `evaluate` does, with the model to itself."""
    more = {} if exposure is None else {"exposure": exposure}
    begin = not model.__sklearn_is_fitted__()
    rows = model._prepare(X, y, times, begin, **more)
    warmup = warmup_for(rows) if begin or not len(rows.X) else 0
    bands = None if conformal is None else model._conformal(conformal, rows.y.shape[1])
    tests = model._tests_for_alarms(rows.y.shape[1]) if alarms else None
    if begin:
        model._start(rows, warmup)
    learner = model._learner
    metrics = model._metrics(max(0, learner.warmup - learner.rows))
    if bands is not None:
        bands.warmup = metrics.warmup
    chunks = (
        (rows.X[i : i + CHUNK], rows.y[i : i + CHUNK], None if rows.times is None else rows.times[i : i + CHUNK])
        for i in range(0, len(rows.X), CHUNK)
    )
    parts, watched = [], None if tests is None else WatchedRows(model, tests, rows)
    with progress_bar("test, then train", len(rows.X), progress) as bar:
        learner.progress = lambda done, todo: bar.at(metrics.rows, f"fitting experts: {done} of {todo}")
        try:
            for part in prequential(learner, chunks, metrics, bands):
                parts.append(part)
                if watched is not None:
                    watched.add(part)
                bar.at(metrics.rows, "test, then train")
        finally:
            learner.progress = None
    model.skipped_rows_ += rows.skipped
    scores = results(metrics, learner)
    found = model._collected(parts, scores if bands is None else scores | {"conformal": bands.result()})
    found = restore_skipped_rows(found, rows.kept, rows.given)
    return found if watched is None else replace(found, alarms=watched.end())
