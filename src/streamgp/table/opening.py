"""A file opened as a stream of rows: what its first rows say of its columns, or that a stored schema is of it."""

import os
from collections.abc import Sequence
from dataclasses import replace

from streamgp.table.blocks import Block, Source
from streamgp.table.inference import check_marks, infer_schema
from streamgp.table.lines import Readable
from streamgp.table.readers import Missing, RowReader
from streamgp.table.reading import AS_FOUND, Reading
from streamgp.table.roles import Roles, check_names
from streamgp.table.schema import DataError, Schema
from streamgp.table.sources import open_source
from streamgp.table.targets import infer_target


def open_rows(
    source: str | os.PathLike[str] | Readable,
    *,
    target: str | Sequence[str],
    features: str | Sequence[str] | None = None,
    time: str | None = None,
    infer_rows: int = 1000,
    missing: Missing = "raise",
    chunk: int = 1024,
    max_rows: int | None = None,
    skip_rows: int = 0,
    last_time: float | None = None,
    schema: Schema | None = None,
    needs_features: bool = True,
    task: str = "regression",
    grades: Sequence[str] | None = None,
    exposure: str | None = None,
    arrives: str | None = None,
    calendar: Sequence[str] = (),
    reading: Reading = AS_FOUND,
) -> RowReader:
    """Open a table as a stream of chunks.

    Parameters
    ----------
    source
        A .csv, .csv.gz, .parquet, .jsonl or .jsonl.gz file, ``"-"`` for CSV on standard input, or an
        open file object that holds CSV.
    target
        The column or columns to predict.
    features
        The columns to predict from; all that have no other role, by default.
    time
        A column of times that never decrease: numbers, or dates (UTC where no zone is given) as ISO 8601 or as
        digits, such as 20240131.
    infer_rows
        How many rows decide the kinds of the columns and the levels of categorical ones.
    missing
        What to do with a row that is ragged or holds a missing, infinite or unparsable number:
        ``raise`` (after all good rows before it have been yielded), or ``skip`` and count it. With ``impute`` such a
        feature or target is NaN; rows that are ragged, or have no time or exposure, are skipped and counted.
    chunk
        Rows of a chunk.
    max_rows
        Read only this many data rows of the file, those in `skip_rows` and bad ones included.
    skip_rows
        Start after this many data rows of the file. To go on after a chunk, pass ``chunk.rows[-1] + 1``
        with the same `schema`.
    last_time
        The time of the row before the first, which no later one may precede.
    schema
        The schema of an earlier reader, in place of inferring one.
    needs_features
        Whether a file with no column to predict from is refused, though its target holds numbers; X has no columns
        otherwise.
    task, grades
        What the target is, and the grades of an ordinal one in their order: see `streamgp.table.targets`.
    exposure
        A column of positive numbers by which the rate of a count is multiplied; its log is the last column of X.
    arrives
        A column that says when the label of each row is known, and is no input: after how many data rows of the file
        or, with `time`, at what time; missing: never.
    calendar
        The cycles of time (day, week, year) that columns of dates are to become; without, they are left out.
    reading
        What the user says of the cells.

    Raises
    ------
    DataError
        If the file, a column or a row cannot be used; also while iterating.
    ValueError
        If an argument is out of its range.
    """
    if missing not in ("impute", "skip", "raise"):
        raise ValueError(f"missing: expected 'impute', 'skip' or 'raise', got {missing!r}.")
    for name, value, minimum in (
        ("infer_rows", infer_rows, 1),
        ("chunk", chunk, 1),
        ("max_rows", 1 if max_rows is None else max_rows, 1),
        ("skip_rows", skip_rows, 0),
    ):
        if value < minimum:
            raise ValueError(f"{name}: expected {minimum} or more, got {value}.")
    targets = (target,) if isinstance(target, str) else tuple(target)
    features = (features,) if isinstance(features, str) else features
    roles = Roles(targets, features, time, exposure, arrives)
    opened = open_source(source)
    try:
        head = None
        if schema is None:
            count = min(infer_rows, max_rows or infer_rows)
            head = _head(opened, roles, count)
            head = head.without(reading.codes, (time, arrives))
            if grades is None and task == "ordinal":
                grades = opened.orders.get(targets[0])
            columns = head.sound_columns()
            texts = targets if task == "classification" else ()
            of_numbers = {name: column for name, column in columns.items() if name not in texts}
            marks = check_marks(opened.name, of_numbers, opened.separator, reading.decimal)
            found = infer_target(opened.name, head, targets, task, grades, marks.decimals)
            needs_features = needs_features or found.task != "regression"
            schema = infer_schema(
                opened.name, columns, roles, needs_features=needs_features, calendar=calendar, marks=marks
            )
            notes = (found.note, *schema.notes) if found.note else schema.notes
            schema = replace(schema, task=found.task, labels=found.labels, notes=notes)
        else:
            _check_agrees(opened, schema, roles, task)
        opened.selected = schema.columns
        start = 0 if head is None else head.size
        if skip_rows > start:
            opened.skip(skip_rows - start)
        head = None if head is None or head.size <= skip_rows else head.tail(skip_rows)
        return RowReader(opened, schema, head, missing, chunk, max_rows, last_time, reading.codes)
    except BaseException:
        opened.close()
        raise


def _head(source: Source, roles: Roles, count: int) -> Block:
    """Read the first rows of the file, with all columns that were named."""
    if source.columns is not None:
        check_names(source.name, source.columns, roles)
        if roles.features is not None:
            source.selected = list(dict.fromkeys((*roles.features, *roles.targets, *roles.others)))
    head = source.read(count)
    if not head.size:
        raise DataError(f"{source.name}: the file has no data rows; expected some below the column names.")
    if source.columns is None:
        if not head.columns:
            raise DataError(f"{source.name}: {head.where(0)}: {head.faults.get(0, 'the object is empty')}.")
        check_names(source.name, list(head.columns), roles)
    return head


def _check_agrees(source: Source, schema: Schema, roles: Roles, task: str) -> None:
    """Check that a stored schema belongs to this file and these roles."""
    own = [feature.name for feature in schema.features if feature.name != schema.time]
    for what, stored, asked in (
        ("task", schema.task, schema.task if task == "auto" else task),
        ("exposure", schema.exposure, roles.exposure),
        ("target", list(schema.targets), list(roles.targets)),
        ("time column", schema.time, roles.time),
        ("column of arrivals", schema.arrives, roles.arrives),
        ("features", own, None if roles.features is None else list(roles.features)),
    ):
        if stored != asked and not (what == "features" and asked is None):
            raise DataError(
                f"{source.name}: the stored schema has {what} {stored}, got {asked}; pass the stored one."
            )
    if source.columns is not None:
        check_names(source.name, source.columns, replace(roles, features=[f.name for f in schema.features]))
