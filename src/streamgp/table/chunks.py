"""Chunks of rows: the numbers that a model sees, from the raw columns of a file."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from streamgp.numerics.coding import level_codes, one_hot
from streamgp.table import cells, labels
from streamgp.table.blocks import Block
from streamgp.table.numbers import Column, Decimal, is_missing_number, to_numbers
from streamgp.table.schema import Feature, Schema


class Chunk(NamedTuple):
    """Rows ready for a model.

    Attributes
    ----------
    X, y
        Features and targets, the codes of labels and grades. All are finite, except that missing values which are to
        be imputed are NaN. With an exposure, the last column of X is its log.
    times
        The time column in its own unit, or in seconds since 1970 where it holds dates.
    rows
        The 0-based index of each row among the file's data rows.
    arrives
        When the label of each row is known: after so many data rows, or a time as those of `times`; NaN: never.
    """

    X: Float64[np.ndarray, "n d"]
    y: Float64[np.ndarray, "n e"]
    times: Float64[np.ndarray, " n"] | None
    rows: Int64[np.ndarray, " n"]
    arrives: Float64[np.ndarray, " n"] | None = None


class Gap(NamedTuple):
    """A cell that is taken as missing: the row in its block, the column, and what is wrong unless it is empty."""

    row: int
    column: str
    fault: str | None


class Encoded(NamedTuple):
    """A block as numbers: the fault of each bad row, the schema with new labels, and cells taken as missing."""

    chunk: Chunk
    faults: dict[int, str]
    schema: Schema
    gaps: list[Gap]


def encode(block: Block, schema: Schema, impute: bool = False) -> Encoded:
    """Encode all rows of a block as numbers.

    With `impute`, features and targets that are missing or not usable as numbers are NaN, and gaps, not faults.
    """
    faults = dict(block.faults)
    found: dict[str, dict[int, str]] = {}

    def gaps_of(name: str) -> dict[int, str]:
        return found.setdefault(name, {}) if impute else faults

    X = [np.empty((block.size, 0))]  # remains so for a stream that is predicted from its own past alone
    X += [
        _features(feature, block.columns[feature.name], gaps_of(feature.name), schema) for feature in schema.features
    ]
    if schema.exposure is not None:
        decimal = schema.decimals.get(schema.exposure)
        exposures = labels.to_log_exposures(schema.exposure, block.columns[schema.exposure], faults, decimal)
        X.append(exposures[:, None])
    times = None
    if schema.task == "regression":
        y = [
            _numbers(name, block.columns[name], gaps_of(name), schema, what="target column")
            for name in schema.targets
        ]
    if schema.time is not None:
        times = _times(schema, block.columns[schema.time], faults)
    if schema.task != "regression":
        name = schema.targets[0]
        gaps = gaps_of(name)
        gaps |= faults  # the labels of bad rows are not taken for new ones
        decimal = schema.decimals.get(name)
        if schema.labels is None:
            y = [labels.to_counts(name, block.columns[name], gaps, decimal)]
        else:
            codes, known = schema.labels.to_codes(name, block.columns[name], gaps, decimal)
            y, schema = [codes], replace(schema, labels=known)
    arrives = None
    if schema.arrives is not None:
        arrives = _arrivals(schema, block.columns[schema.arrives], faults)
    rows = np.arange(block.first_row, block.first_row + block.size, dtype=np.int64)
    inputs, targets = np.concatenate(X, axis=1), np.stack(y, axis=1)
    if impute:
        inputs, targets = (np.where(np.abs(a) <= cells.LARGEST, a, np.nan) for a in (inputs, targets))
        if schema.task != "regression":
            targets[list(gaps_of(schema.targets[0]))] = np.nan
    gaps = [
        Gap(i, name, None if is_missing_number(block.columns[name][i]) else fault)
        for name, each in found.items()
        for i, fault in each.items()
        if i not in faults
    ]
    return Encoded(Chunk(inputs, targets, times, rows, arrives), faults, schema, gaps)


def cut(chunk: Chunk, rows: slice | np.ndarray) -> Chunk:
    """Select rows of a chunk."""
    times = None if chunk.times is None else chunk.times[rows]
    arrives = None if chunk.arrives is None else chunk.arrives[rows]
    return Chunk(chunk.X[rows], chunk.y[rows], times, chunk.rows[rows], arrives)


def join(first: Chunk, second: Chunk) -> Chunk:
    """Join two chunks that follow each other."""
    if not len(first.rows):
        return second
    return Chunk(
        np.concatenate([first.X, second.X]),
        np.concatenate([first.y, second.y]),
        _joined(first.times, second.times),
        np.concatenate([first.rows, second.rows]),
        _joined(first.arrives, second.arrives),
    )


def _joined(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    return None if first is None or second is None else np.concatenate([first, second])


def _features(feature: Feature, column: Column, faults: dict[int, str], schema: Schema) -> Float64[np.ndarray, "n k"]:
    """Encode one feature as columns of X; add bad cells to `faults`."""
    if feature.kind == "categorical":
        index = {level: i for i, level in enumerate(feature.levels)}
        found = np.array([index.get(cells.to_text(cell), -1) for cell in column], dtype=np.float64)
        return one_hot(found, len(index))
    if feature.kind == "levels":
        return level_codes(map(cells.to_text, column), feature.levels)[:, None]
    if feature.kind == "date":
        values = cells.to_seconds(column, schema.orders.get(feature.name, ""))
        _note(values, column, faults, f"column '{feature.name}': expected {cells.A_DATE}")
        return values[:, None]
    if feature.kind == "boolean":
        values = cells.to_booleans(column)
        _note(values, column, faults, f"column '{feature.name}': expected true or false")
        return values[:, None]
    return _numbers(feature.name, column, faults, schema, what="column")[:, None]


def _numbers(
    name: str, column: Column, faults: dict[int, str], schema: Schema, what: str
) -> Float64[np.ndarray, " n"]:
    values = to_numbers(column, schema.decimals.get(name))
    _note(values, column, faults, f"{what} '{name}': expected a finite number", schema.decimals.get(name))
    return values


def _times(schema: Schema, column: Column, faults: dict[int, str]) -> Float64[np.ndarray, " n"]:
    name = schema.time or ""
    values = _moments(name, schema, column)
    expected = cells.A_DATE if schema.time_is_text else "a finite number"
    _note(values, column, faults, f"time column '{name}': expected {expected}")
    return values


def _moments(name: str, schema: Schema, column: Column) -> Float64[np.ndarray, " n"]:
    if schema.time_is_text:
        return cells.to_seconds(column, schema.orders.get(name, ""))
    return to_numbers(column, schema.decimals.get(name))


def _arrivals(schema: Schema, column: Column, faults: dict[int, str]) -> Float64[np.ndarray, " n"]:
    """Return when labels are known, NaN for those of which nothing is said; add other bad cells to `faults`."""
    name = schema.arrives or ""
    values = _moments(name, schema, column)
    found: dict[int, str] = {}
    kind = "a date" if schema.time_is_text else "a number"
    _note(values, column, found, f"arrival column '{name}': expected {kind} or nothing")
    blank = np.isnan(column) if isinstance(column, np.ndarray) else [is_missing_number(cell) for cell in column]
    for i, fault in found.items():
        if not blank[i]:
            faults.setdefault(i, fault)
    return np.where(np.abs(values) <= cells.LARGEST, values, np.nan)


def _note(
    values: np.ndarray, column: Column, faults: dict[int, str], expected: str, decimal: Decimal | None = None
) -> None:
    """Record the fault of each cell whose value is not finite or too large, unless its row is bad already."""
    for i in np.flatnonzero(~(np.abs(values) <= cells.LARGEST)).tolist():
        limit = f" of at most {cells.LARGEST:g}" if np.isfinite(values[i]) else ""
        faults.setdefault(i, f"{expected}{limit}, {cells.say_got(column[i], decimal)}")
