"""Rows a second of logistic experts: in blocks, row by row, and beside river's logistic regression.

``python -m benchmarks.speed.labels`` writes the part ``speed`` of ``results/labels.json``;
``python -m benchmarks.pages.labels`` renders the table of docs/research/labels.md.
"""

import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
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
    X = jnp.asarray(rng.normal(size=(n, 4)))
    y = jnp.asarray((rng.random(n) < 0.5).astype(float))
    found: dict[str, Any] = {}
    with jax.enable_x64(True):
        X, y = jnp.asarray(np.asarray(X), float), jnp.asarray(np.asarray(y), float)
        for count, features in ((11, 30), (24, 100), (12, 400)):
            bases = [
                Fourier.from_data(np.asarray(X), num_features=features, start=0.3 + 0.3 * i, key=keys.key(i))
                for i in range(count)
            ]
            experts = [
                GeneralisedExpert(
                    basis.precomputed(),
                    jnp.asarray(4.0),
                    Logistic(jnp.asarray(0.0)),
                    random_walk(1e-3) if i % 2 else static(),
                )
                for i, basis in enumerate(bases)
            ]
            model = generalised_ensemble(experts, BMA())
            state = model.init(keys.key(0))

            def in_blocks(model: Any = model, state: Any = state) -> Any:
                return model.update(state, X, y[:, None])

            loop = _row_by_row([jnp.asarray(expert.basis(X)) for expert in experts])
            # In turns, so that what else the machine does meets both.
            pairs = [(_seconds(in_blocks), _seconds(lambda loop=loop: loop(y))) for _ in range(7)][2:]
            each = {"blocks": min(a for a, _ in pairs), "row by row": min(b for _, b in pairs)}
            found[f"{count} experts of {features} features"] = {key: n / value for key, value in each.items()}
    rows = [dict(enumerate(row)) for row in np.asarray(X).tolist()]
    labels = np.asarray(y).astype(bool).tolist()

    def river() -> None:
        model = linear_model.LogisticRegression()
        for x, label in zip(rows, labels, strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, label)

    found["river, logistic regression on the 4 inputs"] = {"row by row": n / min(_seconds(river) for _ in range(3))}
    return found


def _row_by_row(Phis: list[jax.Array]) -> Callable[[jax.Array], Any]:
    """Do what one would write first: a rank-one update of every expert's covariance for every row, nothing else."""
    Phi, likelihood = jnp.stack(Phis, axis=1), Logistic(jnp.asarray(0.0))

    @jax.jit
    def run(y: jax.Array) -> Any:
        def row(state: tuple, each: tuple) -> tuple:
            def one(mean: jax.Array, cov: jax.Array, phi: jax.Array) -> tuple:
                gain = cov @ phi
                step = laplace_step(likelihood, each[1], (phi @ mean)[None], (phi @ gain)[None, None])
                return mean + gain * step.shift[0], cov - jnp.outer(gain, gain) * step.shrink[0, 0]

            return jax.vmap(one)(*state, each[0]), None

        _, K, F = Phi.shape
        start = jnp.zeros((K, F)), jnp.tile(4.0 * jnp.eye(F), (K, 1, 1))
        return jax.lax.scan(row, start, (Phi, y))[0]

    return run


def _seconds(run: Callable[[], Any]) -> float:
    began = perf_counter()
    jax.block_until_ready(run())
    return perf_counter() - began


def main() -> None:
    """Time them and keep what was found."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored["speed"] = run_speed()
    RESULTS.write_text(json.dumps(stored) + "\n")
    print(stored["speed"])


if __name__ == "__main__":
    main()
