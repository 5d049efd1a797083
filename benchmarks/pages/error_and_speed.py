"""Tables and picture of error against time, from their results: ``python -m benchmarks.pages.error_and_speed``."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator
from matplotlib.transforms import Bbox
from PIL import Image

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, IMAGES, RESULTS_DIR
from benchmarks.speed.error_and_speed import RESULTS

PAGE = DOCS / "research" / "performance.md"
PICTURE = IMAGES / "error-and-speed.png"
LONGER = RESULTS_DIR / "error_and_speed_5000.json"
OURS, OTHERS = "#1f5a99", "#c4560a"
FONT = 7.5
# Where a label may stand, from its point, in points: the nearest places first.
PLACES = sorted(product(range(-100, 101, 4), range(-80, 81, 4)), key=lambda at: abs(at[0]) / 1.5 + abs(at[1]))


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    summary, longer = (json.loads(path.read_text())["summary"] for path in (RESULTS, LONGER))
    return {PAGE: markdown.with_tables(PAGE, {"error and speed": tables(summary), "longer windows": latest(longer)})}


def tables(summary: dict[str, Any]) -> str:
    """Render medians as Markdown, a table for each data set, with least and largest where there were several runs."""
    lines: list[str] = []
    for name, models in summary.items():
        lines += [f"`{name}`:", ""] if not lines else ["", f"`{name}`:", ""]
        lines.append("| model | nMSE | log density | rows a second | warm-up, s | whole run, s | runs |")
        lines.append("|---|---|---|---|---|---|---|")
        for model, found in models.items():
            speed, density = found["rows_per_second"], found.get("pll")
            several = f" ({speed['min']:,.0f} to {speed['max']:,.0f})" if found["runs"] > 1 else ""
            cells = (
                model,
                f"{found['nmse']['median']:.4f}",
                f"{density['median']:.3f}" if density else "",
                f"{speed['median']:,.0f}{several}",
                f"{found['warmup_seconds']['median']:.1f}",
                f"{found['seconds']['median']:.1f}",
                str(found["runs"]),
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def latest(summary: dict[str, Any]) -> str:
    """Render what longer windows take as Markdown."""
    lines = ["| data | model | nMSE | log density | processor seconds |", "|---|---|---|---|---|"]
    for name, models in summary.items():
        for model, found in models.items():
            nmse, density, seconds = (found[of]["median"] for of in ("nmse", "pll", "cpu_seconds"))
            lines.append(f"| {name} | {model} | {nmse:.4f} | {density:.3f} | {seconds:.0f} |")
    return "\n".join(lines)


def draw(summary: dict[str, Any], path: Path) -> None:
    """Draw error against speed, a panel for each data set."""
    figure = Figure(figsize=(1.0 + 6.0 * len(summary), 5.6), dpi=110, layout="constrained")
    figure.suptitle("Lower and further right is better: less error, more rows a second", fontsize=11)
    panels = figure.subplots(1, len(summary), squeeze=False).flat
    for ax, (name, models) in zip(panels, summary.items(), strict=True):
        for model, found in models.items():
            color = OURS if is_ours(model) else OTHERS
            ax.plot(
                *point(found),
                "o" if is_ours(model) else "s",
                color=color,
                markersize=5,
                zorder=3 if is_ours(model) else 2,
            )
        ax.set(xscale="log", yscale="log", title=name)
        ax.set_xlabel("rows a second after the warm-up (faster →)", fontsize=9)
        ax.set_ylabel("nMSE (← more accurate)", fontsize=9)
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
        ax.grid(color="#e4e8ed")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.margins(x=0.18, y=0.12)
    # The layout is final after this call.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax, models in zip(figure.axes, summary.values(), strict=True):
        label(ax, models)
    figure.savefig(path)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the size


def is_ours(model: str) -> bool:
    """Tell whether a model is one of streamgp's presets."""
    return model.startswith("streamgp ")


def point(found: dict[str, Any]) -> tuple[float, float]:
    """Return where a model stands: medians of rows a second and of the error."""
    return found["rows_per_second"]["median"], found["nmse"]["median"]


def label(ax: Axes, models: dict[str, Any]) -> None:
    """Write every model's name at the nearest place to its point where nothing else is, with a line to it."""
    pixels = ax.figure.dpi / 72
    points = [ax.transData.transform(point(found)) for found in models.values()]
    taken = [Bbox.from_bounds(x - 4 * pixels, y - 4 * pixels, 8 * pixels, 8 * pixels) for x, y in points]
    for (model, found), (x, y) in zip(models.items(), points, strict=True):
        text = ax.annotate(
            model,
            point(found),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=FONT,
            color=OURS if is_ours(model) else OTHERS,
        )
        size = text.get_window_extent()
        width, height = size.width + 6 * pixels, size.height + pixels
        best: tuple[int, int] | None = None
        for across, up in PLACES:
            box = Bbox.from_bounds(x + across * pixels - width / 2, y + up * pixels - height / 2, width, height)
            inside = ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 and ax.bbox.y0 < box.y0 and box.y1 < ax.bbox.y1
            if inside and not any(box.overlaps(other) for other in taken):
                best = across, up
                taken.append(box)
                break
        if best is not None:
            text.set_position(best)
        ax.annotate(
            "",
            point(found),
            xytext=text.get_position(),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": "#9aa3ad", "linewidth": 0.6, "shrinkA": 6, "shrinkB": 3},
            zorder=0,
        )


def main() -> None:
    """Renew the tables and the picture."""
    markdown.write(pages())
    draw(json.loads(RESULTS.read_text())["summary"], PICTURE)


if __name__ == "__main__":
    main()
