"""Test, then train, with an estimator."""

from typing import Any

from streamgp.estimators.base import warmup_for
from streamgp.estimators.regressor import StreamingGPRegressor
from streamgp.evaluation.metrics import StreamMetrics
from streamgp.evaluation.prequential import Evaluation, collect, prequential, results
from streamgp.progress import progress_bar

CHUNK = 1024  # rows scored between two steps of the progress bar


def evaluate(model: StreamingGPRegressor, X: Any, y: Any, times: Any = None, *, progress: bool = True) -> Evaluation:
    """Test-then-train: predict every row before its target is seen, score it, then learn it.

    The model goes on from where it stands, and has learnt all rows afterwards. Metrics are taken over the
    rows after the warm-up.

    Parameters
    ----------
    model
        A regressor, new or already at work.
    X, y, times
        As in `StreamingGPRegressor.partial_fit`; rows in the order of the stream. Those that
        ``on_bad_row="skip"`` leaves out have no entry in the result.
    progress
        Show a progress bar on a terminal.

    Returns
    -------
    Evaluation
        Arrays ``mean``, ``std``, ``log_density``, ``weights``, ... with one entry per row, and ``metrics``.
    """
    first = not model.__sklearn_is_fitted__()
    rows = model._check_learn(X, y, times, reset=first)
    warmup = warmup_for(rows)
    if first:
        model._start(rows, warmup)
    learner = model._learner
    targets = [f"y{e}" for e in range(learner.num_outputs)]
    metrics = StreamMetrics(targets, max(0, learner.warmup - learner.rows), learner.spec.horizon)
    chunks = (
        (rows.X[i : i + CHUNK], rows.y[i : i + CHUNK], None if rows.times is None else rows.times[i : i + CHUNK])
        for i in range(0, len(rows.X), CHUNK)
    )
    parts = []
    with progress_bar("test, then train", len(rows.X), progress) as bar:
        learner.progress = lambda done, todo: bar.at(metrics.rows, f"fitting experts: {done} of {todo}")
        try:
            for part in prequential(learner, chunks, metrics):
                parts.append(part)
                bar.at(metrics.rows, "test, then train")
        finally:
            learner.progress = None
    model.skipped_rows_ += rows.skipped
    return collect(parts, results(metrics, learner), learner, rows.single)
