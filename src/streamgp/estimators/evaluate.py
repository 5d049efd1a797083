"""Test, then train, with an estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamgp.estimators.base import StreamEstimator, warmup_for
from streamgp.estimators.explanations import inputs_of
from streamgp.estimators.groups import group_columns
from streamgp.estimators.late import check_delay, split_arrivals
from streamgp.estimators.learning_progress import learning_progress
from streamgp.estimators.pipelines import is_pipeline, last_step, transformed
from streamgp.estimators.sessions import EstimatorSession, check_rows_to_score
from streamgp.estimators.shown import Given
from streamgp.estimators.time_column import split_times, with_dated_index
from streamgp.estimators.validation import (
    Rows,
    column_names,
    feature_names,
    given_names,
    input_names,
    target_names,
)
from streamgp.evaluation.alarm_rows import Alarm
from streamgp.evaluation.description import describe, describe_calendar, describe_unusual, named_kinds
from streamgp.evaluation.inputs import Inputs
from streamgp.evaluation.metrics.shares import share
from streamgp.evaluation.scored_rows import Metrics, ScoredRows
from streamgp.evaluation.steps_ahead import StepsAhead, check_steps
from streamgp.models.option_type import whole_number
from streamgp.session import SessionOptions
from streamgp.session.by_task import check_baselines, check_groups
from streamgp.stream.apart import learner_from_tree
from streamgp.stream.learner import StreamLearner
from streamgp.stream.outlook import check_horizon
from streamgp.stream.settings import check_lags
from streamgp.table.containers import as_given
from streamgp.table.frames import FrameLike

if TYPE_CHECKING:  # who has one has imported it
    from sklearn.pipeline import Pipeline


class ModelOfKeys(Protocol):
    """A model of many keyed streams, such as a fleet, which evaluates frames itself."""

    def evaluate(self, frame: Any) -> Any:
        """Predict every row of a frame, score it, then learn it."""
        ...


def evaluate(
    model: "StreamEstimator | Pipeline | ModelOfKeys",
    X: Any,
    y: Any = None,
    times: Any = None,
    *,
    exposure: Any = None,
    conformal: float | None = None,
    groups: str | int | Sequence[str | int] | None = None,
    delay: int | str = 0,
    alarms: bool = False,
    weights: bool = True,
    steps_ahead: int = 0,
    known_ahead: Sequence[int | str] = (),
    baselines: Sequence[str] = (),
    progress: bool = True,
) -> Any:
    """Test-then-train: predict every row before its target is seen, score it, then learn it.

    The model goes on from where it stands, and has learnt all rows afterwards. Metrics are taken over the
    rows after the warm-up. A new classifier knows no label before it has come, unless `partial_fit` named it before.

    Parameters
    ----------
    model
        An estimator, new or already at work; or a pipeline of scikit-learn that ends in one, of which the other
        steps are fitted to the rows of the warm-up alone; or a fleet, with a frame for `X` and nothing else: see its
        `evaluate`.
    X, y, times, exposure
        As in the model's `partial_fit`; rows in the order of the stream. Those that ``missing="skip"`` leaves out
        are NaN in the result, and so are the scores of those whose target is missing.
    conformal
        The share of targets, such as 0.9, that bands beside the model's own are to hold, whatever the stream does:
        see `streamgp.evaluation.Conformal`. Of labels and grades it is sets that hold them: see `ConformalSets`.
    groups
        Columns of X, by name or number, in each group of whose rows conformal bands are to hold their share: levels
        of a category, fifths of a number. ``"auto"``: fifths of the predicted noise and of the predicted standard
        deviation. The model's own bands are tested in each group, with alarms of their own kind. For numbers and
        counts. See `streamgp.evaluation.Conformal`.
    delay
        How many rows late labels come: with k the label of a row is learnt just before row k + 1 after it is
        predicted, so that a row is predicted from the labels up to k + 1 rows before. Or the name of a column of the
        frame `X`, no input, that tells for each row when its label comes: the number of rows of `X` after which it
        is known or, with `times`, the time from which on; missing: never. Every row is scored by the prediction that
        was made when it came. Labels still on their way after the last row are learnt then; by such a column, labels
        that come more than 1,000 rows late are not. See `streamgp.stream.late_labels`.
    alarms
        Tell when the stream changes, in ``alarms`` of the result and ``model.alarms_``: see `Monitor`, whose default
        rate of false alarms holds. For numbers and counts whose labels come in time.
    weights
        Keep the weights of all experts in every row, by far the largest part of the result: with 270 experts 2 kB a
        row. Without them it has no ``weights``, and charts and pages show none; all else is the same.
    steps_ahead
        After the warm-up also forecast, at every so many rows, all of the next so many, and score each step by
        itself, beside naive baselines: ``steps_ahead`` of the metrics. See `streamgp.evaluation.StepsAhead`. For
        ensembles for numbers whose labels come in time.
    known_ahead
        The columns of X, by name or number, whose values are known so many rows ahead, such as the hour of the day;
        all others are filled in as if they were missing.
    baselines
        Those to stand beside the model besides the naive ones: ``["lightgbm"]`` is LightGBM, fitted anew to the last
        10,000 rows every 500, with the same inputs and lags, and split-conformal bands. For numbers; it needs the
        extra ``lightgbm``.
    progress
        Show progress: a bar on a terminal, elsewhere a line on standard error every ten seconds.

    Raises
    ------
    ValueError
        As `partial_fit` does; if `conformal` is no share, or asked for with a column of arrivals; if `groups` are
        asked for without it or of labels or grades, or are no columns of X; if `delay` is
        neither, or asked for of a model with a horizon or with lags that are not above it; if `alarms` are asked for
        of labels or grades, or with a delay; if `steps_ahead` does not go with the model or a delay, or a column of
        `known_ahead` is none of X; if one of `baselines` is not to be had; or if labels that `predict_later` waits
        for have not come.

    Returns
    -------
    Evaluation or ClassificationEvaluation
        Arrays with one entry per row, ``mean``, ``std``, ``log_density``, ``weights``, ..., and ``metrics``. Labels
        and grades have ``probabilities`` and ``predicted`` in place of mean, std and quantiles. ``to_frame()``,
        ``summary()``, ``plot(kind)`` and ``report(path)`` show them.
    """
    X = as_given(X)
    while is_pipeline(model):
        X, times = split_times(X, times)
        if isinstance(delay, str):
            raise ValueError(f"delay: expected a number of rows with a pipeline, got the column {delay!r}")
        if y is None:
            raise ValueError("evaluate: expected the targets y as well, got none")
        model, X = last_step(model), transformed(model, X, y)
    if not isinstance(model, StreamEstimator):
        others = (y, times, exposure, conformal, groups, delay or None, steps_ahead or None, baselines or None)
        if alarms or not weights or any(each is not None for each in others):
            raise ValueError("evaluate: expected a fleet and a frame that holds keys, times and targets, and no more")
        return model.evaluate(X)
    if y is None:
        raise ValueError("evaluate: expected the targets y as well, unless the model is a fleet")
    like, X = FrameLike.of(X, y), with_dated_index(model, X, times)
    with model._access.lock:
        steps, delay = _check_options(model, steps_ahead, delay, alarms)
        if groups is not None and conformal is None:
            raise ValueError("groups: expected them with conformal=, the share that bands hold in each, got none")
        check_groups(model._make_spec().task, groups)
        check_baselines(model._make_spec().task, baselines, delay)
        arrives = None
        if isinstance(delay, str):
            X, arrives = split_arrivals(X, delay, times is not None)
            if conformal is not None:
                raise ValueError("conformal: expected labels in time, or so many rows late, got a column of arrivals")
        rows = check_rows_to_score(model, X, y, times, exposure)
        outputs = rows.y.shape[1]
        names = target_names(y, outputs)
        asked = SessionOptions(
            level=None if conformal is None else share("conformal", conformal),
            groups=group_columns(groups, split_times(X, times)[0], rows),
            alarms=model._tests_for_alarms(outputs) if alarms else None,
            horizons=_horizons(steps, known_ahead, split_times(X, times)[0], names, rows) if steps else None,
            delay=delay,
            baselines=baselines,
        )
        warmup = 0 if model.__sklearn_is_fitted__() and len(rows.X) else warmup_for(rows)
        whole = EstimatorSession(model, rows, warmup, asked, None if arrives is None else arrives[rows.kept])
        parts, seconds = _feed(whole, model._learner, len(rows.X), weights, progress)
        found, scores = whole.end(), named_kinds(whole.session.results(), column_names(model))
        about = _describe(model, whole.session.metrics, scores, names, rows, seconds, found)
        inputs = Inputs(learner_from_tree(model._learner.to_tree()), inputs_of(model))  # as it is now
        given = Given(rows.kept, rows.given, like, about, weighed=weights, inputs=inputs)
        result = model._collected(parts, scores, given)
        return result if found is None else replace(result, alarms=found)


def _check_options(model: StreamEstimator, steps_ahead: int, delay: int | str, alarms: bool) -> tuple[int, int | str]:
    """Check that what is asked for goes together and with the model; return the steps ahead and the delay."""
    if alarms and delay != 0:
        raise ValueError("alarms: expected labels that come in time, whose errors they test; leave out one of both")
    steps = whole_number("steps_ahead", steps_ahead, low=0)
    if steps:
        check_steps(model._make_spec(), steps)
        if delay != 0:
            raise ValueError("steps_ahead: expected labels that come in time; leave out one of both")
    delay = check_delay(delay)
    if delay:
        check_horizon(model._make_spec().horizon)
    if isinstance(delay, int) and model.__sklearn_is_fitted__():
        check_lags(model._learner.spec.lags, delay)
    return steps, delay


def _feed(
    whole: EstimatorSession, learner: StreamLearner, rows: int, weights: bool, progress: bool
) -> tuple[list[ScoredRows], dict[str, float]]:
    """Let the session learn its rows; return what was predicted of them, and the seconds spent."""
    metrics = whole.session.metrics
    parts: list[ScoredRows] = []
    began = perf_counter()
    in_warmup = 0.0
    with learning_progress(learner, "test, then train", rows, progress) as report:
        for part in whole.feed():
            in_warmup = in_warmup if part.by_experts else perf_counter() - began
            parts.append(part._replace(experts=None, weights=part.weights if weights else None))
            report(metrics.rows)
    total = perf_counter() - began
    return parts, {"warmup": in_warmup, "stream": total - in_warmup, "total": total}


def _describe(
    model: StreamEstimator,
    metrics: Metrics,
    scores: Mapping[str, Any],
    names: Sequence[str],
    rows: Rows,
    seconds: Mapping[str, float],
    alarms: Sequence[Alarm] | None,
) -> dict[str, Any]:
    """Return the entries of ``metrics.json`` of an evaluation in Python."""
    learner = model._learner
    about = describe(
        learner,
        scores,
        targets=names,
        features=feature_names(model),
        seconds=seconds,
        learnt=metrics.rows - metrics.warmup,
    )
    left_out = model._columns.left_out(given_names(model))
    return about | {
        "alarms": None if alarms is None else [asdict(alarm) for alarm in alarms],
        "importance": None,  # found by the report
        "skipped_rows": rows.skipped,
        "interrupted": False,
        "stopped": None,
        "warnings": [
            *(f"column '{name}' was left out: {reason}" for name, reason in left_out.items()),
            *describe_calendar(learner, _dates(model), python=True),
            *describe_unusual(
                learner,
                metrics,
                names,
                rows.skipped,
                python=True,
                first_fault=rows.fault,
                features=column_names(model),
            ),
        ],
        "command": None,
        "python": True,
    }


def _dates(model: StreamEstimator) -> list[str]:
    """Return the names of the columns that hold times."""
    columns = model._columns
    dates = [name for name, kind in zip(given_names(model), columns.kinds, strict=False) if kind == "date"]
    return [*dates, *(["time"] if columns.dated else [])]


def _horizons(steps: int, known: Sequence[int | str], X: Any, targets: list[str], rows: Rows) -> StepsAhead:
    """Return what forecasts and scores so many steps, with the inputs that are known ahead."""
    names = input_names(X, rows.X.shape[1])
    inputs, sources = np.full(rows.X.shape, np.nan), np.array(rows.columns.sources(rows.X.shape[1]))
    for column in known:
        if column not in names and not (isinstance(column, int) and 0 <= column < len(names)):
            raise ValueError(f"known_ahead: expected columns of X ({', '.join(names)}), got {column!r}")
        at = names.index(column) if isinstance(column, str) else column
        own = np.flatnonzero(sources == at)
        inputs[:, own] = rows.X[:, own]
    return StepsAhead(steps, targets, inputs)
