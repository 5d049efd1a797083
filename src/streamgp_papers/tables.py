"""What a reproduction prints: our scores, the paper's figures beside ours, and what became of its statements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from streamgp_papers.datasets import DATASETS, where_from
from streamgp_papers.kinds import Claim, Reproduction, Shown
from streamgp_papers.verdicts import (
    BETTER,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REPRODUCED,
    RULES,
    WORSE,
    Verdict,
    gains,
    higher_is_better,
    judge_claim,
    judge_figure,
    judge_likeness,
    spread,
)

_COLOURS = {REPRODUCED: "green", BETTER: "green", WORSE: "red", NOT_REPRODUCED: "red", NOT_COMPARABLE: "dim"}


@dataclass(frozen=True)
class Outcome:
    """A reproduction with its runs.

    Attributes
    ----------
    shown
        The data sets that were run.
    missing
        Data sets of the paper that are not at hand.
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
        """The runs of a data set, by seed."""
        return [self.runs[f"{data} {seed}"] for seed in range(self.trials)]

    def models(self, data: str) -> list[str]:
        """The models that every trial has: a package of some may have been missing."""
        first, *rest = self.of(data)
        return [model for model in first["models"] if all(model in run["models"] for run in rest)]

    def values(self, data: str, model: str, metric: str) -> np.ndarray:
        """A score of each trial; infinite where a model went to pieces."""
        found = [run["models"][model][metric] for run in self.of(data)]
        bad = -np.inf if higher_is_better(metric) else np.inf
        return np.array([bad if value is None else value for value in found], dtype=float)

    def obstacle(self, one: Shown) -> str | None:
        """Why figures on a data set cannot be compared with the paper's."""
        whole = DATASETS[one.data].rows
        if self.rows is not None and self.rows < whole:
            return one.obstacle or f"first {self.rows:,} rows only"
        found = self.of(one.data)[0]["rows"]
        return one.obstacle or (f"{found:,} rows, the paper's have {whole:,}" if found != whole else None)

    def on(self, data: str) -> Iterator[Shown]:
        """What was run for a data set of the paper."""
        return (one for one in self.shown if one.stands_for == data)


def print_outcome(outcome: Outcome, console: Console) -> None:
    """All tables of a reproduction, and the sentences that go with them."""
    reproduction = outcome.reproduction
    console.print(f"[bold]{reproduction.name}[/bold]: {reproduction.source}. {reproduction.shows}")
    many = "1 trial" if outcome.trials == 1 else f"{outcome.trials} trials"
    console.print(f"{many} (the paper: {reproduction.paper_trials}), {_rows(outcome.rows)}.", highlight=False)
    console.print(scores_table(outcome))
    if reproduction.figures:
        console.print(figures_table(outcome))
    if reproduction.claims:
        console.print(claims_table(outcome))
    for sentence in (*RULES, *reproduction.notes, *_about_data(outcome)):
        console.print(f"- {sentence}", highlight=False, markup=False)


def _rows(rows: int | None) -> str:
    return "all rows" if rows is None else f"the first {rows:,} rows of each data set"


def _about_data(outcome: Outcome) -> Iterator[str]:
    for one in dict.fromkeys(outcome.shown):
        if one.obstacle:
            yield f"{DATASETS[one.data].title} {one.obstacle}: {DATASETS[one.data].origin}."
        elif DATASETS[one.data].note:
            yield f"{DATASETS[one.data].title}: {DATASETS[one.data].note}."
        if "moving_weight" in outcome.reproduction.pictures:
            for model, weight in outcome.of(one.data)[0]["moving_weight"].items():
                if weight["zero_from"] is not None:
                    yield (
                        f"{DATASETS[one.data].title}: under {model} the moving experts have weight zero for good "
                        f"from row {weight['zero_from']:,} after the warm-up on."
                    )
        yield from (f"{DATASETS[one.data].title}: {remark}" for remark in outcome.of(one.data)[0].get("remarks", ()))
    yield from (f"Not at hand: {where_from(name)}." for name in outcome.missing)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def scores_table(outcome: Outcome) -> Table:
    """Median and range of every score, the best of each data set in bold."""
    metrics = outcome.reproduction.metrics
    kind = ", median (range)" if outcome.trials > 1 else ""
    table = _table(f"Our scores{kind}", "data", "rows", "model", *metrics)
    for data in dict.fromkeys(one.data for one in outcome.shown):
        first = outcome.of(data)[0]
        models = outcome.models(data)
        columns = []
        for metric in metrics:
            given = [model for model in models if metric in first["models"][model]]
            values = {model: outcome.values(data, model, metric) for model in given}
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


def figures_table(outcome: Outcome) -> Table:
    """The paper's figures, ours, and the verdicts."""
    table = _table("Beside the paper", "data", "model", "score", "paper", "ours", "verdict", "why")
    for (data, model, metric), figure in outcome.reproduction.figures.items():
        for one in outcome.on(data):
            ours = outcome.values(one.data, model, metric)
            verdict = judge_figure(metric, ours.tolist(), figure, outcome.obstacle(one))
            pair = _mean(figure.value, figure.std), _mean(float(ours.mean()), spread(ours.tolist()))
            table.add_row(DATASETS[one.data].title, model, metric, *pair, *_words(verdict))
    return table


def claims_table(outcome: Outcome) -> Table:
    """The paper's statements, by how much they hold, and the verdicts."""
    table = _table("What the paper says", "statement", "data", "score", "gain", "verdict", "why")
    for claim in outcome.reproduction.claims:
        for one in outcome.on(claim.data):
            gain, verdict = judge(outcome, claim, one)
            table.add_row(claim.text, DATASETS[one.data].title, claim.metric, gain, *_words(verdict))
    return table


def judge(outcome: Outcome, claim: Claim, one: Shown) -> tuple[str, Verdict]:
    """By how much a statement holds on a data set, in words, and the verdict."""
    there = outcome.models(one.data)
    first, second = ([model for model in models if model in there] for models in (claim.ahead, claim.behind))
    if not first or (claim.behind and not second):
        return "", Verdict(NOT_COMPARABLE, "no run has its models")
    values = {model: outcome.values(one.data, model, claim.metric).tolist() for model in (*first, *second)}
    medians = {model: float(np.median(each)) for model, each in values.items()}
    if claim.within is not None:
        return "", judge_likeness([*medians.values()], claim.within, outcome.obstacle(one))
    best = max if higher_is_better(claim.metric) else min
    ahead = best(first, key=lambda model: medians[model])
    if claim.beats is None:
        behind = best(second, key=lambda model: medians[model])
    else:
        behind = f"{claim.beats:g}"
        values[behind] = [claim.beats] * outcome.trials
    gain = gains(claim.metric, values[ahead], values[behind])
    words = f"{ahead} over {behind}: {_signed(float(np.median(gain)))}"
    return words, judge_claim(gain, outcome.obstacle(one), claim.always)


def _words(verdict: Verdict) -> tuple[str, str]:
    colour = _COLOURS.get(verdict.word)
    return f"[{colour}]{verdict.word}[/{colour}]" if colour else verdict.word, verdict.why


def _median(values: np.ndarray) -> str:
    middle = _number(float(np.median(values)))
    return middle if len(values) == 1 else f"{middle} ({_number(values.min())} to {_number(values.max())})"


def _mean(value: float, std: float) -> str:
    return f"{_number(value)} ± {_number(std)}" if std else _number(value)


def _number(value: float) -> str:
    """Three decimals, or three digits of what is smaller or greater."""
    return f"{value:.3f}" if 0.01 <= abs(value) < 100 or value == 0 else f"{value:.3g}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + _number(value)
