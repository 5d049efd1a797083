"""Streams from files, the causal standardiser, and synthetic streams with drift."""

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
from streamgp.data.standardise import Standardiser

__all__ = [
    "Chunk",
    "DataError",
    "Feature",
    "RowReader",
    "Schema",
    "Standardiser",
    "drifting_linear",
    "friedman",
    "open_rows",
    "sum_of_sines",
    "switching_gaussian_processes",
    "switching_sines",
]
