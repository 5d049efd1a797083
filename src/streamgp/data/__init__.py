"""Streams from files, and synthetic streams with drift.

The processing of rows along a stream (scaling, lags, gaps) is in `streamgp.stream`.
"""

from streamgp.data.chunks import Chunk
from streamgp.data.generators import (
    drifting_linear,
    friedman,
    sum_of_sines,
    switching_gaussian_processes,
    switching_sines,
)
from streamgp.data.readers import RowReader, open_rows
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
