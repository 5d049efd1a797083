"""Lists of columns' names as one text with commas, where names may have commas too."""

import csv
import re
from collections.abc import Sequence

_COMMA = re.compile(r"\s*,\s*")


def split_names(text: str, columns: Sequence[str] = ()) -> list[str]:
    """Split a list of names at its commas.

    Parameters
    ----------
    text
        The list. A name with a comma stands in double quotes, or is told by `columns`.
    columns
        Names that there are, if that is known: parts of the text that are none of them, but are one together, are not
        split.
    """
    parts = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]
    known = {_COMMA.sub(",", name): name for name in columns if "," in name}
    found: list[str] = []
    at = 0
    while at < len(parts):
        stop = at + 1
        if parts[at] not in columns:
            ends = range(len(parts), at + 1, -1)
            stop = next((end for end in ends if ",".join(parts[at:end]) in known), stop)
        found.append(parts[at] if stop == at + 1 else known[",".join(parts[at:stop])])
        at = stop
    return found


def quoting_advice(columns: Sequence[str]) -> str:
    """Say how the command names the first of some columns that has a comma; nothing where none has."""
    name = next((name for name in columns if "," in name), None)
    return "" if name is None else f"; in a list a name with a comma stands in double quotes, as in '\"{name}\"'"
