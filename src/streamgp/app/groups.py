"""Columns of a file that part its rows into groups, whose bands hold their share in each."""

from collections.abc import Sequence

from streamgp.evaluation.row_groups import AUTO, GroupColumn
from streamgp.models.target_options import AUTO as WORD
from streamgp.table import Schema


def group_columns(groups: Sequence[str] | None, schema: Schema) -> list[GroupColumn]:
    """Return what parts rows into groups: input columns, and ``auto``, two that are predicted.

    Raises
    ------
    ValueError
        If a column is no input, or holds dates.
    """
    found: dict[str, GroupColumn] = {}
    at = 0
    for feature in schema.features:
        inputs = tuple(range(at, at + len(feature.encoded)))
        at += len(inputs)
        if feature.kind != "date":
            levels = ("false", "true") if feature.kind == "boolean" else feature.levels
            found[feature.name] = GroupColumn(feature.name, inputs, levels, feature.kind == "categorical")
    columns: list[GroupColumn] = []
    for name in groups or ():
        if name == WORD:
            columns += AUTO
        elif name in found:
            columns.append(found[name])
        else:
            raise ValueError(
                f"groups: expected 'auto' or inputs that hold no dates ({', '.join(found)}), got {name!r}"
            )
    return columns
