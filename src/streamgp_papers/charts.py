"""Charts of a reproduction as PNG files beside its JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamgp_papers.datasets import DATASETS
from streamgp_papers.found import ReproductionResult

# Paul Tol's muted scheme ("Colour schemes", 2021), as in the report of a run.
_COLOURS = (
    "#332288", "#cc6677", "#117733", "#88ccee", "#ddcc77", "#aa4499", "#44aa99", "#882255", "#999933", "#555555",
)  # fmt: skip
_DASHES = ("-", "--")
_VARIANTS = ("-", ":", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))


def draw(result: ReproductionResult, stem: Path) -> list[Path]:
    """Write the charts of every data set as ``<stem>-<data>-<kind>.png``; return their names."""
    files = []
    for data in dict.fromkeys(one.data for one in result.shown):
        runs = result.of(data)
        for kind in result.reproduction.pictures:
            if kind not in runs[0]:
                continue
            file = stem.with_name(f"{stem.name}-{data}-{kind.replace('_', '-')}.png")
            figure = _PICTURES[kind](runs, DATASETS[data].title)
            figure.savefig(file, dpi=150)
            files.append(file)
    return files


def _curves(runs: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw the scores over the rows so far: mean over the trials, and one standard deviation to both sides."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for ax, score in ((left, "nmse"), (right, "pll")):
        curves = {model: [run["curves"][model] for run in runs] for model in runs[0]["curves"]}
        _lines(ax, curves, score)
        ax.set_xscale("log")
        ax.set_xlabel("rows after the warm-up")
    left.set_yscale("log")
    # Errors far above those of the mean of the targets are off the chart.
    left.set_ylim(top=min(left.get_ylim()[1], 3.0))
    left.set_ylabel("nMSE of the rows so far")
    right.set_ylabel("mean log density of the rows so far")
    # The first rows of a bad model would hide the others.
    ends = [[v for v in run["curves"][model]["pll"] if v is not None] for run in runs for model in run["curves"]]
    # Only models that were finite for a time have such ends.
    if ends := [end for end in ends if end]:
        top, last = max(max(end) for end in ends), [end[-1] for end in ends]
        right.set_ylim(max(min(min(end) for end in ends), min(min(last), top - 3.0) - 0.5, top - 12.0), top + 0.2)
    return _finish(figure, left, title)


def _errors(runs: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw the error rates over the rows so far: mean over the trials, and one standard deviation to both sides."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    ax = figure.subplots()
    _lines(ax, {model: [run["errors"][model] for run in runs] for model in runs[0]["errors"]}, "error")
    ax.set_ylim(0.0, min(ax.get_ylim()[1], 50.0))
    ax.set_xlabel("rows after the warm-up")
    ax.set_ylabel("error rate of the rows so far, percent")
    return _finish(figure, ax, title)


def _moving_weight(runs: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw the weight of the moving experts by row."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    ax = figure.subplots()
    _lines(ax, {model: [run["moving_weight"][model] for run in runs] for model in runs[0]["moving_weight"]}, "weight")
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("rows after the warm-up")
    ax.set_ylabel("weight of the moving experts")
    return _finish(figure, ax, title)


def _lines(ax: Axes, curves: Mapping[str, Sequence[Mapping[str, Any]]], score: str) -> None:
    """Draw one line for each model, with a band where there are several trials."""
    for i, (model, each) in enumerate(curves.items()):
        values = np.array([[np.nan if v is None else v for v in curve[score]] for curve in each], dtype=float)
        rows, mean, std = each[0]["rows"], values.mean(0), values.std(0)
        colour = _COLOURS[i % len(_COLOURS)]
        ax.plot(rows, mean, _DASHES[i % 2], color=colour, label=model, linewidth=1.4)
        if len(each) > 1:
            ax.fill_between(rows, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)


def _finish(figure: Figure, ax: Axes, title: str) -> Figure:
    figure.suptitle(title)
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(axis="y", color="#e4e8ed")
        each.set_axisbelow(True)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def _regret(runs: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw regret, or regret per row, by the length of the stream."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    ax = figure.subplots()
    _lines(ax, {model: [run["regret"][model] for run in runs] for model in runs[0]["regret"]}, "regret")
    ax.set_xscale("log")
    if min(value for run in runs for line in run["regret"].values() for value in line["regret"]) > 0.0:
        ax.set_yscale("log")
    ax.set_xlabel("rows, T")
    (unit,) = {
        metric for metric in ("regret", "regret_per_row") for one in runs[0]["models"].values() if metric in one
    }
    ax.set_ylabel(f"{unit.replace('_', ' ')}, nats")
    return _finish(figure, ax, title)


def _dynamic_regret(runs: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw average regret by step, a chart for each beta; curves without a beta are in all charts.

    Each method has a colour, and each of its variants a dash. Bands of one standard deviation are drawn for the first
    variant only.
    """
    names = list(runs[0]["dynamic_regret"])
    betas = list(dict.fromkeys(name.rsplit(", ", 1)[1] for name in names if ", beta " in name))
    figure = Figure(figsize=(4.6 * len(betas) + 2.6, 4.4), layout="constrained")
    axes = figure.subplots(1, len(betas), sharey=True, squeeze=False)[0]
    for ax, beta in zip(axes, betas, strict=True):
        variants: dict[str, int] = {}
        for name in names:
            if not name.endswith(f", {beta}"):
                continue
            model = name.rsplit(", ", 1)[0]
            method = model.split(" with ")[0].split(", ")[0]
            dash = variants[method] = variants.get(method, -1) + 1
            values = np.array([run["dynamic_regret"][name]["regret"] for run in runs], dtype=float)
            rows, mean, std = runs[0]["dynamic_regret"][name]["rows"], values.mean(0), values.std(0)
            colour = _COLOURS[list(variants).index(method) % len(_COLOURS)]
            ax.plot(rows, mean, _VARIANTS[dash % len(_VARIANTS)], color=colour, label=model, linewidth=1.4)
            if len(runs) > 1 and not dash:
                ax.fill_between(rows, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)
        for i, name in enumerate(name for name in names if ", beta " not in name):
            line = runs[0]["dynamic_regret"][name]
            ax.plot(line["rows"], line["regret"], ("-.", ":", "--", "-")[i], color="#888888", label=name)
        ax.set_title(beta)
        ax.set_xscale("log")
        ax.set_xlabel("steps, t")
    axes[0].set_ylim(bottom=0.0)
    axes[0].set_ylabel("average regret, R_t / t")
    return _finish(figure, max(axes, key=lambda ax: len(ax.lines)), title)


def _bands(runs: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw a regression on a few rows: the function, the mean and its 95% bands; of the first trial."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    ax, one = figure.subplots(), runs[0]["bands"]
    ax.fill_between(
        one["grid"], one["low"], one["high"], color=_COLOURS[3], alpha=0.35, linewidth=0, label="95% band"
    )
    ax.plot(one["grid"], one["truth"], "--", color=_COLOURS[1], label="function")
    ax.plot(one["grid"], one["mean"], color=_COLOURS[0], label="mean")
    ax.plot(one["x"], one["y"], "k.", markersize=5, label="rows")
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    return _finish(figure, ax, title)


_PICTURES = {
    "curves": _curves,
    "errors": _errors,
    "moving_weight": _moving_weight,
    "regret": _regret,
    "bands": _bands,
    "dynamic_regret": _dynamic_regret,
}
