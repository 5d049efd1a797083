"""What is not needed is not imported: by the command to print its help, by Python for an estimator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
HELP = "import sys; from streamgp.app.cli import main; sys.argv = ['streamgp', 'run', '--help']; "
HEAVY = ("jax", "jaxtyping", "equinox", "polars", "numpy", "scipy", "sklearn", "matplotlib")
AT_MOST = 0.5  # seconds
MODULES = 900  # with all that NumPy and SciPy import: some 830
# What only some uses need, and what takes long.
RARE = (
    "streamgp.reports.run_page",
    "streamgp.table.readers",
    *[
        "polars",
        "rich",
        "matplotlib",
        "jinja2",
        "jax",
        "equinox",
        "pandas",
        "sklearn",
        "typer",
        "river",
        "statsforecast",
        "sktime",
    ],
    *["scipy.signal", "scipy.optimize", "scipy.stats"],
)


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_help_imports_nothing_heavy() -> None:
    report = f"try: main()\nfinally: print('imported:', *(set({HEAVY!r}) & set(sys.modules)))"
    result = run(f"{HELP.replace('--help', '--help-all')}\n{report}")
    assert result.returncode == 0, result.stderr
    assert "--features-per-basis" in result.stdout
    assert result.stdout.splitlines()[-1] == "imported:"


def test_estimators_import_nothing_that_only_some_uses_need() -> None:
    names = "StreamingGPRegressor, StreamingGPClassifier, evaluate"
    result = run(f"import sys; from streamgp import {names}; print('imported:', *(set({RARE!r}) & set(sys.modules)))")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "imported:"


def test_scores_of_arrays_come_without_the_learner() -> None:
    result = run("import sys; from streamgp.evaluation import metrics; print('streamgp.stream' in sys.modules)")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "False"


def test_an_estimator_imports_few_modules() -> None:
    result = run("import sys; from streamgp import StreamingGPRegressor; print(len(sys.modules))")
    assert int(result.stdout) <= MODULES, result.stderr


def test_imports_hardly_look_for_garbage() -> None:
    count = "sum(each['collections'] for each in gc.get_stats())"
    told = f"print({count} - before, gc.isenabled())"
    result = run(f"import gc, streamgp; before = {count}; from streamgp import evaluate; {told}")
    times, collects = result.stdout.split()
    assert int(times) < 30, "some 190 otherwise"
    assert collects == "True"


def test_a_linear_model_learns_without_scikit_learn() -> None:
    code = """
import sys
import numpy as np
from streamgp import StreamingGPRegressor
X = np.random.default_rng(0).normal(size=(80, 2))
StreamingGPRegressor("linear", warmup=40).partial_fit(X, X[:, 0]).predict(X)
print("imported:", *({"sklearn", "scipy.stats", "pandas"} & set(sys.modules)))
"""
    result = run(code)
    assert result.stdout.splitlines()[-1] == "imported:", result.stderr


def test_the_package_alone_imports_nothing_heavy() -> None:
    result = run(f"import sys, streamgp; print('imported:', *(set({HEAVY!r}) & set(sys.modules)))")
    assert result.stdout.splitlines()[-1] == "imported:", result.stderr


def test_help_takes_less_than_half_a_second() -> None:
    """In time of the processor: on a busy machine a process waits for its turn."""
    best = float("inf")
    for _ in range(5):
        before = os.times()
        result = run(f"{HELP}main()")
        after = os.times()
        assert result.returncode == 0, result.stderr
        spent = after.children_user - before.children_user + after.children_system - before.children_system
        best = min(best, spent)
        if best < AT_MOST:
            break
    assert best < AT_MOST
