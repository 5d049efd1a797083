"""Whether a file is the one that a run has learnt from: a hash of all its rows up to where the run was."""

import hashlib

import numpy as np

from streamgp.app.outputs import RunError
from streamgp.progress import progress_bar
from streamgp.table import Chunk, DataError, RowReader
from streamgp.table.chunks import cut

_ROWS = 1 << 14  # rows that are read at a time


class Fingerprint:
    """A hash of the numbers of all rows so far, in their order, however they were cut into chunks."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, chunk: Chunk, rows: slice = slice(None)) -> None:
        """Take in rows of a chunk."""
        some = cut(chunk, rows)
        more = [each for each in (some.times, some.arrives) if each is not None]
        self._hash.update(np.column_stack([some.rows, some.y, some.X, *more]).tobytes())

    @property
    def digest(self) -> str:
        """Return the hash of the rows so far."""
        return self._hash.hexdigest()


def other_rows(name: str, rows: int, out: object) -> RunError:
    """Return the error of a run that is resumed with a file of other rows."""
    return RunError(
        f"--resume: {name} is not the file of the run in {out}: its first {rows:,} rows are not those "
        f"that the run has read; name that file, or start again with --overwrite"
    )


def fewer_rows(name: str, rows: int, out: object) -> RunError:
    """Return the error of a run that is resumed with a shorter file."""
    return RunError(
        f"--resume: {name} has fewer rows than the {rows:,} that the run in {out} has "
        f"read: name the file of that run, or start again with --overwrite"
    )


def replay(reader: RowReader, rows: int, next_row: int, digest: str, out: object) -> Fingerprint:
    """Pass over the rows that a run has learnt, and check that the file still has the same ones.

    Parameters
    ----------
    reader
        At the first row of the file, with the schema of the run.
    rows, next_row, digest
        How many were learnt, the row of the file after them, and their fingerprint.
    out
        The directory of the run, for error messages.

    Raises
    ------
    RunError
        If the file has fewer rows, or others.
    """
    found, learnt, after = Fingerprint(), 0, 0
    differs = other_rows(reader.name, next_row, out)
    try:
        with progress_bar("rows of before", rows) as bar:
            while learnt < rows:
                reader.chunk = min(_ROWS, rows - learnt)
                chunk = next(reader, None)
                if chunk is None:
                    raise fewer_rows(reader.name, next_row, out)
                found.add(chunk)
                learnt, after = learnt + len(chunk.rows), int(chunk.rows[-1]) + 1
                bar.at(learnt, "rows of before")
    except DataError as error:
        raise differs from error
    if after != next_row or digest != found.digest:
        raise differs
    return found
