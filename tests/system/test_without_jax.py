"""JAX is an extra: on a CPU only annexes import it, and a process without it works."""

import os
import subprocess
import sys
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
    "horizon, lags, late labels": """
from streamgp import StreamingGPRegressor
model = StreamingGPRegressor("fast", warmup=120, horizon=3, lags=2).partial_fit(X, y)
assert np.isfinite(model.forecast(2)).all() if hasattr(model, "forecast") else True
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
from streamgp import evaluate
assert evaluate(X, y, model="fast", warmup=120).summary() is not None
""",
    "optimiser": """
from streamgp import GPOptimizer
""",
}


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("use", USES)
def test_it_works_without_jax(use: str) -> None:
    result = run(BLOCKED + USES[use])
    assert result.returncode == 0, result.stderr[-3000:]
