"""Rows that were scored: the latest in memory, all in Parquet files that are never changed once they are written."""

import re
import shutil
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp.service.log_end import digest_of
from streamgp.service.predictions import joined, plain_list

# The number of rows of a file.
PART = 20_000
# At least so many rows are kept in memory.
LATEST = 2_000
# So many directories of rows that no longer count are kept.
PARTED = 5
_PARTED = re.compile(r"until-\d{15}")


class History:
    """The scored rows of a stream.

    Parameters
    ----------
    directory
        Of the files; it is made if need be.
    most
        Rows that are kept in files; the oldest files go.
    """

    def __init__(self, directory: Path, most: int) -> None:
        self.directory = directory
        self.most = most
        self.rows = 0
        self._blocks: deque[dict[str, Any]] = deque()
        # The number of rows of the blocks.
        self._held = 0
        # The number of rows in files.
        self._sealed = 0
        # The position at which the history begins again, until the files are in place.
        self._parting: int | None = None
        self._former: History | None = None
        # The digests of the files, by the number of their first row.
        self._digests: dict[int, str] = {}

    def add(self, columns: dict[str, Any]) -> None:
        """Add scored rows, in the order in which they were scored."""
        n = len(columns["row"])
        if n:
            self._blocks.append(columns)
            self._held += n
            self.rows += n

    def latest(self, rows: int, after: int = -1, key: str | None = None) -> dict[str, Any]:
        """Return the columns of the latest scored rows with a number after that one, and of this key alone."""
        found: list[dict[str, Any]] = []
        count = 0
        for block in reversed(tuple(self._blocks)):
            if count >= rows:
                break
            numbers = np.asarray(block["row"])
            keep = numbers > after
            if key is not None:
                keep &= np.array([each == key for each in block["key"]], bool)
            at = np.flatnonzero(keep)[-(rows - count) :]
            if len(at):
                found.append(take(block, at))
                count += len(at)
        return joined(found[::-1])

    def seal(self) -> None:
        """Write what fills a file, and let go of what is in files and not among the latest.

        The same rows make the same files, so that it may be done again after a crash.
        """
        self._part()
        while self.rows - self._sealed >= PART:
            part = self._from(self._sealed, PART)
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"{self._sealed:012d}.parquet"
            aside = path.with_suffix(".part")
            _frame(part).write_parquet(aside)
            self._digests[self._sealed] = digest_of(aside)
            aside.replace(path)
            self._sealed += PART
            for old in self.directory.glob("*.parquet"):
                if int(old.stem) + PART <= self._sealed - self.most:
                    old.unlink()
                    self._digests.pop(int(old.stem), None)
        while self._blocks and self._held - len(self._blocks[0]["row"]) >= max(LATEST, self.rows - self._sealed):
            self._held -= len(self._blocks.popleft()["row"])

    def begin_anew(self, position: int, former: "History | None" = None) -> None:
        """Go on without the rows that came since: at the next `seal` their files get a directory of their own.

        Parameters
        ----------
        position
            Of the log, which names the directory.
        former
            Has the rows that are in no file yet.
        """
        self._parting, self._former = position, former

    def _part(self) -> None:
        """Move the files that this history does not have; again after a crash, unless it was done."""
        if self._parting is None:
            return
        done = self.directory / f"until-{self._parting:015d}"
        if not done.exists():
            aside = done.with_suffix(".part")
            aside.mkdir(parents=True, exist_ok=True)
            for path in self.directory.glob("*.parquet"):
                if int(path.stem) >= self._sealed:
                    path.rename(aside / path.name)
            former = self._former
            if former is not None and former.rows > former._sealed:
                rest = former._from(former._sealed, former.rows - former._sealed)
                _frame(rest).write_parquet(aside / f"{former._sealed:012d}.parquet")
            aside.rename(done)
            old = sorted(path for path in self.directory.iterdir() if _PARTED.fullmatch(path.name))
            for path in old[:-PARTED]:
                shutil.rmtree(path, ignore_errors=True)
        self._parting = self._former = None

    def _from(self, start: int, rows: int) -> dict[str, Any]:
        at, found = self.rows - self._held, []
        for block in self._blocks:
            n = len(block["row"])
            low, high = max(0, start - at), min(n, start + rows - at)
            if low < high:
                found.append(take(block, np.arange(low, high)))
            at += n
        return joined(found)

    def damage(self) -> list[str]:
        """Return sentences on files that are not there, or not as they were written."""
        found = []
        for first, digest in self._digests.items():
            path = self.directory / f"{first:012d}.parquet"
            if self._sealed - self.most < first + PART and (not path.is_file() or digest_of(path) != digest):
                what = "is not as it was written" if path.exists() else "is not there"
                found.append(
                    f"{path}: {what}: what was predicted of scored rows {first:,} to {first + PART - 1:,} is lost "
                    f"there; what was learnt of them is not"
                )
        return found

    def take_files(self, of: "History") -> None:
        """Take the files of a history that has all rows of this one, whose own files go."""
        self._digests = {first: of._digests[first] for first in self._digests if first in of._digests}

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        held = joined(list(self._blocks))
        return {"rows": self.rows, "sealed": self._sealed, "columns": held, "parting": self._parting} | {
            "files": [list(each) for each in self._digests.items()]
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from what `to_tree` returned."""
        self.rows, self._sealed, self._parting = tree["rows"], tree["sealed"], tree["parting"]
        self._digests = {int(first): digest for first, digest in tree["files"]}
        self._blocks.clear()
        self._held = len(tree["columns"].get("row", ()))
        if self._held:
            self._blocks.append(tree["columns"])


def take(block: dict[str, Any], at: np.ndarray) -> dict[str, Any]:
    """Return some of the rows of columns."""
    return {name: c[at] if isinstance(c, np.ndarray) else [c[i] for i in at.tolist()] for name, c in block.items()}


def _frame(columns: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(
        {name: c.tolist() if _wide(c) else plain_list(c) for name, c in columns.items()}, strict=False
    )


def _wide(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.ndim == 2
