"""The tables of docs/research/results.md, the README and pages for users: ``python -m benchmarks.pages.results``."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.accuracy.command import MEMBERS, PAPER, RESULTS, SETS
from benchmarks.common import markdown
from benchmarks.common.datasets import LAGGED
from benchmarks.common.paths import DOCS, RESULTS_DIR, ROOT

BASELINES = RESULTS_DIR / "baselines.json"
NOTES = RESULTS_DIR / "notes.md"
PAGE = DOCS / "research" / "results.md"
README = ROOT / "README.md"
HOME = DOCS / "index.md"
OTHERS = DOCS / "explanation" / "other-libraries.md"
WHEN_NOT = DOCS / "explanation" / "when-not.md"
ROBOT = DOCS / "how-to" / "robot.md"
BESIDE = {
    "river Bayesian linear": "river_bayesian_linear",
    "river adaptive random forest": "river_arf",
    "boosted trees, refitted": "boosting_refitted",
    "last value": "persistence",
}
# What the design asked of the default model: nMSE at most, mixture log density at least.
TARGETS = {
    "elevators_ucids": (0.155, -0.575),
    "cadata": (0.132, -0.36),
    "cpusmall": (0.026, 0.44),
    "kin40k": (0.21, -0.63),
    "schunk_arm": (0.075, 0.55),
    "beijing_pm25": (0.075, 0.18),
    "sml2010_stream": (0.0002, 3.2),
    "naval": (0.001, 2.3),
    "friedman1": (0.003, 2.3),
}


def pages() -> dict[Path, str]:
    """Return the page, and the pages that have a table of it with that renewed."""
    stored = json.loads(RESULTS.read_text())
    short = {"results": readme_table(stored)}
    return {
        PAGE: page(stored),
        README: markdown.with_tables(README, short),
        HOME: markdown.with_tables(HOME, short),
        OTHERS: markdown.with_tables(OTHERS, {"others": others_table(stored)}),
        WHEN_NOT: markdown.with_tables(
            WHEN_NOT,
            {
                "others at rest": others_table(stored, ["schunk_arm", "cpusmall"]),
                "others by their last value": others_table(stored, ["naval", "beijing_pm25"]),
            },
        ),
        ROBOT: markdown.with_tables(ROBOT, {"others": others_table(stored, ["schunk_arm"])}),
    }


def summary(runs: list[dict[str, Any]], *keys: str) -> str:
    """Return median over seeds, with the range where it differs in what is printed."""
    values = []
    for run in runs:
        value: Any = run
        for key in keys:
            value = value[key]
        values.append(value)
    middle, low, high = (
        f"{v:.3f}" if abs(v) < 10 else f"{v:.0f}" for v in (median(values), min(values), max(values))
    )
    if abs(median(values)) < 0.01:
        middle, low, high = (f"{v:.2g}" for v in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def page(stored: dict[str, Any]) -> str:
    """Render docs/research/results.md."""
    runs, baselines = stored["runs"], json.loads(BASELINES.read_text())["summary"]
    lines = [
        "# Results",
        "",
        "Every row is predicted before its target is seen. Warm-up 1,000 rows; the rows after it are scored.",
        "nMSE is the mean squared error over the variance of the scored targets; PLL the mean log predictive",
        "density of the target in units of the warm-up's standard deviation: of the mixture, and (moment) of one",
        "Gaussian with the mixture's mean and variance. Medians over seeds from 0, with the range in brackets.",
        "Rows in the order of the file: the first 10,000 of longer sets.",
        "",
        "```",
        "python -m benchmarks.accuracy.command --data DIR     # streamgp run FILE --target y --warmup 1000 --seed S",
        "OMP_NUM_THREADS=1 python -m benchmarks.accuracy.baselines --data DIR",
        "python -m benchmarks.pages.results                   # this page",
        "```",
        "",
        f"Machine: {stored['machine']}. Seconds are those of the whole run, compilation included.",
        "",
        "## The default model",
        "",
        "| data | lags chosen | seeds | nMSE | aim | PLL | aim | moment PLL | CRPS | "
        "coverage of 50 / 90 / 95% intervals | experts | seconds | of them warm-up | rows a second |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        aim, of = TARGETS[name], runs.get(name, {}).get("default", [])
        if not of:
            continue
        bands = " / ".join(summary(of, "coverage", level) for level in ("50", "90", "95"))
        lags = sorted({",".join(map(str, run["lags"])) or "none" for run in of})
        lines.append(
            f"| {name} | {'; '.join(lags)} | {len(of)} "
            f"| {summary(of, 'nmse')} | {aim[0]} | {summary(of, 'pll_standardised')} | {aim[1]} "
            f"| {summary(of, 'pll_moment_standardised')} | {summary(of, 'crps')} | {bands} "
            f"| {summary(of, 'experts')} | {summary(of, 'seconds', 'total')} | {summary(of, 'seconds', 'warmup')} "
            f"| {summary(of, 'rows_per_second')} |"
        )
    lines += [
        "",
        "CRPS is in units of the target. Rows a second: after the warm-up, compilation included.",
        "",
        "## Beside what a user would run instead",
        "",
        "nMSE on the same rows (median; lower is better). HistGradientBoosting is refitted on everything seen every",
        "500 rows; river's models learn row by row; all with their default settings, and with the lags that the",
        "default chose among their inputs. E-DOEBE, without lags, as in Waxman and Djuric",
        "(2024), Fig. 4: Hilbert-space, Fourier and radial bases of 100 features, static and moving, from the prior.",
        "",
        "| data | streamgp | persistence | running mean | river Bayesian linear | river linear (SGD) | river ARF "
        "| HistGradientBoosting | E-DOEBE (PLL) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        of = runs.get(name, {}).get("default", [])
        if of:
            keys = (
                "persistence",
                "running_mean",
                "river_bayesian_linear",
                "river_linear",
                "river_arf",
                "boosting_refitted",
            )
            scores = _same_inputs(baselines, name)
            others = [_number(scores[key]["nmse"]["median"]) if key in scores else "not run" for key in keys]
            paper = runs[name].get(PAPER, [])
            others.append(f"{summary(paper, 'nmse')} ({_middle(paper, 'pll_standardised')})" if paper else "")
            lines.append(f"| {name} | {summary(of, 'nmse')} | {' | '.join(others)} |")
    lines += [
        "",
        "## E-DOEBE and its member families",
        "",
        "PLL (mixture) of E-DOEBE over Fourier and Hilbert-space bases, static and q = 1e-3, beside each family",
        "alone; the last column is E-DOEBE minus the best of the four.",
        "",
        "| data | E-DOEBE | Fourier, static | Fourier, q = 1e-3 | Hilbert, static | Hilbert, q = 1e-3 | gap |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        of = [runs.get(name, {}).get(member, []) for member in MEMBERS]
        if all(of):
            middle = [median(run["pll_standardised"] for run in member) for member in of]
            cells = " | ".join(summary(member, "pll_standardised") for member in of)
            lines.append(f"| {name} | {cells} | {middle[0] - max(middle[1:]):+.3f} |")
    lines += ["", NOTES.read_text().rstrip()]
    return "\n".join(lines) + "\n"


def readme_table(stored: dict[str, Any]) -> str:
    """Return the README's short table: the default model beside the strongest of what a user would run instead."""
    baselines = json.loads(BASELINES.read_text())["summary"]
    lines = [
        "| data | nMSE | log density | coverage of 95% intervals | nMSE: last value again | river, best of 3 "
        "| boosted trees, refitted |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        of = stored["runs"].get(name, {}).get("default", [])
        if of and "river_arf" in baselines.get(name, {}):
            others = {key: scores["nmse"]["median"] for key, scores in _same_inputs(baselines, name).items()}
            river = min(value for key, value in others.items() if key.startswith("river"))
            cells = (_number(others["persistence"]), _number(river), _number(others["boosting_refitted"]))
            ours = (_middle(of, "nmse"), _middle(of, "pll_standardised"), _middle(of, "coverage", "95"))
            lines.append(f"| {name} | {' | '.join(ours)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def others_table(stored: dict[str, Any], names: Sequence[str] = SETS) -> str:
    """Return nMSE of the default and of what a user would run instead, the least of each row in bold."""
    baselines = json.loads(BASELINES.read_text())["summary"]
    lines = [f"| data | streamgp | {' | '.join(BESIDE)} |", "|---" * (2 + len(BESIDE)) + "|"]
    for name in names:
        of, scores = stored["runs"].get(name, {}).get("default", []), _same_inputs(baselines, name)
        if of and all(key in scores for key in BESIDE.values()):
            cells = [_middle(of, "nmse"), *(_number(scores[key]["nmse"]["median"]) for key in BESIDE.values())]
            least = min(cells, key=lambda cell: float(cell) if cell != "diverges" else float("inf"))
            lines.append(f"| {name} | {' | '.join(f'**{c}**' if c == least else c for c in cells)} |")
    return "\n".join(lines)


def _same_inputs(baselines: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the scores of others with the inputs of the default: with lags, where it chose some."""
    return baselines.get(LAGGED.format(name)) or baselines.get(name, {})


def _middle(runs: list[dict[str, Any]], *keys: str) -> str:
    return summary(runs, *keys).split(" (")[0]


def _number(value: float) -> str:
    if value > 100:
        return "diverges"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
