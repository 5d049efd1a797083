"""Reader of a stream of rows from a file: chunks of numbers, in bounded memory."""

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Literal

import numpy as np

from streamgp.table import cells
from streamgp.table.blocks import Block, Source
from streamgp.table.chunks import Chunk, cut, encode, join
from streamgp.table.clock import Pace, judge, say_jump
from streamgp.table.codes import NO_CODES, MissingCodes
from streamgp.table.numbers import Gaps
from streamgp.table.schema import DataError, Schema
from streamgp.table.summer_time import advise_on_order

Missing = Literal["impute", "skip", "raise"]


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
    gaps
        The cells of each column that were taken as missing in the rows yielded.
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
        codes: MissingCodes = NO_CODES,
    ) -> None:
        self.schema = schema
        self.name = source.name
        self.total_rows = source.total_rows
        self.bytes_total = source.bytes_total
        self.skipped_rows = 0
        self.first_fault: str | None = None
        self.gaps: dict[str, Gaps] = {}
        self._gaps: list[tuple[int, str, str | None]] = []  # found, but not yet counted
        self.unseen_levels = {f.name: 0 for f in schema.features if f.kind == "categorical"}
        self._source = source
        self._codes = codes
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
        block = self._head if self._head is not None else self._read()
        self._head = None
        while block.size:
            yield block
            block = self._read()

    def _read(self) -> Block:
        return self._source.read(self._wanted()).without(self._codes, (self.schema.time, self.schema.arrives))

    def _wanted(self) -> int:
        if self._max_rows is None:
            return self.chunk
        return min(self.chunk, max(0, self._max_rows - self._source.next_row))

    def _counted(self, chunk: Chunk) -> Chunk:
        """Advance the counters to the last row of the chunk that is about to be yielded."""
        last = int(chunk.rows[-1])
        self.skipped_rows += sum(row < last for row in self._bad_rows)
        self._bad_rows = [row for row in self._bad_rows if row > last]
        for row, name, fault in self._gaps:
            if row <= last:
                self.gaps.setdefault(name, Gaps()).add(fault)
        self._gaps = [each for each in self._gaps if each[0] > last]
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
        encoded, faults, self.schema, gaps = encode(block, self.schema, self._missing == "impute")
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
        for row, name, fault in gaps:
            if row not in faults:
                where = None if fault is None else f"{block.where(row)}: {fault}"
                self._gaps.append((block.first_row + row, name, where))
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
