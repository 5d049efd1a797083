"""What differs from task to task in a run: its scores, and the columns of its predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamgp.data import Schema
from streamgp.data.labels import ClassNames
from streamgp.evaluation import (
    Alarms,
    ClassificationMetrics,
    ClassificationScores,
    Conformal,
    CountMetrics,
    CountScores,
    OrdinalMetrics,
    OrdinalScores,
    RegressionMetrics,
    RegressionScores,
)
from streamgp.evaluation.prequential import Metrics, ScoredRows

NUMBERS = ("y", "mean", "std", "q05", "q50", "q95", "pit", "crps")
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


def new_bands(schema: Schema, level: float | None, warmup: int, horizon: int) -> Conformal | None:
    """Return conformal bands of this level, if there is one, before the first row.

    Raises
    ------
    ValueError
        If the level is no share, or the target is labels or grades.
    """
    if level is None:
        return None
    if schema.labels is not None:
        raise ValueError(f"--conformal: expected numbers or counts, whose bands it corrects, got {schema.task}")
    return Conformal(level, list(schema.targets), warmup, horizon)


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


def restored_metrics(task: str, tree: Mapping[str, Any]) -> Metrics:
    """Return the scores that a checkpoint holds."""
    return _METRICS[task].from_tree(tree)


def columns(part: ScoredRows, targets: Sequence[str], labels: ClassNames | None = None) -> dict[str, np.ndarray]:
    """Return the columns of ``predictions.parquet`` that are about targets and their predictions."""
    scores = part.scores
    if labels is None:
        assert isinstance(scores, RegressionScores | CountScores)
        return _of_numbers(part, scores, targets)
    assert isinstance(scores, ClassificationScores | OrdinalScores)
    names = np.array(labels.names, dtype=object)
    found: dict[str, np.ndarray] = {
        "y": np.array([*labels.names, None], dtype=object)[scores.y],
        "predicted": names[scores.predicted],
    }
    if isinstance(scores, OrdinalScores):
        mean = scores.probabilities @ labels.values
        found |= {"mean": mean, "std": np.sqrt(scores.probabilities @ labels.values**2 - mean**2)}
    found |= {f"p_{name}": p for name, p in zip(labels.names, scores.probabilities.T, strict=False)}
    found |= {"rps": scores.rps} if isinstance(scores, OrdinalScores) else {"brier": scores.brier}
    found["log_density"] = scores.log_density
    frequencies = part.running_mean
    own = np.take_along_axis(frequencies, np.clip(scores.y, 0, frequencies.shape[1] - 1)[:, None], axis=1)[:, 0]
    return found | {
        "last_label": np.array([None, *labels.names], dtype=object)[part.persistence + 1],
        "frequent_label": names[frequencies.argmax(axis=1)],
        # Of a label that was new, the probability that the model's own score has, too.
        "frequency_log_density": np.where(
            (scores.y >= 0) & (scores.y < frequencies.shape[1]), np.log(own), scores.log_density
        ),
    }


def _of_numbers(
    part: ScoredRows, scores: RegressionScores | CountScores, targets: Sequence[str]
) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    below = ("pit_below",) if isinstance(scores, CountScores) else ()
    for e, target in enumerate(targets):
        suffix = "" if e == 0 else f"_{target}"
        found |= {name + suffix: getattr(scores, name)[:, e] for name in (*NUMBERS, *below)}
        found["persistence_mean" + suffix] = part.persistence[:, e]
        found["running_mean" + suffix] = part.running_mean[:, e]
        if part.band is not None:
            ends = zip(("conformal_low", "conformal_high"), part.band, strict=True)
            found |= {name + suffix: end[:, e] for name, end in ends}
    return found | {"log_density": scores.log_density}


def notes(schema: Schema, metrics: Metrics) -> list[str]:
    """Return what the user should know of the task."""
    found = [schema.note] if schema.note else []
    if isinstance(metrics, ClassificationMetrics) and schema.labels is not None:
        new = metrics.classes[schema.labels.first :]
        if new:
            names = ", ".join(f"'{name}'" for name in new)
            found.append(
                f"target column '{schema.targets[0]}': labels that the first rows had not, learnt from their first "
                f"row on: {names}"
            )
    return found
