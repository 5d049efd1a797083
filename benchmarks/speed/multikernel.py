"""Online learners of many kernels: rows a second.

``python -m benchmarks.speed.multikernel`` writes the part ``speed`` of ``results/multikernel.json``;
``python -m benchmarks.pages.multikernel`` renders the table of docs/research/multikernel.md.
"""

import json
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp.numerics import keys
from streamgp.research.annex import SFG_MKL_DICTIONARY
from streamgp.research.multikernel import (
    OMKLGF,
    OMKR,
    SFG,
    AdaRaker,
    FeedbackGraph,
    MultiKernel,
    Raker,
    constant,
    draw_features,
    squared_exponentials,
)
from streamgp.research.multikernel.omkr import group_by_kernel
from streamgp_papers.many_kernels import FEATURES, LOSS, NEIGHBOURS

RESULTS = RESULTS_DIR / "multikernel.json"
INPUTS = {"Airfoil": 5, "Concrete": 8, "Naval": 15, "Wine": 11}


def run_speed(repeats: int) -> dict[str, Any]:
    """Return rows a second of every learner, 41 kernels of 100 features, pieces of 1,024 rows."""
    found: dict[str, Any] = {}
    dictionary = squared_exponentials(SFG_MKL_DICTIONARY)
    with jax.enable_x64(True):
        for name, dim in INPUTS.items():
            bank = draw_features(dictionary, dim, FEATURES, keys.key(0))
            graph = FeedbackGraph.of(dictionary, dim, NEIGHBOURS)
            rate = constant(0.02)
            learners: dict[str, Any] = {
                "Raker": Raker(bank, LOSS, rate),
                "OMKL-GF": OMKLGF(bank, LOSS, rate, rate),
                "SFG-MKL": SFG(bank, graph, LOSS, rate, rate),
                "SFG-MKL-R": SFG(bank, graph, LOSS, rate, rate, refine=True),
                "AdaRaker": AdaRaker(bank, LOSS),
                "OMKR": OMKR(*group_by_kernel(dictionary), LOSS, rate, dim),
            }
            found[name] = {label: _rate(learner, dim, repeats) for label, learner in learners.items()}
    return found


def _rate(learner: Any, dim: int, repeats: int) -> float:
    rng = np.random.default_rng(0)
    X = jnp.asarray(rng.uniform(size=(1024, dim)) / np.sqrt(dim))
    y = jnp.sin(3.0 * X[:, :1])
    model = MultiKernel(learner, ("",) * len(SFG_MKL_DICTIONARY), dim)
    state, _ = jax.block_until_ready(model.update(model.init(keys.key(0)), X, y))
    rates = []
    for _ in range(repeats):
        began = perf_counter()
        for _ in range(4):
            state, _ = model.update(state, X, y)
        jax.block_until_ready(state)
        rates.append(4 * len(X) / (perf_counter() - began))
    return median(rates)


def main(repeats: Annotated[int, typer.Option(help="Timed runs of each learner.")] = 3) -> None:
    """Time all learners and keep what was found."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored["speed"] = run_speed(repeats)
    RESULTS.write_text(json.dumps(stored) + "\n")
    print(stored["speed"])


if __name__ == "__main__":
    typer.run(main)
