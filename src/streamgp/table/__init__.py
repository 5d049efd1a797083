"""Rows of any kind to typed columns, and what is wrong with them: the judgement that every front door shares.

Pure functions on lines, names and columns: nothing here opens a file or knows a model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgp.table.chunks import Chunk
    from streamgp.table.generators import (
        drifting_linear,
        friedman,
        sum_of_sines,
        switching_gaussian_processes,
        switching_sines,
    )
    from streamgp.table.readers import RowReader, open_rows
    from streamgp.table.schema import DataError, Feature, Schema

__all__ = [
    "Chunk",
    "DataError",
    "Feature",
    "RowReader",
    "Schema",
    "drifting_linear",
    "friedman",
    "open_rows",
    "sum_of_sines",
    "switching_gaussian_processes",
    "switching_sines",
]

_HOMES = {
    "Chunk": "chunks",
    "DataError": "schema",
    "Feature": "schema",
    "RowReader": "readers",
    "Schema": "schema",
    "drifting_linear": "generators",
    "friedman": "generators",
    "open_rows": "readers",
    "sum_of_sines": "generators",
    "switching_gaussian_processes": "generators",
    "switching_sines": "generators",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: readers bring polars, which who has arrays never needs.
    if name in _HOMES:
        return getattr(import_module(f"streamgp.table.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'streamgp.table' has no attribute {name!r}")
