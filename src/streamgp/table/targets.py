"""The task that a target calls for, inferred once from its first rows: regression, classes, counts or grades."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamgp.table import cells
from streamgp.table.blocks import Block
from streamgp.table.labels import MAX_CLASSES, ClassNames, Kind, to_names
from streamgp.table.numbers import Cell, Column, Decimal, is_missing, is_missing_number, to_numbers
from streamgp.table.schema import DataError

TASKS = ("auto", "regression", "classification", "count", "ordinal")
_FEW = 20  # so many different whole numbers of a target may be labels, counts or grades


class Target(NamedTuple):
    """The task of a target, the names of its labels or grades if it has any, and a note for the user, if any."""

    task: str
    labels: ClassNames | None = None
    note: str = ""


def infer_target(
    file: str,
    head: Block,
    targets: Sequence[str],
    task: str,
    grades: Sequence[str] | None = None,
    decimals: Mapping[str, Decimal] | None = None,
) -> Target:
    """Infer the task of the targets from the first rows of a file.

    Parameters
    ----------
    file
        Its name, for error messages.
    head
        Its first rows.
    targets
        Their columns; several are possible in regression only.
    task
        ``regression``, ``classification``, ``count``, ``ordinal``, or ``auto``: classification where the only target
        is text, or true and false, or has both 0 and 1 and nothing else; else regression.
    grades
        The grades of an ordinal target, in their order; by default the numbers in the first rows, sorted.
    decimals
        The decimal marks of columns, as `streamgp.table.inference.check_marks` found them.

    Raises
    ------
    DataError
        If a target is not what `task` says.
    """
    if task not in TASKS:
        raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {task!r}.")
    if grades is not None and task != "ordinal":
        raise DataError(f"{file}: expected grades with the task ordinal, got the task {task}; add --task ordinal.")
    if len(targets) > 1 and task not in ("auto", "regression"):
        raise DataError(f"{file}: expected one target for {task}, got {len(targets)}; choose one.")
    columns = head.sound_columns()
    decimals = decimals or {}
    name, column = targets[0], columns[targets[0]]
    decimal = decimals.get(name)
    match task:
        case "classification":
            return Target(task, _classes(file, head, name, column, decimal))
        case "ordinal":
            return Target(task, _grades(file, head, name, column, decimal, grades))
        case "count":
            check_numbers(file, head, name, column, decimal, "counts")
            return Target(task)
    if task == "auto" and len(targets) == 1:
        numbers = to_numbers(column, decimal)
        present = [cell for cell in column if not is_missing(cell)]
        given = [cell for cell in present if not is_missing_number(cell)]
        if given and np.isfinite(to_numbers(given, decimal)).all():  # words for missing numbers are no labels
            present = given
        if (
            present
            and np.isfinite(numbers).sum() <= len(present) / 2
            and not all(map(cells.looks_like_date, present))
        ):
            labels = _classes(file, head, name, column, decimal)
            what = "true and false" if labels.kind == "boolean" else f"text of {len(labels.names)} kinds"
            return Target("classification", labels, _chosen(name, what))
        found = np.unique(numbers[np.isfinite(numbers)])
        if len(present) == np.isfinite(numbers).sum() and found.tolist() == [0.0, 1.0]:
            labels = _classes(file, head, name, column, decimal)
            return Target("classification", labels, _chosen(name, "nothing but 0 and 1"))
        if 1 < len(found) <= min(_FEW, len(present) / 5) and np.all(found == np.round(found)):
            note = (
                f"target column '{name}' has only {len(found)} different whole numbers in the first rows, taken as "
                f"measurements; for labels, counts or grades there are --task classification, count and ordinal"
            )
            return Target("regression", note=note)
    for each in targets:
        check_numbers(file, head, each, columns[each], decimals.get(each), "numbers")
    return Target("regression")


def _chosen(name: str, what: str) -> str:
    return (
        f"target column '{name}' holds {what} in the first rows, so it was taken as labels (classification); --task "
        f"names another choice"
    )


def _classes(file: str, head: Block, name: str, column: Column, decimal: Decimal | None) -> ClassNames:
    """Return the labels of the first rows, sorted."""
    present = [cell for cell in column if not is_missing(cell)]
    if not present:
        raise _wrong_target(file, head, name, "labels", "name a column with labels")
    labels = _labels(column, _kind(present, decimal), decimal)
    if len(labels.names) > MAX_CLASSES:
        raise DataError(
            f"{file}: target column '{name}': expected at most {MAX_CLASSES} different labels, got "
            f"{len(labels.names)} in the first {head.size:,} rows; if it is a number, choose --task regression."
        )
    return labels


def _grades(
    file: str, head: Block, name: str, column: Column, decimal: Decimal | None, grades: Sequence[str] | None
) -> ClassNames:
    if grades is not None:
        each = [grade.strip() for grade in grades]
        kind = _kind(each, None)
        named = [text for text in to_names(each, "numeric" if kind == "numeric" else "text") if text]
        if len(set(named)) < max(2, len(each)):
            raise DataError(f"{file}: expected two or more different grades, got {', '.join(grades)} (--grades).")
        return ClassNames.from_first_rows(named, "numeric" if kind == "numeric" else "text", ordered=True)
    present = [cell for cell in column if not is_missing(cell)]
    if not present or np.isfinite(to_numbers(present, decimal)).sum() <= len(present) / 2:
        raise _wrong_target(file, head, name, "numbers as grades", "name all grades in order (--grades low,mid,high)")
    found = [cell for cell in present if np.isfinite(to_numbers([cell], decimal)[0])]
    labels = _labels(found, "numeric", decimal, ordered=True)
    if not 2 <= len(labels.names) <= MAX_CLASSES:
        raise DataError(
            f"{file}: target column '{name}': expected 2 to {MAX_CLASSES} different grades, got {len(labels.names)} "
            f"in the first {head.size:,} rows; name all grades in their order (--grades)."
        )
    return labels


def _labels(column: Column, kind: Kind, decimal: Decimal | None, ordered: bool = False) -> ClassNames:
    names = {name for name in to_names(column, kind, decimal) if name is not None}
    return ClassNames.from_first_rows(sorted(names, key=float if kind == "numeric" else None), kind, ordered)


def _kind(present: Sequence[Cell], decimal: Decimal | None) -> Kind:
    given = [cell for cell in present if not is_missing_number(cell)]
    if given and np.isfinite(to_numbers(given, decimal)).all():
        return "numeric"
    return "boolean" if all(map(cells.is_boolean, present)) else "text"


def check_numbers(
    file: str,
    head: Block,
    name: str,
    column: Column,
    decimal: Decimal | None,
    what: str,
    advice: str = "choose a numeric target, or --task classification for labels",
) -> None:
    """Refuse a target of which no cell is a number, with what was expected and what to do."""
    if np.isnan(to_numbers(column, decimal)).all():
        raise _wrong_target(file, head, name, what, advice)


def _wrong_target(file: str, head: Block, name: str, what: str, advice: str) -> DataError:
    """Return the error of a target that is not what it should be, naming its first present cell."""
    cells_of = head.columns[name]
    first = next((i for i, cell in enumerate(cells_of) if not is_missing(cell)), 0)
    got = cells.format_cell(cells_of[first])
    return DataError(f"{file}: {head.where(first)}, target column '{name}': expected {what}, got {got}; {advice}.")
