"""The weights in a report: of single experts, of groups of experts that share a property, and of weight rules."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from streamgp.filters.noise_kinds import captions
from streamgp.reports.palette import EXPERTS_SHOWN
from streamgp.reports.tables import RULE

# The weights of experts are summed over each of these properties.
SHARED = ("basis", "dynamics", "noise")
# Experts with a smaller mean weight are left out of the table, except for the first ones.
MATTERS = 0.001
FIRST = 12


class Member(NamedTuple):
    """One area of a chart: columns of the weights that are added up, and their sum at the end."""

    name: str
    columns: list[str]
    weight: float


def experts(figures: Any, bins: pl.DataFrame, metrics: dict[str, Any], span: Any) -> dict[str, Any]:
    """Return the table of experts and the charts of their weights: by expert, or if many by what they share.

    Parameters
    ----------
    figures
        The module that draws.
    bins
        Mean weights along the scored rows, a column for each expert, with ``row`` and ``rows``, which each bin
        stands for; empty where no row was scored.
    metrics, span
        As read from ``metrics.json``; the rows on the x-axis.
    """
    table = [expert | {"mean": None, "colour": "model"} for expert in metrics["experts"]]
    ordered = sorted(table, key=lambda e: -(e["weight"] or 0))
    context = {
        "first": ordered[:FIRST],
        "folded": ordered[FIRST:],
        "left_out": 0,
        "by_expert": len(table) <= EXPERTS_SHOWN or bool(metrics["models"]),
        "kinds": {what: list(dict.fromkeys(e[what] for e in table)) for what in SHARED},
        "noise_captions": captions(each["noise"] for each in table),
        "weight_charts": [],
        "matters": MATTERS,
    }
    if not len(bins):
        return context
    means = _means(bins)
    for expert in table:
        expert["mean"] = means[expert["name"]]
    context["folded"] = [e for e in ordered[FIRST:] if e["mean"] >= MATTERS]
    context["left_out"] = len(ordered[FIRST:]) - len(context["folded"])
    if context["by_expert"] and len(table) > 1:
        ranked = sorted(table, key=lambda e: -e["mean"])
        for i, expert in enumerate(ranked):
            expert["colour"] = f"expert{i}" if i < EXPERTS_SHOWN else "others"
        members = [Member(e["name"], [e["name"]], e["weight"] or 0.0) for e in ranked]
        context["weight_charts"] = [_chart(figures, bins, members, "experts", span)]
    elif not context["by_expert"]:
        context["weight_charts"] = [
            _chart(figures, bins, [_group(table, what, kind) for kind in kinds], what, span, height=190)
            for what, kinds in context["kinds"].items()
            if len(kinds) > 1
        ]
    return context


def rules(figures: Any, bins: pl.DataFrame, metrics: dict[str, Any], span: Any) -> dict[str, Any]:
    """Return the chart of how much each weight rule counted; none where a single one weighed the experts."""
    if not metrics["rules"] or not len(bins):
        return {"rules_chart": None}
    members = [Member(rule["name"], [RULE + rule["name"]], rule["weight"]) for rule in metrics["rules"]]
    return {"rules_chart": _chart(figures, bins, members, "rules", span)}


def _group(table: list[dict[str, Any]], what: str, kind: str) -> Member:
    same = [expert for expert in table if expert[what] == kind]
    return Member(kind, [expert["name"] for expert in same], sum(expert["weight"] or 0.0 for expert in same))


def _means(bins: pl.DataFrame) -> dict[str, float]:
    """Return the mean of every column over the rows that the bins stand for."""
    rows = bins["rows"].to_numpy()
    return {name: float(bins[name].to_numpy() @ rows) / int(rows.sum()) for name in bins.columns}


class Stack(NamedTuple):
    """Areas in the order of the members; where there are too many, those of least mean share a grey one."""

    areas: pl.DataFrame
    legend: list[dict[str, Any]]
    others: int


def stacked(bins: pl.DataFrame, members: Sequence[Member]) -> Stack:
    """Return the areas of a chart and its legend."""
    areas = bins.select("row", "rows", *(pl.sum_horizontal(m.columns).alias(m.name) for m in members))
    means = _means(areas)
    largest = sorted((m.name for m in members), key=lambda name: -means[name])[:EXPERTS_SHOWN]
    legend = [
        {"name": m.name, "colour": f"expert{i}", "mean": means[m.name], "weight": m.weight}
        for i, m in enumerate(m for m in members if m.name in largest)
    ]
    stack = areas.select("row", *(pl.col(entry["name"]).alias(entry["colour"]) for entry in legend))
    rest = [m.name for m in members if m.name not in largest]
    if rest:
        stack = stack.hstack(areas.select(others=pl.sum_horizontal(rest)))
    return Stack(stack, legend, len(rest))


def _chart(
    figures: Any, bins: pl.DataFrame, members: Sequence[Member], of: str, span: Any, height: int = 270
) -> dict[str, Any]:
    stack = stacked(bins, members)
    chart = figures.weights(stack.areas, span, of, height)
    return {"of": of, "chart": chart, "legend": stack.legend, "others": stack.others}
