"""The result of `compare`: the scores of several models on the same rows, and their differences."""

from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.estimators.shown import html_row
from streamgp.evaluation.metrics.paired import differences
from streamgp.table.frames import FrameLike


class ModelRows(NamedTuple):
    """What one model said of every row before it learnt it, in its order.

    Attributes
    ----------
    mean
        The predictions (n,); NaN where there is none.
    log_density, crps, covered
        The scores (n,) of its distributions, and whether the target was inside the central 90% (1, or 0); None of a
        model of means alone.
    seconds
        What predicting and learning took.
    warmup
        The first row after its warm-up.
    """

    mean: Float[np.ndarray, " n"]
    log_density: Float[np.ndarray, " n"] | None
    crps: Float[np.ndarray, " n"] | None
    covered: Float[np.ndarray, " n"] | None
    seconds: float
    warmup: int


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`.

    All scores are over the same rows: those after the longest warm-up that have a target, one before them, and a
    prediction of every model.

    Attributes
    ----------
    models
        What each model said of every row, by its name: arrays ``mean``, ``log_density``, ``crps`` and ``covered``
        (in the central 90%) in the order of the rows, the last three None of models without distributions.
    y
        The targets (n,).
    scored
        Which rows are scored (n,).
    baselines
        What one would use instead, as `models`: the last value, the mean so far, and the value a season before, of
        each season that the first of our models found.
    """

    models: dict[str, ModelRows]
    y: Float[np.ndarray, " n"]
    scored: Bool[np.ndarray, " n"]
    _like: FrameLike = field(compare=False)
    baselines: dict[str, ModelRows] = field(default_factory=dict)

    @property
    def _every(self) -> dict[str, ModelRows]:
        """Return the models, and the baselines whose names none of them has."""
        return self.models | {name: of for name, of in self.baselines.items() if name not in self.models}

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(map(str, self.models))} on {int(self.scored.sum()):,} rows"

    def losses(self, name: str) -> dict[str, Float[np.ndarray, " m"]]:
        """Return the scores of one model on each scored row, by name, in their order.

        Those of nmse are squared errors over the variance of the scored targets, those of mae absolute errors. Of
        all but pll, the log density, less is better.
        """
        of, y = self._every[name], self.y[self.scored]
        error = y - of.mean[self.scored]
        variance = np.var(y) if len(y) else 0.0
        found = {"nmse": error**2 / variance if variance > 0.0 else np.full(len(y), np.nan), "mae": np.abs(error)}
        for score, rows in (("crps", of.crps), ("pll", of.log_density)):
            if rows is not None:
                found[score] = rows[self.scored]
        return found

    def to_frame(self) -> Any:
        """Return the scores as a frame, a row for each model, then for each baseline.

        Columns: model; nmse, mae, crps and pll (mean log density), as in the summary of an evaluation; coverage_90;
        unpredicted, rows with a target after the longest warm-up of which this model said nothing; seconds. What a
        model has no distribution for is missing.
        """
        return self._like.make(self._scores())

    def differences(self, coverage: float = 0.95) -> Any:
        """Return by how much each model's scores differ from the first one's, with intervals, as a frame.

        Columns: model, score, difference (the model's minus the first one's), low and high. Below zero the model is
        better, of pll above. An interval that holds zero says: not shown. See
        `streamgp.evaluation.metrics.paired_interval`.

        Parameters
        ----------
        coverage
            The share of such intervals that are to hold the true difference.

        Raises
        ------
        ValueError
            If `coverage` is not strictly between 0 and 1.
        """
        return self._like.make(self._differences(coverage))

    def plot(self, ax: Any = None) -> Any:
        """Draw by how much each model's squared errors, added up, exceed the first one's, and return the axes.

        Where a line rises, the first model is the better one.

        Parameters
        ----------
        ax
            Axes of matplotlib; None for new ones.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        try:
            from streamgp.reports import compared
        except ImportError as error:
            raise ImportError("Charts need matplotlib: pip install matplotlib.") from error
        first, *others = self.models
        of_first = self.losses(first)["nmse"]
        lines = {name: np.cumsum(self.losses(name)["nmse"] - of_first) for name in others}
        return compared.draw(ax, first, np.flatnonzero(self.scored), lines)

    def _repr_html_(self) -> str:
        """Return the scores, and the differences, as tables for notebooks."""
        first = next(iter(self.models))
        parts = [f"<p>{int(self.scored.sum()):,} rows are scored.</p>", _table(self._scores())]
        if len(self.models) > 1:
            parts += [f"<p>Differences to {escape(first)}, with 95% intervals</p>", _table(self._differences(0.95))]
        return "".join(parts)

    def _scores(self) -> dict[str, list[Any]]:
        due = np.arange(len(self.y)) >= max(of.warmup for of in self.models.values())
        rows = []
        for name, of in self._every.items():
            losses = self.losses(name)
            rows.append(
                {"model": name}
                | {score: _mean(losses.get(score)) for score in ("nmse", "mae", "crps", "pll")}
                | {"coverage_90": _mean(None if of.covered is None else of.covered[self.scored])}
                | {"unpredicted": int((due & ~np.isnan(self.y) & np.isnan(of.mean)).sum()), "seconds": of.seconds}
            )
        return {column: [row[column] for row in rows] for column in rows[0]}

    def _differences(self, coverage: float) -> dict[str, list[Any]]:
        return differences({name: self.losses(name) for name in self._every}, coverage)


def _mean(rows: np.ndarray | None) -> float:
    return float(np.mean(rows)) if rows is not None and len(rows) else np.nan


def _table(columns: dict[str, list[Any]]) -> str:
    rows = [html_row("th", columns), *(html_row("td", row) for row in zip(*columns.values(), strict=True))]
    return f"<table>{''.join(rows)}</table>"
