"""The tables of streams and sets that others print scores of: ``python -m benchmarks.pages.published``."""

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

STREAMS, TABLES = RESULTS_DIR / "published_streams.json", RESULTS_DIR / "jmlr_tables.json"
PAGE = DOCS / "research" / "published.md"
# What CapyMOA's notebooks print: RMSE of its regressors, and coverage (%) and NMPIW of its intervals of 95%.
CAPYMOA = {
    "CapyMOA k-nearest neighbours": ("2.72", "", ""),
    "CapyMOA adaptive random forest": ("3.31", "", ""),
    "CapyMOA streaming gradient boosted regression": ("3.09", "", ""),
    "CapyMOA SOKNL with MVE": ("", "97.40", "29.55"),
    "CapyMOA SOKNL with AdaPI": ("", "96.25", "27.40"),
}
# River's printed table: MAE and RMSE on ChickWeights and on TrumpApproval.
RIVER = {
    "Adaptive Model Rules": (24.1943, 37.2166, 1.39847, 2.43336),
    "Adaptive Random Forest": (26.1016, 40.8094, 0.800378, 2.11495),
    "Aggregated Mondrian Forest": (25.6742, 41.7123, 0.268533, 0.349421),
    "Bagging": (23.1143, 36.6311, 0.908203, 2.23718),
    "Exponentially Weighted Average": (121.818, 141.004, 40.7546, 40.7905),
    "Hoeffding Adaptive Tree": (23.3739, 37.6579, 0.921313, 2.23942),
    "Hoeffding Tree": (23.1619, 36.7336, 0.956103, 2.24987),
    "Linear Regression": (23.7587, 37.0377, 1.31455, 3.91198),
    "Linear Regression with l1 regularization": (23.7577, 37.078, 1.15377, 3.82872),
    "Linear Regression with l2 regularization": (25.2738, 38.5885, 1.87151, 4.13052),
    "Passive-Aggressive Regressor, mode 1": (24.3423, 37.596, 4.98403, 6.97667),
    "Passive-Aggressive Regressor, mode 2": (100.624, 143.066, 31.0933, 34.6257),
    "River MLP": (51.4078, 80.9203, 1.58058, 5.03392),
    "Stochastic Gradient Tree": (68.7588, 80.358, 9.42975, 17.9379),
    "Streaming Random Patches": (23.7097, 38.4416, 0.656697, 1.98434),
    "Mean predictor": (50.2509, 71.1144, 1.56755, 2.20286),
    "k-Nearest Neighbors": (24.8406, 39.2016, 0.641679, 1.59417),
}


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    streams, tables = (json.loads(path.read_text()) for path in (STREAMS, TABLES))
    found = {"fried": fried(streams["streams"]["Fried"]), "river": river(streams["streams"])}
    return {PAGE: markdown.with_tables(PAGE, found | jmlr(tables["tables"]))}


def fried(models: dict[str, Any]) -> str:
    """Render the scores on Fried as Markdown."""
    lines = ["| model | RMSE | coverage of 95% intervals | NMPIW |", "|---|---|---|---|"]
    for name, runs in models.items():
        rmse, coverage, nmpiw = (median(run[key] for run in runs.values()) for key in ("rmse", "coverage", "nmpiw"))
        lines.append(f"| {name} | {rmse:.3f} | {coverage:.2%} | {nmpiw:.2f} |")
    noise = next(iter(next(iter(models.values())).values()))["nmpiw_of_the_noise"]
    lines.append(f"| the function itself, known | 1.00 | 95% | {noise:.2f} |")
    lines += [
        f"| {name} | {rmse} | {coverage + '%' if coverage else ''} | {nmpiw} |"
        for name, (rmse, coverage, nmpiw) in CAPYMOA.items()
    ]
    return "\n".join(lines)


def river(streams: dict[str, Any]) -> str:
    """Render the scores on river's streams as Markdown, by MAE on TrumpApproval."""
    sets = ("ChickWeights", "TrumpApproval")
    rows: list[tuple[str, list[float], list[float]]] = []
    for model in streams[sets[0]]:
        of = [streams[name][model].values() for name in sets]
        every = [median(run[key] for run in runs) for runs in of for key in ("mae", "rmse")]
        later = [median(run[f"{key}_from_row_two"] for run in runs) for runs in of for key in ("mae", "rmse")]
        rows.append((f"{model} (run here)", every, later))
    rows += [(f"{name} (printed)", list(scores), []) for name, scores in RIVER.items()]
    lines = [
        "| model | ChickWeights: MAE, RMSE | TrumpApproval: MAE, RMSE | from row two: ChickWeights | TrumpApproval |",
        "|---|---|---|---|---|",
    ]
    for name, every, later in sorted(rows, key=lambda row: row[1][2]):
        cells = [f"{each[at]:.4g}, {each[at + 1]:.4g}" if each else "" for each in (every, later) for at in (0, 2)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def jmlr(tables: dict[str, Any]) -> dict[str, str]:
    """Render coverage and width, interval score and CRPS, and the worst fifth on every table, as Markdown."""
    models = [name for name in next(iter(tables.values())) if all(runs.get(name) for runs in tables.values())]
    head = f"| table | {' | '.join(models)} |\n" + "|---" * (len(models) + 1) + "|"
    kinds = {
        "jmlr bands": (("coverage", "width"), lambda v: f"{v[0]:.1%}, {v[1]:.2f}"),
        "jmlr scores": (("interval_score", "crps"), lambda v: f"{v[0]:.3f}, {v[1]:.4f}"),
        "jmlr fifths": (("worst",), lambda v: f"{v[0]:.1%}"),
    }
    found = {}
    for mark, (keys, cell) in kinds.items():
        lines, columns = [head], []
        for name, runs in tables.items():
            values = [[median(_value(run, key) for run in runs[model].values()) for key in keys] for model in models]
            columns.append(values)
            lines.append(f"| {name} | {' | '.join(map(cell, values))} |")
        means = [[mean(rows[i][j] for rows in columns) for j in range(len(keys))] for i in range(len(models))]
        lines.append(f"| mean | {' | '.join(map(cell, means))} |")
        found[mark] = "\n".join(lines)
    return found


def _value(run: dict[str, Any], key: str) -> float:
    return min(map(min, run["coverage_by"].values())) if key == "worst" else run[key]


def main() -> None:
    """Renew the tables."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
