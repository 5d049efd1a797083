"""Charts of the 90% band by kinds of rows: which of them a page shows, and what they say."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from streamgp.numerics import formats
from streamgp.reports import wording

INPUTS = 4  # the inputs with charts: those that matter most
_ENTRIES = "coverage_by", "width_by", "coverage_by_rows"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Panel(NamedTuple):
    """A small chart among others.

    Attributes
    ----------
    title
        What is written above it.
    svg
        The chart, an element of the page.
    """

    title: str
    svg: str


class Kinds(NamedTuple):
    """What a chart shows of the parts of the rows that have scores.

    Attributes
    ----------
    parts
        Their places, of `among` parts in all.
    coverage, width
        The share of targets inside the 90% band, and its mean width.
    slack
        How far the share may be from 90% before it is reported.
    among
        How many parts there are.
    labels
        What is written below some places.
    """

    parts: list[int]
    coverage: list[float]
    width: list[float]
    slack: list[float]
    among: int
    labels: dict[int, str]


class Scale(NamedTuple):
    """The axes that all charts have in common: the lowest coverage, the greatest width, and that of all rows."""

    lowest: float
    widest: float
    usual: float


def panels(figures: Any, metrics: Mapping[str, Any]) -> list[Panel]:
    """Draw rows by what was predicted, by the inputs that matter most and by the clock."""
    known = metrics.get("coverage_by") if "width_by" in metrics else None
    if not known:
        return []
    every = {name: _kinds(name, *(metrics[key][name] for key in _ENTRIES)) for name in _chosen(metrics, known)}
    shown = {name: kinds for name, kinds in every.items() if len(kinds.parts) > 1}
    if not shown:
        return []
    lowest = min(share for kinds in shown.values() for share in kinds.coverage)
    widest = max(width for kinds in shown.values() for width in kinds.width)
    scale = Scale(min(0.8, lowest), widest, metrics["width"])
    return [
        Panel(_title(name), figures.kinds(f"kinds{i}", _spoken(name, kinds), kinds, scale))
        for i, (name, kinds) in enumerate(shown.items())
    ]


def _kinds(name: str, coverage: Sequence[float | None], width: Sequence[float | None], rows: Sequence[int]) -> Kinds:
    """Return the parts whose coverage and width are known, and by how much chance may move these."""
    known = [i for i, (share, mean) in enumerate(zip(coverage, width, strict=True)) if None not in (share, mean)]
    shares, widths = ([each[i] or 0.0 for i in known] for each in (coverage, width))
    slack = [wording.kind_slack(rows[i]) for i in known]
    return Kinds(known, shares, widths, slack, len(coverage), _labels(name))


def _chosen(metrics: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Return what parts the rows; of the inputs those that matter most or, where that is not known, the first."""
    predicted = [name for name in ("predicted_std", "predicted_noise") if name in known]
    clocks = [name for name in wording.CLOCK_PARTS if name in known]
    others = [name for name in known if name not in (*predicted, *clocks)]
    ranked = [each["name"] for each in metrics.get("importance") or []]
    matter = [name for name in ranked if name in others] or others
    return [*predicted, *matter[:INPUTS], *clocks]


def _title(name: str) -> str:
    title = wording.KNOWN_KINDS.get(name, name)
    return f"{title.removeprefix('the ')}, in fifths" if name not in wording.CLOCK_PARTS else f"{name} (UTC)"


def _spoken(name: str, kinds: Kinds) -> str:
    """Return the numbers in words, for who cannot see them."""
    said = (
        f"{wording.kind_part(name, i)} {formats.share(share)} of the targets, mean width {formats.number(mean, 3)}"
        for i, share, mean in zip(kinds.parts, kinds.coverage, kinds.width, strict=True)
    )
    return escape(f"{_title(name)}: {'; '.join(said)}", quote=True)


def _labels(name: str) -> dict[int, str]:
    """Return what is written below some parts."""
    if name == "hour":
        return {hour: f"{hour}:00" for hour in (0, 6, 12, 18)}
    if name == "weekday":
        return dict(enumerate(_DAYS))
    return {0: "lowest", 2: "middle", 4: "highest"}
