"""The live service under load over loopback: single rows, batches, a fleet, the cost of syncing, memory.

    python -m benchmarks.speed.service --out benchmarks/results/service_speed.json [--only single,batches]

The service is a process, its clients are another one. Before anything is timed the stream is past its warm-up and all
that is asked for has been asked for once. As under the command, JAX is not loaded. A request of a single row predicts
it, writes it to disk, waits for the disk, learns it and answers; 8 clients each wait for their own answer. Beside the
figures stands the rate at which the machine multiplies matrices while nothing else runs, before and after.
"""

import argparse
import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.common.matrices import matrix_products
from benchmarks.common.measure import in_fresh_process, in_turn
from benchmarks.common.serving import Changes, Server

PARTS = ("single", "syncing", "batches", "fleet", "memory")
MODELS = ("fast", "linear", "default")
INPUTS = 8
# The seconds for which single rows are sent.
SECONDS = 4.0
WARMUP = 1_000
BATCH, BATCHES = 1_000, {"linear": 20, "fast": 12, "default": 3}
KEYS, FLEET_ROWS, FLEET_REQUESTS = 10_000, 5_000, 8
MEMORY_ROWS, MEMORY_BATCH = 1_000_000, 2_000
TYPES = {
    "JSON": "application/json",
    "NDJSON": "application/x-ndjson",
    "Arrow": "application/vnd.apache.arrow.stream",
}
TARGETS = {
    "fast, single rows a second": 500.0,
    "fast, p99 in ms": 50.0,
    "fast, single rows a second, 8 clients": 500.0,
    "fast, p99 in ms, 8 clients": 50.0,
    "fast, rows a second in batches": 20_000.0,
    "default, single rows a second": 100.0,
    "default, single rows a second, 8 clients": 100.0,
    "fleet, rows a second": 10_000.0,
}


def frame(n: int, seed: int) -> pl.DataFrame:
    """Return rows with inputs and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, INPUTS))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    return pl.DataFrame({f"x{j}": X[:, j] for j in range(INPUTS)}).with_columns(y=pl.Series(y))


def as_objects(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows as the service takes them in JSON."""
    plain = [name for name in rows.columns if name in ("id", "key", "time", "y")]
    inputs = rows.drop(plain).to_dicts()
    return [row | {"x": x} for row, x in zip(rows.select(plain).to_dicts(), inputs, strict=True)]


def body(rows: pl.DataFrame, form: str) -> bytes:
    """Return the body of a request with these rows."""
    if form == "Arrow":
        out = BytesIO()
        rows.write_ipc_stream(out)
        return out.getvalue()
    objects = as_objects(rows)
    if form == "NDJSON":
        return "".join(json.dumps(row) + "\n" for row in objects).encode()
    return json.dumps({"rows": objects}).encode()


class Connection:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self._http.connect()
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, data: bytes, form: str = "JSON") -> bytes:
        """Send a body and return that of the answer."""
        self._http.request("POST", path, data, {"Content-Type": TYPES[form], "Accept": TYPES[form]})
        answer = self._http.getresponse()
        found = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status}: {found[:300]!r}")
        return found

    def get(self, path: str) -> dict[str, Any]:
        """Return a document."""
        self._http.request("GET", path)
        return json.loads(self._http.getresponse().read())


# In the clients' process


def singles(port: int, path: str, clients: int, seconds: float, seed: int) -> dict[str, float]:
    """Send single rows for so many seconds, each client its own; the rate, and how long an answer took."""
    bodies = [
        [json.dumps({"rows": [row]}).encode() for row in as_objects(frame(500, seed + i))] for i in range(clients)
    ]
    took: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + seconds

    def work(i: int) -> None:
        connection, sent = Connection(port), 0
        while (began := time.perf_counter()) < until:
            connection.post(path, bodies[i][sent % 500])
            took[i].append(time.perf_counter() - began)
            sent += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = np.array([each for own in took for each in own])
    quantiles = dict(zip(("p50_ms", "p99_ms"), (1e3 * np.quantile(whole, [0.5, 0.99])).tolist(), strict=True))
    return (
        {"rows": len(whole), "a_second": len(whole) / seconds} | quantiles | {"largest_ms": 1e3 * float(whole.max())}
    )


def batches(port: int, path: str, form: str, bodies: Sequence[bytes], rows: int) -> dict[str, float]:
    """Send bodies one after the other; rows a second, and how long an answer took."""
    connection, took = Connection(port), []
    for each in bodies:
        began = time.perf_counter()
        connection.post(path, each, form)
        took.append(time.perf_counter() - began)
    return {
        "rows": rows * len(bodies),
        "rows_a_second": rows * len(bodies) / sum(took),
        "median_ms": 1e3 * float(np.median(took)),
    }


# The service


class Load:
    """A service in a temporary directory, with streams as they are asked for."""

    def __init__(self, folder: Path, changes: Changes | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.server = Server(folder / "live", folder / "cache")
        self.server.start(Changes(quick=False) if changes is None else changes)
        if not self.server.wait():
            raise RuntimeError(self.server.said())

    def stream(self, name: str, **options: Any) -> str:
        """Create a stream and take it past its warm-up; return its path."""
        features = [f"x{j}" for j in range(INPUTS)]
        document = {"name": name, "target": "y", "features": features, "warmup": WARMUP} | options
        connection = Connection(self.server.port)
        connection.post("/v1/streams", json.dumps(document).encode())
        path = f"/v1/streams/{name}"
        if "key" not in options:
            # Compilation may take longer than the client waits.
            with suppress(RuntimeError):
                connection.post(f"{path}/step", body(frame(WARMUP + BATCH, 0), "Arrow"), "Arrow")
            while connection.get(path)["learned"] < WARMUP + BATCH:
                time.sleep(0.2)
        return path

    def of(self, work: Callable[..., dict[str, float]], path: str, *args: Any) -> dict[str, float]:
        """Have clients do something in a process of their own; add the service's processor time for a row."""
        before = self.server.cpu_seconds()
        found = in_fresh_process(work, self.server.port, path, *args)
        rows = found.pop("rows")
        return found | {"cpu_us_a_row": 1e6 * (self.server.cpu_seconds() - before) / rows}


def single(folder: Path, models: Sequence[str] = MODELS, changes: Changes | None = None) -> dict[str, Any]:
    """Time single rows of one client and of eight."""
    load, found = Load(folder, changes), {}
    for model in models:
        path = load.stream(f"single-{model}", model=model) + "/step"
        load.of(singles, path, 8, 2.0, 100)
        found[model] = {
            f"{clients} clients": load.of(singles, path, clients, SECONDS, 200 + clients) for clients in (1, 8)
        }
        print(model, json.dumps(found[model]), flush=True)
    load.server.stop()
    return found


def syncing(folder: Path) -> dict[str, Any]:
    """Time single rows with and without waiting for the disk."""
    found = {}
    for name, synchronous in (("synced", True), ("not synced", False)):
        found[name] = single(folder / name, ("linear",), Changes(quick=False, synchronous=synchronous))["linear"]
    each: Any = {n: found["not synced"][n]["a_second"] / found["synced"][n]["a_second"] for n in found["synced"]}
    return found | {"ratio": each}


def in_batches(folder: Path, models: Sequence[str] = MODELS) -> dict[str, Any]:
    """Time requests of many rows in each form."""
    load, found = Load(folder), {}
    for model in models:
        path, found[model] = load.stream(f"batches-{model}", model=model) + "/step", {}
        for form in TYPES:
            bodies = [body(frame(BATCH, 10 + i), form) for i in range(BATCHES[model])]
            batches(load.server.port, path, form, bodies[:3], BATCH)
            found[model][form] = load.of(batches, path, form, bodies, BATCH)
        print(model, json.dumps(found[model]), flush=True)
    load.server.stop()
    return found


def fleet(folder: Path) -> dict[str, Any]:
    """Time one row of each of many keys, half of the keys in a request."""
    load, found = Load(folder), {}
    path = load.stream("fleet", key="key") + "/step"
    for form in TYPES:
        bodies = []
        for i in range(FLEET_REQUESTS):
            keys = [f"k{(i * FLEET_ROWS + j) % KEYS}" for j in range(FLEET_ROWS)]
            bodies.append(body(frame(FLEET_ROWS, i).with_columns(key=pl.Series(keys)), form))
        batches(load.server.port, path, form, bodies[:4], FLEET_ROWS)
        found[form] = load.of(batches, path, form, bodies, FLEET_ROWS)
        print("fleet", form, json.dumps(found[form]), flush=True)
    load.server.stop()
    return found


def memory(folder: Path) -> dict[str, Any]:
    """Return the service's memory as rows come, which shall not grow with them."""
    load = Load(folder)
    path, connection, found = load.stream("memory", model="linear") + "/step", Connection(load.server.port), {}
    for sent in range(0, MEMORY_ROWS, MEMORY_BATCH):
        names = pl.Series([f"r{sent + i}" for i in range(MEMORY_BATCH)])
        connection.post(path, body(frame(MEMORY_BATCH, sent).with_columns(id=names), "Arrow"), "Arrow")
        if (sent + MEMORY_BATCH) % 100_000 == 0:
            found[str(sent + MEMORY_BATCH)] = round(load.server.memory_mb(), 1)
    load.server.stop()
    return found


def matrix_gflops() -> float:
    """Return the machine's rate at the size that it is best at."""
    jobs, flops = matrix_products()
    seconds = in_turn(jobs, 5)
    return 1e-9 * max(flops[name] / min(each) for name, each in seconds.items())


def table(found: dict[str, Any]) -> str:
    """Return the figures in short, with how far they are from what is aimed at."""
    lines = [f"matrix products: {' and '.join(f'{each:.0f}' for each in found['matrix_gflops'])} GFLOP/s"]
    for model, each in found.get("single", {}).items():
        for clients, figures in each.items():
            at = f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms"
            each_row = f"{figures['a_second']:.0f} a second, {figures['cpu_us_a_row']:.0f} us of processor time each"
            lines.append(f"single rows, {model}, {clients}: {each_row}; {at}")
    for name, ratio in found.get("syncing", {}).get("ratio", {}).items():
        lines.append(f"without waiting for the disk, {name}: {ratio:.2f} times as many")
    for model, each in (found.get("batches", {}) | {"fleet": found.get("fleet", {})}).items():
        for form, figures in each.items():
            each_row = (
                f"{figures['rows_a_second']:.0f} a second, {figures['cpu_us_a_row']:.0f} us of processor time each"
            )
            lines.append(f"rows in batches, {model}, {form}: {each_row}")
    if "memory" in found:
        lines.append(f"memory in MiB by rows: {found['memory']}")
    for name, ratio in found["of_target"].items():
        lines.append(f"{name}: {ratio:.2f} of {TARGETS[name]:g}")
    return "\n".join(lines)


def of_target(found: dict[str, Any]) -> dict[str, float]:
    """Return the figures over those that are aimed at."""
    each: dict[str, float] = {}
    for model in ("fast", "default"):
        for clients, figures in found.get("single", {}).get(model, {}).items():
            of = "" if clients == "1 clients" else f", {clients}"
            each[f"{model}, single rows a second{of}"] = figures["a_second"]
            each[f"{model}, p99 in ms{of}"] = figures["p99_ms"]
    for name, forms in (("fast, rows a second in batches", found.get("batches", {}).get("fast")),):
        if forms:
            each[name] = max(figures["rows_a_second"] for figures in forms.values())
    if found.get("fleet"):
        each["fleet, rows a second"] = max(figures["rows_a_second"] for figures in found["fleet"].values())
    return {name: value / TARGETS[name] for name, value in each.items() if name in TARGETS}


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--models", default=",".join(MODELS), help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    models = tuple(args.models.split(","))
    jobs = {
        "single": partial(single, models=models),
        "syncing": syncing,
        "batches": partial(in_batches, models=models),
        "fleet": fleet,
        "memory": memory,
    }
    rate, found = matrix_gflops(), {}
    for part in args.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found[part] = jobs[part](Path(folder))
    found["matrix_gflops"] = [rate, matrix_gflops()]
    found["of_target"] = of_target(found)
    if args.out is not None:
        from benchmarks.common.machine import machine

        args.out.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
