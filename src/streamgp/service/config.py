"""The configuration of a stream: its columns, its model, its limits; one JSON file beside its log."""

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from types import UnionType
from typing import Any, Self

from streamgp.models.accepted import check_accepted
from streamgp.numerics.coding import CYCLES
from streamgp.service.inputs import input_names
from streamgp.service.problems import Problem
from streamgp.table.codes import MissingCodes

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
TASKS = ("regression", "classification", "count", "ordinal")
MAX_FEATURES = 1_000
MAX_NAME = 200  # characters of a target, a feature, a key, a label or a level
# The most levels of a category.
MAX_LEVELS = 100
MAX_PENDING = 100_000
MAX_HISTORY = 100_000_000
_UNWRITABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, lone surrogates, separators of lines


@dataclass(frozen=True)
class StreamConfig:
    """A stream of one model, or of a model for each key.

    Attributes
    ----------
    name
        Letters, digits, ``-`` and ``_``, 64 at most.
    target
        What is predicted.
    features
        Names of the inputs; numbers, but for `categories`.
    categories
        Of features that are text, the levels, each of which is an input of the model; another level is none of them.
    calendar
        Of a stream of one model that is `timed`: ``day``, ``week``, ``year``, cycles of the time that are inputs too.
    key
        The name of the key, of a stream with a model for each one; None: one model.
    model
        A preset; of keyed streams ``fleet``.
    task
        ``regression``, ``classification``, ``count`` or ``ordinal``.
    classes
        Labels known beforehand, or the grades from low to high.
    timed
        Whether the model's clock is the time of the rows, which then all have one; otherwise rows are counted, and
        have none.
    warmup
        Rows after which the hyperparameters are fitted.
    lags
        Past targets that are inputs as well, so many rows back.
    missing_values
        Numbers and words that stand for a missing input or target.
    seed
        Of everything random.
    max_pending
        Rows that may wait for their label, of a keyed stream; of others 1,000.
    history_rows
        Scored rows that are kept in Parquet files; older ones are deleted.
    """

    name: str
    target: str
    features: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calendar: tuple[str, ...] = ()
    key: str | None = None
    model: str = "default"
    task: str = "regression"
    classes: tuple[str, ...] = ()
    timed: bool = False
    warmup: int = 1_000
    lags: tuple[int, ...] = ()
    missing_values: tuple[float | str, ...] = ()
    seed: int = 0
    max_pending: int = 10_000
    history_rows: int = 1_000_000

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise _wrong("name", "1 to 64 letters, digits, - and _, a letter or digit first", self.name)
        if not self.target:
            raise _wrong("target", "the name of what is predicted", self.target)
        names = [*self.features, self.target, *([self.key] if self.key else [])]
        if len(set(names)) < len(names) or not all(self.features):
            raise _wrong("features, target, key", "names that differ", names)
        self._check_inputs(names)
        if self.key is not None:
            if self.model not in ("fleet", "default"):
                raise _wrong("model", "fleet, the model of keyed streams", self.model)
            object.__setattr__(self, "model", "fleet")
            if self.task != "regression":
                raise _wrong("task", "regression, for a stream with keys", self.task)
            if self.timed and "ds" in names:
                raise _wrong("features", "no name ds, which is that of the time", names)
        if self.task not in TASKS:
            raise _wrong("task", f"one of {', '.join(TASKS)}", self.task)
        if self.key is None:
            try:
                check_accepted(self.model, self.task, {"lags": list(self.lags) or None})
            except ValueError as error:
                raise Problem(422, str(error)) from None
        if self.task in ("classification", "ordinal"):
            if len(set(self.classes)) < 2 or len(set(self.classes)) < len(self.classes):
                raise _wrong("classes", "two different labels or grades, or more", list(self.classes))
        elif self.classes:
            raise _wrong("classes", "none, unless the task is classification or ordinal", list(self.classes))
        least = len(self.lags) + len(self.inputs) + 10
        for name, low, high in (
            ("warmup", least, 1_000_000),
            ("max_pending", 1, MAX_PENDING),
            ("history_rows", 1_000, MAX_HISTORY),
            ("seed", 0, 2**31 - 1),
        ):
            if not low <= getattr(self, name) <= high:
                raise _wrong(name, f"a whole number from {low:,} to {high:,}", getattr(self, name))
        try:
            _ = self.codes
        except ValueError as error:
            raise Problem(422, str(error)) from None
        if any(lag < 1 or lag > 10_000 for lag in self.lags) or len(set(self.lags)) < len(self.lags):
            raise _wrong("lags", "different whole numbers from 1 to 10,000", list(self.lags))

    def _check_inputs(self, names: list[str]) -> None:
        for name, levels in self.categories.items():
            if name not in self.features:
                raise _wrong("categories", "names of features", name)
            if not 2 <= len(set(levels)) == len(levels) <= MAX_LEVELS or not all(levels):
                raise _wrong(f"categories.{name}", f"2 to {MAX_LEVELS} levels that differ", list(levels)[:10])
        if len(set(self.calendar)) < len(self.calendar) or not set(self.calendar) <= set(CYCLES):
            raise _wrong("calendar", f"some of {', '.join(CYCLES)}", list(self.calendar))
        if self.calendar and (not self.timed or self.key is not None):
            raise _wrong("calendar", "none, unless the stream is timed and has no keys", list(self.calendar))
        if len(self.inputs) > MAX_FEATURES:
            raise _wrong("features", f"at most {MAX_FEATURES:,}, each level of a category counted", len(self.inputs))
        if len(set(self.inputs)) < len(self.inputs) or {self.target, self.key} & set(self.inputs):
            raise _wrong("features, target, key", "names that differ from those of levels and cycles", names)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return input_names(self.features, self.categories, self.calendar)

    @property
    def codes(self) -> MissingCodes:
        """What stands for a missing input or target."""
        return MissingCodes.of(self.missing_values)

    @property
    def is_keyed(self) -> bool:
        """Whether there is a model for each key."""
        return self.key is not None

    @property
    def has_numbers(self) -> bool:
        """Whether targets are numbers."""
        return self.task in ("regression", "count")

    @property
    def counts(self) -> bool:
        """Whether targets are whole numbers, 0 or more."""
        return self.task == "count"

    @property
    def has_grades(self) -> bool:
        """Whether targets are grades, all of them known."""
        return self.task == "ordinal"

    @property
    def can_forecast(self) -> bool:
        """Whether the model draws paths of the next rows."""
        return self.task == "regression"

    @classmethod
    def from_document(cls, given: Any) -> Self:
        """Return the stream that a client describes.

        Raises
        ------
        Problem
            If it cannot be such a one.
        """
        if not isinstance(given, dict):
            raise Problem(422, f"expected an object that describes a stream, got {given!r:.80}")
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise _wrong(unknown[0][:MAX_NAME], f"one of {', '.join(sorted(known))}", "another name")
        for name in ("name", "target"):
            if name not in given:
                raise Problem(422, f"{name}: expected text, got nothing")
        for name, value in given.items():
            is_of_kind, expected = _KINDS[name]
            if not is_of_kind(value):
                raise _wrong(name, expected, value)
        for name, levels in given.get("categories", {}).items():
            if not _are(levels, str):
                raise _wrong(f"categories.{name[:MAX_NAME]}", "a list of texts", levels)
        return cls(**{name: _frozen(value) for name, value in given.items()})

    def document(self) -> dict[str, Any]:
        """Return it as `from_document` takes it."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(self.document(), indent=1) + "\n"


def _are(items: Any, kind: type | UnionType) -> bool:
    return isinstance(items, list | tuple) and all(isinstance(i, kind) and not isinstance(i, bool) for i in items)


_TEXTS = (lambda value: _are(value, str), "a list of texts")
_WHOLE = (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number")
_TEXT = (lambda value: isinstance(value, str), "text")
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("name", "target", "task", "model"), _TEXT),
    **dict.fromkeys(("features", "classes", "calendar"), _TEXTS),
    **dict.fromkeys(("warmup", "seed", "max_pending", "history_rows"), _WHOLE),
    "key": (lambda value: value is None or isinstance(value, str), "text or null"),
    "timed": (lambda value: isinstance(value, bool), "true or false"),
    "lags": (lambda value: _are(value, int), "a list of whole numbers"),
    "missing_values": (lambda value: _are(value, int | float | str), "a list of numbers and texts"),
    "categories": (lambda value: isinstance(value, dict), "an object of lists of texts"),
}


def check_texts(config: StreamConfig) -> None:
    """Check the names that a new stream is to have: they come to be shown, and written to files of many kinds.

    Raises
    ------
    Problem
        If one of them is no text that can be written, or is too long.
    """
    named = [("target", config.target), ("features", config.features), ("key", config.key or ())]
    named += [
        ("classes", config.classes),
        *((f"categories.{name}", each) for name, each in config.categories.items()),
    ]
    for name, given in named:
        for text in (given,) if isinstance(given, str) else given:
            if len(text) > MAX_NAME or any(unicodedata.category(c) in _UNWRITABLE for c in text):
                shown = json.dumps(text if len(text) <= MAX_NAME else f"{text[:60]}...")
                raise Problem(
                    422,
                    f"{name}: expected 1 to {MAX_NAME} characters, no control character and no lone surrogate, "
                    f"got {shown}; choose another",
                )


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: tuple(each) for name, each in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: list(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _wrong(name: str, expected: str, got: Any) -> Problem:
    return Problem(422, f"{name}: expected {expected}, got {got!r:.200}")
