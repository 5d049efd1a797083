"""`streamgp embed`: a few coordinates for every row of a table."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.commands.cell_options import cell_option
from streamgp.app.commands.finish import check_json, command_line, fail_if_stopped, write_metrics
from streamgp.app.commands.quiet import Quiet
from streamgp.app.console import names, sentences
from streamgp.models.options import Missing

EXAMPLES = """
Examples:

- `streamgp embed digits.csv --label digit` — embedding/report.html shows the map, coloured by the column digit

- `streamgp embed sensors.parquet --standardise --out map` — volts and degrees; empty cells may be there

- `streamgp embed line.csv --dynamics 'walk 1e-4' --switch 0.001` — a process that drifts: old rows are forgotten

In Python, `StreamingGPLVM.load("embedding/checkpoint")` places further rows, and goes on learning.
"""


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
    ] = "impute",
    missing_values: Annotated[str | None, cell_option("missing_values")] = None,
    decimal: Annotated[str | None, cell_option("decimal")] = None,
    thousands: Annotated[str | None, cell_option("thousands")] = None,
    out: Annotated[Path, typer.Option(help="Directory for embedding, metrics, report and checkpoint.")] = Path(
        "embedding"
    ),
    json: Annotated[str | None, typer.Option(help="Write the metrics to this file; - for standard output.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier embedding in --out.")] = False,
    quiet: Quiet = False,
) -> None:
    """Give the rows of a table a few coordinates, row by row, and draw the map (IE-GPLVM)."""
    with sentences():
        from streamgp.app.outputs import RunError
        from streamgp.latent import LatentSpec
        from streamgp.latent.page import print_embedding
        from streamgp.latent.run import EmbedSettings, run_embed
        from streamgp.numerics.compiled_programs import keep_compiled_programs
        from streamgp.table.reading import Reading

        try:
            spec = LatentSpec(
                n_components=components,
                standardise=standardise,
                dynamics=dynamics,
                switch=switch,
                seed=seed,
                robust=True,
            )
            reading = Reading.of(decimal, thousands, missing_values)
        except ValueError as error:
            raise RunError(str(error)) from error
        settings = EmbedSettings(
            data=data,
            out=out,
            spec=spec,
            warmup=warmup,
            features=names(features, data),
            label=label,
            max_rows=max_rows,
            missing=missing,
            reading=reading,
            overwrite=overwrite,
            command=command_line(),
        )
        check_json(json)
        keep_compiled_programs()
        outcome = run_embed(settings)
        print_embedding(outcome.metrics, to_stderr=json == "-")
        write_metrics(json, outcome.metrics)
        typer.echo(outcome.report, err=json == "-")
        fail_if_stopped(outcome.stopped, outcome.interrupted)
