"""Columns of the user's rows that part these into groups, whose bands hold their share in each."""

from collections.abc import Sequence
from typing import Any

from streamgp.estimators.validation import Rows, input_names
from streamgp.evaluation.row_groups import AUTO, MOST_LEVELS, GroupColumn

WORD = "auto"


def group_columns(groups: str | int | Sequence[str | int] | None, X: Any, rows: Rows) -> list[GroupColumn]:
    """Return what parts rows into groups: columns of X by name or number, and ``auto``, two that are predicted.

    Raises
    ------
    ValueError
        If a column is none of X, or holds dates or times of day.
    """
    found: list[GroupColumn] = []
    names = input_names(X, rows.X.shape[1])
    for given in [groups] if isinstance(groups, str | int) else groups or ():
        if given == WORD:
            found += AUTO
            continue
        whole = isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(names)
        if not whole and given not in names:
            raise ValueError(f"groups: expected 'auto' or columns of X ({', '.join(names)}), got {given!r}")
        found.append(_column(int(given) if whole else names.index(str(given)), names, rows))
    return found


def _column(at: int, names: Sequence[str], rows: Rows) -> GroupColumn:
    """Return the groups of a column of X."""
    sources, kinds = rows.columns.sources(rows.X.shape[1]), rows.columns.kinds
    kind = kinds[at] if kinds else "number"
    if kind not in ("number", "category"):
        raise ValueError(f"groups: expected columns of numbers or categories, got {names[at]!r}, which holds times")
    levels = rows.columns.levels[at][:MOST_LEVELS] if kind == "category" else ()
    return GroupColumn(names[at], (sources.index(at),), tuple(levels))
