"""The short table that a run ends with on the terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from streamgp.app.wording import headline, last_value, number, rivals, share


def print_summary(metrics: dict[str, Any], to_stderr: bool) -> None:
    """Print what a run found: a sentence, the scores beside the naive rivals', and the notes."""
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    console.print(headline(metrics), markup=False)
    if metrics["scored_rows"]:
        console.print()
        console.print(_table(metrics), soft_wrap=False)
        console.print("* mean log predictive density of the standardised target, higher is better")
        speed, warmup = metrics["rows_per_second"], metrics["seconds"]["warmup"]
        if speed is not None:
            console.print(f"{speed:,.0f} rows a second, after a warm-up of {warmup:.1f} s")
        for rival in rivals(metrics):
            if not rival["won"]:
                console.print(rival["text"], markup=False)
    for warning in metrics["warnings"]:
        console.print(f"note: {warning}", markup=False)


def _table(metrics: dict[str, Any]) -> Table:
    target = f", target {metrics['target']}" if len(metrics["targets"]) > 1 else ""
    table = Table(box=box.SIMPLE, title=f"{metrics['data']}{target}", title_justify="left", collapse_padding=True)
    for name in ("", "nMSE", "RMSE", "MAE", "log density*", "CRPS", "in 95% band"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    held = share(metrics["coverage"]["95"])
    table.add_row(
        metrics["model"], *_errors(metrics), number(metrics["pll_standardised"]), number(metrics["crps"]), held
    )
    for name, label in (("persistence", last_value(metrics)), ("running_mean", "the mean so far")):
        table.add_row(label, *_errors(metrics["naive"][name]), "", "", "")
    return table


def _errors(scores: dict[str, Any]) -> list[str]:
    return [number(scores[name]) for name in ("nmse", "rmse", "mae")]
