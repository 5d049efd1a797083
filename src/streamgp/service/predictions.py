"""Predictions as a client sees them, column by column."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streamgp.evaluation.regression_scores import moments_and_quantiles
from streamgp.likelihoods import Predictive
from streamgp.numerics.precision import float64

Columns = dict[str, Any]

NUMBERS = ("mean", "std", "q05", "q50", "q95")


def columns_of(scores: Any, labels: Sequence[Any]) -> Columns:
    """Return what was predicted of scored rows: moments and quantiles, or a label and probabilities."""
    if hasattr(scores, "probabilities"):
        names = list(labels[: scores.probabilities.shape[1]])
        return {"label": [names[code] for code in scores.predicted.tolist()], "probabilities": scores.probabilities}
    return {name: np.asarray(getattr(scores, name), dtype=float)[:, 0] for name in NUMBERS}


def columns_ahead(predictive: Any, score: Callable[[Any, np.ndarray], Any], labels: Sequence[Any]) -> Columns:
    """Return what is predicted of rows whose targets are not known; `score` is that of the task's metrics."""
    with float64():
        if isinstance(predictive, Predictive):
            found = moments_and_quantiles(predictive)
            return {name: found[name][:, 0] for name in NUMBERS}
        return columns_of(score(predictive, np.zeros((len(predictive.log_weights), 1))), labels)


def judged_columns(scores: Any, labels: Sequence[Any]) -> Columns:
    """Return how good predictions were of rows whose label has come, with the label."""
    density = np.asarray(scores.log_density, dtype=float)
    if hasattr(scores, "probabilities"):
        codes = np.asarray(scores.y)
        known = np.minimum(np.maximum(codes, 0), scores.probabilities.shape[1] - 1)
        own = scores.probabilities[np.arange(len(codes)), known]
        own = np.where((codes >= 0) & (codes < scores.probabilities.shape[1]), own, 0.0)
        y = [labels[code] if 0 <= code < len(labels) else None for code in codes.tolist()]
        return {"y": y, "probability": own, "log_density": density}
    pit = np.asarray(scores.pit, dtype=float)[:, 0]
    if hasattr(scores, "pit_below"):
        pit = (pit + np.asarray(scores.pit_below, dtype=float)[:, 0]) / 2.0
    return {"y": np.asarray(scores.y, dtype=float)[:, 0], "pit": pit, "log_density": density}


def as_rows(columns: Columns, labels: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Return columns as rows of JSON: what is not finite is null, and quantiles go by their probabilities."""
    rows = flat_rows({name: column for name, column in columns.items() if name not in _QUANTILES})
    if "q05" in columns:
        quantiles = flat_rows({text: columns[name] for name, text in _QUANTILES.items()})
        rows = [row | {"quantiles": each} for row, each in zip(rows, quantiles, strict=True)]
    if "probabilities" in columns:
        names = [str(label) for label in labels]
        each = [dict(zip(names, row, strict=False)) for row in np.asarray(columns["probabilities"]).tolist()]
        rows = [row | {"probabilities": own} for row, own in zip(rows, each, strict=True)]
    return rows


def flat_rows(columns: Columns) -> list[dict[str, Any]]:
    """Return columns as rows of JSON, quantiles beside the rest, without the probabilities of all labels."""
    plain = {name: plain_list(column) for name, column in columns.items() if name != "probabilities"}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


_QUANTILES = {"q05": "0.05", "q50": "0.5", "q95": "0.95"}


def plain_list(column: Any) -> list[Any]:
    """Return a column as JSON has it."""
    if not isinstance(column, np.ndarray):
        return list(column)
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        return [value if np.isfinite(value) else None for value in column.tolist()]
    return column.tolist()


def joined(blocks: Sequence[Columns]) -> Columns:
    """Return blocks as one; those with probabilities of fewer classes have none for the others."""
    if not blocks:
        return {}
    if len(blocks) == 1:
        return blocks[0]
    whole: Columns = {}
    for name, first in blocks[0].items():
        columns = [block[name] for block in blocks]
        if not isinstance(first, np.ndarray):
            whole[name] = [value for column in columns for value in column]
        elif first.ndim == 2:
            width = max(column.shape[1] for column in columns)
            whole[name] = np.concatenate([np.pad(c, [(0, 0), (0, width - c.shape[1])]) for c in columns])
        else:
            whole[name] = np.concatenate(columns)
    return whole
