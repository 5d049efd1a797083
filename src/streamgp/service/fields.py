"""The fields of a stream's configuration in JSON: what each is, and the options of the models among them."""

from dataclasses import replace
from typing import Any

from streamgp.models.accepted import check_accepted
from streamgp.models.option_type import Kind, Option
from streamgp.models.options import CALENDAR, FLEET, HOLIDAYS, MISSING_CODES, MODEL, OPTIONS, SEED, TASKS, WARMUP
from streamgp.table.calendar import CYCLES

Schema = dict[str, Any]

_SWITCH, _WHOLE, _NUMBER, _TEXT = ({"type": each} for each in ("boolean", "integer", "number", "string"))
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_OF_KIND: dict[Kind, Schema] = {
    "flag": _SWITCH,
    "switch": _SWITCH,
    "whole": _WHOLE,
    "seed": _WHOLE,
    "number": _NUMBER,
    "probability": _NUMBER,
    "name": _TEXT,
    "weights": _TEXT,
    "names": _TEXTS,
    "wholes": {"type": ["array", "string"], "items": {"type": "integer"}},
    "range": {"type": "array", "items": {"type": ["number", "null"]}},
    "terms": {"type": "array", "items": {"type": ["number", "string"]}},
    "codes": {"type": "array", "items": {"type": ["number", "string"]}},
}
_WORDS = {
    "string": ("text", "texts"),
    "integer": ("a whole number", "whole numbers"),
    "number": ("a number", "numbers"),
    "boolean": ("true or false", ""),
    "object": ("an object of lists of texts", ""),
    "null": ("null", "null"),
}
_TYPES = {"string": str, "integer": int, "number": int | float, "object": dict, "array": list | tuple}


def _field(option: Option) -> Schema:
    """Return the schema of an option; JSON has its default, unless the model says what it is."""
    text = " ".join(part for part in (option.help, option.range, option.default_text()) if part)
    return _OF_KIND[option.kind] | {"description": text}


# The options of the models that a stream may have. With a horizon each row would be predicted before it comes.
MODEL_OPTIONS = {
    name: option
    for name, option in OPTIONS.items()
    if option.kind in _OF_KIND and option.estimators and name != "horizon"
}
# All that are named; none is chosen.
_CYCLES = replace(
    CALENDAR,
    help="Cycles of the time that are inputs: a sine and a cosine each, in UTC.",
    default=None,
    choices=tuple(CYCLES),
)
FIELDS: dict[str, Schema] = {
    "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
    "target": {"type": "string", "minLength": 1},
    "features": _TEXTS,
    "categories": {
        "type": "object",
        "additionalProperties": _TEXTS,
        "description": "Of features that are text, the levels; none: what each level is worth is learnt.",
    },
    "calendar": _field(_CYCLES),
    "holidays": _field(replace(HOLIDAYS, kind="name")) | {"type": ["string", "null"]},
    "key": {"type": ["string", "null"]},
    "model": _field(MODEL),
    "task": {"type": "string", "enum": list(TASKS)},
    "classes": _TEXTS,
    "timed": {"type": "boolean"},
    "warmup": _field(WARMUP),
    "missing_values": _field(MISSING_CODES),
    "seed": _field(SEED),
    "max_pending": {"type": "integer"},
    "history_rows": {"type": "integer"},
    "archive_days": {"type": "integer"},
    "archive_megabytes": {"type": "integer"},
} | {name: _field(option) for name, option in MODEL_OPTIONS.items()}


def is_of(schema: Schema, value: Any) -> bool:
    """Return whether a value of JSON is of the type that a schema names."""
    return any(_is(kind, schema, value) for kind in _types(schema))


def in_words(schema: Schema) -> str:
    """Return what type a schema names, in words."""
    return " or ".join(_said(kind, schema) for kind in _types(schema))


def check_options(model: str, task: str, options: dict[str, Any], is_keyed: bool) -> None:
    """Check the options that were given for a stream's model.

    Raises
    ------
    ValueError
        If the model has no such option. Of the values, the models themselves are the judges.
    """
    if not is_keyed:
        return check_accepted(model, task, options)
    for name in options:
        if FLEET not in OPTIONS[name].own_defaults:
            raise ValueError(f"{name}: expected none for a stream with keys, which is a fleet; leave it out")
    return None


def _types(schema: Schema) -> list[str]:
    kinds = schema["type"]
    return [kinds] if isinstance(kinds, str) else kinds


def _is(kind: str, schema: Schema, value: Any) -> bool:
    if kind == "null" or isinstance(value, bool) or kind == "boolean":
        return value is None if kind == "null" else isinstance(value, bool) and kind == "boolean"
    if not isinstance(value, _TYPES[kind]):
        return False
    return kind != "array" or all(is_of(schema["items"], item) for item in value)


def _said(kind: str, schema: Schema) -> str:
    if kind != "array":
        return _WORDS[kind][0]
    return f"a list of {' and '.join(_WORDS[each][1] for each in _types(schema['items']))}"
