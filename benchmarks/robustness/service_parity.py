"""The service beside the same model in process: 5,000 rows, predicted, learnt late, stepped, all mixed.

``python -m benchmarks.robustness.service_parity`` sends the rows over HTTP (JSON, to the application in this
process), does the same with an estimator, and prints the largest relative difference of what both predicted: a single
model, a classifier and a fleet. It writes ``results/service_parity.json``.
"""

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from starlette.testclient import TestClient

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, StreamingGPFleet, StreamingGPRegressor
from streamgp.service.streams import Streams
from streamgp.service.web.app import make_app

RESULTS = RESULTS_DIR / "service_parity.json"
FEATURES = ["a", "b", "c"]
WARMUP = 300
QUANTILES = [0.05, 0.5, 0.95]


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs with gaps, and targets that jump, with glitches."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=rows) + 1.0 * (np.arange(rows) > rows // 2)
    y[rng.random(rows) < 0.005] += 30.0
    X[rng.random(X.shape) < 0.01] = np.nan
    return X, y


def row(x: np.ndarray) -> dict[str, Any]:
    """Return inputs as JSON has them."""
    return {name: None if np.isnan(value) else value for name, value in zip(FEATURES, x.tolist(), strict=True)}


def shown(answer: dict[str, Any]) -> list[float]:
    """Return the numbers of an answer."""
    if "probabilities" in answer:
        return list(answer["probabilities"].values())
    return [answer["mean"], answer["std"], *answer["quantiles"].values()]


class Estimator:
    """The same in process."""

    def __init__(self, model: Any, labels: list[str]) -> None:
        self.model, self.tokens = model, {}
        more = {"classes": labels} if labels else {}
        model._start(model._prepare(np.zeros((1, 3)), labels[:1] or [0.0], None, True, **more), WARMUP)

    def ahead(self, x: np.ndarray) -> list[float]:
        """Return what is predicted of a row."""
        if isinstance(self.model, StreamingGPClassifier):
            return self.model.predict_proba(x[None])[0].tolist()
        found = self.model.predict_dist(x[None])
        return [found.mean[0], found.std[0], *found.quantile(QUANTILES)[0]]


def single(client: TestClient, task: str, model: str, rows: int) -> float:
    """Return the largest difference for one model."""
    X, numbers = data(rows)
    labels = ["hi", "lo"] if task == "classification" else []
    y: list[Any] = np.where(numbers > 0.3, "hi", "lo").tolist() if labels else numbers.tolist()
    make = StreamingGPClassifier if labels else StreamingGPRegressor
    other = Estimator(make(model, warmup=WARMUP), labels)
    stream = {"name": f"{task}-{model}", "target": "y", "features": FEATURES, "model": model, "warmup": WARMUP}
    client.post("/v1/streams", json=stream | {"task": task, "classes": labels}).raise_for_status()
    path = f"/v1/streams/{stream['name']}"

    def ask(what: str, given: list[dict[str, Any]]) -> Any:
        answer = client.post(f"{path}/{what}", json={"rows": given})
        answer.raise_for_status()
        return answer.json()

    rng = np.random.default_rng(1)
    found, expected, waiting, at = [], [], [], 0
    while at < rows:
        kind = rng.random()
        n = 1 if kind < 0.5 else min(int(rng.integers(2, 90)), rows - at)
        if kind < 0.3 or (0.5 < kind < 0.55):
            n = min(n, 20)
            answer = ask("predict", [{"id": f"r{i}", "x": row(X[i])} for i in range(at, at + n)])
            for i, each in zip(range(at, at + n), answer["rows"], strict=True):
                found.append(shown(each))
                expected.append(other.ahead(X[i]))
                other.tokens[i] = other.model.predict_later(X[i])
                waiting.append(i)
        else:
            given = [{"id": f"r{i}", "x": row(X[i]), "y": y[i]} for i in range(at, at + n)]
            answer = ask("step", given)
            for i, each in zip(range(at, at + n), answer["rows"], strict=True):
                found.append(shown(each))
                expected.append(other.ahead(X[i]))
                other.model.partial_fit(X[i : i + 1], [y[i]])
        at += n
        while waiting and rng.random() < 0.6:
            few = [waiting.pop(int(rng.integers(len(waiting)))) for _ in range(min(len(waiting), 4))]
            ask("learn", [{"id": f"r{i}", "y": y[i]} for i in few])
            for i in few:
                other.model.learn_later(other.tokens.pop(i), y[i])
    return difference(found, expected)


def keyed(client: TestClient, rows: int) -> float:
    """Return the largest difference for a fleet of 50 keys."""
    X, y = data(rows)
    keys = [f"key {k}" for k in np.random.default_rng(2).integers(0, 50, rows)]
    fleet = StreamingGPFleet("sensor", None, "y", warmup=WARMUP)
    stream = {"name": "fleet", "target": "y", "features": FEATURES, "key": "sensor", "warmup": WARMUP}
    client.post("/v1/streams", json=stream).raise_for_status()
    found, expected = [], []
    for at in range(0, rows, 50):
        part = slice(at, at + 50)
        given = [{"id": f"r{i}", "key": keys[i], "x": row(X[i])} for i in range(at, min(at + 50, rows))]
        frame = pl.DataFrame({"sensor": keys[part], **dict(zip(FEATURES, X[part].T, strict=True)), "y": y[part]})
        if at // 50 % 2:
            answer = client.post("/v1/streams/fleet/predict", json={"rows": given})
            labels = [{"id": f"r{i}", "y": y[i]} for i in range(at, min(at + 50, rows))]
            client.post("/v1/streams/fleet/learn", json={"rows": labels}).raise_for_status()
            theirs = fleet.predict(frame.drop("y"))
            fleet.partial_fit(frame)
        else:
            given = [each | {"y": y[at + i]} for i, each in enumerate(given)]
            answer = client.post("/v1/streams/fleet/step", json={"rows": given})
            theirs = fleet.evaluate(frame).frame
        answer.raise_for_status()
        found += [shown(each) for each in answer.json()["rows"]]
        expected += theirs.select("mean", "std", "q05", "q50", "q95").rows()
    return difference(found, expected)


def difference(found: Any, expected: Any) -> float:
    """Return the largest difference, relative to the number, or to 1 where that is smaller in size than 1e-3."""
    a, b = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return float(np.max(np.abs(a - b) / np.where(np.abs(b) < 1e-3, 1.0, np.abs(b))))


def main(rows: Annotated[int, typer.Option(help="Rows of each stream.")] = 5_000) -> None:
    """Run all, print and store the differences."""
    with (
        tempfile.TemporaryDirectory() as directory,
        TestClient(make_app(Streams(Path(directory))), base_url="http://localhost") as client,
    ):
        cases = {
            "linear": lambda: single(client, "regression", "linear", rows),
            "fast": lambda: single(client, "regression", "fast", rows),
            "classifier, linear": lambda: single(client, "classification", "linear", rows),
            "fleet of 50 keys": lambda: keyed(client, rows),
        }
        worst = {}
        for name, case in cases.items():
            worst[name] = case()
            print(f"{name}: {worst[name]:.1e}", flush=True)
    stored = {"machine": machine(), "rows": rows, "largest_relative_difference": worst}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
