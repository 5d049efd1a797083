"""The printed tables of a reproduction: our scores, the paper's figures beside ours, and its statements."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from streamgp_papers.data_files import describe_source
from streamgp_papers.datasets import DATASETS
from streamgp_papers.found import ReproductionResult, assess_claims, assess_figures, number
from streamgp_papers.verdicts import (
    BETTER,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REPRODUCED,
    RULES,
    UNDECIDED,
    WORSE,
    Verdict,
    higher_is_better,
    std_over_trials,
)

_COLOURS = {REPRODUCED: "green", BETTER: "green", WORSE: "red", NOT_REPRODUCED: "red", NOT_COMPARABLE: "dim"}
WORDS = (REPRODUCED, BETTER, WORSE, NOT_REPRODUCED, UNDECIDED, NOT_COMPARABLE)


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
                *about,
                result.label(model),
                *(column.get(model, "") for column in columns),
                end_section=i == len(models) - 1,
            )
    return table


def figures_table(result: ReproductionResult) -> Table:
    """Tabulate the paper's figures, ours, and the verdicts."""
    table = _table("Beside the paper", "data", "model", "score", "paper", "ours", "verdict", "why")
    for one in assess_figures(result):
        ours = one.ours.tolist()
        pair = _mean(one.figure.value, one.figure.std), _mean(float(np.mean(ours)), std_over_trials(ours))
        title = DATASETS[one.data].title
        table.add_row(title, result.label(one.model), one.metric, *pair, *_words(one.verdict))
    return table


def claims_table(result: ReproductionResult) -> Table:
    """Tabulate the paper's statements, the gains by which they hold, and the verdicts."""
    table = _table("What the paper says", "statement", "data", "score", "gain", "verdict", "why")
    for one in assess_claims(result):
        table.add_row(one.claim.text, DATASETS[one.data].title, one.claim.metric, one.gain, *_words(one.verdict))
    return table


def counts_table(results: Iterable[ReproductionResult]) -> Table:
    """Count the verdicts by word and, of what is not comparable, by what our runs show."""
    figures, claims = "figures of the papers' own methods", "statements"
    baselines = "figures of their baselines"
    verdicts: dict[str, list[Verdict]] = {figures: [], baselines: [], claims: []}
    for result in results:
        for one in assess_figures(result):
            verdicts[baselines if one.figure.baseline else figures].append(one.verdict)
        verdicts[claims] += [one.verdict for one in assess_claims(result)]
    table = _table("Verdicts", "", "all", *WORDS, "here: yes", "here: no", "here: undecided")
    for name, each in verdicts.items():
        words = Counter(verdict.word for verdict in each)
        here = Counter(verdict.found for verdict in each if verdict.word == NOT_COMPARABLE)
        against = sum(here[word] for word in (NOT_REPRODUCED, BETTER, WORSE))
        numbers = (len(each), *(words[word] for word in WORDS), here[REPRODUCED], against, here[UNDECIDED])
        table.add_row(name, *map(str, numbers))
    return table


def _words(verdict: Verdict) -> tuple[str, str]:
    colour = _COLOURS.get(verdict.word)
    return f"[{colour}]{verdict.word}[/{colour}]" if colour else verdict.word, verdict.why


def _median(values: np.ndarray) -> str:
    middle = number(float(np.median(values)))
    return middle if len(values) == 1 else f"{middle} ({number(values.min())} to {number(values.max())})"


def _mean(value: float, std: float) -> str:
    return f"{number(value)} ± {number(std)}" if std else number(value)
