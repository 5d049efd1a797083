"""The schemas of requests and answers, for the OpenAPI description."""

from typing import Any

from streamgp.service.config import CHANGEABLE
from streamgp.service.fields import FIELDS, Schema
from streamgp.service.payload import MAX_ROWS, MAX_TEXT

NUMBER: Schema = {"type": ["number", "null"]}
TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
ID: Schema = TEXT | {"description": "Yours, or made up by `predict`; the same id is learnt once."}
TIME: Schema = {
    "type": ["number", "string", "null"],
    "description": "A number, or a date as in 2026-01-31T12:00:00Z.",
}
INPUTS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["number", "boolean", "string", "null"]},
    "description": "The inputs by name; text of categories; null where one is missing.",
}
TARGET: Schema = {
    "type": ["number", "string", "boolean", "integer", "null"],
    "description": "The target or label; null: it will never come.",
}
KEY: Schema = {"type": ["string", "integer", "null"], "description": "Of streams with a model for each key."}
QUANTILES: Schema = {"type": "object", "additionalProperties": {"type": "number"}}

POSITION: Schema = {"type": "integer", "description": "Of the log: everything up to it is on disk and in the answer."}


def _object(properties: Schema, required: tuple[str, ...] = (), **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)} | more


def _rows(row: Schema, **more: Any) -> Schema:
    rows = {"type": "array", "items": row, "minItems": 1, "maxItems": MAX_ROWS}
    return _object({"rows": rows} | more, ("rows",))


PREDICT = _rows(
    _object({"id": ID, "key": KEY, "time": TIME, "x": INPUTS}, ("x",)),
    keep={"type": "boolean", "default": True, "description": "False: no label will come; the rows do not count."},
)
LEARN = _rows(_object({"id": ID, "key": KEY, "time": TIME, "x": INPUTS, "y": TARGET}, ("y",)))
STEP = _rows(_object({"id": ID, "key": KEY, "time": TIME, "x": INPUTS, "y": TARGET}, ("x", "y")))
FORECAST = _object(
    {
        "h": {"type": "integer", "minimum": 1, "maximum": 1_000, "description": "Steps ahead."},
        "level": {"type": "array", "items": {"type": "number"}, "default": [80, 95]},
        "x": {"type": "array", "items": INPUTS, "description": "The inputs of the steps, if the stream has any."},
        "times": {"type": "array", "items": TIME, "description": "The times of the steps, of a timed stream."},
        "key": KEY,
    },
    ("h",),
)
CREATE = _object(FIELDS, ("name", "target"))
CHALLENGE = _object({name: FIELDS[name] for name in ("name", *CHANGEABLE)}, ("name",))
FORCE = _object(
    {"force": {"type": "boolean", "default": False, "description": "Also if its model is not fitted yet."}}
)
BEGUN = _object(
    {
        "name": {"type": "string"},
        "options": {"type": "object", "description": "All that are not the defaults of its model."},
        "position": {"type": "integer", "description": "Of the log: from there on it gets the rows."},
    },
    ("name", "options", "position"),
)
CHALLENGERS = _object(
    {
        "challengers": {
            "type": "array",
            "items": _object(
                {
                    "name": {"type": "string"},
                    "options": {"type": "object"},
                    "since": POSITION,
                    "state": {"type": "string", "enum": ["warming up", "ready", "failed"]},
                    "failure": {"type": ["string", "null"], "description": "Why it learns no longer."},
                    "behind": {"type": "integer", "description": "Rows that it has still to learn."},
                    "scored_rows": {"type": "integer", "description": "Rows on which it was compared."},
                    "difference": NUMBER
                    | {"description": "Its mean log density less that of the stream's own model."},
                    "low": NUMBER,
                    "high": NUMBER | {"description": "The ends of an interval that holds whenever one looks."},
                    "coverage": {"type": "number"},
                    "verdict": {"type": "string", "enum": ["better", "worse", "undecided"]},
                    "text": {"type": "string", "description": "The verdict in words."},
                    "scores": {"type": ["object", "null"], "description": "Its own, as those of a stream."},
                }
            ),
        },
        "promotion": {"type": ["object", "null"], "description": "The last one: which was promoted, and where."},
        "position": POSITION,
    }
)
PROMOTED = _object({"promoted": {"type": "string"}, "position": POSITION}, ("promoted", "position"))
PREDICTED = _object(
    {
        "rows": {
            "type": "array",
            "items": _object(
                {
                    "id": {"type": ["string", "null"]},
                    "mean": NUMBER,
                    "std": NUMBER,
                    "quantiles": QUANTILES,
                    "label": {"type": "string"},
                    "probabilities": {"type": "object", "additionalProperties": {"type": "number"}},
                    "repeated": {"type": "boolean", "description": "It was learnt before."},
                    "late": {"type": "boolean", "description": "It came before, and too late to be learnt."},
                    "skipped": {"type": "boolean", "description": "It came before, behind the last one of its key."},
                }
            ),
        },
        "position": POSITION,
        "kept": {"type": "boolean", "description": "False: the disk is full, so that no label can be learnt by id."},
    },
    ("rows", "position"),
)
LEARNED = _object(
    {
        "learned": {"type": "integer"},
        "position": POSITION,
        "repeated": {"type": "integer", "description": "Rows that were learnt before with the same label."},
        "late": {"type": "array", "items": {"type": "string"}, "description": "Ids no longer waited for."},
        "skipped": {"type": "integer", "description": "Rows that do not come after the last one of their key."},
    },
    ("learned", "position"),
)
RESTORE = _object(
    {
        "position": {"type": "integer", "minimum": 0, "description": "Of the log; see `checkpoints`."},
        "time": {"type": "string", "description": "An ISO date: what had come by then. In place of a position."},
    },
    (),
)
PROMOTE = _object(
    {
        "force": {
            "type": "boolean",
            "default": False,
            "description": "Also if rows may be lost that only the leader has.",
        }
    }
)
RESTORED = _object(
    {"restored": {"type": "integer", "description": "The position that it went back to."}, "position": POSITION},
    ("restored", "position"),
)
PROBLEM = _object(
    {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was expected, what was given, where, and what to do."},
    },
    ("type", "title", "status", "detail"),
)

EXAMPLES: dict[str, Any] = {
    "create": {"name": "power", "target": "load", "features": ["temp", "wind"], "model": "default", "warmup": 1000},
    "predict": {"rows": [{"id": "r1", "x": {"temp": 21.5, "wind": 3.0}}]},
    "learn": {"rows": [{"id": "r1", "y": 412.0}]},
    "step": {"rows": [{"id": "r2", "x": {"temp": 21.7, "wind": 3.5}, "y": 415.0}]},
    "forecast": {"h": 2, "x": [{"temp": 21.0, "wind": 3.0}, {"temp": 20.5, "wind": 2.5}]},
    "restore": {"position": 1234},
    "promote": {"force": False},
    "challengers": {"name": "lagged", "lags": [1, 2, 24]},
}


def body(schema: Schema, example: str) -> dict[str, Any]:
    """Return what FastAPI adds to a route that reads such a body."""
    content: dict[str, Any] = {"application/json": {"schema": schema, "example": EXAMPLES[example]}}
    if "rows" in schema["properties"]:
        row = schema["properties"]["rows"]["items"]
        content["application/x-ndjson"] = {"schema": row | {"description": "A row in each line."}}
        content["application/vnd.apache.arrow.stream"] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}


def answers(schema: Schema | None = None, status: int = 200, *refusals: int) -> dict[int | str, dict[str, Any]]:
    """Return what FastAPI says of the answers of a route."""
    found: dict[int | str, dict[str, Any]] = {}
    shown = {"type": "object"} if schema is None else schema
    found[status] = {"description": "Done.", "content": {"application/json": {"schema": shown}}}
    for refusal in (400, 401, 403, 404, 413, 415, 422, 429, 503, *refusals):
        found[refusal] = {
            "description": "Refused; nothing was changed.",
            "content": {"application/problem+json": {"schema": PROBLEM}},
        }
    return found
