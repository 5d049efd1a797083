"""Checkpoints on disk: a directory that describes itself, is replaced in one step, and is checked when read.

``checkpoint.json`` holds the structure, the versions and the checksums; ``arrays-*.safetensors``, which it
names, holds the numbers. No pickle is written or read, and nothing in a checkpoint can run code.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from streamgp.numerics.checkpoint.encoding import CheckpointError, decode, encode, register, registry
from streamgp.version import __version__

__all__ = ["CheckpointError", "load", "load_meta", "load_of", "reading", "register", "registry", "save"]

_FORMAT = "streamgp-checkpoint"
_FORMAT_VERSION = 1
MANIFEST = "checkpoint.json"
"""The file of a checkpoint that names its arrays; it is written last, and renamed into its place."""
_ARRAYS = re.compile(r"arrays-[0-9a-f]{12}\.safetensors")


def save(directory: str | Path, tree: Any, meta: Mapping[str, Any]) -> None:
    """Write a checkpoint, in place of the one that the directory may hold.

    The new files are written beside the old ones, synced to the disk, and take their place in one rename:
    whenever the program, the machine or the disk gives out, the directory still loads, as the old checkpoint
    or as the new. One process at a time may save to a directory.

    Parameters
    ----------
    directory
        The checkpoint's own directory; it is made if need be.
    tree
        What to store; see `streamgp.numerics.checkpoint.encoding.encode` for what it may hold.
    meta
        Facts about the run for people and other programs to read, such as its position in the stream: plain
        JSON.

    Raises
    ------
    CheckpointError
        If `tree` or `meta` holds something that cannot be stored, or the disk refuses the files.
    """
    directory = Path(directory)
    node, arrays = encode(tree)
    payload = safetensors.numpy.save(arrays)
    name = f"arrays-{secrets.token_hex(6)}.safetensors"
    manifest = _seal(
        {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {
                "streamgp": __version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            "meta": _plain_json(meta),
            "tree": node,
            "arrays": {"file": name, "bytes": len(payload), "sha256": _sha256(payload)},
        }
    )
    try:
        _replace(directory, name, payload, manifest)
    except OSError as error:
        raise CheckpointError(
            f"{directory}: could not write the checkpoint ({error.strerror or error}); an earlier complete "
            f"one there can still be loaded: free some space or choose another directory, and save again."
        ) from error


def load(
    directory: str | Path, functions: Mapping[str, Callable[..., Any]] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Read a checkpoint that `save` wrote, checking every byte of it.

    Parameters
    ----------
    directory
        The checkpoint's directory.
    functions
        The user's own functions in the tree, by the names ``"package.module:name"`` under which they were
        stored.

    Returns
    -------
    tree, meta
        As they were given to `save`, bit for bit; JAX arrays lie on the default device.

    Raises
    ------
    CheckpointError
        If the checkpoint is missing, incomplete, damaged, of another version, or needs classes or functions
        that are not there.
    """
    directory = Path(directory)
    document = _read_manifest(directory)
    match document:
        case {
            "versions": {"streamgp": str(version)},
            "meta": dict(meta),
            "tree": node,
            "arrays": {"file": str(name), "bytes": int(size), "sha256": str(digest)},
        } if _ARRAYS.fullmatch(name):
            arrays = _read_arrays(directory / name, size, digest)
        case _:
            raise CheckpointError(
                f"{directory / MANIFEST}: expected versions, meta, tree and arrays, found "
                f"{', '.join(document)}; use another copy."
            )
    try:
        with reading(directory):
            return decode(node, arrays, functions or {}), meta
    except CheckpointError as error:
        raise CheckpointError(
            f"{directory}: cannot load this checkpoint (written by streamgp {version}; "
            f"this is {__version__}): {error}"
        ) from error


@contextlib.contextmanager
def reading(directory: str | Path, *passing: type[Exception]) -> Iterator[None]:
    """Raise `CheckpointError` where what a checkpoint holds is not what the body of a ``with`` statement expects.

    The checksums of a checkpoint hold for whatever was put into it, also by another program: every way in which
    that does not fit is an error of the checkpoint. Errors of files and imports pass, and those that are named.
    """
    try:
        yield
    except (CheckpointError, OSError, ImportError, *passing):
        raise
    except Exception as error:  # a key, type, shape or depth that nothing here would write
        detail = f"{type(error).__name__}: {error}"
        raise CheckpointError(
            f"{directory}: what it holds does not fit together ({detail[:200]}); use another copy."
        ) from error


def load_of(directory: str | Path, cls: type) -> dict[str, Any]:
    """Return the tree of a checkpoint that `save` wrote with the name of this class as the ``kind`` in its `meta`.

    Raises
    ------
    CheckpointError
        As `load` does, and if the checkpoint is of another kind.
    """
    tree, meta = load(directory)
    if meta.get("kind") != cls.__name__:
        raise CheckpointError(
            f"{directory}: expected a checkpoint of a {cls.__name__}, got one of {meta.get('kind')!r}"
        )
    if not isinstance(tree, dict):
        raise CheckpointError(
            f"{directory}: expected a checkpoint of a {cls.__name__}, found {type(tree).__name__} in its place; "
            f"use another copy."
        )
    return tree


def load_meta(directory: str | Path) -> dict[str, Any]:
    """Return the `meta` of a checkpoint that `save` wrote, without its arrays.

    Raises
    ------
    CheckpointError
        If there is none, or what describes it is damaged.
    """
    meta = _read_manifest(Path(directory)).get("meta")
    return meta if isinstance(meta, dict) else {}


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        found = "a directory without it" if directory.is_dir() else "no such directory"
        raise CheckpointError(f"{path}: expected a checkpoint, found {found}; check the path.") from error
    except OSError as error:
        raise CheckpointError(f"{path}: could not be read ({error.strerror}); check the path.") from error
    try:
        document = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: expected JSON, found a damaged or foreign file ({error}); use another copy."
        ) from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise CheckpointError(f"{path}: expected the format {_FORMAT!r}, found something else; check the path.")
    version = document.get("format_version")
    if version != _FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: expected format version {_FORMAT_VERSION}, found {version}; "
            f"load it with the streamgp version that wrote it, or a newer one."
        )
    document.pop("checksum", None)
    try:
        intact = _seal(document) == text
    except ValueError:  # a number that JSON can spell and this process cannot, such as 1e999
        intact = False
    if not intact:
        raise CheckpointError(f"{path}: its checksum does not match, so it is damaged or edited; use another copy.")
    return document


def _read_arrays(path: Path, size: int, digest: str) -> dict[str, np.ndarray]:
    try:
        payload = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path}: the arrays of this checkpoint could not be read ({error.strerror}); use another copy."
        ) from error
    if len(payload) != size:
        raise CheckpointError(f"{path}: expected {size} bytes, found {len(payload)}; use another copy.")
    if _sha256(payload) != digest:
        raise CheckpointError(f"{path}: its checksum does not match, so it is damaged; use another copy.")
    try:
        return safetensors.numpy.load(payload)
    except (safetensors.SafetensorError, KeyError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file ({error}); use another copy.") from error


def _replace(directory: Path, name: str, payload: bytes, manifest: bytes) -> None:
    """Put the two files in place of the directory's own, such that it loads at every moment in between."""
    directory.mkdir(parents=True, exist_ok=True)
    aside = directory / f"{MANIFEST}.tmp"
    try:
        _write(directory / name, payload)
        _write(aside, manifest)
        sync_directory(directory)
    except BaseException:
        # Give the space back. Once the rename is under way this would be unsafe, so that one stands outside.
        for path in (directory / name, aside):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        raise
    os.replace(aside, directory / MANIFEST)
    sync_directory(directory)
    # The new checkpoint stands; what cannot be removed now is removed after the next save.
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if _ARRAYS.fullmatch(path.name) and path.name != name:
                path.unlink()


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the disk has the directory's entries."""
    if os.name == "nt":  # Windows cannot open a directory
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _seal(document: dict[str, Any]) -> bytes:
    """Return the one spelling of a document in bytes, with the SHA-256 of the rest as its last entry."""
    checksum = _sha256(_spell(document))
    return _spell({**document, "checksum": checksum})


def _spell(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode("ascii")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _plain_json(meta: Mapping[str, Any]) -> dict[str, Any]:
    try:
        same = json.loads(json.dumps(dict(meta), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"meta: expected plain JSON ({error}); put such values into the tree.") from error
    if same != dict(meta):
        raise CheckpointError("meta: expected plain JSON, got keys or tuples that JSON would change; convert them.")
    return same
