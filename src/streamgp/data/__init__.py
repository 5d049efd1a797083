"""Streams from files, and synthetic streams with drift.

The processing of rows along a stream (scaling, lags, gaps) is in `streamgp.stream`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgp.data.chunks import Chunk
    from streamgp.data.generators import (
        drifting_linear,
        friedman,
        sum_of_sines,
        switching_gaussian_processes,
        switching_sines,
    )
    from streamgp.data.opening import open_rows
    from streamgp.data.readers import RowReader
    from streamgp.data.schema import DataError, Feature, Schema

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
    "open_rows": "opening",
    "sum_of_sines": "generators",
    "switching_gaussian_processes": "generators",
    "switching_sines": "generators",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: readers bring polars, which who has arrays never needs.
    if name in _HOMES:
        return getattr(import_module(f"streamgp.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'streamgp.data' has no attribute {name!r}")
