"""Evaluations as frames, as charts, and as the page that the command writes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.evaluation.inputs import Inputs
from streamgp.numerics import formats
from streamgp.progress import progress_bar
from streamgp.reports import verdicts, wording
from streamgp.table.files import write_aside
from streamgp.table.frames import FrameLike

# In the order of a summary's columns; those that a kind of target has.
_SCORES = (
    "nmse",
    "rmse",
    "mae",
    "deviance",
    "error_rate",
    "balanced_error",
    "log_loss",
    "brier",
    "ece",
    "rps",
    "crps",
)
_OF_LABELS = ("y", "predicted", "last_label", "frequent_label", "conformal_low", "conformal_high")
_OF_SETS = "conformal_set"
_NOT_KEPT = "weights: expected an evaluation that keeps them, got one of weights=False; evaluate without that option"


@dataclass(frozen=True)
class Given:
    """The rows that were given, and what there is to say of the model: all that an evaluation is shown by.

    Attributes
    ----------
    kept, rows
        Where the rows that were predicted stood, of so many.
    like
        The make of the user's frames.
    about
        As in ``metrics.json``.
    table
        The columns of the predictions, as in ``predictions.parquet``.
    labels
        The user's labels by their names there.
    weighed
        Whether the weights of the experts are kept.
    inputs
        Those of the model, as it was at the end.
    """

    kept: np.ndarray
    rows: int
    like: FrameLike
    about: dict[str, Any]
    table: dict[str, np.ndarray] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    weighed: bool = True
    inputs: Inputs | None = None

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Extend the values of the rows that were kept to all: with NaN, or False, or else None."""
        blank = {"f": np.nan, "b": False}.get(values.dtype.kind)
        wide = np.full((self.rows, *values.shape[1:]), blank, object if blank is None else values.dtype)
        wide[self.kept] = values
        return wide


class Shown:
    """The methods by which evaluations of every kind of target are shown."""

    metrics: dict[str, Any]
    rules: dict[str, np.ndarray]
    _weights: np.ndarray | None
    _given: Given

    @property
    def weights(self) -> np.ndarray:
        """Return the weights that mixed each prediction, where they were kept."""
        if self._weights is None:
            raise AttributeError(_NOT_KEPT)
        return self._weights

    def to_frame(self) -> Any:
        """Return predictions and scores as a frame, row for row of the input.

        It is of the make of the frame that `evaluate` was given (with the index of pandas), and of polars for NumPy
        arrays. Its columns are those of the command's ``predictions.parquet``: y, mean, std, q05, q50, q95, pit,
        crps, log_density, the naive predictions persistence_mean and running_mean, flagged (set aside as an outlier),
        and conformal_low and conformal_high where there are any; those of further targets end in ``_NAME``. Labels
        and grades have predicted, and p_NAME for the probability of each, instead, and labels conformal_set. Rows
        that were skipped, and scores of rows without a target, are missing.
        """
        given = self._given
        columns = given.table
        for name in (name for name in _OF_LABELS if given.labels and name in columns):
            labels = [None if each is None else given.labels[each] for each in columns[name]]
            columns = columns | {name: _objects(labels)}
        if _OF_SETS in columns:
            columns = columns | {
                _OF_SETS: _objects([[given.labels[each] for each in row] for row in columns[_OF_SETS]])
            }
        return given.like.make({name: given.spread(column) for name, column in columns.items()}, aligned=True)

    def summary(self) -> Any:
        """Return the scores as a frame: a row for the model and one for each naive baseline, of every target.

        Scores are those of `metrics`; a baseline has only some of them.
        """
        return self._given.like.make(self._scores())

    def plot(self, kind: str = "predictions", ax: Any = None, last: int = 200) -> Any:
        """Draw a chart on `ax`, or on new axes of matplotlib, and return them.

        Parameters
        ----------
        kind
            ``predictions``: targets, medians and bands of the `last` rows, of labels the probabilities along the
            stream. ``errors``: those of the latest rows, beside the naive baselines'. ``calibration``: coverage of
            the bands, or frequencies by predicted probabilities. ``pit``: where targets fell in their predicted
            distributions. ``weights``: those of the experts, stacked. Of several targets the first is shown.
        ax
            Axes of matplotlib.
        last
            How many rows ``predictions`` shows, of numbers and counts.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is no such chart, no row that it could show, or none of the weights that it would.
        """
        if kind == "weights" and not self._given.weighed:
            raise ValueError(_NOT_KEPT)
        try:
            from streamgp.reports import plots
        except ImportError as error:
            raise ImportError("Charts need matplotlib: pip install matplotlib.") from error
        return plots.draw(kind, self._given.about, *self._tables(), ax, last)

    def report(
        self, path: "str | Path" = "report.html", title: str = "the rows given", progress: bool = True
    ) -> Path:
        """Write the page that `streamgp run` writes, self-contained, and return its path.

        Which inputs matter is found now, of the model as it was at the end of the rows.

        Parameters
        ----------
        path
            Where to; an earlier file is replaced only by a complete one.
        title
            What the page calls the data.
        progress
            Show progress where it takes more than two seconds.

        Raises
        ------
        ImportError
            If matplotlib or jinja2 is not installed.
        FileNotFoundError
            If there is no such directory.
        """
        if not Path(path).absolute().parent.is_dir():
            raise FileNotFoundError(f"path: expected a file in a directory that exists, got {path}")
        # The import is here because it loads polars, which no other method needs.
        from streamgp.reports.run_page import render_run

        given = self._given
        with progress_bar("which inputs matter", 2, progress, counts_rows=False) as bar:
            matters = None if given.inputs is None else given.inputs.importance()
            bar.at(1, "the page")
            more = {"data": title, "weighed": given.weighed, "importance": matters}
            page = render_run(given.about | more, *self._tables())
            bar.at(2)
        write_aside(Path(path), page)
        return Path(path)

    def _repr_html_(self) -> str:
        """Return the result in a sentence and a small table, for notebooks."""
        about = self._given.about
        page = [f"<p>{escape(wording.headline(about))}</p>"]
        if about["scored_rows"]:
            page += [f"<p>{escape(each['text'])}</p>" for each in verdicts.sentences(about)]
            columns = self._scores()
            rows = [html_row("th", columns), *(html_row("td", row) for row in zip(*columns.values(), strict=True))]
            page.append(f"<table>{''.join(rows)}</table>")
        return "".join(page)

    def _tables(self) -> tuple[Any, Any]:
        """Return the tables of predictions and of weights that charts are made from."""
        # The import is here because it loads polars.
        from streamgp.estimators import page_tables

        given = self._given
        found = page_tables.predictions(given.kept, given.table)
        return found, page_tables.weights(given.kept, self._weights, self.rules, given.about)

    def _scores(self) -> dict[str, list[Any]]:
        """Return the columns of the summary."""
        about = self._given.about
        several = len(about["by_target"]) > 1
        rows: list[dict[str, Any]] = []
        for target, scores in (about["by_target"] if several else {about["target"]: self.metrics}).items():
            named = {"target": target} if several else {}
            rows.append({**named, "predictor": about["model"], **_flat(scores)})
            rows += [{**named, "predictor": name, **_flat(naive)} for name, naive in scores["naive"].items()]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name, np.nan) for row in rows] for name in names}


def _flat(scores: dict[str, Any]) -> dict[str, float]:
    """Return the scores that are single numbers, and the coverage of bands, NaN where one is not known."""
    found = {name: scores[name] for name in (*_SCORES, "crps", "pll") if name in scores}
    found |= {f"coverage_{level}": share for level, share in scores.get("coverage", {}).items()}
    return {name: np.nan if value is None else value for name, value in found.items()}


def _objects(values: list[Any]) -> np.ndarray:
    """Return an array of objects, whatever they are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def html_row(tag: str, cells: Iterable[Any]) -> str:
    """Return a row of a table, numbers as people read them."""
    each = (cell if isinstance(cell, str) else formats.number(None if np.isnan(cell) else cell) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in each)}</tr>"
