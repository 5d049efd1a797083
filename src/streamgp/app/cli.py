"""The `streamgp` command: what there is, and the version. Each command is a module in `streamgp.app.commands`."""

from importlib import import_module
from typing import Annotated

import typer

import streamgp
from streamgp.app.commands import backup, compare, demo, embed, run, serve
from streamgp.app.interrupt import end_imports_at_once

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Learn from data streams with honest error bars: every row is predicted before its target is seen.",
)


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


app.command(epilog=run.EXAMPLES)(run.run)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=embed.EXAMPLES)(embed.embed)
app.command()(demo.demo)
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.command(epilog=backup.EXAMPLES)(backup.backup)
# The papers' tables are a package of their own, which nothing here depends on.
app.command()(import_module("streamgp_papers.command").reproduce)


def main() -> None:
    """Run the `streamgp` command."""
    end_imports_at_once()
    app()


if __name__ == "__main__":
    main()
