"""One self-contained HTML page about several runs on the same rows: `render_comparison`, and its words."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from streamgp.numerics import formats

# The number of points of a line.
POINTS = 800
NAMES = {
    "nmse": "nMSE",
    "mae": "MAE",
    "crps": "CRPS",
    "pll": "log density",
    "coverage_90": "in 90% band",
    "log_loss": "log loss",
    "error_rate": "error rate",
    "brier": "Brier score",
    "rps": "RPS",
}
SHARES = ("coverage_90", "error_rate")
_MORE_IS_BETTER = "pll"


def shown(score: str, value: float | None) -> str:
    """Return a score as people read it; a dash where there is none."""
    if value is None or not np.isfinite(value):
        return formats.number(None)
    return formats.share(value) if score in SHARES else formats.number(value)


def best(about: Mapping[str, Any], score: str) -> str | None:
    """Return the run with the best score, if there is one."""
    known = [run for run in about["runs"] if np.isfinite(run[score])]
    sign = -1.0 if score == _MORE_IS_BETTER else 1.0
    return min(known, key=lambda run: sign * run[score])["run"] if known else None


def is_better(score: str, difference: Mapping[str, Any]) -> bool | None:
    """Return whether a run is better than the first one, or None where that is not shown."""
    low, high = difference["low"], difference["high"]
    if high < 0.0:
        return score != _MORE_IS_BETTER
    if low > 0.0:
        return score == _MORE_IS_BETTER
    return None


def verdicts(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a sentence on each run but the first, by the first of the scores, and whether it is better."""
    score, first = about["scores"][0], about["runs"][0]["run"]
    found = []
    for difference in (each for each in about["differences"] if each["score"] == score):
        better = is_better(score, difference)
        name, by = difference["model"], f"{NAMES[score]} {_signed(score, difference['difference'])}"
        ends = f"95% interval {shown(score, difference['low'])} to {shown(score, difference['high'])}"
        if better is None:
            few = not np.isfinite(difference["low"])
            why = "too few rows for an interval" if few else ends
            text = f"{name} cannot be told apart from {first}: {by}, {why}."
        else:
            text = f"{name} is {'better' if better else 'worse'} than {first}: {by}, {ends}."
        found.append({"text": text, "better": better})
    return found


def headline(about: Mapping[str, Any]) -> str:
    """Return which run is the best one, in a sentence, and which ones cannot be told apart from it."""
    score, rows = about["scores"][0], formats.plural(about["rows"], "row")
    name = best(about, score)
    if name is None:
        return f"On {rows} no run has {NAMES[score]} to compare."
    (run,) = (run for run in about["runs"] if run["run"] == name)
    runs = "both runs" if len(about["runs"]) == 2 else f"all {len(about['runs'])} runs"
    low = f"the lowest {NAMES[score]}, {shown(score, run[score])}"
    tied = about["tied"]
    told = f", but {' and '.join(tied)} cannot be told apart from it" if tied else ""
    return f"On the {rows} that {runs} scored, {name} has {low}{told}."


def render_comparison(about: dict[str, Any], rows: np.ndarray, losses: dict[str, dict[str, np.ndarray]]) -> bytes:
    """Return the page about several runs, as HTML in UTF-8.

    Parameters
    ----------
    about
        Scores, differences and notes of the runs; see `streamgp.app.run_compare`.
    rows
        The rows (n,) that are compared.
    losses
        Those of every run on them, (n,) each, by the names of the run and of the score.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    """
    try:
        from streamgp.reports import compared, templating
    except ImportError as error:
        raise ImportError("The page needs matplotlib and jinja2: pip install matplotlib jinja2.") from error
    score = about["scores"][0]
    names = list(losses)
    of_runs = [of[score] for of in losses.values()]
    window, running = _running(rows, of_runs)
    return templating.render(
        "comparison.html",
        m=about,
        score=score,
        names=NAMES,
        headline=headline(about),
        verdicts=verdicts(about),
        best={name: best(about, name) for name in about["scores"]},
        shown=shown,
        signed=_signed,
        is_better=is_better,
        window=window,
        legend=[{"name": name, "colour": compared.colour(i)} for i, name in enumerate(names)],
        running_chart=compared.running(running, rows, NAMES[score]),
        sums_chart=compared.sums(_sums(rows, of_runs), rows, NAMES[score]),
    )


def _signed(score: str, difference: float) -> str:
    """Return a difference with its sign."""
    return ("+" if difference > 0.0 else "") + shown(score, difference)


def _chosen(count: int) -> np.ndarray:
    """Return places along `count` rows, evenly, the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))


def _running(rows: np.ndarray, losses: list[np.ndarray]) -> tuple[int, pl.DataFrame]:
    """Return the means of losses over a window, a twentieth of the rows, and its length."""
    window = min(len(rows), max(20, len(rows) // 20))
    ends = window - 1 + _chosen(len(rows) - window + 1)
    sums = [np.concatenate([[0.0], np.cumsum(loss)]) for loss in losses]
    means = {f"run{i}": (each[ends + 1] - each[ends + 1 - window]) / window for i, each in enumerate(sums)}
    return window, pl.DataFrame({"row": rows[ends]} | means)


def _sums(rows: np.ndarray, losses: list[np.ndarray]) -> pl.DataFrame:
    """Return sums so far of the differences to the first of the losses."""
    at = _chosen(len(rows))
    return pl.DataFrame(
        {"row": rows[at]} | {f"run{i}": np.cumsum(loss - losses[0])[at] for i, loss in enumerate(losses)}
    )
