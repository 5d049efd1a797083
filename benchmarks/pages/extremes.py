"""The table of real extremes among past targets: ``python -m benchmarks.pages.extremes``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR
from benchmarks.robustness.extremes import STREAMS

RESULTS = RESULTS_DIR / "extremes.json"
PAGE = DOCS / "research" / "robustness.md"


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"extremes": table(json.loads(RESULTS.read_text())["streams"])})}


def table(streams: dict[str, Any]) -> str:
    """Render the scores with the guard beside those without, and what glitches cost, as Markdown."""
    lines = [
        "| stream | nMSE, robust | plain | CRPS, robust over plain | log density, robust less plain "
        "| nMSE with 1% glitches of 10 sd, robust | plain |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, models in streams.items():
        robust, plain = models["robust"], models["plain"]
        ours, theirs = robust["clean"], plain["clean"]
        cells = [name + ("" if STREAMS[name] else " *"), f"{ours['nmse']:.3g}", f"{theirs['nmse']:.3g}"]
        cells += [f"{ours['crps'] / theirs['crps'] - 1.0:+.1%}", f"{ours['pll'] - theirs['pll']:+.3f}"]
        cells += [f"{each['10 sd, 1%']['nmse']:.3g}" for each in (robust, plain)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
