"""What differs from task to task in a run: its scores, bands and notes."""

from collections.abc import Mapping
from typing import Any

from streamgp.data import Schema
from streamgp.evaluation import (
    Alarms,
    ClassificationMetrics,
    Conformal,
    ConformalSets,
    CountMetrics,
    OrdinalMetrics,
    RegressionMetrics,
    StepsAhead,
)
from streamgp.evaluation.prequential import Metrics
from streamgp.evaluation.steps_ahead import check_steps
from streamgp.models.spec import Spec

_METRICS = {
    "regression": RegressionMetrics,
    "classification": ClassificationMetrics,
    "count": CountMetrics,
    "ordinal": OrdinalMetrics,
}


def new_metrics(schema: Schema, warmup: int, horizon: int) -> Metrics:
    """Return the scores of a stream whose columns are those of `schema`, before its first row."""
    if schema.labels is not None:
        kind = OrdinalMetrics if schema.labels.ordered else ClassificationMetrics
        return kind(schema.labels.names, warmup, horizon)
    if schema.task == "count":
        return CountMetrics(schema.targets[0], warmup, horizon)
    return RegressionMetrics(list(schema.targets), warmup, horizon)


def new_bands(schema: Schema, level: float | None, warmup: int, horizon: int) -> Conformal | ConformalSets | None:
    """Return conformal bands of this level, or sets of labels, if there is one, before the first row.

    Raises
    ------
    ValueError
        If the level is no share.
    """
    if level is None:
        return None
    if schema.labels is not None:
        return ConformalSets(level, warmup, horizon)
    return Conformal(level, list(schema.targets), warmup, horizon)


def restored_bands(task: str, tree: Mapping[str, Any] | None) -> Conformal | ConformalSets | None:
    """Return the conformal bands or sets that a checkpoint holds, if it holds some."""
    if tree is None:
        return None
    return (ConformalSets if task in ("classification", "ordinal") else Conformal).from_tree(tree)


def new_alarms(schema: Schema, wanted: bool, horizon: int) -> Alarms | None:
    """Return the tests for changes, if they are wanted, before the first row.

    Raises
    ------
    ValueError
        If the target is labels or grades.
    """
    if not wanted:
        return None
    if schema.labels is not None:
        raise ValueError(f"--alarms: expected numbers or counts, whose errors it tests, got {schema.task}")
    return Alarms(list(schema.targets), horizon)


def new_steps(schema: Schema, spec: Spec, steps: int) -> StepsAhead | None:
    """Return what forecasts and scores several rows ahead, if it is wanted, before the first row.

    Raises
    ------
    ValueError
        If the model cannot, or the steps are fewer than 2.
    """
    if not steps:
        return None
    try:
        check_steps(spec, steps)
    except ValueError as error:
        raise ValueError(f"--horizon 1..{steps}: {str(error).removeprefix('steps_ahead: ')}") from error
    return StepsAhead(steps, schema.targets)


def restored_metrics(task: str, tree: Mapping[str, Any]) -> Metrics:
    """Return the scores that a checkpoint holds."""
    return _METRICS[task].from_tree(tree)


def notes(schema: Schema, metrics: Metrics) -> list[str]:
    """Return what the user should know of the task."""
    found = list(schema.notes)
    if isinstance(metrics, ClassificationMetrics) and schema.labels is not None:
        new = metrics.classes[schema.labels.first :]
        if new:
            names = ", ".join(f"'{name}'" for name in new)
            found.append(
                f"target column '{schema.targets[0]}': labels that the first rows had not, learnt from their first "
                f"row on: {names}"
            )
    return found
