"""The short table that a run ends with on the terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from streamgp.evaluation.metrics.shares import in_percent
from streamgp.numerics.formats import number, plural, share
from streamgp.reports import comparison_page, step_verdict, verdicts
from streamgp.reports.wording import NAMELESS, alarm_lines, headline

_NOTES = {
    "regression": "* mean log predictive density of the target in its own units, higher is better",
    "count": "* mean log probability of the count, higher is better",
    "classification": "* mean of minus the log probability of the label; lower is better, here and in all columns",
    "ordinal": "* mean of minus the log probability of the grade; lower is better, here and in all columns",
}
_OF_SEVERAL = "* mean log predictive density of all targets together in their own units, higher is better"
_LABEL_SCORES = {
    "classification": {
        "error_rate": "errors",
        "balanced_error": "balanced",
        "log_loss": "log loss*",
        "brier": "Brier",
        "ece": "calibration",
    },
    "ordinal": {"error_rate": "errors", "mae": "grades off", "rps": "RPS", "log_loss": "log loss*"},
}
_INPUTS_SHOWN, _MATTERS = 3, 0.0005  # a smaller share would be shown as none
_SHARES = ("error_rate", "balanced_error", "ece")


def print_summary(metrics: dict[str, Any], to_stderr: bool) -> None:
    """Print what a run found: a sentence, the scores beside the naive baselines', and the notes."""
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    console.print(headline(metrics), markup=False)
    if metrics["scored_rows"]:
        console.print()
        _print_whole(console, _table(metrics))
        several = len(metrics["targets"]) > 1
        console.print(_OF_SEVERAL if several else _NOTES[metrics.get("task", "regression")])
        if ranked := _rarest(metrics):
            console.print(ranked, markup=False)
        speed, warmup = metrics["rows_per_second"], metrics["seconds"]["warmup"]
        if speed is not None:
            console.print(f"{speed:,.0f} rows a second, after a warm-up of {warmup:.1f} s")
        if bands := metrics.get("conformal"):
            kind, size = ("sets", "size") if "size" in bands else ("bands", "width")
            console.print(
                f"conformal {kind} of {in_percent(bands['level'], 1)} contained {share(bands['coverage'])} of the "
                f"targets at a mean {size} of {number(bands[size])}; the model's own "
                f"{share(bands['own']['coverage'])} at {number(bands['own'][size])}"
            )
            if grouped := bands.get("groups"):
                worst = max(grouped, key=lambda each: abs(each["coverage"] - bands["level"]))
                console.print(
                    f"of {len(grouped)} groups furthest from it: {worst['group']}, {share(worst['coverage'])} of "
                    f"{plural(worst['rows'], 'row')}; the model's own {share(worst['own']['coverage'])}",
                    markup=False,
                )
        if matters := _importance(metrics.get("importance")):
            console.print(matters, markup=False)
        for line in alarm_lines(metrics.get("alarms")):
            console.print(line, markup=False)
        for number_of, verdict in enumerate(verdicts.sentences(metrics)):
            if not number_of or verdict["mark"] != verdicts.MARKS["better"]:
                console.print(verdict["text"], markup=False)
        for by_step in step_verdict.sentences(metrics):
            console.print(by_step["text"], markup=False)
    for warning in metrics["warnings"]:
        console.print(f"note: {warning}", markup=False)


def _print_whole(console: Console, table: Table) -> None:
    """Print a table with every digit, beyond the width of the terminal if need be."""
    needed = Measurement.get(console, console.options.update(width=1_000), table).maximum
    console.width = max(console.width, needed)
    console.print(table, soft_wrap=False)


def _rarest(metrics: dict[str, Any]) -> str:
    """Return how well the rarest class is separated from the others; empty where there is none."""
    if (name := metrics.get("rarest_class")) is None or metrics["roc_auc"][name] is None:
        return ""
    rows = sum(metrics["confusion"][metrics["classes"].index(name)])
    return (
        f"rarest class {name or NAMELESS}, {share(rows / metrics['scored_rows'])} of the rows: average precision "
        f"{number(metrics['average_precision'][name], 3)}, ROC AUC {number(metrics['roc_auc'][name], 3)}"
    )


def _importance(inputs: list[dict[str, Any]] | None) -> str:
    """Return the inputs with the most influence; empty where none has any, or it is not known."""
    most = [each for each in (inputs or [])[:_INPUTS_SHOWN] if each["share"] >= _MATTERS]
    named = ", ".join(f"{each['name'] or NAMELESS} {share(each['share'])}" for each in most)
    return f"inputs that matter most, by influence (share of the target's variance): {named}" if most else ""


def print_comparison(about: dict[str, Any], to_stderr: bool) -> None:
    """Print what a comparison of runs found: a sentence, a table, a verdict on each run but the first, the notes."""
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    console.print(comparison_page.headline(about), markup=False)
    console.print()
    table = Table(
        box=box.SIMPLE,
        title=f"{about['data']}, target {about['target']}",
        title_justify="left",
        collapse_padding=True,
    )
    scores = [name for name in comparison_page.NAMES if name in about["runs"][0]]
    for name in ("run", *(comparison_page.NAMES[score] for score in scores), "rows/s"):
        table.add_column(name, justify="left" if name == "run" else "right", no_wrap=name != "run", overflow="fold")
    for run in about["runs"]:
        cells = [comparison_page.shown(score, run[score]) for score in scores]
        table.add_row(run["run"], *cells, number(run["rows_per_second"], 3))
    console.print(table, soft_wrap=False)
    for verdict in comparison_page.verdicts(about):
        console.print(verdict["text"], markup=False)
    for note in about["notes"]:
        console.print(f"note: {note}", markup=False)


def _table(metrics: dict[str, Any]) -> Table:
    task = metrics.get("task", "regression")
    return _label_table(metrics, task) if task in _LABEL_SCORES else _number_table(metrics, task)


def _number_table(metrics: dict[str, Any], task: str) -> Table:
    target = f", target {metrics['target']}" if len(metrics["targets"]) > 1 else ""
    table = Table(box=box.SIMPLE, title=f"{metrics['data']}{target}", title_justify="left", collapse_padding=True)
    counts = task == "count"
    extra = ("deviance", "log prob.*") if counts else ("log density*",)
    for name in ("", "nMSE", "RMSE", "MAE", *extra, "CRPS", "in 95%" if counts else "in 95% band"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    covered = share(metrics["coverage"]["95"])
    densities = (metrics["deviance"], metrics["pll"]) if counts else (metrics["pll"],)
    table.add_row(metrics["model"], *_errors(metrics), *map(number, densities), number(metrics["crps"]), covered)
    for name, scores in metrics["naive"].items():
        deviance = [number(scores["deviance"])] if counts else []
        crps = number(scores["crps"]) if "crps" in scores else ""
        table.add_row(verdicts.named(metrics, name), *_errors(scores), *deviance, "", crps, "")
    for name, scores in list(metrics["by_target"].items())[1:]:
        covered = share(scores["coverage"]["95"])
        table.add_row(f"target {name}", *_errors(scores), "", number(scores["crps"]), covered)
    return table


def _label_table(metrics: dict[str, Any], task: str) -> Table:
    """Return the scores of labels or grades; a baseline has only some of them."""
    table = Table(box=box.SIMPLE, title=metrics["data"], title_justify="left", collapse_padding=True)
    columns = _LABEL_SCORES[task]
    for name in ("", *columns.values()):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    noun = "grade" if task == "ordinal" else "label"
    for label, scores in (
        (metrics["model"], metrics),
        (f"the last {noun}", metrics["naive"][f"last_{noun}"]),
        ("frequencies so far", metrics["naive"]["frequencies"]),
    ):
        cells = [(share if key in _SHARES else number)(scores[key]) if key in scores else "" for key in columns]
        table.add_row(label, *cells)
    return table


def _errors(scores: dict[str, Any]) -> list[str]:
    return [number(scores[name]) for name in ("nmse", "rmse", "mae")]
