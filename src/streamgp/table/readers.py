"""Reader of a stream of rows from a file: chunks of numbers, in bounded memory."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Literal

import numpy as np

from streamgp.table import cells
from streamgp.table.blocks import Block, Source
from streamgp.table.chunks import Chunk, cut, encode, join
from streamgp.table.clock import Pace, judge, say_jump
from streamgp.table.lines import Readable
from streamgp.table.schema import DataError, Schema, check_names, infer_schema
from streamgp.table.sources import open_source
from streamgp.table.summer_time import advise_on_order
from streamgp.table.targets import infer_target

Missing = Literal["impute", "skip", "raise"]
Roles = tuple[str | None, str | None, str | None]  # the columns of times, of an exposure and of arrivals


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
) -> "RowReader":
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
    opened = open_source(source)
    try:
        head = None
        if schema is None:
            count = min(infer_rows, max_rows or infer_rows)
            head = _head(opened, targets, features, (time, exposure, arrives), count)
            if grades is None and task == "ordinal":
                grades = opened.orders.get(targets[0])
            if grades is None and task == "ordinal":
                grades = opened.orders.get(targets[0])
            found = infer_target(opened.name, head, targets, task, grades)
            needs_features = needs_features or found.task != "regression"
            schema = infer_schema(
                opened.name,
                head.sound_columns(),
                targets,
                features,
                time,
                needs_features,
                exposure,
                arrives,
                calendar,
            )
            schema = replace(schema, task=found.task, labels=found.labels, note=found.note)
        else:
            _check_agrees(opened, schema, targets, features, (time, exposure, arrives), task)
        opened.selected = schema.columns
        start = 0 if head is None else head.size
        if skip_rows > start:
            opened.skip(skip_rows - start)
        head = None if head is None or head.size <= skip_rows else head.tail(skip_rows)
        return RowReader(opened, schema, head, missing, chunk, max_rows, last_time)
    except BaseException:
        opened.close()
        raise


def _head(
    source: Source,
    targets: tuple[str, ...],
    features: Sequence[str] | None,
    roles: Roles,
    count: int,
) -> Block:
    """Read the first rows of the file, with all columns that were named."""
    if source.columns is not None:
        check_names(source.name, source.columns, targets, features, *roles)
        if features is not None:
            others = [name for name in roles if name is not None]
            source.selected = list(dict.fromkeys((*features, *targets, *others)))
    head = source.read(count)
    if not head.size:
        raise DataError(f"{source.name}: the file has no data rows; expected some below the column names.")
    if source.columns is None:
        if not head.columns:
            raise DataError(f"{source.name}: {head.where(0)}: {head.faults.get(0, 'the object is empty')}.")
        check_names(source.name, list(head.columns), targets, features, *roles)
    return head


def _check_agrees(
    source: Source,
    schema: Schema,
    targets: tuple[str, ...],
    features: Sequence[str] | None,
    roles: Roles,
    task: str,
) -> None:
    """Check that a stored schema belongs to this file and these roles."""
    time, exposure, arrives = roles
    own = [feature.name for feature in schema.features if feature.name != schema.time]
    for what, stored, asked in (
        ("task", schema.task, schema.task if task == "auto" else task),
        ("exposure", schema.exposure, exposure),
        ("target", list(schema.targets), list(targets)),
        ("time column", schema.time, time),
        ("column of arrivals", schema.arrives, arrives),
        ("features", own, None if features is None else list(features)),
    ):
        if stored != asked and not (what == "features" and asked is None):
            raise DataError(
                f"{source.name}: the stored schema has {what} {stored}, got {asked}; pass the stored one."
            )
    if source.columns is not None:
        check_names(source.name, source.columns, targets, [f.name for f in schema.features], *roles)


class RowReader:
    """An iterator over the chunks of a file; close it, or use it in a ``with`` statement.

    Attributes
    ----------
    schema
        How the file's columns become X, y and times; new labels are appended as rows are read.
    name
        What error messages call the file.
    chunk
        Rows of the next chunk; it may be changed between two of them.
    refuse
        Tells, for each row with targets (n, E) that cannot be, what is wrong with it: it is a bad row then, which is
        skipped and counted, or raised. None: all can be.
    total_rows
        The number of data rows in the whole file where its format says (Parquet), else None.
    bytes_total
        The size of the file where it is a file of text, else None.
    skipped_rows
        Bad rows skipped before the last row yielded, and in the end all of them.
    first_fault
        Where the first bad row is and what is wrong with it, once there is one.
    unseen_levels
        For each categorical column, in how many rows it had a level that the schema does not know.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        head: Block | None,
        missing: Missing,
        chunk: int,
        max_rows: int | None,
        last_time: float | None,
    ) -> None:
        self.schema = schema
        self.name = source.name
        self.total_rows = source.total_rows
        self.bytes_total = source.bytes_total
        self.skipped_rows = 0
        self.first_fault: str | None = None
        self.unseen_levels = {f.name: 0 for f in schema.features if f.kind == "categorical"}
        self._source = source
        self._head = head
        self._missing: Missing = missing
        self.chunk = chunk
        self.refuse: Callable[[np.ndarray], dict[int, str]] | None = None
        self._max_rows = max_rows
        self._last_time = -np.inf if last_time is None else last_time
        self._pace = Pace()
        self._in_doubt: tuple[Chunk, DataError] | None = None  # the last row, where the next one may speak for it
        self._bad_rows: list[int] = []  # found, but not yet counted
        self._chunks = self._iterate()

    @property
    def bytes_read(self) -> int | None:
        """Return how much of `bytes_total` has been read."""
        return self._source.bytes_read

    def __iter__(self) -> "RowReader":
        return self

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def __enter__(self) -> "RowReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; no more chunks follow."""
        self._chunks.close()
        self._source.close()

    def _iterate(self) -> Generator[Chunk, None, None]:
        try:
            held: Chunk | None = None
            for block in self._blocks():
                rows, error = self._encode(block)
                held = rows if held is None else join(held, rows)
                while len(held.rows) >= self.chunk:
                    first, held = cut(held, slice(None, self.chunk)), cut(held, slice(self.chunk, None))
                    yield self._counted(first)
                if error is not None:
                    if len(held.rows):
                        yield self._counted(held)
                    raise error
            if held is not None and len(held.rows):
                yield self._counted(held)
            if self._in_doubt is not None:
                raise self._in_doubt[1]
            self.skipped_rows += len(self._bad_rows)
        finally:
            self._source.close()

    def _blocks(self) -> Iterator[Block]:
        block = self._head if self._head is not None else self._source.read(self._wanted())
        self._head = None
        while block.size:
            yield block
            block = self._source.read(self._wanted())

    def _wanted(self) -> int:
        if self._max_rows is None:
            return self.chunk
        return min(self.chunk, max(0, self._max_rows - self._source.next_row))

    def _counted(self, chunk: Chunk) -> Chunk:
        """Advance the counters to the last row of the chunk that is about to be yielded."""
        last = int(chunk.rows[-1])
        self.skipped_rows += sum(row < last for row in self._bad_rows)
        self._bad_rows = [row for row in self._bad_rows if row > last]
        at = 0
        for feature in self.schema.features:
            width = len(feature.encoded)
            if feature.kind == "categorical":
                known = chunk.X[:, at : at + width].any(axis=1)
                self.unseen_levels[feature.name] += int((~known).sum())
            at += width
        return chunk

    def _encode(self, block: Block) -> tuple[Chunk, DataError | None]:
        """Encode the good rows of a block; where bad rows raise, those before the first of them, and its error."""
        encoded, faults, self.schema = encode(block, self.schema, self._missing == "impute")
        if self.refuse is not None:
            faults |= {row: f"target: {fault}" for row, fault in self.refuse(encoded.y).items() if row not in faults}
        error = None
        whole = encoded
        bad = sorted(faults)
        if bad and self._missing == "raise":
            error = self._fault_error(block, bad[0], faults[bad[0]])
            encoded = cut(encoded, slice(None, bad[0]))
        elif bad:
            encoded = cut(encoded, np.delete(np.arange(block.size), bad))
        if encoded.times is not None:
            encoded, error = self._judge_times(block, encoded, faults, error)
        if self._missing != "raise" and faults:
            first = min(faults)
            self._bad_rows += whole.rows[sorted(faults)].tolist()
            self.first_fault = self.first_fault or f"{block.where(first)}: {faults[first]}"
        return encoded, error

    def _fault_error(self, block: Block, row: int, fault: str) -> DataError:
        return DataError(
            f"{self.name}: {block.where(row)}: {fault}; correct the row, "
            f"or fill the gap or skip such rows with missing='impute' or 'skip' (--missing impute or skip)."
        )

    def _judge_times(
        self, block: Block, chunk: Chunk, faults: dict[int, str], error: DataError | None
    ) -> tuple[Chunk, DataError | None]:
        """Leave out rows whose time is in doubt, as `faults` of the block, or return an error of the first of them.

        Where bad rows raise, one at the end of what was read waits for the next row, which may speak for it.
        """
        raises, dated = self._missing == "raise", self.schema.time_is_text
        waiting, self._in_doubt = self._in_doubt, None
        if waiting is not None:
            if not len(chunk.rows):
                return chunk, waiting[1]
            chunk = join(waiting[0], chunk)
        assert chunk.times is not None
        verdict = judge(chunk.times, self._last_time, self._pace, dated=dated, together=raises)
        self._pace, jump = verdict.pace, verdict.first
        if jump is not None:
            fault = f"time column '{self.schema.time}': {say_jump(jump, dated)}"
            at = int(chunk.rows[jump.row] - block.first_row)
            if not raises:
                bad = np.flatnonzero(verdict.doubtful)
                faults |= dict.fromkeys((chunk.rows[bad] - block.first_row).tolist(), fault)
                chunk = cut(chunk, ~verdict.doubtful)
            else:
                refusal = waiting[1] if waiting is not None and at < 0 else self._fault_error(block, at, fault)
                if jump.row == len(chunk.rows) - 1 and error is None and jump.time > jump.before:
                    self._in_doubt = cut(chunk, slice(jump.row, None)), refusal
                else:
                    error = refusal
                chunk = cut(chunk, slice(None, jump.row))
        assert chunk.times is not None
        if not len(chunk.times):
            return chunk, error
        before = np.concatenate([[self._last_time], chunk.times[:-1]])
        back = np.flatnonzero(chunk.times < before)
        self._last_time = chunk.times[-1]
        if len(back):
            i = back[0]
            pair = float(before[i]), float(chunk.times[i])
            write = cells.format_time if dated else str
            error = DataError(
                f"{self.name}: {block.where(int(chunk.rows[i] - block.first_row))}, "
                f"time column '{self.schema.time}': expected times that never decrease, "
                f"got {write(pair[1])} after {write(pair[0])}; "
                f"{advise_on_order(*pair, 'sort the file by time', dated)}."
            )
            chunk = cut(chunk, slice(None, i))
        return chunk, error
