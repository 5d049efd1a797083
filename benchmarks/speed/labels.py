"""Rows a second of logistic experts: in blocks, row by row, and beside river's logistic regression.

``python -m benchmarks.speed.labels`` writes the part ``speed`` of ``results/labels.json``;
``python -m benchmarks.pages.labels`` renders the table of docs/research/labels.md.
"""

import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from river import linear_model

from benchmarks.common.paths import RESULTS_DIR
from streamgp.bases import Fourier
from streamgp.filters.dynamics import random_walk, static
from streamgp.likelihoods import Logistic, laplace_step
from streamgp.models.generalised.model import GeneralisedExpert, generalised_ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA

RESULTS = RESULTS_DIR / "labels.json"


def run_speed() -> dict[str, Any]:
    """Time 11 and 24 logistic experts, in blocks and row by row, beside river's logistic regression."""
    rng = np.random.default_rng(0)
    n = 4_096
    X = rng.normal(size=(n, 4))
    y = (rng.random(n) < 0.5).astype(float)
    found: dict[str, Any] = {}
    for count, features in ((11, 30), (24, 100), (12, 400)):
        bases = [
            Fourier.from_data(X, num_features=features, start=0.3 + 0.3 * i, key=keys.key(i)) for i in range(count)
        ]
        experts = [
            GeneralisedExpert(
                basis.precomputed(),
                np.asarray(4.0),
                Logistic(np.asarray(0.0)),
                random_walk(1e-3) if i % 2 else static(),
            )
            for i, basis in enumerate(bases)
        ]
        model = generalised_ensemble(experts, BMA())
        state = model.init(keys.key(0))

        def in_blocks(model: Any = model, state: Any = state) -> Any:
            return model.update(state, X, y[:, None])

        loop = _row_by_row([expert.basis(X) for expert in experts])
        # In turns, so that what else the machine does meets both.
        pairs = [(_seconds(in_blocks), _seconds(lambda loop=loop: loop(y))) for _ in range(7)][2:]
        each = {"blocks": min(a for a, _ in pairs), "row by row": min(b for _, b in pairs)}
        found[f"{count} experts of {features} features"] = {key: n / value for key, value in each.items()}
    rows = [dict(enumerate(row)) for row in X.tolist()]
    labels = y.astype(bool).tolist()

    def river() -> None:
        model = linear_model.LogisticRegression()
        for x, label in zip(rows, labels, strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, label)

    found["river, logistic regression on the 4 inputs"] = {"row by row": n / min(_seconds(river) for _ in range(3))}
    return found


def _row_by_row(Phis: list[np.ndarray]) -> Callable[[np.ndarray], Any]:
    """Do what one would write first: a rank-one update of every expert's covariance for every row, nothing else."""
    Phi = np.stack(Phis, axis=1)
    _, K, F = Phi.shape
    likelihood = Logistic(np.zeros(K))

    def run(y: np.ndarray) -> Any:
        mean, cov = np.zeros((K, F)), np.tile(4.0 * np.eye(F), (K, 1, 1))
        for phi, target in zip(Phi, y, strict=True):
            gain = (cov @ phi[:, :, None])[:, :, 0]
            loc, var = (mean * phi).sum(1)[:, None], (gain * phi).sum(1)[:, None, None]
            step = laplace_step(likelihood, target, loc, var)
            mean = mean + gain * step.shift
            cov = cov - gain[:, :, None] * gain[:, None, :] * step.shrink
        return mean, cov

    return run


def _seconds(run: Callable[[], Any]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def main() -> None:
    """Time them and keep what was found."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored["speed"] = run_speed()
    RESULTS.write_text(json.dumps(stored) + "\n")
    print(stored["speed"])


if __name__ == "__main__":
    main()
