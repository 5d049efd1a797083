"""What challengers of a stream cost: processor time of a row, and how long its answer takes.

    python -m benchmarks.speed.challengers

Rows of 8 inputs are stepped one by one, each after the answer to the one before, in process. A challenger has the
model of the stream, with another seed.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.service import challenging
from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import rows_with_inputs

FEATURES = tuple("abcdefgh")
WARMUP, BEFORE, ROWS = 300, 600, 600


def rows(numbers: range) -> list[dict[str, Any]]:
    """Return rows as a client sends them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(BEFORE + ROWS, len(FEATURES)))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X))
    return [{"x": dict(zip(FEATURES, X[i].tolist(), strict=True)), "y": float(y[i])} for i in numbers]


def measure(model: str, challengers: int) -> tuple[float, float, float]:
    """Return the median and the 95% quantile of an answer's milliseconds, and the processor's for a row."""
    with tempfile.TemporaryDirectory() as folder:
        config = StreamConfig("power", "y", FEATURES, model=model, warmup=WARMUP)
        stream = LiveStream(Path(folder), config)
        stream.start()
        stream.has_begun.wait()
        for i in range(challengers):
            challenging.begin(stream, {"name": f"c{i}", "seed": i + 1}).result()
        stream.step(rows_with_inputs(config, rows(range(BEFORE)), True)).result()
        while stream.knowledge.challengers.has_work:
            time.sleep(0.01)
        took, began = [], time.process_time()
        for row in rows(range(BEFORE, BEFORE + ROWS)):
            asked = time.perf_counter()
            stream.step(rows_with_inputs(config, [row], True)).result()
            took.append(1e3 * (time.perf_counter() - asked))
        while stream.knowledge.challengers.has_work:
            time.sleep(0.01)
        spent = 1e3 * (time.process_time() - began) / ROWS
        stream.stop()
    return float(np.median(took)), float(np.quantile(took, 0.95)), spent


def main() -> None:
    """Measure and print."""
    print("model    challengers  ms: median   95%   processor")
    for model in ("fast", "default"):
        for challengers in (0, 1, 3):
            median, late, spent = measure(model, challengers)
            print(f"{model:8} {challengers:11} {median:11.1f} {late:5.1f} {spent:11.1f}", flush=True)


if __name__ == "__main__":
    main()
