"""JAX is an extra: on a CPU only annexes import it, and a process without it works."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "equinox", "optax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(260, 3))
y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.normal(size=260)
"""
USES = {
    "regressor": """
from streamgp import StreamingGPRegressor
for preset in ("linear", "fast", "default"):
    model = StreamingGPRegressor(preset, warmup=120).partial_fit(X[:200], y[:200])
    for i in range(200, 205):
        model.predict_one(X[i]); model.learn_one(X[i], y[i])
    mean, std = model.predict(X[205:], return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    model.predict_dist(X[205:]).sample(3)
""",
    "horizon, lags": """
from streamgp import StreamingGPRegressor
model = StreamingGPRegressor("fast", warmup=120, horizon=3, lags=[1, 2]).partial_fit(X, y)
assert np.isfinite(model.predict(X[:3])).all()
""",
    "classes": """
from streamgp import StreamingGPClassifier
model = StreamingGPClassifier(warmup=120).partial_fit(X, y > 0)
assert np.allclose(model.predict_proba(X[:5]).sum(1), 1.0)
""",
    "counts": """
from streamgp import StreamingGPCountRegressor
model = StreamingGPCountRegressor(warmup=120).partial_fit(X, rng.poisson(np.exp(0.3 * X[:, 0])))
assert (model.predict(X[:5]) >= 0).all()
""",
    "saving": """
import tempfile, pathlib
from streamgp import StreamingGPRegressor, load
model = StreamingGPRegressor("fast", warmup=120).partial_fit(X, y)
path = pathlib.Path(tempfile.mkdtemp()) / "model"
model.save(path)
np.testing.assert_allclose(load(path).predict(X[:4]), model.predict(X[:4]), rtol=1e-12)
""",
    "evaluate": """
from streamgp import StreamingGPRegressor, evaluate
assert np.isfinite(evaluate(StreamingGPRegressor("fast", warmup=120), X, y).metrics["nmse"])
""",
    "optimiser": """
from streamgp import TimeVaryingOptimizer
optimizer = TimeVaryingOptimizer([(0.0, 1.0)], random_state=0)
for _ in range(12):
    at = optimizer.ask()
    optimizer.tell(at, -((at[0] - 0.3) ** 2))
""",
    "fleet": """
import polars as pl
from streamgp import StreamingGPFleet
rows = pl.DataFrame({"unique_id": ["a", "b"] * 130, "ds": np.repeat(np.arange(130.0), 2), "y": y})
fleet = StreamingGPFleet().partial_fit(rows)
assert fleet.forecast(2).height == 4
""",
    "command": """
import pathlib, tempfile, sys
from streamgp.app.cli import main
folder = pathlib.Path(tempfile.mkdtemp())
np.savetxt(folder / "rows.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
words = f"streamgp run {folder}/rows.csv --target y --model fast --warmup 120 --out {folder}/out"
sys.argv = words.split()
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert (folder / "out" / "predictions.parquet").exists()
""",
    "service": """
import tempfile
from starlette.testclient import TestClient
from streamgp.service.streams import Streams
from streamgp.service.web.app import Limits, make_app
from pathlib import Path
app = make_app(Streams(Path(tempfile.mkdtemp())), None, Limits())
with TestClient(app, base_url="http://localhost") as client:
    stream = {"name": "s", "target": "y", "features": ["a"], "model": "linear", "warmup": 30}
    assert client.post("/v1/streams", json=stream).status_code == 201
    rows = [{"x": {"a": float(x)}, "y": float(t)} for x, t in zip(X[:60, 0], y[:60])]
    assert client.post("/v1/streams/s/step", json={"rows": rows}).status_code == 200
""",
}


# All in one process, as most of the time goes into its beginning.
EVERY = """
import json, traceback
failed = {}
for use, code in USES.items():
    try:
        exec(code, {"np": np, "rng": rng, "X": X, "y": y})
    except Exception:
        failed[use] = traceback.format_exc()
print(json.dumps(failed))
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def failed() -> dict[str, str]:
    """Return what went wrong, by use."""
    uses = {use: code for use, code in USES.items() if use != "service" or find_spec("fastapi")}
    result = run(f"{BLOCKED}\nUSES = {uses!r}{EVERY}")
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("use", USES)
def test_it_works_without_jax(use: str, failed: dict[str, str]) -> None:
    assert use not in failed, failed[use]


def test_what_needs_jax_says_how_to_get_it() -> None:
    result = run(BLOCKED + "from streamgp import StreamingGPRegressor as R; R('sfg-mkl', warmup=50).fit(X, y)")
    assert result.returncode
    assert result.stderr.strip().splitlines()[-1].endswith('pip install "streamgp[gpu]"')
