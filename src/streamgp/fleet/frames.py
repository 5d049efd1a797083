"""Long frames of pandas, polars or Arrow as arrays, and back; errors are raised before anything is learnt."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float

from streamgp.fleet.settings import FleetSettings
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.coding import level_codes
from streamgp.table import DataError
from streamgp.table.calendar import AUTO
from streamgp.table.cells import LARGEST, say_no_time, to_seconds, to_text
from streamgp.table.codes import MissingCodes
from streamgp.table.containers import as_given, is_missing
from streamgp.table.given import to_float, to_floats
from streamgp.table.numbers import to_numbers

Key = str | int
# A message names so many offenders.
_SHOWN = 3
# The end of a time with its zone.
_ZONE = re.compile(r":\d\d\S*(Z|[+-]\d\d:?\d\d)$")
# A whole number can be a key below this limit.
_WHOLE = 1 << 127


@register
@dataclass(frozen=True)
class FleetColumns:
    """What the first frame's columns are; those of all later ones are the same.

    Attributes
    ----------
    inputs
        The columns besides key, time and target.
    key
        What keys are: ``text`` or ``whole number``.
    time
        What times are: ``date``, ``datetime``, ``duration``, ``whole number``, ``number`` or, where there is no such
        column, None.
    zone
        Time zone of the times.
    backend
        The make of the last frame.
    group
        What groups are, as keys; None where there is no such column.
    texts
        The inputs that are text: their values are codes of levels.
    """

    inputs: tuple[str, ...]
    key: str
    time: str | None
    zone: str | None
    backend: str
    group: str | None = None
    texts: tuple[str, ...] = ()

    @property
    def text_places(self) -> list[int]:
        """The places among the inputs of those that are text."""
        return [i for i, name in enumerate(self.inputs) if name in self.texts]

    @property
    def dated(self) -> bool:
        """Whether times are of a calendar."""
        return self.time in ("date", "datetime")


class Table(NamedTuple):
    """The rows of a frame: keys, None where one is missing; times, in seconds where dated; NaN where values are."""

    columns: FleetColumns
    keys: list[Key | None]
    times: Float[np.ndarray, " n"] | None
    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"] | None
    unusable: Bool[np.ndarray, " n"]
    frame: Any
    groups: list[Key | None] | None


def read(frame: Any, settings: FleetSettings, known: FleetColumns | None, with_target: bool) -> Table:
    """Return the rows of a frame.

    Raises
    ------
    DataError
        If columns are missing, are new, or are of another type than they were.
    TypeError
        If it is no data frame.
    """
    try:
        table = nw.from_native(as_given(frame), eager_only=True)
    except TypeError as error:
        raise TypeError(f"expected a data frame of pandas, polars or Arrow, got {type(frame).__name__}") from error
    names = list(table.columns)
    needed = [name for name in (settings.id_col, settings.time_col, settings.group_col) if name is not None]
    needed += [settings.target_col] if with_target else []
    needed += [] if known is None else list(known.inputs)
    missing = [name for name in needed if name not in names]
    if missing:
        raise DataError(f"expected the columns {listed(needed)}, got {listed(names)}; {listed(missing)} missing.")
    own = (settings.id_col, settings.time_col, settings.target_col, settings.group_col)
    inputs = tuple(name for name in names if name not in own)
    if known is not None:
        new = [name for name in inputs if name not in known.inputs]
        if new:
            raise DataError(
                f"expected the inputs {listed(known.inputs)}, as in the first frame, got {listed(new)} as well; "
                f"leave it out, or start a new fleet."
            )
        inputs = known.inputs
    keys, key_kind = _keys(table[settings.id_col], settings.id_col)
    times, time_kind, zone = None, None, None
    if settings.time_col is not None:
        times, time_kind, zone = _times(table[settings.time_col], settings.time_col)
    if known is None and set(settings.calendar) - {AUTO} and time_kind not in _DATED:
        got = "no column of times" if settings.time_col is None else f"times that are none in '{settings.time_col}'"
        raise DataError(f"calendar, holidays: expected dates, which they are of, got {got}; leave them out.")
    groups, group_kind = None, None
    if settings.group_col is not None:
        groups, group_kind = _keys(table[settings.group_col], settings.group_col)
    if known is not None:
        _same(settings.id_col, known.key, key_kind if any(k is not None for k in keys) else known.key)
        if _clock_of(known.time) != _clock_of(time_kind) and len(keys):
            _same(str(settings.time_col), known.time, time_kind)
        if groups is not None:
            some = any(group is not None for group in groups)
            _same(str(settings.group_col), known.group, group_kind if some else known.group)
        key_kind, group_kind = known.key, known.group
        time_kind, zone = known.time, known.zone
    codes, raises = settings.codes, settings.missing == "raise"
    given = {name: _without(codes, table[name]) for name in inputs}
    texts = tuple(name for name in inputs if _is_text(given[name])) if known is None else known.texts
    columns = FleetColumns(inputs, key_kind, time_kind, zone, table.implementation.value, group_kind, texts)
    numbers = [_levels(each) if name in texts else _numbers(each, name, raises) for name, each in given.items()]
    X = np.stack(numbers, axis=1) if numbers else np.empty((len(keys), 0))
    target = settings.target_col
    y = _numbers(_without(codes, table[target]), target, raises) if with_target else None
    # NaN says that there is no value; what is infinite or absurd is taken for one that was lost.
    unusable: Any = (np.abs(X) > LARGEST).any(axis=1)
    X = np.where(np.abs(X) <= LARGEST, X, np.nan)
    if y is None:
        return Table(columns, keys, times, X, None, unusable, table, groups)
    unusable = unusable | (np.abs(y) > LARGEST)
    y = np.where(np.abs(y) <= LARGEST, y, np.nan)
    found = Table(columns, keys, times, X, y, unusable, table, groups)
    return found if settings.target_map.changes_nothing else _within(found, settings, y)


def with_columns(table: Table, settings: FleetSettings, values: Mapping[str, np.ndarray]) -> Any:
    """Return a frame of the same type with the key and time columns as they came, and these besides."""
    own = [name for name in (settings.id_col, settings.time_col) if name is not None]
    frame = table.frame.select(own)
    made = [nw.new_series(name, array, backend=table.frame.implementation) for name, array in values.items()]
    if frame.implementation.is_pandas_like():
        made = [nw.maybe_set_index(s, index=nw.maybe_get_index(frame)) for s in made]
    # The frame is built without the threads of polars, which a forked process does not have.
    if frame.implementation.is_polars():
        columns = [*(frame[name] for name in own), *made]
        return nw.from_dict({column.name: column for column in columns}).to_native()
    return frame.with_columns(*made).to_native()


def new_frame(columns: FleetColumns, values: Mapping[str, Any]) -> Any:
    """Return a frame of the make of the last one that came."""
    backend: Any = columns.backend
    return nw.from_dict(dict(values), backend=backend).to_native()


def as_times(columns: FleetColumns, times: Float[np.ndarray, " n"]) -> Any:
    """Return times as the column that they came from has them."""
    if columns.time == "whole number":
        return np.round(times).astype(np.int64)
    if not columns.dated and columns.time != "duration":
        return times
    stamps = np.round(times * 1e6).astype(np.int64).astype("datetime64[us]" if columns.dated else "timedelta64[us]")
    backend: Any = columns.backend
    series = nw.new_series("time", stamps, backend=backend)
    if columns.zone is not None:
        series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(columns.zone)
    if columns.time == "date" and columns.backend != "pandas":
        series = series.cast(nw.Date())
    return series.to_native()


def name_rows(settings: FleetSettings, table: Table, which: Bool[np.ndarray, " n"]) -> str:
    """Name the first of some rows: number, key and time."""
    said, rows = [], np.flatnonzero(which).tolist()
    for i in rows[:_SHOWN]:
        time = "" if settings.time_col is None else f" at {table.frame[settings.time_col][i]}"
        said.append(f"row {i} ({table.keys[i]!r}{time})")
    more = len(rows) - len(said)
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")


def _within(table: Table, settings: FleetSettings, y: Float[np.ndarray, " n"]) -> Table:
    """Return rows without the targets that cannot be; raise the first of them where that is wanted."""
    faults = settings.target_map.faults(y[:, None])
    outside = np.isin(np.arange(len(y)), list(faults))
    if faults and settings.missing == "raise":
        first, where = next(iter(faults.values())), name_rows(settings, table, outside)
        raise DataError(
            f"column '{settings.target_col}': {first} in {where}; correct them, or give nothing, which is "
            f"predicted and not learnt."
        )
    return table._replace(y=np.where(outside, np.nan, y), unusable=table.unusable | outside)


_DATED = ("date", "datetime")


def _clock_of(kind: str | None) -> str | None:
    """Return what kinds of times go together."""
    return "dated" if kind in _DATED else kind if kind in ("duration", None) else "number"


def _without(codes: MissingCodes, series: Any) -> Any:
    """Return a column with nothing where it has a code for a missing value."""
    return nw.from_native(codes.blank(series.to_native()), series_only=True) if codes else series


def _same(name: str, expected: str | None, got: str | None) -> None:
    if expected != got:
        raise DataError(f"column '{name}': expected a column of type {expected}, as in the first frame, got {got}.")


def listed(names: Sequence[str]) -> str:
    """Return the names of columns as a message has them."""
    return ", ".join(f"'{name}'" for name in names) or "none"


def _keys(series: Any, name: str) -> tuple[list[Key | None], str]:
    """Return keys, and what they are."""
    kind = series.dtype
    values = series.to_list()
    if kind.is_integer():
        return values, "whole number"
    if kind.is_float():
        whole: list[Key | None] = []
        for i, value in enumerate(values):
            if value is None or value != value:
                whole.append(None)
            elif float(value).is_integer() and abs(value) < _WHOLE:
                whole.append(int(value))
            else:
                raise DataError(f"column '{name}': expected keys of text or whole numbers, got {value!r} in row {i}.")
        return whole, "whole number"
    texts = (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Date, nw.Datetime)
    if not (kind in texts or kind.is_numeric()):
        raise DataError(f"column '{name}': expected keys of text or whole numbers, got a column of {kind}.")
    text: list[Key | None] = [None if is_missing(value) else value for value in values]
    # Dates become text, as in a file.
    if any(isinstance(key, date) for key in text):
        text = [key.isoformat() if isinstance(key, date) else key for key in text]
    odd = {type(value): i for i, value in reversed(list(enumerate(text))) if value is not None}
    if len(odd) > 1 or not set(odd) <= {str, int}:
        found = ", ".join(f"{text[i]!r} in row {i}" for i in sorted(odd.values()))
        raise DataError(f"column '{name}': expected keys of one type, text or whole numbers, got {found}.")
    if int not in odd:
        return text, "text"
    for i, key in enumerate(text):
        if isinstance(key, int) and abs(key) >= _WHOLE:
            raise DataError(f"column '{name}': expected whole numbers below 2^127, got {key} in row {i}; use text.")
    return text, "whole number"


def _times(series: Any, name: str) -> tuple[Float[np.ndarray, " n"], str, str | None]:
    """Return times as numbers, what they were, and their zone."""
    kind = series.dtype
    if kind == nw.Date or kind == nw.Datetime:
        zone = getattr(kind, "time_zone", None)
        stamps = series.cast(nw.Datetime("us", zone)) if kind == nw.Date else series
        micro = stamps.dt.timestamp("us").cast(nw.Float64).to_numpy().astype(float)
        return micro / 1e6, "date" if kind == nw.Date else "datetime", zone
    if kind == nw.Duration:
        micro = series.cast(nw.Duration("us")).dt.total_microseconds().cast(nw.Float64).to_numpy().astype(float)
        return micro / 1e6, "duration", None
    if kind in (nw.String, nw.Object):
        return _times_of_cells(series.to_list(), kind, name)
    if not kind.is_numeric():
        raise DataError(f"column '{name}': expected dates, times or numbers, got a column of {kind}; convert it.")
    return _numbers(series, name), "whole number" if kind.is_integer() else "number", None


def _times_of_cells(given: list[Any], kind: Any, name: str) -> tuple[Float[np.ndarray, " n"], str, str | None]:
    """Return what `_times` does, of text or objects."""
    cells = [None if is_missing(cell) else cell for cell in given]
    present = [cell for cell in cells if cell is not None]
    if present and all(isinstance(cell, int | float) for cell in present):
        return to_numbers(cells), "number", None
    seconds = to_seconds(cells)
    if present and not np.isfinite(seconds).any():
        row = next(i for i, cell in enumerate(cells) if cell is not None)
        raise DataError(f"column '{name}': {say_no_time(present[0], where=f' in row {row} of a column of {kind}')}.")
    texts = [str(cell).strip() for cell in present]
    zoned = bool(texts) and all(_ZONE.search(text) for text in texts)
    days = all(len(text) <= len("2024-01-31") for text in texts)
    return seconds, "date" if days else "datetime", "UTC" if zoned else None


def _numbers(series: Any, name: str, raises: bool = True) -> Float[np.ndarray, " n"]:
    """Return numbers, NaN where one is missing; what is none is raised, or becomes infinite."""
    kind = series.dtype
    if kind in (nw.String, nw.Object):
        try:
            return to_floats(f"column '{name}'", series.to_list(), ("row",))
        except ValueError as error:
            if raises:
                raise DataError(str(error)) from error
            return np.array([_or_infinite(cell) for cell in series.to_list()])
    if not (kind.is_numeric() or kind == nw.Boolean or series.null_count() == len(series)):
        raise DataError(f"column '{name}': expected numbers, got a column of {kind}; convert it, or leave it out.")
    return np.array(series.cast(nw.Float64).to_numpy(), dtype=float)


def _is_text(series: Any) -> bool:
    """Return whether a column holds text: it is of categories, or most of its cells are no numbers."""
    if series.dtype in (nw.Categorical, nw.Enum) or series.dtype not in (nw.String, nw.Object):
        return series.dtype in (nw.Categorical, nw.Enum)
    present = [cell for cell in series.to_list() if not is_missing(cell)]
    texts = [cell for cell in present if isinstance(cell, str) and np.isinf(_or_infinite(cell))]
    return 2 * len(texts) > len(present)


def _levels(series: Any) -> Float[np.ndarray, " n"]:
    """Return the codes of levels, NaN where there is none."""
    cells = series.to_list()
    codes = level_codes((to_text(cell) for cell in cells), ())
    return np.where(np.array([is_missing(cell) for cell in cells], bool), np.nan, codes)


def _or_infinite(cell: Any) -> float:
    try:
        return to_float("", cell)
    except ValueError:
        return np.inf
