"""The description of the service in OpenAPI: its routes as FastAPI knows them, whom each lets in, what it answers."""

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from streamgp.service.web.access import ALL, ANY, OPEN, ROUTES

# Real answers, cut short; `benchmarks/pages/service_answers.py` writes them.
ANSWERS = Path(__file__).with_name("answers.json")
# What a caller needs, in words; of a stream the role is on that stream.
NEEDS = {
    OPEN: "no token",
    ANY: "any token",
    ALL: "admin on all streams (admin:*)",
    "read": "read on the stream",
    "write": "write on the stream",
    "admin": "admin on the stream",
}
# What is in an address.
PARAMETERS = {
    "name": "Of the stream.",
    "number": "Of the alarm, from 0 on.",
    "challenger": "The name of the challenger.",
    "rows": "At most so many of the latest, 1 to 2,000.",
    "after": "Only rows with a number above this one.",
    "key": "Only rows of this key.",
    "limit": "At most so many.",
    "offset": "So many are left out first.",
    "search": "Only keys with this text in them.",
    "sort": "What comes first: `worst`, `name` or `last`.",
}
# Texts that are no JSON.
_TEXTS = {
    "GET /metrics": ("text/plain", 'streamgp_pending{stream="power"} 2.0\n'),
    "GET /v1/streams/{name}/events": (
        "text/event-stream",
        'event: alarm\ndata: {"number": 0, "kind": "level", "row": 255, "sentence": "the level moved"}\n\n',
    ),
}


class DescribedApp(FastAPI):
    """FastAPI's application, whose description says more of each route."""

    def openapi(self) -> dict[str, Any]:
        """Return the description."""
        if self.openapi_schema is None:
            found = super().openapi()
            found.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
            for path, methods in found["paths"].items():
                for method, operation in methods.items():
                    route = f"{method.upper()} {path}"
                    _add(operation, ROUTES[route], answers.get(route), _TEXTS.get(route))
        assert self.openapi_schema is not None
        return self.openapi_schema


def _add(operation: dict[str, Any], need: str, answer: Any, text: tuple[str, str] | None) -> None:
    """Say of a route what it needs, and give an example of its answer."""
    operation["x-needs"] = NEEDS[need]
    operation["security"] = [] if need == OPEN else [{"token": []}]
    for parameter in operation.get("parameters", ()):
        parameter["description"] = PARAMETERS[parameter["name"]]
    done = next(each for status, each in operation["responses"].items() if status.startswith("2"))
    if text is not None:
        done["content"] = {text[0]: {"schema": {"type": "string"}, "example": text[1]}}
    else:
        done["content"]["application/json"]["example"] = answer
