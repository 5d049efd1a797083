"""`streamgp demo`: the default model, or a fleet, on data that come with an installed package."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from streamgp.app.commands.keyed import keyed_commands
from streamgp.app.commands.quiet import Quiet
from streamgp.app.commands.run import report_run, start
from streamgp.app.console import sentences


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the data and the results.")] = Path("streamgp-demo"),
    fleet: Annotated[bool, typer.Option("--fleet", help="A stream for each of many countries, as a fleet.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the default model on real data that an installed package carries, and write a report."""
    with sentences():
        if fleet:
            keyed_commands("--fleet").demo(out)
            return
        from streamgp.app.run_stream import opened_run
        from streamgp.app.settings import RunSettings
        from streamgp.models.registry import make_spec
        from streamgp.models.target_options import AUTO
        from streamgp.table.demo import write_demo_csv

        table = out / "demo.csv"
        about = written(out, table, write_demo_csv)
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
        start(None)
        with opened_run(settings) as live:
            outcome = live.run()
        report_run(settings, outcome, None)


def written(out: Path, table: Path, write: Callable[[Path], Any]) -> Any:
    """Write the table of a demo, and say what it is."""
    from streamgp.app.outputs import RunDirectory, RunError

    if RunDirectory(out, []).holds_a_run and not table.exists():
        raise RunError(f"{out} holds a run that is not the demo's: name another --out")
    out.mkdir(parents=True, exist_ok=True)
    try:
        about = write(table)
    except ImportError as error:
        raise RunError(str(error)) from error
    typer.echo(f"{about.description}\nSource: {about.source}. Licence: {about.licence}.\n", err=True)
    return about
