"""Rows as clients send them, checked, and as arrays."""

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.service.config import StreamConfig
from streamgp.service.inputs import code_of, model_inputs
from streamgp.service.problems import Problem
from streamgp.table.cells import A_DATE, LARGEST, to_seconds
from streamgp.table.clock import blamed, say_jump
from streamgp.table.dates import Order, advise_on_date, find_order
from streamgp.table.summer_time import advise_on_order

# The most rows of one request.
MAX_ROWS = 100_000
# The most characters of an id or a key.
MAX_TEXT = 200
# A message shows so many of the rows that are wrong.
SHOWN = 5
# The most characters of a value in a message.
SHOWN_TEXT = 80


class Rows(NamedTuple):
    """Rows of a request.

    Attributes
    ----------
    ids, keys
        Of each row; None where it has none.
    times
        Numbers (n,); NaN where a row has none.
    X
        Inputs (n, D); NaN where they are missing.
    y
        Targets: numbers (n,), NaN where they are missing, or text, None where it is missing. None where the rows
        have no targets.
    """

    ids: list[str | None]
    keys: list[str | None]
    times: np.ndarray
    X: np.ndarray
    y: Any = None

    def part(self, where: Sequence[int]) -> "Rows":
        """Return some of the rows."""
        at = np.asarray(where, dtype=int)
        y = self.y
        if y is not None:
            y = [y[i] for i in where] if isinstance(y, list) else y[at]
        return Rows([self.ids[i] for i in where], [self.keys[i] for i in where], self.times[at], self.X[at], y)

    def digests(self) -> list[bytes]:
        """Return what tells rows with different inputs apart."""
        found = []
        for key, time, x in zip(self.keys, self.times, self.X, strict=True):
            text = repr(key).encode() + time.tobytes() + x.tobytes()
            found.append(hashlib.blake2b(text, digest_size=12).digest())
        return found


class Labels(NamedTuple):
    """Labels of rows that were predicted, by their ids."""

    ids: list[str]
    y: Any


def rows_with_inputs(config: StreamConfig, given: Sequence[dict[str, Any]], with_target: bool) -> Rows:
    """Return rows that have inputs.

    Raises
    ------
    Problem
        If one of them is not as expected; the first few are named.
    """
    _check_count(given)
    names, wrong = config.features, _Wrong(config)
    known = set(names)
    levels, codes = [config.categories.get(name) for name in names], config.codes
    order = find_order(row.get("time") for row in given) if config.timed else ""
    cells = np.empty((len(given), len(names)))
    times = np.full(len(given), np.nan)
    for i, row in enumerate(given):
        x = row.get("x")
        if not isinstance(x, dict):
            wrong.add(i, "x", "an object with the inputs by name", x)
            continue
        if len(x) != len(known) or not known.issuperset(x):
            missing = [name for name in names if name not in x]
            unknown = [name for name in x if name not in known]
            if unknown:
                wrong.add(
                    i,
                    f"x.{unknown[0]}",
                    f"only the features {', '.join(names) or '(there are none)'}",
                    _Said("another"),
                )
                continue
            if missing:
                kind = "text" if missing[0] in config.categories else "a number"
                wrong.add(i, f"x.{missing[0]}", f"{kind}, or null where it is not known", _Said("nothing"))
                continue
        for j, name in enumerate(names):
            value = None if codes and codes.is_code(x[name]) else x[name]
            cells[i, j] = _cell(value, levels[j], wrong, i, f"x.{name}")
        times[i] = _time(row.get("time"), order, config, wrong, i)
    ids = [_text(row.get("id"), wrong, i, "id") for i, row in enumerate(given)]
    keys: list[str | None] = [None] * len(given)
    if config.is_keyed:
        keys = [_key(row.get("key"), wrong, i) for i, row in enumerate(given)]
    else:
        _refuse(given, "key", "none, as this stream has no keys: leave it out, or create a stream with key", wrong)
    y = _targets(config, given, wrong) if with_target else None
    wrong.complain()
    if config.timed:
        _check_times(config, given, times)
    X = model_inputs(cells.T, [None if each is None else len(each) for each in levels], times, config.input_cycles)
    return Rows(ids, keys, times, X, y)


def labels_by_id(config: StreamConfig, given: Sequence[dict[str, Any]]) -> Labels:
    """Return labels of rows that were predicted before.

    Raises
    ------
    Problem
        If one of them is not as expected.
    """
    _check_count(given)
    wrong = _Wrong(config)
    ids = [_text(row.get("id"), wrong, i, "id") or "" for i, row in enumerate(given)]
    for i, name in enumerate(ids):
        if not name:
            wrong.add(i, "id", "the id that predict returned, or x, the inputs", given[i].get("id"))
    for name in ("key", "time"):
        _refuse(given, name, "none beside an id alone: the row has what it was predicted with; leave it out", wrong)
    y = _targets(config, given, wrong)
    wrong.complain()
    return Labels(ids, y)


class Overflown(float):
    """A number that no double can hold: infinite, and shown as the client wrote it."""

    def __new__(cls, text: str) -> "Overflown":
        """Return it, by what the client wrote."""
        number = super().__new__(cls, -math.inf if text.startswith("-") else math.inf)
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        return self.text if len(self.text) <= SHOWN_TEXT else f"{self.text[:SHOWN_TEXT]}..."


class _Said(str):
    """What came, in our words rather than as a value."""


class _Wrong:
    """What is wrong with which rows."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._found: list[str] = []
        self._count = 0

    def add(self, row: int, field: str, expected: str, got: Any) -> None:
        self._count += 1
        if len(self._found) < SHOWN:
            self._found.append(f"row {row}, {field}: expected {expected}, got {as_sent(got)}")

    def complain(self) -> None:
        if self._count:
            more = f"; and {self._count - len(self._found):,} more" if self._count > len(self._found) else ""
            raise Problem(422, f"{'; '.join(self._found)}{more}; nothing of this request was done: correct it")


def as_sent(value: Any) -> str:
    """Return a value for a message as the client wrote it, in JSON; of a list or an object what it is."""
    if isinstance(value, _Said):
        return value
    if isinstance(value, Overflown):
        return repr(value)
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        # JSON has no form for a value of Arrow, or for an integer of thousands of digits.
        shown = type(value).__name__
    return shown if len(shown) <= SHOWN_TEXT else f"{shown[:SHOWN_TEXT]}..."


def _check_count(given: Sequence[Any]) -> None:
    if not given:
        raise Problem(422, "rows: expected one row or more, got none")
    if len(given) > MAX_ROWS:
        raise Problem(413, f"rows: expected at most {MAX_ROWS:,}, got {len(given):,}; send several requests")


def _refuse(given: Sequence[dict[str, Any]], field: str, expected: str, wrong: _Wrong) -> None:
    """Note rows with a field of which nothing would be made."""
    for i, row in enumerate(given):
        if row.get(field) is not None:
            wrong.add(i, field, expected, row[field])


def _cell(value: Any, levels: tuple[str, ...] | None, wrong: _Wrong, row: int, field: str) -> float:
    """Return an input as a number, NaN where it is missing or absurd; of a category, the code of the level."""
    if levels is None:
        return _number(value, wrong, row, field, absurd=math.nan)
    code = code_of(value, levels)
    if code is None:
        example = f", as {levels[0]!r}" if levels else ""
        wrong.add(row, field, f"text{example}, or null where it is missing", value)
        return math.nan
    return code


def _number(value: Any, wrong: _Wrong, row: int, field: str, absurd: float | None = None) -> float:
    """Return a number; NaN where it is missing, and `absurd` where it is a number, but too large to compute with."""
    if value is None:
        return math.nan
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) <= LARGEST:
            return number
        if math.isnan(number):
            return math.nan
        if absurd is not None and math.isfinite(number):
            return absurd
    wrong.add(row, field, f"a number of at most {LARGEST:g} in size, or null where it is missing", value)
    return math.nan


def _text(value: Any, wrong: _Wrong, row: int, field: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable():
        return value
    wrong.add(row, field, f"text of 1 to {MAX_TEXT} printable characters", value)
    return None


def _key(value: Any, wrong: _Wrong, row: int) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None:
        wrong.add(row, "key", "text or a whole number", value)
    return _text(value, wrong, row, "key")


def _time(value: Any, order: Order, config: StreamConfig, wrong: _Wrong, row: int) -> float:
    if not config.timed:
        if value is not None:
            wrong.add(
                row,
                "time",
                "none, as this stream counts its rows: leave it out, or create a stream with timed",
                value,
            )
        return math.nan
    seconds: Any = value
    if isinstance(value, str):
        seconds = in_seconds(value, order)
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        try:
            if abs(float(seconds)) <= LARGEST:
                return float(seconds)
        except OverflowError:
            pass
    advice = advise_on_date(value)
    got = value if advice is None else _Said(f"{as_sent(value)}: {advice}")
    wrong.add(row, "time", f"a number, as seconds since 1970, or {A_DATE}Z", got)
    return math.nan


def in_seconds(text: str, order: Order = "") -> float:
    """Return a date in seconds since 1970; NaN if it is none."""
    try:
        return float(to_seconds([text], order)[0])
    except (ValueError, OverflowError):
        return math.nan


def _check_times(config: StreamConfig, given: Sequence[dict[str, Any]], times: np.ndarray) -> None:
    if not config.is_keyed and (np.diff(times) < 0.0).any():
        row = int(np.argmax(np.diff(times) < 0.0)) + 1
        dated = isinstance(given[row]["time"], str)
        if (jump := blamed(times, row, dated)) is not None:
            said = say_jump(jump, dated)
            raise Problem(422, f"row {row - 1}, time: {said}; nothing of this request was done: correct it")
        before, got = as_sent(given[row - 1]["time"]), as_sent(given[row]["time"])
        advice = advise_on_order(times[row - 1], times[row], "send rows in order", dated)
        raise Problem(422, f"row {row}, time: expected none before {before} of the row before, got {got}; {advice}")


def _targets(config: StreamConfig, given: Sequence[dict[str, Any]], wrong: _Wrong) -> Any:
    codes = config.codes
    targets = [None if codes and codes.is_code(row.get("y")) else row.get("y") for row in given]
    if config.has_numbers:
        y = np.array([_number(target, wrong, i, "y") for i, target in enumerate(targets)])
        if config.counts:
            for i in np.flatnonzero((y < 0.0) | (y != np.floor(y)) & ~np.isnan(y)).tolist():
                wrong.add(i, "y", "a whole number, 0 or more", given[i].get("y"))
        for i in config.target_map.faults(y[:, None]):
            wrong.add(i, "y", f"a target in {config.target_map.interval}", given[i].get("y"))
        return y
    return [_label(config, target, wrong, i) for i, target in enumerate(targets)]


def _label(config: StreamConfig, value: Any, wrong: _Wrong, row: int) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int):
        value = str(value)
    if config.has_grades and value not in config.classes:
        wrong.add(row, "y", f"one of the grades {', '.join(config.classes)}", value)
        return None
    return _text(value, wrong, row, "y")
