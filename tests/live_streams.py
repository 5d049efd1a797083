"""Streams of the service in a test: made, asked, stopped at once, and held against models in process."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import numpy as np

from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import labels_by_id, rows_with_inputs

FEATURES = ("a", "b")
SHOWN = ("mean", "std", "q05", "q50", "q95")
PATIENCE = 60.0


def data(rows: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 2) with a gap, and targets (n,) with a jump and a glitch."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=rows)
    y[rows // 2 :] += 0.5
    y[rows // 3] = 40.0
    X[rows // 4, 1] = np.nan
    return X, y


def inputs(x: np.ndarray) -> dict[str, Any]:
    """Return a row's inputs as a client sends them."""
    return {name: None if np.isnan(value) else float(value) for name, value in zip(FEATURES, x, strict=True)}


@contextmanager
def working(directory: Path, **options: Any) -> Iterator[LiveStream]:
    """Yield a stream that is at work, and stop it."""
    stream = started(directory, **options)
    try:
        yield stream
    finally:
        stream.stop()


def started(directory: Path, **options: Any) -> LiveStream:
    """Return a stream that is at work."""
    settings = {"name": "power", "target": "load", "features": FEATURES, "model": "linear", "warmup": 30} | options
    stream = LiveStream(directory, StreamConfig(**settings))
    stream.start()
    end = monotonic() + PATIENCE
    while not stream.is_ready:
        assert monotonic() < end, "the stream was not ready in time"
        sleep(0.005)
    assert stream.failure is None, stream.failure
    return stream


def copied(stream: LiveStream, to: Path) -> Path:
    """Return a copy of its directory, made while it is at work: what a kill would leave."""
    return Path(shutil.copytree(stream.directory, to))


def until_kept_up(stream: LiveStream) -> None:
    """Wait until the log has dropped all that the checkpoints so far have left to be dropped."""
    assert stream.sequencer is not None
    asked = Event()
    stream.sequencer.call(lambda _: asked.set())
    assert asked.wait(PATIENCE)
    end = monotonic() + PATIENCE
    while stream.sequencer._upkeep.wait is not None:
        assert monotonic() < end, "what a checkpoint left to be dropped is still there"
        sleep(0.005)


def predict(stream: LiveStream, rows: list[dict[str, Any]], keep: bool = True) -> list[list[float]]:
    """Predict rows; return what a client sees of each, as numbers."""
    prediction, future, _ = stream.predict(rows_with_inputs(stream.config, rows, with_target=False), keep)
    if future is not None:
        future.result(PATIENCE)
    return numbers(prediction.columns)


def numbers(columns: dict[str, Any]) -> list[list[float]]:
    """Return the moments and quantiles of every row, or the probabilities."""
    if "probabilities" in columns:
        return np.asarray(columns["probabilities"]).tolist()
    return np.column_stack([columns[name] for name in SHOWN]).tolist()


def learn(stream: LiveStream, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Learn labels by id, or rows with their inputs."""
    by_id = [row for row in rows if "x" not in row]
    others = [row for row in rows if "x" in row]
    labels = labels_by_id(stream.config, by_id) if by_id else None
    more = rows_with_inputs(stream.config, others, with_target=True) if others else None
    return stream.learn(more, labels).result(PATIENCE)


def step(stream: LiveStream, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Predict each row, then learn it."""
    return stream.step(rows_with_inputs(stream.config, rows, with_target=True)).result(PATIENCE)


# Kinds of streams whose rows `rows` returns.
KINDS: dict[str, dict[str, Any]] = {
    "single": {"options": {"lags": [1]}},
    "timed": {"timed": True},
    "keys": {"key": "k", "model": "fleet"},
}
X, Y = data(90)


def rows(of: range, options: dict[str, Any], targets: bool = True, wrong: bool = False) -> list[dict[str, Any]]:
    """Return rows of `data`, of a stream with these options, as a client sends them; or with wrong targets."""
    found = []
    for i in of:
        row: dict[str, Any] = {"id": f"r{i}", "x": inputs(X[i])}
        row |= {"key": f"k{i % 3}"} if "key" in options else {}
        row |= {"time": float(i + (1_000 if wrong else 0))} if options.get("timed") else {}
        found.append(row | ({"y": -50.0 if wrong else float(Y[i])} if targets else {}))
    return found


def known(stream: LiveStream, options: dict[str, Any]) -> dict[str, Any]:
    """Return all that can be seen of a stream but for positions of its log and moments."""
    names = ("rows", "learned", "scored_rows", "pending", "warmed_up", "open_alarms", "keys")
    what = stream.settled()
    found = what.recent(2_000, -1, None)
    scores = {name: value for name, value in what.scores().items() if name != "position"}
    gone = ("at",)
    seen = [{k: v for k, v in row.items() if k not in gone} for row in found["rows"] + found["waiting"]]
    status = stream.status()
    return {
        "status": {name: status[name] for name in names},
        "scores": scores,
        "rows": seen,
        "ahead": predict(stream, rows(range(80, 84), options, targets=False), keep=False),
    }


def same(found: Any, expected: Any) -> None:
    """Check that two answers are equal, numbers within rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            same(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    else:
        assert found == expected
