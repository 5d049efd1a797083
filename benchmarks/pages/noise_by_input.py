"""The tables of noise that follows the inputs: ``python -m benchmarks.pages.noise_by_input``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "noise_by_input.json"
LABELS = RESULTS_DIR / "kinds_of_labels.json"
PAGE = DOCS / "research" / "bands.md"
Runs = list[dict[str, Any]]


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    runs, labels = (json.loads(path.read_text())["runs"] for path in (RESULTS, LABELS))
    tables = {
        "noise by input": table(runs),
        "noise whose law is known": of_laws(runs),
        "kinds of counts": of_counts(labels),
        "kinds of classes": of_classes(labels),
    }
    return {PAGE: markdown.with_tables(PAGE, tables)}


def table(runs: dict[str, Any]) -> str:
    """Render what `fast` gains on every stream, in the median of the seeds, and the worst fifths of the default."""
    lines = [
        "| stream | log density | CRPS | quietest and loudest fifth in the 90% band, without | with "
        "| worst fifth of any kind, without | with | default, without | with |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    by_default = _of_model(runs, "default")
    for name, seeds in _of_model(runs, "fast").items():
        nats = _median(seeds, lambda run: run["with"]["pll"] - run["without"]["pll"])
        crps = _median(seeds, lambda run: run["with"]["crps"] / run["without"]["crps"] - 1.0)
        cells = [name + ("" if seeds[0]["chosen_on"] else " *"), f"{nats:+.3f}", f"{crps:+.1%}"]
        # The fifths are those by the noise that the layer predicts, in both runs.
        cells += [_ends(seeds, which) for which in ("without", "with")]
        cells += [_worst(each, which) for each in (seeds, by_default[name]) for which in ("without", "with")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_model(runs: dict[str, Any], model: str) -> dict[str, Runs]:
    """Return the runs of a model by stream, one for each seed."""
    found: dict[str, Runs] = {}
    for name, run in runs.items():
        if f", {model}," in name:
            found.setdefault(name.partition(",")[0], []).append(run)
    return found


def _median(seeds: Runs, value: Callable[[dict[str, Any]], float]) -> float:
    return float(np.median([value(run) for run in seeds]))


def _worst(seeds: Runs, which: str) -> str:
    return f"{_median(seeds, lambda run: min(map(min, run[which]['coverage_by'].values()))):.0%}"


def _ends(seeds: Runs, which: str) -> str:
    ends = [_median(seeds, lambda run, i=i: run[which]["coverage_by"]["predicted_noise"][i]) for i in (0, -1)]
    return " / ".join(f"{end:.0%}" for end in ends)


def of_laws(runs: dict[str, Any]) -> str:
    """Render by how much the CRPS is above that of the law by which rows were drawn."""
    lines = [
        "| noise | CRPS above that of the true law, `fast` without | with | default without | with |",
        "|---|---|---|---|---|",
    ]
    by_default = _of_model(runs, "default")
    for name, seeds in _of_model(runs, "fast").items():
        if "true_crps" in seeds[0]:
            above = [
                _median(each, lambda run, which=which: run[which]["crps"] / run["true_crps"] - 1.0)
                for each in (seeds, by_default[name])
                for which in ("without", "with")
            ]
            cells = (f"{each:+.1%}" for each in above)
            lines.append(f"| {name.removeprefix('constructed ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_counts(runs: dict[str, Any]) -> str:
    """Render what the layer is worth for counts."""
    lines = [
        "| stream | log density | CRPS | worst fifth in the 90% band, without | with |",
        "|---|---|---|---|---|",
    ]
    for name, run in _of_kind(runs, "count"):
        before, after = run["worst"]
        gain = f"{run['gain']:+.3f} ({run['error']:.3f})"
        lines.append(f"| {name} | {gain} | {run['crps']:+.1%} | {before:.0%} | {after:.0%} |")
    return "\n".join(lines)


def of_classes(runs: dict[str, Any]) -> str:
    """Render what a temperature would be worth for classes."""
    lines = [
        "| stream | wrong | nats a row, by inputs | one temperature for all | worst fifth: right less confidence |",
        "|---|---|---|---|---|",
    ]
    for name, run in _of_kind(runs, "class"):
        gains = f"{_gain(run, 'by inputs')} | {_gain(run, 'one for all')}"
        lines.append(f"| {name} | {run['wrong']:.1%} | {gains} | {100.0 * run['off']:+.0f} points |")
    return "\n".join(lines)


def _of_kind(runs: dict[str, Any], kind: str) -> list[tuple[str, dict[str, Any]]]:
    named = ((f"{'constructed: ' if run['constructed'] else ''}{name}", run) for name, run in runs.items())
    return [(name, run) for name, run in named if run["kind"] == kind]


def _gain(run: dict[str, Any], which: str) -> str:
    return f"{run[which]['gain']:+.3f} ({run[which]['error']:.3f})"


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
