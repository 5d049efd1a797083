"""The tables of an accelerator beside its host's cores: ``python -m benchmarks.pages.gpu``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "gpu.json"
PAGE = DOCS / "research" / "performance.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    found = json.loads(RESULTS.read_text())
    return {PAGE: markdown.with_tables(PAGE, {"gpu filters": filters(found), "gpu models": models(found)})}


def filters(found: dict[str, Any]) -> str:
    """Render groups of experts as Markdown."""
    lines = [
        "| experts x features | rows of a call | us a row and expert | host, us | times | share of products |",
        "|---|---|---|---|---|---|",
    ]
    for name, group in found["filters"].items():
        for rows, there in group["gpu_us"].items():
            here = group["cpu_us"].get(rows)
            share = f"{group['tflops'] / found['rates']['products']:.1%}" if rows == "1024" else ""
            beside = ("", "") if here is None else (f"{here:.3g}", f"{here / there:.1f}")
            lines.append(f"| {name} | {rows} | {there:.3g} | {beside[0]} | {beside[1]} | {share} |")
    return "\n".join(lines)


def models(found: dict[str, Any]) -> str:
    """Render whole models as Markdown."""
    whole, lines = found["whole"], ["| | auto or gpu | cpu | ratio |", "|---|---|---|---|"]
    there, here = whole["gpu_us_per_row"], whole["cpu_us_per_row"]
    what = f"e-doebe, {whole['experts']} experts of 1,000 features, us a row"
    lines.append(f"| {what} | {there:.0f} | {here:.0f} | {there / here:.3f} |")
    for name, figures in found["small"].items():
        for figure, text in (("stream_s", "stream, s"), ("single_us", "one row, us")):
            auto, cpu, ratio = (figures[figure][each] for each in ("auto", "cpu", "ratio"))
            lines.append(f"| `{name}`, {text} | {auto:,.4g} | {cpu:,.4g} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
