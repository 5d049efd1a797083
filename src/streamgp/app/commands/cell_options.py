"""The options that say how the cells of a file are to be read, for each command that reads one."""

from typing import Any

import typer

_HELP = {
    "decimal": "Decimal mark of the numbers in a file of text, . or , (default: what the first rows of each column "
    "tell; where they do not, you are asked).",
    "thousands": "Mark between thousands, , or . (the other one is the decimal mark).",
    "missing_values": "Codes that stand for a missing value, with commas: numbers or words, such as -9999,unknown. "
    "Columns of times and keys have none.",
}


def cell_option(name: str, panel: str | None = None) -> Any:
    """Return an option, `decimal`, `thousands` or `missing_values`, for a group of a command's help."""
    return typer.Option(help=_HELP[name], rich_help_panel=panel)
