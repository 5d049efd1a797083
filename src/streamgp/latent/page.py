"""The report of an embedding: lines on the terminal, and a page with maps of its rows and their uncertainty."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from streamgp.latent import LatentLearner
from streamgp.numerics import formats
from streamgp.numerics.formats import number, plural, share
from streamgp.table.files import write_aside

# The most rows that a map shows.
MAX_DRAWN = 3_000
GRID = 60  # points on each side of the map of uncertainty
# The number of bins of the chart along the stream.
BINS = 200
# The number of unusual rows that are listed.
UNUSUAL = 10


def write_page(directory: Path, metrics: dict[str, Any], learner: LatentLearner) -> Path:
    """Write ``report.html`` beside ``embedding.parquet``, and return its path.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    """
    try:
        from streamgp.reports import figures, maps, templating
    except ImportError as error:
        raise ImportError("The report needs matplotlib and jinja2: pip install matplotlib jinja2.") from error
    frame = pl.read_parquet(directory / "embedding.parquet")
    names = [f"z{i + 1}" for i in range(metrics["components"])]
    shown = frame[:: max(1, -(-len(frame) // MAX_DRAWN))]
    coordinates = shown.select(names[:2] if len(names) > 1 else ["row", "z1"]).to_numpy()
    axes = names[:2] if len(names) > 1 else ["row of the file", "z1"]
    groups, legend, others = _groups(maps, shown, metrics)
    page = templating.render(
        "embedding.html",
        m=metrics,
        headline=_headline(metrics),
        axes=axes,
        drawn=len(shown),
        scatter_chart=maps.scatter([(colour, coordinates[rows]) for colour, rows in groups], axes),
        legend=legend,
        others=others,
        uncertainty_chart=_uncertainty(maps, learner, coordinates, axes) if len(names) == 2 else None,
        density_chart=_density(figures, frame, metrics),
        unusual=frame.drop_nulls("log_density").sort("log_density")[:UNUSUAL].to_dicts(),
    )
    write_aside(directory / "report.html", page)
    return directory / "report.html"


def _headline(metrics: dict[str, Any]) -> str:
    rows, columns = formats.plural(metrics["rows"], "row"), formats.plural(len(metrics["features"]), "number")
    into = "one coordinate" if metrics["components"] == 1 else f"{metrics['components']} coordinates"
    error = metrics["neighbour_error"]
    neighbours = (
        "" if error is None else f"; {formats.share(1.0 - error['embedding'])} lie next to a row of their label"
    )
    return f"{rows} of {columns} each in {into}{neighbours}."


def _groups(maps: Any, shown: pl.DataFrame, metrics: dict[str, Any]) -> tuple[list, list, int]:
    """Group rows by colour: by their label, or shaded by it where it is a number of many values; with the legend."""
    if metrics["label"] is None:
        return [("model", np.arange(len(shown)))], [], 0
    labels = shown["label"].to_numpy()
    if metrics["label_is_a_number"]:
        return _shaded(maps, shown["label"].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    present = np.unique(labels[labels != ""])
    by_size = sorted(present.tolist(), key=lambda name: -np.sum(labels == name))
    named = sorted(by_size[: len(maps.DOTS)], key=_by_number)
    rest = np.flatnonzero(~np.isin(labels, named))
    groups = [("muted", rest)] * bool(len(rest))
    groups += [(colour, np.flatnonzero(labels == name)) for colour, name in zip(maps.DOTS, named, strict=False)]
    legend = [{"colour": colour, "name": name} for colour, name in zip(maps.DOTS, named, strict=False)]
    return groups, legend, len(rest)


def _by_number(name: str) -> tuple[float, str]:
    try:
        return float(name), name
    except ValueError:
        return np.inf, name


def _shaded(maps: Any, numbers: np.ndarray) -> tuple[list, list, int]:
    """Shade by a number of many values: five colours for as many fifths of the rows."""
    finite = np.isfinite(numbers)
    ends = np.quantile(numbers[finite], np.linspace(0.0, 1.0, len(maps.FIFTHS) + 1))
    which = np.clip(np.searchsorted(ends, numbers, side="right") - 1, 0, len(maps.FIFTHS) - 1)
    rest = np.flatnonzero(~finite)
    groups = [("muted", rest)] * bool(len(rest))
    groups += [(colour, np.flatnonzero(finite & (which == i))) for i, colour in enumerate(maps.FIFTHS)]
    legend = [
        {"colour": colour, "name": f"{formats.number(low)} to {formats.number(high)}"}
        for colour, low, high in zip(maps.FIFTHS, ends[:-1], ends[1:], strict=True)
    ]
    return groups, legend, len(rest)


def _uncertainty(maps: Any, learner: LatentLearner, coordinates: np.ndarray, axes: list[str]) -> str:
    """Draw the standard deviation of a row at each point of a grid, in units of the least."""
    low, high = np.quantile(coordinates, (0.005, 0.995), axis=0)
    margin = 0.3 * np.maximum(high - low, 1e-12)
    x, y = (np.linspace(low[i] - margin[i], high[i] + margin[i], GRID) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    _, var = learner.reconstruct(grid)
    std = np.sqrt(np.nanmean(var, axis=1)).reshape(GRID, GRID)
    return maps.uncertainty(x, y, std / std.min(), coordinates, axes)


def _density(figures: Any, frame: pl.DataFrame, metrics: dict[str, Any]) -> str | None:
    """Draw the mean log density of neighbouring rows along the stream."""
    later = frame.drop_nulls("log_density")
    if not len(later):
        return None
    every = max(1, -(-len(frame) // BINS))
    bins = later.group_by(pl.col("row") // every, maintain_order=True).agg(
        pl.col("row").mean().alias("at"), pl.col("log_density").mean()
    )
    last = float(frame["row"][-1])
    scored = float(later["row"][0])
    return figures.along(bins, "at", "log_density", figures.Rows(float(frame["row"][0]), last, scored))


def print_embedding(metrics: dict[str, Any], to_stderr: bool) -> None:
    """Print what an embedding found: a sentence, its speed, and how labels agree between neighbours."""
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    rows, entries = plural(metrics["rows"], "row"), plural(len(metrics["features"]), "number")
    expert = metrics["experts"][metrics["leading"]]
    console.print(
        f"{rows} of {entries} each in {plural(metrics['components'], 'coordinate')}; the kernel of lengthscale "
        f"{number(expert['lengthscale'], 3)} leads with a weight of {share(expert['weight'])}",
        markup=False,
    )
    if error := metrics["neighbour_error"]:
        console.print(
            f"nearest neighbours with another {metrics['label']}: {share(error['embedding'])} of {error['rows']:,} "
            f"rows; in principal components {share(error['pca'])}, in all numbers {share(error['entries'])}",
            markup=False,
        )
    if metrics["rows_per_second"] is not None:
        seconds = metrics["seconds"]["warmup"]
        console.print(f"{metrics['rows_per_second']:,.0f} rows a second, after a warm-up of {seconds:.1f} s")
    for warning in metrics["warnings"]:
        console.print(f"note: {warning}", markup=False)
