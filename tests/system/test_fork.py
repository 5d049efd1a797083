"""A process that is forked: it says what to do where its parent computed with JAX, and works where it did not."""

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


def test_a_child_of_a_process_that_computed_says_what_to_do_at_every_door() -> None:
    said = ran("""
model = at_work()
model.predict(X[:5])
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
    "a child of a child": lambda: print(said_in_a_child(lambda: model.predict(X[:5])), file=sys.stderr)
    or model.predict(X[:5]),
}
""")
    assert {name for name, each in said.items() if "spawn or forkserver" not in each} == set(), said
    assert all(each.startswith("RuntimeError: ") for each in said.values()), said


def test_a_child_of_a_process_that_only_imported_works() -> None:
    said = ran("""
model = new()
found = {"fit and predict": lambda: at_work().predict(X[:5]), "partial_fit": lambda: model.partial_fit(X, y)}
""")
    assert set(said.values()) == {"done"}, said


def test_what_needs_no_jax_goes_on_in_a_child() -> None:
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
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            pool.apply_async(means, (X[:3],)).get(20)
        except RuntimeError as error:
            assert "spawn or forkserver" in str(error)
        else:
            raise AssertionError
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.allclose(pool.apply(means, (X[:3],)), expected, rtol=1e-9)
"""


def test_a_pool_of_forked_workers_raises_and_one_of_spawned_workers_works(tmp_path: Path) -> None:
    program = tmp_path / "main.py"
    program.write_text(POOLS)
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=200)
    assert result.returncode == 0, result.stderr
