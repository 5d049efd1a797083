"""Many streams in one process: memory, threads and files of each, how long a step takes, a restart, `/metrics`.

    python -m benchmarks.robustness.service_streams --streams 500 --out benchmarks/results/service_streams.json

Streams of 4 inputs are made one after the other, each past its warm-up. Then rows are stepped one at a time, to each
stream in turn, and at last the service is killed and begun again. A row that comes to a stream now and then is scored
by itself, and has its stream write a checkpoint: the step of a row takes more of the processor than where rows follow
each other.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

from benchmarks.common import campaigns
from benchmarks.common.serving import Changes, Server
from streamgp.client import Client

FEATURES = ["a", "b", "c", "d"]
OPTIONS: dict[str, Any] = {"target": "y", "features": FEATURES, "model": "linear", "warmup": 50}
BEFORE = 60  # rows of each stream, which end its warm-up
TURNS = 4  # rows of each stream that are timed
PATIENCE = 600.0  # seconds for a restart


def rows(n: int, seed: int) -> tuple[list[dict[str, float]], list[float]]:
    """Return inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(FEATURES)))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)
    return [dict(zip(FEATURES, x, strict=True)) for x in X.tolist()], y.tolist()


def taken(server: Server) -> dict[str, float]:
    """Return what the process takes of the machine."""
    process = Path(f"/proc/{server.process.pid}")
    threads, files = (len(list((process / name).iterdir())) for name in ("task", "fd"))
    return {"memory_mb": server.memory_mb(), "threads": threads, "files": files}


def timed(server: Server, client: Client, numbers: range, turns: range) -> dict[str, float]:
    """Step rows of each stream in turn; return what one took in milliseconds, of the clock and of the processor."""
    took, before = [], server.cpu_seconds()
    for turn in turns:
        for i in numbers:
            x, y = rows(1, 1_000 * turn + i)
            began = time.perf_counter()
            client.stream(f"s{i}").step(x[0], y[0])
            took.append(1e3 * (time.perf_counter() - began))
    clock = {name: round(float(np.quantile(took, share)), 2) for name, share in {"p50": 0.5, "p99": 0.99}.items()}
    return clock | {"processor": round(1e3 * (server.cpu_seconds() - before) / len(took), 2)}


def ready(server: Server) -> float:
    """Return the seconds until all streams are restored."""
    began = time.monotonic()
    server.start(Changes(quick=False))
    if not server.wait(PATIENCE):
        raise RuntimeError(server.said())
    return round(time.monotonic() - began, 1)


def campaign(streams: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Make so many streams, or those of so many minutes; what they take."""
    began, failures = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "live", Path(folder) / "cache")
        ready(server)
        with Client(server.url, timeout=PATIENCE) as client:
            empty, made = taken(server), 0
            while made < streams and time.monotonic() - began < 60.0 * minutes:
                client.create(f"s{made}", **OPTIONS).step(*rows(BEFORE, seed + made))
                made += 1
                if made == 1:
                    alone = timed(server, client, range(1), range(500))
            full, all_of_them = taken(server), timed(server, client, range(made), range(TURNS))
        with httpx.Client(timeout=PATIENCE) as http:
            asked = time.perf_counter()
            metrics = http.get(f"{server.url}/metrics")
            metrics_seconds = time.perf_counter() - asked
        after = taken(server)
        server.kill()
        restart = ready(server)
        with Client(server.url, timeout=PATIENCE) as client:
            expected = BEFORE + TURNS
            for i in range(1, made):
                learned = client.stream(f"s{i}").status()["learned"]
                failures += [] if learned == expected else [f"s{i}: expected {expected} rows, got {learned}"]
        server.stop()
    if made < streams:
        failures.append(f"{made} streams of {streams} in {minutes:g} minutes")
    return {
        "streams": made,
        "a_stream": {name: round((full[name] - empty[name]) / made, 2) for name in full},
        "in_all": {name: round(value) for name, value in after.items()},
        "step_milliseconds": {"one stream": alone, f"{made} streams": all_of_them},
        "metrics_kilobytes": round(len(metrics.content) / 1e3),
        "metrics_seconds": round(metrics_seconds, 2),
        "restart_seconds": restart,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "streams", 500, campaign)


if __name__ == "__main__":
    main()
