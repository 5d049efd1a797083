"""The tables of docs/research/alarms.md, put between their marks: ``python -m benchmarks.pages.alarms``."""

import json
from pathlib import Path
from typing import Any

from benchmarks.accuracy.alarms import RESULTS
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

PAGE = DOCS / "research" / "alarms.md"
COLUMNS = {"default": "streamgp, default rate", "equal": "streamgp, equal"}


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    stored = json.loads(RESULTS.read_text())
    tables = {"false": _false(stored), "delays": _delays(stored["delays"]), "found": _found(stored["discoveries"])}
    tables["injected"] = _injected(stored["injected"])
    return {PAGE: markdown.with_tables(PAGE, tables)}


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


def _false(stored: dict[str, Any]) -> str:
    rows = [("targets drawn from what is predicted", run) for run in stored["false"]]
    rows.append(("a linear model that learns", stored["false_model"]))
    lines = ["| rows from | rate, in 1,000 rows | rows | false alarms | at most expected |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {run['rate']:g} | {run['rows']:,} | {run['false']} | {run['allowed']:,.1f} |"
        for name, run in rows
    ]
    return "\n".join(lines)


def _delays(found: dict[str, Any]) -> str:
    """Show median delays in rows, in brackets the share of streams without an alarm, and the false alarms of each."""
    names = list(next(iter(found["delays"].values())))
    head = ["change", *(COLUMNS.get(name, name) for name in names)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for change, each in found["delays"].items():
        lines.append(f"| {change} | {' | '.join(_delay(each[name]) for name in names)} |")
    before = found["false_alarms_a_row_before_a_change"]
    quiet = [f"{1e3 * before[name]:.2g}" for name in names]
    lines.append(f"| *false alarms in 1,000 rows before a change* | {' | '.join(quiet)} |")
    tuned = [found["false_alarms_a_row"].get(name) for name in names]
    long = ["" if rate is None else f"{1e3 * rate:.2g}" for rate in tuned]
    lines.append(f"| *false alarms in 1,000 rows of one long stream* | {' | '.join(long)} |")
    return "\n".join(lines)


def _delay(run: dict[str, Any]) -> str:
    missed = f" ({100 * run['missed']:.0f}% missed)" if run["missed"] else ""
    return ("none" if run["median"] is None else f"{run['median']:,.0f}") + missed


def _found(runs: list[dict[str, Any]]) -> str:
    lines = ["| rate of false discoveries | measured | changed streams found |", "|---|---|---|"]
    lines += [f"| {run['rate']:.0%} | {run['false']:.1%} | {run['found']:.0%} |" for run in runs]
    return "\n".join(lines)


def _injected(runs: dict[str, Any]) -> str:
    lines = ["| targets | alarm at row | what it says |", "|---|---|---|"]
    lines += [f"| {name} | {alarm['row']:,} | {alarm['sentence']} |" for name, run in runs.items() for alarm in run]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
