"""The `streamgp` command. Everything heavy is imported by the command that needs it, so that --help is quick."""

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import streamgp
from streamgp.app.console import fail, names, sentences
from streamgp.app.interrupt import end_imports_at_once

if TYPE_CHECKING:
    from streamgp.app.job import RunOptions
    from streamgp.models.spec import Spec

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Learn from data streams with honest error bars: every row is predicted before its target is seen.",
)


class Missing(StrEnum):
    """What to do about values that are missing or of no use."""

    impute = "impute"
    skip = "skip"
    raise_ = "raise"


class Switch(StrEnum):
    """Whether something is on."""

    on = "on"
    off = "off"


class Start(StrEnum):
    """Where the experts' beliefs stand after the warm-up's fit."""

    condition = "condition"
    prior = "prior"


def _version(show: bool) -> bool:
    if show:
        typer.echo(f"streamgp {streamgp.__version__}")
        raise typer.Exit
    return show


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn from data streams with honest error bars: every row is predicted before its target is seen."""


@app.command(
    epilog="""
Examples:

- `streamgp run power.csv --target load --out results` — results/report.html shows how it went

- `streamgp run power.csv.gz --target load --features temp,hour --time stamp --missing skip`

- `streamgp run power.csv --target load --lags 1,24,168` — the load one row, 24 and 168 rows ago are inputs too

- `streamgp run mail.csv --target spam --out results` — a column of text, true and false, or 0 and 1 holds classes

- `streamgp run calls.csv --target calls --task count --exposure hours` — whole numbers, as a rate per hour

- `streamgp run wine.csv --target quality --task ordinal --grades 3,4,5,6,7,8,9`

- `streamgp run power.csv --target load --model sfg-mkl --conformal 0.9` — a cheap model, with bands that hold 90%

- `streamgp run power.csv --target load --lags 1,24 --horizon 24` — each load is forecast 24 rows before it comes

- `tail -n +1 -f live.csv | streamgp run - --target y --chunk 1 --json metrics.json`

- `streamgp run power.csv --target load --out results --resume` — go on after Ctrl-C
"""
)
def run(
    data: Annotated[
        str, typer.Argument(help="A .csv, .csv.gz, .parquet or .jsonl file, or - for standard input (CSV).")
    ],
    target: Annotated[str, typer.Option(help="Column to predict; several with commas.")],
    task: Annotated[
        str,
        typer.Option(
            help="What the target is: regression, classification, count, ordinal, or auto (text, true and false, or "
            "0 and 1 are classes, all else is numbers)."
        ),
    ] = "auto",
    grades: Annotated[
        str | None,
        typer.Option(help="Grades of an ordinal target from low to high, with commas. Default: the numbers found."),
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Column of positive numbers that a count grows with, such as hours.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns to predict from, with commas. Default: all others.")
    ] = None,
    lags: Annotated[
        str | None,
        typer.Option(help="The target so many rows ago is an input too: 1,2,24. Each shorter than the warm-up."),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Forecast each target so many rows before it comes. Default: from the inputs of its own row."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column of times, numbers or dates (ISO 8601, 20240131); forgetting then runs by time, not by rows."
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="default, e-doebe, oebe, doebe, soebe, sdoebe, ie-gp, die-gp, sie-gp, dsie-gp, i-ssgpr or linear; "
            "or many kernels by gradient steps: sfg-mkl, sfg-mkl-r, raker, adaraker, omkr or omkl-gf; "
            "or sparse and local Gaussian processes: ovfe, wgpr, solar-gp or lgpr."
        ),
    ] = "default",
    bases: Annotated[
        str | None,
        typer.Option(
            help="Basis families with commas: linear, fourier, hilbert, hilbert-product, nystrom, rbf, polynomial, "
            "spline, trees, concatenation, fourier-optimised, rbf-optimised."
        ),
    ] = None,
    features_per_basis: Annotated[
        int | None, typer.Option(help="Features of each basis. Default: each family's own.")
    ] = None,
    n_samples: Annotated[
        int,
        typer.Option(
            help="Experts for each optimum of the hyperparameters: itself, and samples of the evidence around it."
        ),
    ] = 1,
    dynamics: Annotated[str | None, typer.Option(help="With commas: static, 'walk Q', 'revert LAMBDA'.")] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="With commas: constant, 'adaptive D' (a memory of 1 / (1 - D) rows), 'adaptive D ar RHO' (a share "
            "RHO of the last error is expected again)."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="bma, bma-shutdown, dma, switching, e-doebe, soft-bayes, stacking, stacking-share, stacking-newton "
            "or auto."
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Switching rate of e-doebe between two dynamics of a basis.")
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Rate of a fresh start among all experts, under e-doebe; 0 is the paper's.")
    ] = None,
    switch: Annotated[
        float | None, typer.Option(help="Probability per row of leaving an expert, under switching.")
    ] = None,
    conformal: Annotated[
        float | None,
        typer.Option(
            help="Also give bands that hold this share of the targets, such as 0.9, whatever the stream does "
            "(adaptive conformal inference)."
        ),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=10, help="Rows of the warm-up. Default: 1000, or a fifth of a shorter file.")
    ] = None,
    warmup_posterior: Annotated[
        Start, typer.Option(help="After the fit: learn the warm-up rows, or restart from the prior.")
    ] = Start.condition,
    robust: Annotated[
        Switch | None,
        typer.Option(
            help="Set glitches aside: absurd rows are predicted, flagged and hardly learnt. Default: on for the "
            "default model, off for the papers'."
        ),
    ] = None,
    recalibrate: Annotated[
        Switch | None,
        typer.Option(
            help="Let the bands learn from the levels at which the targets before came. Default: on for the default "
            "model, off for the papers'."
        ),
    ] = None,
    q_absolute: Annotated[
        bool,
        typer.Option(
            "--q-absolute",
            help="Random-walk variances absolute, as in the papers, not relative to the prior variance.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    chunk: Annotated[int, typer.Option(min=1, help="Rows read and learnt at a time: a matter of speed only.")] = 1024,
    max_rows: Annotated[int | None, typer.Option(min=1, help="Stop after this many rows of the file.")] = None,
    missing: Annotated[
        Missing,
        typer.Option(
            metavar="HOW",  # the names themselves would leave the other options no room
            help="Values that are missing or no numbers: impute (a row without its target is predicted, and not "
            "learnt), skip and count the rows, or raise an error.",
        ),
    ] = Missing.impute,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for predictions, metrics, report, checkpoint and the experts' weights (of the first "
            "10,000 scored rows, then of every 10th up to 100,000, every 100th up to a million, and so on)."
        ),
    ] = None,
    json: Annotated[str | None, typer.Option(help="Write the metrics to this file; - for standard output.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint in --out, or start where there is none.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")] = False,
) -> None:
    """Predict a stream row by row, each before its target is seen, and learn from it."""
    with sentences():
        from streamgp.app.job import RunOptions
        from streamgp.app.outputs import RunError
        from streamgp.data.targets import TASKS
        from streamgp.models.registry import make_spec

        if task == "auto":  # what only one task has says which it is
            task = "ordinal" if grades is not None else "count" if exposure is not None else task

        def spec_for(chosen: str) -> "Spec":
            return make_spec(
                model,
                task=chosen,
                exposure=exposure is not None,
                bases=names(bases),
                features_per_basis=features_per_basis,
                n_samples=n_samples,
                dynamics=names(dynamics),
                noise=names(noise),
                weights=weights,
                delta=delta,
                share=share,
                switch=switch,
                q_absolute=q_absolute,
                warmup_posterior=warmup_posterior.value,
                robust=None if robust is None else robust is Switch.on,
                recalibrate=None if recalibrate is None else recalibrate is Switch.on,
                lags=_whole_numbers("--lags", lags),
                horizon=horizon,
            )

        try:
            _one_of("--task", task, TASKS)
            spec = spec_for("regression" if task == "auto" else task)
        except ValueError as error:
            raise RunError(str(error)) from error
        options = RunOptions(
            data=data,
            targets=names(target) or [],
            spec=spec,
            task=task,
            spec_for=spec_for,
            grades=names(grades),
            exposure=exposure,
            features=names(features),
            time=time,
            warmup=warmup,
            seed=seed,
            chunk=chunk,
            max_rows=max_rows,
            missing=missing.value,
            conformal=conformal,
            out=out,
            resume=resume,
            overwrite=overwrite,
            command=shlex.join(["streamgp", *sys.argv[1:]]),
        )
        _run(options, json)


@app.command(
    epilog="""
Examples:

- `streamgp embed digits.csv --label digit` — embedding/report.html shows the map, coloured by the column digit

- `streamgp embed sensors.parquet --standardise --out map` — volts and degrees; empty cells may be there

- `streamgp embed line.csv --dynamics 'walk 1e-4' --switch 0.001` — a process that drifts: old rows are forgotten

In Python, `StreamingGPLVM.load("embedding/checkpoint")` places further rows, and goes on learning.
"""
)
def embed(
    data: Annotated[
        str, typer.Argument(help="A .csv, .csv.gz, .parquet or .jsonl file, or - for standard input (CSV).")
    ],
    features: Annotated[
        str | None, typer.Option(help="Columns to embed, with commas. Default: all columns of numbers.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column to colour the map by; the model does not see it.")] = None,
    components: Annotated[int, typer.Option(min=1, help="Coordinates of the map.")] = 2,
    standardise: Annotated[
        bool,
        typer.Option(
            "--standardise", help="Divide each column by its standard deviation in the warm-up: for different units."
        ),
    ] = False,
    warmup: Annotated[
        int | None,
        typer.Option(min=2, help="Rows of the warm-up. Default: 500, or a tenth of a shorter file, at least 100."),
    ] = None,
    dynamics: Annotated[str, typer.Option(help="static, 'walk Q' or 'revert LAMBDA'.")] = "static",
    switch: Annotated[
        float, typer.Option(help="Probability per row that another kernel becomes the right one.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    max_rows: Annotated[int | None, typer.Option(min=1, help="Stop after this many rows of the file.")] = None,
    missing: Annotated[
        Missing,
        typer.Option(
            metavar="HOW",
            help="Cells that are no numbers: impute (take them for missing, as empty ones are), skip and count their "
            "rows, or raise an error.",
        ),
    ] = Missing.impute,
    out: Annotated[Path, typer.Option(help="Directory for embedding, metrics, report and checkpoint.")] = Path(
        "embedding"
    ),
    json: Annotated[str | None, typer.Option(help="Write the metrics to this file; - for standard output.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier embedding in --out.")] = False,
) -> None:
    """Give the rows of a table a few coordinates, row by row, and draw the map (IE-GPLVM)."""
    with sentences():
        from streamgp.app.compilation import keep_compiled_programs
        from streamgp.app.embed import EmbedOptions
        from streamgp.app.embed import embed as run_embed
        from streamgp.app.outputs import RunError
        from streamgp.app.summary import print_embedding
        from streamgp.latent import LatentSpec

        try:
            spec = LatentSpec(
                n_components=components,
                standardise=standardise,
                dynamics=dynamics,
                switch=switch,
                seed=seed,
                robust=True,
            )
        except ValueError as error:
            raise RunError(str(error)) from error
        options = EmbedOptions(
            data=data,
            out=out,
            spec=spec,
            warmup=warmup,
            features=names(features),
            label=label,
            max_rows=max_rows,
            missing=missing.value,
            overwrite=overwrite,
            command=shlex.join(["streamgp", *sys.argv[1:]]),
        )
        _check_json(json)
        keep_compiled_programs()
        outcome = run_embed(options)
        print_embedding(outcome.metrics, to_stderr=json == "-")
        _give_json(json, outcome.metrics)
        typer.echo(outcome.report, err=json == "-")
        if outcome.stopped is not None:
            fail(outcome.stopped, 130 if outcome.interrupted else 1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the data and the results.")] = Path("streamgp-demo"),
) -> None:
    """Run the default model on real data that an installed package carries, and write a report."""
    with sentences():
        from streamgp.app.job import RunOptions
        from streamgp.app.outputs import RunDirectory, RunError
        from streamgp.data.demo import write_demo_csv
        from streamgp.models.registry import make_spec

        table = out / "demo.csv"
        if RunDirectory(out, []).holds_a_run and not table.exists():
            raise RunError(f"{out} holds a run that is not the demo's: name another --out")
        out.mkdir(parents=True, exist_ok=True)
        try:
            about = write_demo_csv(table)
        except ImportError as error:
            raise RunError(str(error)) from error
        typer.echo(f"{about.description}\nSource: {about.source}. Licence: {about.licence}.\n", err=True)
        words = ["streamgp", "run", str(table), "--target", about.target, "--features", ",".join(about.features)]
        options = RunOptions(
            data=str(table),
            targets=[about.target],
            spec=make_spec("default"),
            features=list(about.features),
            out=out,
            overwrite=True,
            command=shlex.join(words),
        )
        _run(options, None)


# The papers' tables are a package of their own, which nothing here depends on.
app.command()(import_module("streamgp_papers.command").reproduce)


def _run(options: "RunOptions", json: str | None) -> None:
    """Run, then the table, the metrics as JSON and the report; a run that ended early fails after all that."""
    from streamgp.app.compilation import keep_compiled_programs
    from streamgp.app.run import run as run_stream
    from streamgp.app.summary import print_summary

    _check_json(json)
    keep_compiled_programs()
    outcome = run_stream(options)
    print_summary(outcome.metrics, to_stderr=json == "-")
    _give_json(json, outcome.metrics)
    if options.out is not None:
        try:
            from streamgp.app.report import write_report

            typer.echo(f"report: {write_report(options.out)}", err=json == "-")
        except ImportError as error:
            typer.echo(f"no report: {error}", err=True)
    if outcome.stopped is not None:
        fail(outcome.stopped, 130 if outcome.interrupted else 1)


def _check_json(json: str | None) -> None:
    from streamgp.app.outputs import RunError

    if json is not None and json != "-" and (Path(json).is_dir() or not Path(json).parent.is_dir()):
        raise RunError(f"--json: expected a file in a directory that exists, or -, got {json}")


def _give_json(json: str | None, metrics: dict[str, Any]) -> None:
    from streamgp.app.outputs import encode_json, write_json

    if json == "-":
        typer.echo(encode_json(metrics), nl=False)
    elif json is not None:
        write_json(Path(json), metrics)


def _whole_numbers(option: str, text: str | None) -> list[int] | None:
    each = names(text)
    if each is None:
        return None
    try:
        return [int(name) for name in each]
    except ValueError:
        raise ValueError(f"{option}: expected whole numbers with commas, such as 1,2,24, got {text!r}") from None


def _one_of(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{option}: expected one of {', '.join(allowed)}, got {value!r}")


def main() -> None:
    """Run the `streamgp` command."""
    end_imports_at_once()
    app()


if __name__ == "__main__":
    main()
