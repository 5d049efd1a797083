"""Write an example of what each route of the service answers, for its description: real ones, cut short.

python -m benchmarks.pages.service_answers
"""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from streamgp.service.streams import Streams
from streamgp.service.web.app import make_app
from streamgp.service.web.description import ANSWERS
from streamgp.service.web.schemas import EXAMPLES

STREAM = "/v1/streams/{name}"
# Routes in an order in which each has something to say, with what is asked beside the example of its body.
ASKED: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("POST /v1/streams", {"warmup": 50}),
    (f"POST {STREAM}/step", None),
    (f"POST {STREAM}/predict", None),
    (f"GET {STREAM}/pending", None),
    (f"POST {STREAM}/learn", None),
    (f"POST {STREAM}/checkpoint", None),
    (f"GET {STREAM}/checkpoints", None),
    (f"POST {STREAM}/forecast", None),
    (f"GET {STREAM}/scores", None),
    (f"GET {STREAM}/recent", None),
    (f"GET {STREAM}/experts", None),
    (f"GET {STREAM}/alarms", None),
    (f"POST {STREAM}/alarms/{{number}}/acknowledge", None),
    (f"GET {STREAM}", None),
    ("GET /v1/streams", None),
    ("GET /v1/standby", None),
    ("POST /v1/standby/promote", None),
    ("GET /livez", None),
    ("GET /readyz", None),
    (f"GET {STREAM}/keys", None),
    (f"POST {STREAM}/challengers", None),
    (f"GET {STREAM}/challengers", None),
    (f"POST {STREAM}/challengers/{{challenger}}/promote", {"force": True}),
    (f"POST {STREAM}/challengers", None),
    (f"DELETE {STREAM}/challengers/{{challenger}}", None),
    (f"POST {STREAM}/restore", {"position": 0}),
    (f"DELETE {STREAM}", None),
)


def answers() -> dict[str, Any]:
    """Return what each route answers, long lists with their first item alone."""
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore"),
        TestClient(make_app(Streams(Path(folder))), base_url="http://127.0.0.1") as http,
    ):
        for route, more in ASKED:
            method, _, path = route.partition(" ")
            name = "machines" if path.endswith("/keys") else "power"
            example = EXAMPLES.get("create" if path == "/v1/streams" else path.rpartition("/")[2])
            body = None if example is None or method == "GET" else example | (more or {})
            answer = http.request(method, path.format(name=name, number=0, challenger="lagged"), json=body)
            assert answer.is_success, f"{route}: {answer.text}"
            found.setdefault(route, shortened(answer.json()))
            if route == "POST /v1/streams":
                _feed(http)
    return found


def _feed(http: TestClient) -> None:
    """Send rows that change on the way, and make a stream with keys."""
    rng = np.random.default_rng(0)
    temp, wind = rng.normal(20.0, 5.0, 400), rng.gamma(2.0, 2.0, 400)
    load = 300.0 + 5.0 * temp + wind + rng.normal(size=400)
    load[250:] += 80.0
    rows = [
        {"x": {"temp": float(t), "wind": float(w)}, "y": float(y)} for t, w, y in zip(temp, wind, load, strict=True)
    ]
    for first in range(0, 400, 50):
        http.post("/v1/streams/power/step", json={"rows": rows[first : first + 50]})
    http.post(
        "/v1/streams",
        json={"name": "machines", "target": "load", "features": ["temp"], "key": "machine", "warmup": 20},
    )
    keyed = [{"key": f"m{i % 2}", "x": {"temp": row["x"]["temp"]}, "y": row["y"]} for i, row in enumerate(rows[:120])]
    http.post("/v1/streams/machines/step", json={"rows": keyed})


def shortened(value: Any) -> Any:
    """Return an answer with the first item of each list that has more than three, and numbers of six digits."""
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shortened(each) for each in (value if len(value) <= 3 else value[:1])]
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    ANSWERS.write_text(json.dumps(answers(), indent=1) + "\n")
