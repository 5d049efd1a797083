"""The scores, bands and tests of each kind of target."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamgp.evaluation import (
    Alarms,
    ClassificationMetrics,
    Conformal,
    ConformalSets,
    CountMetrics,
    OrdinalMetrics,
    RegressionMetrics,
)
from streamgp.evaluation.alarms import RATE
from streamgp.evaluation.boosted_trees import NAME as LIGHTGBM
from streamgp.evaluation.boosted_trees import lightgbm_package
from streamgp.evaluation.row_groups import GroupColumn
from streamgp.evaluation.scored_rows import Metrics

_METRICS = {
    "regression": RegressionMetrics,
    "classification": ClassificationMetrics,
    "count": CountMetrics,
    "ordinal": OrdinalMetrics,
}
_OF_LABELS = ("classification", "ordinal")


def new_metrics(task: str, names: Sequence[str], unscored: int, known: int) -> Metrics:
    """Return the scores before the first row.

    Parameters
    ----------
    task
        What the target is.
    names
        Those of the targets; of labels and grades, of each of these.
    unscored
        Rows with a target that come first and are not scored.
    known
        How many rows after its prediction a target is known.
    """
    return (
        CountMetrics(names[0], unscored, known) if task == "count" else _METRICS[task](list(names), unscored, known)
    )


def metrics_from_tree(task: str, tree: Mapping[str, Any]) -> Metrics:
    """Return the scores whose `to_tree` gave `tree`."""
    return _METRICS[task].from_tree(tree)


def new_bands(
    task: str,
    level: float,
    targets: Sequence[str],
    unscored: int,
    known: int,
    groups: Sequence[GroupColumn] = (),
) -> Conformal | ConformalSets:
    """Return conformal bands of this level, or sets of labels, before the first row.

    Raises
    ------
    ValueError
        If the level is no share, or there are groups of labels or grades.
    """
    check_groups(task, groups)
    if task in _OF_LABELS:
        return ConformalSets(level, unscored, known)
    return Conformal(level, list(targets), unscored, known, groups, whole=task == "count")


def check_groups(task: str, groups: Any) -> None:
    """Check that what the target is has bands by groups of rows, if these are asked for.

    Raises
    ------
    ValueError
        If the target is labels or grades.
    """
    if groups and task in _OF_LABELS:
        raise ValueError("groups: expected numbers or counts, which have bands, got labels or grades")


def check_baselines(task: str, baselines: Sequence[str], delay: int | str) -> None:
    """Check which baselines are asked for.

    Raises
    ------
    ValueError
        If one is not known, the target is not a number, a column says when labels come, or LightGBM is not installed.
    """
    unknown = [name for name in baselines if name != LIGHTGBM]
    if unknown:
        raise ValueError(f"baselines: expected {LIGHTGBM}, got {', '.join(map(repr, unknown))}")
    if baselines and task != "regression":
        raise ValueError(f"baselines: expected numbers, which {LIGHTGBM} predicts here, got {task}; leave them out")
    if baselines and isinstance(delay, str):
        raise ValueError("baselines: expected labels in time, or so many rows late, got a column of arrivals")
    if baselines:
        lightgbm_package()


def bands_from_tree(task: str, tree: Mapping[str, Any]) -> Conformal | ConformalSets:
    """Return the bands or sets whose `to_tree` gave `tree`."""
    return (ConformalSets if task in _OF_LABELS else Conformal).from_tree(tree)


def new_alarms(task: str, targets: Sequence[str], horizon: int, rate: float = RATE) -> Alarms:
    """Return the tests for changes before the first row.

    Raises
    ------
    ValueError
        If the target is labels or grades, or the rate none.
    """
    if task in _OF_LABELS:
        raise ValueError("alarms: expected numbers or counts, whose errors they test, got labels or grades")
    return Alarms(list(targets), horizon, rate)
