"""A command whose help shows the options that people use; ``--help-all`` shows every one."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption


def short_help(*usual: str) -> type[TyperCommand]:
    """Return the class of a command whose help shows these options alone, by the names of its parameters."""

    class ShortHelp(TyperCommand):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            for one in self.params:
                if isinstance(one, TyperOption):
                    one.hidden = one.name not in (*usual, "help_all")

    return ShortHelp


def _show_all(context: Any, wanted: bool) -> bool:
    """Show the help with every option, and end, if that is wanted."""
    if wanted:
        for one in context.command.params:
            if isinstance(one, TyperOption):
                one.hidden = False
        typer.echo(context.get_help())
        raise typer.Exit
    return wanted


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show every option and exit."),
]
