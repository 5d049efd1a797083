"""Keys that sleep on disk: files of some keys each that are never changed, and where each key's state lies.

A file holds a record of every key that fell asleep together: its state as bytes, with a checksum. What the bytes mean
is written beside them as checkpoints write it. A key that wakes leaves
its record behind; a file of which less than half is still asleep goes into the next one.
"""

import json
import os
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Bool, Int

from streamgp.fleet.states import KeyStates, joined, take
from streamgp.numerics.checkpoint import CheckpointError
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.table.files import put_in_place, write_aside

PATTERN = "asleep-*.safetensors"
# A file gets so many keys that fall asleep, and takes over as many at most from other files.
FILE_KEYS = 1_024
AWAKE = -1

Numbers = Int[np.ndarray, " n"]


@dataclass
class _File:
    """A file, how many keys are in it, and how many of them sleep."""

    name: str
    keys: int
    asleep: int


class Sleepers:
    """The states of keys by their numbers, in files of a directory.

    Parameters
    ----------
    directory
        Where the files are.
    names
        Of those that are there already, in the order in which they were written: of a key that is in several, the
        last one holds.

    Raises
    ------
    CheckpointError
        If a file cannot be read.
    """

    def __init__(self, directory: Path, names: Sequence[str] = ()) -> None:
        self._directory = directory
        # The files by number, in the order in which they were written.
        self._files: dict[int, _File] = {}
        # The number of every key's file.
        self._file = np.empty(0, np.int32)
        self._row = np.empty(0, np.int16)
        for name in names:
            with _opened(directory / name) as file:
                self._enter(name, file.get_tensor("number"))

    @property
    def names(self) -> list[str]:
        """The files that hold sleeping keys, in the order in which they were written."""
        return [file.name for file in self._files.values()]

    def holds(self, key: Numbers) -> Bool[np.ndarray, " n"]:
        """Return which keys sleep."""
        found = np.zeros(len(key), bool)
        known = key < len(self._file)
        found[known] = self._file[key[known]] != AWAKE
        return found

    def put(self, key: Numbers, states: KeyStates) -> None:
        """Let keys fall asleep.

        Raises
        ------
        CheckpointError
            If the disk refuses the file; the keys are as awake as before.
        """
        for start in range(0, len(key), FILE_KEYS):
            part = slice(start, start + FILE_KEYS)
            self._write(key[part], take(states, part))

    def take(self, key: Numbers) -> KeyStates:
        """Return the states of keys that sleep, which go on sleeping.

        Raises
        ------
        CheckpointError
            If a file is missing or damaged.
        """
        files = self._file[key]
        order, parts = np.argsort(files, kind="stable"), []
        for at in np.split(order, np.flatnonzero(np.diff(files[order])) + 1):
            path = self._directory / self._files[int(files[at[0]])].name
            records, layout = _read(path, key[at], self._row[key[at]])
            parts.append(_unpacked(records, layout))
        back = np.empty(len(key), np.int64)
        back[order] = np.arange(len(key))
        return take(joined(parts), back)

    def wake(self, key: Numbers) -> None:
        """Forget keys, whose states are elsewhere from now on; a file in which no key sleeps is removed."""
        for name in self._leave(key):
            (self._directory / name).unlink(missing_ok=True)
        self._file[key] = AWAKE

    def copy_to(self, directory: Path) -> list[str]:
        """Let a directory hold the files as well; return their names.

        On the same disk they take no more room: the files are the same ones under two names.
        """
        directory.mkdir(parents=True, exist_ok=True)
        for name in self.names:
            ours, theirs = self._directory / name, directory / name
            if theirs.exists():
                continue
            try:
                os.link(ours, theirs)
            except OSError:
                # The target is on another disk, or on a file system without links.
                aside = theirs.with_suffix(".tmp")
                shutil.copyfile(ours, aside)
                put_in_place(aside, theirs)
        return self.names

    def _write(self, key: Numbers, states: KeyStates) -> None:
        """Write a file of keys, and of those that sleep in files which are half empty."""
        records, layout = _packed(key, states)
        room = FILE_KEYS
        for number in [i for i, file in self._files.items() if file.asleep < file.keys / 2]:
            file = self._files[number]
            if (room := room - file.asleep) < 0:
                break
            moved = np.flatnonzero(self._file == number)
            theirs, its = _read(self._directory / file.name, moved, self._row[moved])
            if its == layout:
                key, records = np.concatenate([key, moved]), np.concatenate([records, theirs])
        name = f"asleep-{token_hex(8)}.safetensors"
        data = safetensors.numpy.save({"number": key, "records": records}, {"layout": layout})
        try:
            write_aside(self._directory / name, data)
        except OSError as error:
            raise CheckpointError(
                f"{self._directory / name}: keys could not be put to sleep ({error.strerror or error}); free some "
                f"space, then load the fleet from where it was last saved."
            ) from error
        self.wake(key[self.holds(key)])
        self._enter(name, key)

    def _enter(self, name: str, key: Numbers) -> None:
        most = int(key.max(initial=-1)) + 1
        if most > len(self._file):
            more = max(most, len(self._file) * 9 // 8) - len(self._file)
            self._file = np.concatenate([self._file, np.full(more, AWAKE, np.int32)])
            self._row = np.concatenate([self._row, np.zeros(more, np.int16)])
        # Older records of the same keys are given up.
        self._leave(key[self._file[key] != AWAKE])
        number = next(i for i in count() if i not in self._files)
        self._file[key], self._row[key] = number, np.arange(len(key))
        self._files[number] = _File(name, len(key), len(key))

    def _leave(self, key: Numbers) -> list[str]:
        """Take keys from their files; return those in which no key sleeps any more, whose numbers are free again."""
        left = []
        for number, keys in zip(*(a.tolist() for a in np.unique(self._file[key], return_counts=True)), strict=True):
            file = self._files[number]
            file.asleep -= keys
            if not file.asleep:
                left.append(self._files.pop(number).name)
        return left


def remove_others(directory: Path, names: Sequence[str]) -> None:
    """Remove the files of a directory but for these; what cannot be removed stays."""
    for path in directory.glob(PATTERN):
        if path.name not in names:
            with suppress(OSError):
                path.unlink()


def _packed(key: Numbers, states: KeyStates) -> tuple[np.ndarray, str]:
    """Return a record for every key, and the layout of all."""
    node, arrays = encode(states)
    parts = [np.ascontiguousarray(array).reshape(len(key), -1).view(np.uint8) for array in arrays.values()]
    records = np.concatenate([*parts, np.zeros((len(key), 4), np.uint8)], axis=1)
    records[:, -4:] = _checksums(key, records)
    return records, json.dumps(_with_keys(node, 0))


def _unpacked(records: np.ndarray, layout: str) -> KeyStates:
    """Return the states of records, as of the version that reads them."""
    node = _with_keys(json.loads(layout), len(records))
    arrays, at = {}, 0
    for name, dtype, shape in _arrays_of(node):
        size = int(np.prod(shape[1:])) * dtype.itemsize
        arrays[name] = np.ascontiguousarray(records[:, at : at + size]).view(dtype).reshape(shape)
        at += size
    return decode(node, arrays, {})


def _read(path: Path, key: Numbers, rows: Numbers) -> tuple[np.ndarray, str]:
    """Return the records of keys in these rows of a file, and their layout."""
    with _opened(path) as file:
        records = file.get_slice("records")
        ends = np.flatnonzero(np.diff(rows) != 1) + 1
        runs = [(run[0], run[-1] + 1) for run in np.split(rows, ends)]
        found = np.concatenate([records[int(start) : int(stop)] for start, stop in runs])
        layout = file.metadata()["layout"]
    if not np.array_equal(found[:, -4:], _checksums(key, found)):
        raise CheckpointError(f"{path}: a key's checksum does not match, so it is damaged; use another copy.")
    return found, layout


def _opened(path: Path) -> Any:
    try:
        return safetensors.safe_open(path, framework="numpy")
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: sleeping keys could not be read ({error}); use another copy.") from error


def _checksums(key: Numbers, records: np.ndarray) -> np.ndarray:
    """Return the checksum of every record and of whose it is, as bytes."""
    found = [zlib.crc32(row[:-4].tobytes(), k) for row, k in zip(records, key.tolist(), strict=True)]
    return np.array(found, np.uint32).reshape(-1, 1).view(np.uint8)


def _arrays_of(node: Any) -> list[tuple[str, np.dtype, list[int]]]:
    if "$array" in node:
        return [(node["$array"], np.dtype(node["dtype"]), node["shape"])]
    return [each for child in node["fields"].values() for each in _arrays_of(child)]


def _with_keys(node: Any, keys: int) -> Any:
    """Return what describes the states of some keys as what describes those of others."""
    if "$array" in node:
        return node | {"shape": [keys, *node["shape"][1:]], "kind": "numpy"}
    return node | {"fields": {name: _with_keys(child, keys) for name, child in node["fields"].items()}}
