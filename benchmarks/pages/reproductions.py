"""The tables of docs/research/reproduction.md, local.md and latent.md, from runs that are kept here.

``streamgp reproduce NAME --data DIR --out benchmarks/results/reproductions/NAME.json`` makes the runs; then
``python -m benchmarks.pages.reproductions`` renders the page.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from benchmarks.common.markdown import with_tables, write
from benchmarks.common.paths import DOCS, RESULTS_DIR
from streamgp_papers.authors_run import PATH
from streamgp_papers.catalogue import REPRODUCTIONS
from streamgp_papers.datasets import DATASETS
from streamgp_papers.found import ReproductionResult
from streamgp_papers.kinds import Reproduction, Shown
from streamgp_papers.tables import claims_table, counts_table, figures_table, scores_table
from streamgp_papers.verdicts import RULES

RESULTS = RESULTS_DIR / "reproductions"
PAGE = DOCS / "research" / "reproduction.md"
LOCAL = DOCS / "research" / "local.md"
LATENT = DOCS / "research" / "latent.md"
KEPT = ("of", "rows", "inputs", "models")


def collect_runs(reproduction: Reproduction, stored: dict) -> ReproductionResult:
    """Return what the kept runs show: as many trials as every data set has."""
    runs = stored["runs"]
    sets = list(dict.fromkeys(key.rsplit(" ", 1)[0] for key in runs))
    shown = [
        Shown(name, use.data) for use in reproduction.uses for name in (use.data, *use.stand_ins) if name in sets
    ]
    trials = min(sum(key.rsplit(" ", 1)[0] == name for key in runs) for name in sets)
    return ReproductionResult(reproduction, shown, (), runs, trials, stored["rows"])


def markdown(table: Table) -> str:
    """Return a table of the terminal as one of Markdown."""
    columns = [[Text.from_markup(str(cell)).plain for cell in column.cells] for column in table.columns]
    lines = [[str(column.header) for column in table.columns], ["---"] * len(columns), *zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def leak_table(found: ReproductionResult) -> str:
    """Show how far E-DOEBE is ahead of the best single family, with causal weights and with the leak (medians)."""
    lines = ["| data | best single family | E-DOEBE's lead | with the leak |", "|---|---|---|---|"]
    for data in dict.fromkeys(one.data for one in found.shown):
        ours = {m: found.values(data, m, "pll_moment") for m in found.of(data)[0]["models"]}
        causal, leaky = ours.pop("E-DOEBE"), found.values(data, "E-DOEBE", "pll_moment_leak")
        best = max(ours, key=lambda model: float(np.median(ours[model])))
        leads = (float(np.median(each - ours[best])) for each in (causal, leaky))
        lines.append(f"| {DATASETS[data].title} | {best} | {' | '.join(f'{lead:+.3f}' for lead in leads)} |")
    return "\n".join(lines)


def departures_table(found: ReproductionResult) -> str:
    """Show by how much each departure from the printed algorithm changes the error, with its standard error."""
    sets = list(dict.fromkeys(one.data for one in found.shown))
    lines = [
        f"| change of mse | {' | '.join(DATASETS[data].title for data in sets)} |",
        "|---" * (len(sets) + 1) + "|",
    ]
    names = [*PATH]
    for before, name in zip([None, *names], names, strict=False):
        cells = []
        for data in sets:
            each = found.values(data, name, "mse")
            change = each if before is None else each - found.values(data, before, "mse")
            error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
            cells.append(f"{change.mean():{'' if before is None else '+'}.2f} ± {error:.2f}")
        lines.append(f"| {found.label(name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def winners_table(found: ReproductionResult) -> str:
    """Show which model has the best median of each score on each data set."""
    lines = ["| data | least nMSE | greatest pll |", "|---|---|---|"]
    for data in dict.fromkeys(one.data for one in found.shown):
        models = found.models(data)
        error, density = (
            {model: float(np.median(found.values(data, model, metric))) for model in models}
            for metric in ("nmse", "pll")
        )
        best = min(models, key=error.__getitem__), max(models, key=density.__getitem__)
        lines.append(f"| {DATASETS[data].title} | {' | '.join(best)} |")
    return "\n".join(lines)


def list_table(results: Mapping[str, ReproductionResult]) -> str:
    """List the reproductions: what they show, and how many trials were run here, are the default and the paper's."""
    lines = ["| name | what it shows | trials run here | by default | in the paper |", "|---|---|---|---|---|"]
    for name, one in REPRODUCTIONS.items():
        here = results[name].trials if name in results else "none"
        lines.append(f"| `{name}` | {one.shows} | {here} | {one.trials} | {one.paper_trials or 'none'} |")
    return "\n".join(lines)


def local_table(found: ReproductionResult) -> str:
    """Return median RMSE of every model on every data set, and how many local models there were."""
    sets = list(dict.fromkeys(one.data for one in found.shown))
    names = [DATASETS[data].title for data in sets]
    lines = [f"| RMSE (models) | {' | '.join(names)} |", "|---" * (len(sets) + 1) + "|"]
    for model, scores in found.of(sets[0])[0]["models"].items():
        cells = []
        for data in sets:
            cell = f"{np.median(found.values(data, model, 'rmse')):.3g}"
            if "models" in scores and not model.startswith("OVFE"):
                cell += f" ({np.median(found.values(data, model, 'models')):.0f})"
            cells.append(cell)
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def latent_table(found: ReproductionResult) -> str:
    """Return median error of every method on every data set, and how long it took."""
    sets = list(dict.fromkeys(one.data for one in found.shown))
    names = [f"{DATASETS[data].title}, {found.of(data)[0]['rows']:,} rows" for data in sets]
    lines = [f"| error in percent (seconds) | {' | '.join(names)} |", "|---" * (len(sets) + 1) + "|"]
    for model, scores in found.of(sets[0])[0]["models"].items():
        cells = []
        for data in sets:
            if model not in found.models(data):
                cells.append("not run")
                continue
            error = np.median(found.values(data, model, "error"))
            cell = f"{error:.1f}"
            if "seconds" in scores:
                cell += f" ({np.median(found.values(data, model, 'seconds')):.2g})"
            cells.append(cell)
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _page_of(name: str, reproduction: Reproduction, found: ReproductionResult) -> str:
    """Return what docs/research/reproduction.md shows of one reproduction."""
    trials = "1 trial" if found.trials == 1 else f"{found.trials} trials"
    rows = "all rows" if found.rows is None else f"the first {found.rows:,} rows"
    parts = [f"{reproduction.source}; {trials}, {rows}."]
    if reproduction.figures:
        parts.append(markdown(figures_table(found)))
    if reproduction.claims:
        parts.append(markdown(claims_table(found)))
    if name == "doebe-fig4":
        parts.append("Log density (moment), nats a row:\n\n" + leak_table(found))
    if name == "doebe-fig2":
        parts.append("The best of all ten, by median:\n\n" + winners_table(found))
    if name == "sfg-mkl-as-run":
        parts.append("Each row has one departure more than the one above it:\n\n" + departures_table(found))
    notes = "\n".join(f"- {note}" for note in reproduction.notes)
    scores = markdown(scores_table(found))
    parts.append(f"<details><summary>Notes and all scores</summary>\n\n{notes}\n\n{scores}\n\n</details>")
    return "\n\n".join(parts)


def pages() -> dict[Path, str]:
    """Return the three pages with their tables renewed."""
    results = {
        name: collect_runs(reproduction, json.loads(path.read_text()))
        for name, reproduction in REPRODUCTIONS.items()
        if (path := RESULTS / f"{name}.json").exists()
    }
    parts = {name: _page_of(name, REPRODUCTIONS[name], found) for name, found in results.items()}
    parts["list"] = list_table(results)
    parts["rules"] = "\n".join(f"- {rule}" for rule in RULES)
    parts["counts"] = markdown(counts_table(results.values()))
    return {
        PAGE: with_tables(PAGE, parts),
        LOCAL: with_tables(LOCAL, {"wgpr-tables": local_table(results["wgpr-tables"])}),
        LATENT: with_tables(LATENT, {"ie-gplvm": latent_table(results["ie-gplvm"])}),
    }


def main() -> None:
    """Drop from the results what no table needs, and renew the tables."""
    for path in (RESULTS / f"{name}.json" for name in REPRODUCTIONS):
        if path.exists():
            stored = json.loads(path.read_text())
            stored["runs"] = {key: {n: run[n] for n in KEPT if n in run} for key, run in stored["runs"].items()}
            path.write_text(json.dumps(stored, indent=1) + "\n")
    write(pages())


if __name__ == "__main__":
    main()
