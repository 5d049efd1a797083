"""Rows of any kind to typed columns, and what is wrong with them; streams from files, and synthetic ones with drift.

What every front door judges alike (`layout`, `names`, `dates`, `summer_time`, `clock`, `containers`, `given`) are
functions of lines, names and columns that open no file. `sources`, `readers`, `schema`, `inference` and what they use
turn files into chunks of rows. Nothing here knows a model: what happens along a stream is in `streamgp.stream`.
"""

from typing import TYPE_CHECKING

from streamgp.on_demand import on_demand

if TYPE_CHECKING:
    from streamgp.table.chunks import Chunk
    from streamgp.table.generators import (
        drifting_linear,
        friedman,
        sum_of_sines,
        switching_gaussian_processes,
        switching_sines,
    )
    from streamgp.table.opening import open_rows
    from streamgp.table.readers import RowReader
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
    "Chunk": "streamgp.table.chunks",
    "DataError": "streamgp.table.schema",
    "Feature": "streamgp.table.schema",
    "RowReader": "streamgp.table.readers",
    "Schema": "streamgp.table.schema",
    "drifting_linear": "streamgp.table.generators",
    "friedman": "streamgp.table.generators",
    "open_rows": "streamgp.table.opening",
    "sum_of_sines": "streamgp.table.generators",
    "switching_gaussian_processes": "streamgp.table.generators",
    "switching_sines": "streamgp.table.generators",
}

# Readers bring polars, which who has arrays never needs.
__getattr__ = on_demand(__name__, _HOMES)
