"""`streamgp run`: predict a stream row by row, and learn from it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgp.app.commands.cell_options import cell_option
from streamgp.app.commands.early import checked, reading_of
from streamgp.app.commands.finish import check_json, command_line, fail_if_stopped, write_metrics
from streamgp.app.commands.keyed import run_keyed
from streamgp.app.commands.model_options import DATA, LEARNING, OUTPUT, declared, with_model_options
from streamgp.app.commands.quiet import Quiet
from streamgp.app.commands.short_help import HelpAll
from streamgp.app.console import fail, names, sentences
from streamgp.models.options import (
    CALENDAR,
    HOLIDAYS,
    MISSING_VALUES,
    MODEL,
    OPTIONS,
    SEED,
    WARMUP,
    Missing,
    calendar_of,
)
from streamgp.models.target_options import AUTO, NONE

if TYPE_CHECKING:
    from streamgp.app.runner import Outcome
    from streamgp.app.settings import RunSettings
    from streamgp.models.spec import Spec

EXAMPLES = """
Examples:

- `streamgp run power.csv --target load --out results` — results/report.html shows how it went

- `streamgp run power.csv.gz --target load --features temp,hour --time stamp --missing skip`

- `streamgp run power.csv --target load --lags 1,24,168` — the load one row, 24 and 168 rows ago are inputs too

- `streamgp run mail.csv --target spam --out results` — a column of text, true and false, or 0 and 1 holds classes

- `streamgp run calls.csv --target calls --task count --exposure hours` — whole numbers, as a rate per hour

- `streamgp run wine.csv --target quality --task ordinal --grades 3,4,5,6,7,8,9`

- `streamgp run power.csv --target load --model sfg-mkl --conformal 0.9` — a cheap model, with bands that hold 90%

- `streamgp run gems.csv --target price --conformal 0.9 --groups cut,carat` — 90% of each cut, and of each size

- `streamgp run power.csv --target load --alarms --out results` — the report also tells what changed, and when

- `streamgp run power.csv --target load --lags 1,24 --horizon 24` — each load is forecast 24 rows ahead

- `streamgp run power.csv --target load --horizon 1..24` — the next row, and about every 24 rows all of the next 24

- `streamgp run power.csv --target load --delay 24` — each load is known a day later, and learnt then

- `streamgp run loans.csv --target paid --arrives known_after` — labels in any order, and some of them never

- `tail -n +1 -f live.csv | streamgp run - --target y --chunk 1 --json metrics.json`

- `streamgp run shops.csv --target sales --key shop --time day --out results` — a stream for each shop, as a fleet

- `streamgp run shops.csv --target sales --key shop --engine ray --workers 4` — the same numbers, by four workers

- `streamgp run power.csv --target load --out results --resume` — go on after Ctrl-C
"""

USUAL = ("target", "features", "time", "key", "model", "lags", "horizon", "alarms", "out", "resume")  # of the help
_EACH_STEP = (
    "With 1..24 each target is predicted just before it comes, and about every 24 rows the next 24 are forecast too, "
    "their inputs unknown, and scored; with --key, those of each key."
)


@with_model_options
def run(
    data: Annotated[
        str, typer.Argument(help="A .csv, .csv.gz, .parquet or .jsonl file, or - for standard input (CSV).")
    ],
    target: Annotated[
        str,
        typer.Option(
            help="Column to predict; several with commas, a name that has one itself in double quotes.",
            rich_help_panel=DATA,
        ),
    ],
    options: dict[str, Any],
    task: Annotated[
        str,
        typer.Option(
            help="What the target is: regression, classification, count, ordinal, or auto (text, true and false, or "
            "0 and 1 are classes, all else is numbers).",
            rich_help_panel=DATA,
        ),
    ] = "auto",
    grades: Annotated[
        str | None,
        typer.Option(
            help="Grades of an ordinal target from low to high, with commas. Default: the numbers found.",
            rich_help_panel=DATA,
        ),
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="Column of positive numbers that a count grows with, such as hours.", rich_help_panel=DATA),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns to predict from, with commas (a name that has one in double quotes). Default: all others.",
            rich_help_panel=DATA,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column of times, numbers or dates (ISO 8601, 20240131); forgetting then runs by time, not by rows.",
            rich_help_panel=DATA,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Column of keys: every key is a stream of its own, and all of them are learnt as a fleet.",
            rich_help_panel=DATA,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where a fleet (--key) learns: local, in this process, or ray, in --workers processes that Ray "
            "starts (pip install 'streamgp[ray]'). The numbers are the same.",
            rich_help_panel=LEARNING,
        ),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers of --engine ray.", rich_help_panel=LEARNING)
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of groups of keys (--key): a new key starts from what its group has shown.",
            rich_help_panel=DATA,
        ),
    ] = None,
    max_active: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Keys of a fleet (--key) that stay in memory; the others sleep in --out, or with temporary files. "
            "Default: all stay.",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    horizon: Annotated[str | None, declared(OPTIONS["horizon"], more_help=_EACH_STEP)] = None,
    missing: Annotated[Missing, declared(MISSING_VALUES)] = "impute",
    missing_values: Annotated[str | None, cell_option("missing_values", DATA)] = None,
    decimal: Annotated[str | None, cell_option("decimal", DATA)] = None,
    thousands: Annotated[str | None, cell_option("thousands", DATA)] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after this many rows of the file.", rich_help_panel=DATA),
    ] = None,
    model: Annotated[str, declared(MODEL)] = MODEL.default,
    warmup: Annotated[int | None, declared(WARMUP, min=WARMUP.low)] = None,
    seed: Annotated[int, declared(SEED)] = SEED.default,
    chunk: Annotated[
        int,
        typer.Option(min=1, help="Rows read and learnt at a time: a matter of speed only.", rich_help_panel=LEARNING),
    ] = 1024,
    conformal: Annotated[
        float | None,
        typer.Option(
            help="Also give bands, or sets of labels, that hold this share of the targets, such as 0.9, whatever the "
            "stream does (adaptive conformal inference).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Input columns, with commas, in each group of whose rows --conformal bands hold their share: levels "
            "of a category, fifths of a number; auto: fifths of predicted noise and spread. The model's own bands "
            "are tested in each, see --alarms.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    delay: Annotated[
        int,
        typer.Option(
            min=0,
            help="Labels come this many rows late: a row is predicted without the last so many.",
            rich_help_panel=DATA,
        ),
    ] = 0,
    arrives: Annotated[
        str | None,
        typer.Option(
            help="Column that says when the label of a row is known: after how many rows of the file, or with --time "
            "at what time; never where it is empty.",
            rich_help_panel=DATA,
        ),
    ] = None,
    calendar: Annotated[str, declared(CALENDAR)] = CALENDAR.default,
    holidays: Annotated[str | None, declared(HOLIDAYS)] = None,
    alarms: Annotated[
        bool,
        typer.Option(
            "--alarms",
            help="Tell when the stream changes, and what: expect at most one false alarm in a million rows.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    baselines: Annotated[
        str | None,
        typer.Option(
            help="lightgbm: LightGBM, fitted anew to the last 10,000 rows every 500, stands beside the model, with "
            "split-conformal bands. For numbers; install the extra lightgbm.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for predictions, metrics, report, checkpoint and the experts' weights (of the first "
            "10,000 scored rows, then of every 10th up to 100,000, every 100th up to a million, and so on).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(help="Write the metrics to this file; - for standard output.", rich_help_panel=OUTPUT),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint in --out, or start where there is none.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
) -> None:
    """Predict a stream row by row, each before its target is seen, and learn from it."""
    reading = reading_of(decimal, thousands, missing_values)
    shared: dict[str, Any] = {"data": data, "reading": reading, "time": time, "max_rows": max_rows}
    shared |= {"missing": missing, "warmup": warmup, "seed": seed, "chunk": chunk}
    shared |= {"out": out, "resume": resume, "overwrite": overwrite}
    if key is not None:
        refused = {"--task": task not in ("auto", "regression"), "--grades": grades, "--exposure": exposure}
        refused |= {"--model": model not in (MODEL.default, "fleet"), "--conformal": conformal}
        refused |= {"--delay": delay or None, "--arrives": arrives}
        refused |= {"--groups": groups, "--baselines": baselines}
        shared |= {"key": key, "engine": engine, "workers": workers, "group": group, "max_active": max_active}
        shared |= {"calendar": names(calendar), "holidays": holidays, "alarms": alarms}
        run_keyed(json, refused, options, features, horizon, target=target, **shared)
        return
    if task == "auto":  # an option of a single task determines it
        task = "ordinal" if grades is not None else "count" if exposure is not None else task
    changes, steps_ahead, targets = checked(
        model, options, horizon, task, target, exposure=exposure, alarms=alarms, data=data, reading=reading
    )
    with sentences():
        from streamgp.app.run_stream import opened_run
        from streamgp.app.settings import RunSettings
        from streamgp.models.registry import make_spec

        if engine != "local" or any(each is not None for each in (workers, group, max_active)):
            fail("--engine, --workers, --group and --max-active go with --key, a fleet's; leave them out")

        def spec_for(chosen: str) -> "Spec":
            return make_spec(model, task=chosen, exposure=exposure is not None, **changes)

        if arrives is not None and options["lags"] == AUTO:  # past targets are not known when they would help
            changes |= {"lags": NONE}
        try:
            entries = list(calendar_of(names(calendar), holidays))
            spec = spec_for("regression" if task == "auto" else task)
        except ValueError as error:
            fail(str(error))
        settings = RunSettings(
            targets=targets,
            spec=spec,
            task=task,
            spec_for=spec_for,
            grades=names(grades),
            exposure=exposure,
            features=names(features, data),
            conformal=conformal,
            groups=names(groups, data),
            delay=delay,
            arrives=arrives,
            alarms=alarms,
            baselines=names(baselines) or [],
            steps_ahead=steps_ahead,
            calendar=entries,
            command=command_line(),
            **shared,
        )
        start(json)
        with opened_run(settings) as live:
            outcome = live.run()
        report_run(settings, outcome, json)


def start(json: str | None) -> None:
    """Check where the metrics are to go, and look for compiled programs, before a run."""
    from streamgp.numerics.compiled_programs import keep_compiled_programs

    check_json(json)
    keep_compiled_programs()


def report_run(settings: "RunSettings", outcome: "Outcome", json: str | None) -> None:
    """Print the table, write the metrics as JSON and the report; a run that ended early fails after all that."""
    from streamgp.app.summary import print_summary
    from streamgp.numerics.memory import give_back

    give_back()  # memory that the model had
    print_summary(outcome.metrics, to_stderr=json == "-")
    write_metrics(json, outcome.metrics)
    if settings.out is not None:
        try:
            from streamgp.app.report import write_report

            typer.echo(f"report: {write_report(settings.out)}", err=json == "-")
        except ImportError as error:
            typer.echo(f"no report: {error}", err=True)
    fail_if_stopped(outcome.stopped, outcome.interrupted)
