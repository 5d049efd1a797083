"""`streamgp demo`: the default model on data that come with an installed package."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.commands.run import run_and_report
from streamgp.app.console import sentences


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the data and the results.")] = Path("streamgp-demo"),
) -> None:
    """Run the default model on real data that an installed package carries, and write a report."""
    with sentences():
        from streamgp.app.outputs import RunDirectory, RunError
        from streamgp.app.settings import RunSettings
        from streamgp.data.demo import write_demo_csv
        from streamgp.models.options import AUTO
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
        settings = RunSettings(
            data=str(table),
            targets=[about.target],
            spec=make_spec("default", lags=AUTO),
            features=list(about.features),
            out=out,
            overwrite=True,
            command=shlex.join(words),
        )
        run_and_report(settings, None)
