"""The printed tables of a reproduction: our scores, the paper's figures beside ours, and its statements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from streamgp_papers.data_files import describe_source
from streamgp_papers.datasets import DATASETS
from streamgp_papers.kinds import Claim, Reproduction, Shown
from streamgp_papers.verdicts import (
    BETTER,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REPRODUCED,
    RULES,
    UNDECIDED,
    WORSE,
    Verdict,
    assess_claim,
    assess_figure,
    assess_similarity,
    compute_gains,
    higher_is_better,
    std_over_trials,
)

_COLOURS = {REPRODUCED: "green", BETTER: "green", WORSE: "red", NOT_REPRODUCED: "red", NOT_COMPARABLE: "dim"}


@dataclass(frozen=True)
class ReproductionResult:
    """A reproduction with its runs.

    Attributes
    ----------
    shown
        The data sets that were run.
    missing
        Data sets of the paper that are not available.
    runs
        By "data seed", as in the file.
    trials, rows
        Seeds of each data set, and the limit of rows, if there was one.
    """

    reproduction: Reproduction
    shown: Sequence[Shown]
    missing: Sequence[str]
    runs: Mapping[str, Mapping[str, Any]]
    trials: int
    rows: int | None

    def of(self, data: str) -> list[Mapping[str, Any]]:
        """Return the runs of a data set, by seed."""
        return [self.runs[f"{data} {seed}"] for seed in range(self.trials)]

    def models(self, data: str) -> list[str]:
        """List the models that every trial has: a package of some may have been missing."""
        first, *rest = self.of(data)
        return [model for model in first["models"] if all(model in run["models"] for run in rest)]

    def values(self, data: str, model: str, metric: str) -> np.ndarray:
        """Return the score of each trial; infinite where it was not finite."""
        found = [run["models"][model][metric] for run in self.of(data)]
        bad = -np.inf if higher_is_better(metric) else np.inf
        return np.array([bad if value is None else value for value in found], dtype=float)

    def obstacle(self, one: Shown) -> str | None:
        """Return the reason why figures on a data set cannot be compared with the paper's, if there is one."""
        whole = DATASETS[one.data].rows
        if self.reproduction.obstacle:
            return self.reproduction.obstacle
        if self.rows is not None and self.rows < whole:
            return one.obstacle or f"first {self.rows:,} rows only"
        first, paper = self.of(one.data)[0], DATASETS[one.data]
        if one.obstacle or first["rows"] != whole:
            return one.obstacle or f"{first['rows']:,} rows, the paper's have {whole:,}"
        inputs = first.get("inputs", paper.inputs) + paper.constant
        same = inputs in (paper.inputs, paper.inputs + paper.constant)
        return None if same else f"{first['inputs']} inputs, the paper's have {paper.inputs}"

    def on(self, data: str) -> Iterator[Shown]:
        """Iterate over the data sets that were run for one of the paper."""
        return (one for one in self.shown if one.stands_for == data)


def print_result(result: ReproductionResult, console: Console) -> None:
    """Print all tables of a reproduction, and its notes."""
    reproduction = result.reproduction
    console.print(f"[bold]{reproduction.name}[/bold]: {reproduction.source}. {reproduction.shows}")
    many = "1 trial" if result.trials == 1 else f"{result.trials} trials"
    console.print(f"{many} (the paper: {reproduction.paper_trials}), {_rows(result.rows)}.", highlight=False)
    console.print(scores_table(result))
    if reproduction.figures:
        console.print(figures_table(result))
    if reproduction.claims:
        console.print(claims_table(result))
    for sentence in (*RULES, *reproduction.notes, *_about_data(result)):
        console.print(f"- {sentence}", highlight=False, markup=False)


def _rows(rows: int | None) -> str:
    return "all rows" if rows is None else f"the first {rows:,} rows of each data set"


def _about_data(result: ReproductionResult) -> Iterator[str]:
    for one in dict.fromkeys(result.shown):
        if one.obstacle:
            yield f"{DATASETS[one.data].title} {one.obstacle}: {DATASETS[one.data].origin}."
        elif DATASETS[one.data].note:
            yield f"{DATASETS[one.data].title}: {DATASETS[one.data].note}."
        if "moving_weight" in result.reproduction.pictures:
            for model, weight in result.of(one.data)[0]["moving_weight"].items():
                if weight["zero_from"] is not None:
                    yield (
                        f"{DATASETS[one.data].title}: under {model} the moving experts have weight zero for good "
                        f"from row {weight['zero_from']:,} after the warm-up on."
                    )
        yield from (f"{DATASETS[one.data].title}: {remark}" for remark in result.of(one.data)[0].get("remarks", ()))
    yield from (f"Not available: {describe_source(name)}." for name in result.missing)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def scores_table(result: ReproductionResult) -> Table:
    """Tabulate median and range of every score, the best of each data set in bold."""
    metrics = result.reproduction.metrics
    kind = ", median (range)" if result.trials > 1 else ""
    table = _table(f"Our scores{kind}", "data", "rows", "model", *metrics)
    for data in dict.fromkeys(one.data for one in result.shown):
        first = result.of(data)[0]
        models = result.models(data)
        columns = []
        for metric in metrics:
            given = [model for model in models if metric in first["models"][model]]
            values = {model: result.values(data, model, metric) for model in given}
            medians = {model: float(np.median(values[model])) for model in given}
            best = (max if higher_is_better(metric) else min)(medians.values(), default=0.0)
            columns.append(
                {
                    model: f"[bold]{_median(values[model])}[/bold]"
                    if medians[model] == best
                    else _median(values[model])
                    for model in given
                }
            )
        for i, model in enumerate(models):
            about = (DATASETS[data].title, f"{first['rows']:,}") if i == 0 else ("", "")
            table.add_row(
                *about, model, *(column.get(model, "") for column in columns), end_section=i == len(models) - 1
            )
    return table


def figures_table(result: ReproductionResult) -> Table:
    """Tabulate the paper's figures, ours, and the verdicts."""
    table = _table("Beside the paper", "data", "model", "score", "paper", "ours", "verdict", "why")
    for (data, model, metric), figure in result.reproduction.figures.items():
        for one in result.on(data):
            ours = result.values(one.data, model, metric)
            verdict = assess_figure(metric, ours.tolist(), figure, result.obstacle(one))
            pair = _mean(figure.value, figure.std), _mean(float(ours.mean()), std_over_trials(ours.tolist()))
            table.add_row(DATASETS[one.data].title, model, metric, *pair, *_words(verdict))
    return table


def claims_table(result: ReproductionResult) -> Table:
    """Tabulate the paper's statements, the gains by which they hold, and the verdicts."""
    table = _table("What the paper says", "statement", "data", "score", "gain", "verdict", "why")
    for claim in result.reproduction.claims:
        for one in result.on(claim.data):
            gain, verdict = assess(result, claim, one)
            table.add_row(claim.text, DATASETS[one.data].title, claim.metric, gain, *_words(verdict))
    return table


def assess(result: ReproductionResult, claim: Claim, one: Shown) -> tuple[str, Verdict]:
    """Assess a statement on a data set; return the gain by which it holds, in words, and the verdict."""
    present = result.models(one.data)
    first, second = ([model for model in models if model in present] for models in (claim.ahead, claim.behind))
    if not first or (claim.behind and not second):
        return "", Verdict(NOT_COMPARABLE, "no run has its models")
    values = {model: result.values(one.data, model, claim.metric).tolist() for model in (*first, *second)}
    medians = {model: float(np.median(each)) for model, each in values.items()}
    best = max if higher_is_better(claim.metric) else min
    if claim.within is not None:
        compared = [best(medians[m] for m in models) for models in (first, second)] if second else [*medians.values()]
        return "", assess_similarity(compared, claim.within, result.obstacle(one))
    ahead = best(first, key=lambda model: medians[model])
    if claim.beats is None:
        behind = best(second, key=lambda model: medians[model])
    else:
        behind = f"{claim.beats:g}"
        values[behind] = [claim.beats] * result.trials
    gain = compute_gains(claim.metric, values[ahead], values[behind])
    words = f"{ahead} over {behind}: {_signed(float(np.median(gain)))}"
    if claim.open and result.obstacle(one) is None:
        return words, Verdict(UNDECIDED, claim.open)
    return words, assess_claim(gain, result.obstacle(one), claim.always)


def _words(verdict: Verdict) -> tuple[str, str]:
    colour = _COLOURS.get(verdict.word)
    return f"[{colour}]{verdict.word}[/{colour}]" if colour else verdict.word, verdict.why


def _median(values: np.ndarray) -> str:
    middle = _number(float(np.median(values)))
    return middle if len(values) == 1 else f"{middle} ({_number(values.min())} to {_number(values.max())})"


def _mean(value: float, std: float) -> str:
    return f"{_number(value)} ± {_number(std)}" if std else _number(value)


def _number(value: float) -> str:
    """Write a number with three decimals, or with three digits if it is very small or large."""
    return f"{value:.3f}" if 0.01 <= abs(value) < 100 or value == 0 else f"{value:.3g}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + _number(value)
