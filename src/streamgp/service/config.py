"""The configuration of a stream: its columns, its model, its limits; one JSON file beside its log."""

import json
import re
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from streamgp.likelihoods import TargetMap
from streamgp.models.options import MIN_WARMUP, TASKS, calendar_of
from streamgp.service.fields import FIELDS, MODEL_OPTIONS, check_options, in_words, is_of
from streamgp.service.inputs import input_names
from streamgp.service.problems import Problem
from streamgp.table.calendar import CYCLES
from streamgp.table.codes import MissingCodes

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
MAX_FEATURES = 1_000
MAX_NAME = 200  # characters of a target, a feature, a key, a label or a level
# The most levels of a category.
MAX_LEVELS = 100
MAX_PENDING = 100_000
MAX_HISTORY = 100_000_000
MAX_DAYS = 90
MAX_MEGABYTES = 1_000_000
# What a challenger may have otherwise than its stream: not what comes, nor what a target is.
CHANGEABLE = (
    *("model", "calendar", "holidays", "warmup", "seed"),
    *(name for name in MODEL_OPTIONS if name not in ("bounds", "target_transform")),
)
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
        No levels: what each is worth is learnt (see `streamgp.stream.level_effects`), of a stream of one model.
    calendar
        Of a stream that is `timed`: ``day``, ``week``, ``month`` or ``year``, cycles of the time that are inputs too.
    holidays
        Of a stream that is `timed`: a country, such as ``DE``, whose public holidays are an input, 1 on these days.
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
    missing_values
        Numbers and words that stand for a missing input or target.
    seed
        Of everything random.
    max_pending
        Rows that may wait for their label, of a keyed stream; of others 1,000.
    history_rows
        Scored rows that are kept in Parquet files; older ones are deleted.
    archive_days, archive_megabytes
        Accepted entries are kept for so long, and the latest so many megabytes of them: the stream can return to any
        position since. Without any days they go once two checkpoints have come after them.
    options
        Of the model, by name (see `streamgp.models.options`); in JSON they stand beside the fields.
    """

    name: str
    target: str
    features: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calendar: tuple[str, ...] = ()
    holidays: str | None = None
    key: str | None = None
    model: str = "default"
    task: str = "regression"
    classes: tuple[str, ...] = ()
    timed: bool = False
    warmup: int = 1_000
    missing_values: tuple[float | str, ...] = ()
    seed: int = 0
    max_pending: int = 10_000
    history_rows: int = 1_000_000
    archive_days: int = 7
    archive_megabytes: int = 1_000
    options: dict[str, Any] = field(default_factory=dict)

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
        try:
            check_options(self.model, self.task, self.options, self.is_keyed)
            _ = self.codes
        except ValueError as error:
            raise Problem(422, str(error)) from None
        if self.task in ("classification", "ordinal"):
            if len(set(self.classes)) < 2 or len(set(self.classes)) < len(self.classes):
                raise _wrong("classes", "two different labels or grades, or more", list(self.classes))
        elif self.classes:
            raise _wrong("classes", "none, unless the task is classification or ordinal", list(self.classes))
        for name, low, high in (
            ("warmup", len(self.inputs) + MIN_WARMUP, 1_000_000),
            ("max_pending", 1, MAX_PENDING),
            ("history_rows", 1_000, MAX_HISTORY),
            ("archive_days", 0, MAX_DAYS),
            ("archive_megabytes", 1, MAX_MEGABYTES),
            ("seed", 0, 2**31 - 1),
        ):
            if not low <= getattr(self, name) <= high:
                raise _wrong(name, f"a whole number from {low:,} to {high:,}", getattr(self, name))

    def _check_inputs(self, names: list[str]) -> None:
        for name, levels in self.categories.items():
            if name not in self.features:
                raise _wrong("categories", "names of features", name)
            if levels and not (2 <= len(set(levels)) == len(levels) <= MAX_LEVELS and all(levels)):
                raise _wrong(
                    f"categories.{name}", f"2 to {MAX_LEVELS} levels that differ, or none", list(levels)[:10]
                )
        if len(set(self.calendar)) < len(self.calendar) or not set(self.calendar) <= set(CYCLES):
            raise _wrong("calendar", f"some of {', '.join(CYCLES)}", list(self.calendar))
        for name in ("calendar", "holidays"):
            if getattr(self, name) and not self.timed:
                raise _wrong(name, "none, unless the stream is timed", _plain(getattr(self, name)))
        try:
            calendar_of(None, self.holidays)
        except ValueError as error:
            raise Problem(422, str(error)) from None
        if len(self.inputs) > MAX_FEATURES:
            raise _wrong("features", f"at most {MAX_FEATURES:,}, each level of a category counted", len(self.inputs))
        if len(set(self.inputs)) < len(self.inputs) or {self.target, self.key} & set(self.inputs):
            raise _wrong("features, target, key", "names that differ from those of levels and cycles", names)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return input_names(self.features, self.categories, self.input_cycles)

    @property
    def input_cycles(self) -> tuple[str, ...]:
        """The cycles of the time, and the holidays, that are columns among the inputs; a fleet finds its own."""
        return () if self.is_keyed else self.calendar + calendar_of(None, self.holidays)

    @property
    def has_dates(self) -> bool:
        """Whether the times are dates that the model takes inputs from."""
        return bool(self.calendar or self.holidays)

    @property
    def target_map(self) -> TargetMap:
        """What lies between the targets and the scale on which they are learnt; without options the targets' own."""
        return TargetMap.of(self.options.get("target_transform"), self.options.get("bounds") or (None, None))

    @property
    def open_levels(self) -> tuple[str, ...]:
        """The features that are text with levels that are not named."""
        return tuple(name for name, levels in self.categories.items() if not levels)

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
        unknown = sorted(set(given) - set(FIELDS))
        if unknown:
            raise _wrong(unknown[0][:MAX_NAME], f"one of {', '.join(sorted(FIELDS))}", "another name")
        for name in ("name", "target"):
            if name not in given:
                raise Problem(422, f"{name}: expected text, got nothing")
        given = {name: value for name, value in given.items() if value is not None or name not in MODEL_OPTIONS}
        for name, value in given.items():
            if not is_of(FIELDS[name], value):
                raise _wrong(name, in_words(FIELDS[name]), value)
        levels = FIELDS["categories"]["additionalProperties"]
        for name, each in given.get("categories", {}).items():
            if not is_of(levels, each):
                raise _wrong(f"categories.{name[:MAX_NAME]}", in_words(levels), each)
        options = {name: value for name, value in given.items() if name in MODEL_OPTIONS}
        own = {name: _frozen(value) for name, value in given.items() if name not in options}
        return cls(**own, options=options)

    def changed(self, given: dict[str, Any]) -> Self:
        """Return a stream of the same rows with another model: what is not given stays, what is None is the default.

        Raises
        ------
        Problem
            If it cannot be such a one.
        """
        unknown = sorted(set(given) - set(CHANGEABLE))
        if unknown:
            raise _wrong(unknown[0][:MAX_NAME], f"one of {', '.join(sorted(CHANGEABLE))}", "another name")
        merged = self.changeable | given
        return self.with_model({name: value for name, value in merged.items() if value is not None})

    def with_model(self, given: dict[str, Any]) -> Self:
        """Return a stream of the same rows with a model of which `changeable` is given."""
        fixed = {name: value for name, value in self.document().items() if name not in CHANGEABLE}
        return type(self).from_document(fixed | given)

    @property
    def changeable(self) -> dict[str, Any]:
        """What of it `changed` may change."""
        return {name: value for name, value in self.document().items() if name in CHANGEABLE}

    def document(self) -> dict[str, Any]:
        """Return it as `from_document` takes it."""
        own = asdict(self)
        return {name: _plain(value) for name, value in (own | own.pop("options")).items()}

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(self.document(), indent=1) + "\n"


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
