"""The `streamgp` command: what there is, and the version. Each is a module in `app.commands`, or of an annex."""

from importlib import import_module
from typing import Annotated

import typer

from streamgp.annexes import annexes
from streamgp.app.commands import compare, demo, run
from streamgp.app.commands.short_help import short_help
from streamgp.app.interrupt import end_imports_at_once
from streamgp.numerics.memory import collect_garbage_seldom, keep_freed_memory
from streamgp.version import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Learn from data streams with honest error bars: every row is predicted before its target is seen.",
)


def _version(show: bool) -> bool:
    if show:
        typer.echo(f"streamgp {__version__}")
        raise typer.Exit
    return show


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn from data streams with honest error bars: every row is predicted before its target is seen."""


app.command(epilog=run.EXAMPLES, cls=short_help(*run.USUAL))(run.run)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command()(demo.demo)
for annex in annexes():
    for command, where in annex.commands.items():
        module, function = where.split(":")
        found = import_module(module)
        app.command(command, epilog=getattr(found, "EXAMPLES", None))(getattr(found, function))


def main() -> None:
    """Run the `streamgp` command."""
    end_imports_at_once()
    keep_freed_memory()
    collect_garbage_seldom()
    app()


if __name__ == "__main__":
    main()
