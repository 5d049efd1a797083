"""A process that is forked: it works, and says what to do where its parent computed with JAX."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

SECONDS = 20  # that a child may take, which needs one
FRAME = """
import json, os, sys, time, warnings

import numpy as np
import polars as pl

from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate, load

warnings.simplefilter("ignore")  # JAX and Python warn of every fork
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
y = X @ [1.0, 2.0] + 0.1 * rng.normal(size=120)
frame = pl.DataFrame({"key": [f"k{i % 3}" for i in range(120)], "a": X[:, 0], "y": y})


def new():
    return StreamingGPRegressor("linear", warmup=40)


def at_work():
    return new().partial_fit(X, y)


def said_in_a_child(work):
    came, sent = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            said = "done"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(sent, said.encode())
        os._exit(0)
    os.close(sent)
    end = time.monotonic() + SECONDS
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return "hangs"
        time.sleep(0.02)
    return os.read(came, 65536).decode()


found = {}
PROGRAM
print(json.dumps({name: said_in_a_child(work) for name, work in found.items()}))
"""


def ran(program: str) -> dict[str, str]:
    """Return what children of a program that has `found` doors say, each of one door."""
    code = FRAME.replace("SECONDS", str(SECONDS)).replace("PROGRAM", program)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_child_of_a_process_that_computed_works_at_every_door() -> None:
    said = ran("""
model = at_work()
expected = model.predict(X[:5])
many = StreamingGPRegressor("fast", warmup=40).partial_fit(X, y)
found = {
    "predict": lambda: model.predict(X[:5]),
    "predict_quantiles": lambda: model.predict_quantiles(X[:5], [0.1]),
    "sample": lambda: model.sample(X[:5], 3),
    "log_density": lambda: model.log_density(X[:5], y[:5]),
    "partial_fit": lambda: model.partial_fit(X, y),
    "fit": lambda: new().fit(X, y),
    "evaluate": lambda: evaluate(new(), X, y),
    "predict_one": lambda: model.predict_one(X[0]),
    "forecast": lambda: model.forecast(2, X_future=X[:2]),
    "the same numbers": lambda: np.testing.assert_array_equal(model.predict(X[:5]), expected),
    "many experts": lambda: many.partial_fit(X, y).predict(X[:5]),
    "a child of a child": lambda: print(said_in_a_child(lambda: model.predict(X[:5])), file=sys.stderr)
    or model.predict(X[:5]),
}
""")
    assert set(said.values()) == {"done"}, said


def test_a_child_of_a_process_that_computed_with_jax_says_what_to_do() -> None:
    said = ran("""
model = StreamingGPRegressor("raker", warmup=40).partial_fit(X, y)
model.predict(X[:5])
found = {"predict": lambda: model.predict(X[:5]), "partial_fit": lambda: model.partial_fit(X, y)}
""")
    assert all(each.startswith("RuntimeError: ") and "spawn or forkserver" in each for each in said.values()), said


def test_a_child_of_a_process_that_only_imported_works() -> None:
    said = ran("""
model = new()
found = {"fit and predict": lambda: at_work().predict(X[:5]), "partial_fit": lambda: model.partial_fit(X, y)}
""")
    assert set(said.values()) == {"done"}, said


def test_fleets_go_on_in_a_child() -> None:
    said = ran("""
import tempfile
at_work().predict(X[:5])
ahead = frame.group_by("key", maintain_order=True).head(2).drop("y")
fleet = StreamingGPFleet("key", None, "y", warmup=30)
fleet.partial_fit(frame)
place = tempfile.mkdtemp()
fleet.save(place + "/fleet")
expected = fleet.predict(frame.head(6))["mean"].to_list()


def same():
    assert fleet.predict(frame.head(6))["mean"].to_list() == expected
    loaded = load(place + "/fleet")
    assert loaded.predict(frame.head(6))["mean"].to_list() == expected
    loaded.partial_fit(frame)
    loaded.save(place + "/again")
    loaded.forecast(2, X_future=ahead)
    loaded.scores()
    loaded.evaluate(frame)


found = {"a fleet": same, "a new fleet": lambda: StreamingGPFleet("key", None, "y", warmup=30).partial_fit(frame)}
""")
    assert set(said.values()) == {"done"}, said


POOLS = """
import multiprocessing, warnings
import numpy as np
from streamgp import StreamingGPRegressor
X = np.random.default_rng(0).normal(size=(80, 2))
model = StreamingGPRegressor("linear", warmup=40)
def means(rows):
    return StreamingGPRegressor("linear", warmup=40).partial_fit(X, X[:, 0]).predict(rows).tolist()
if __name__ == "__main__":
    expected = means(X[:3])
    warnings.simplefilter("ignore")
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            assert np.allclose(pool.apply_async(means, (X[:3],)).get(60), expected, rtol=1e-9)
"""


def test_pools_of_forked_and_of_spawned_workers_work(tmp_path: Path) -> None:
    program = tmp_path / "main.py"
    program.write_text(POOLS)
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=200)
    assert result.returncode == 0, result.stderr
