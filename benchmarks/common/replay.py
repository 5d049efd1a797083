"""Replays of weight rules: experts run once over a stream, as they never see the weights."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from streamgp.models.base import FittedExpert
from streamgp.models.spec import Spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

WARMUP, ROWS = 1_000, 10_000


def run_experts(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, list[FittedExpert]]:
    """Return log density and mean of every expert for every scored row (n, K), y standardised, and the experts."""
    learner = StreamLearner(StreamSettings(spec, num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
    list(learner.learn(X[:WARMUP], y[:WARMUP, None]))
    centre, scale = y[:WARMUP].mean(), y[:WARMUP].std()
    log_density, mean, at = [], [], WARMUP
    for info in learner.learn(X[WARMUP:], y[WARMUP:, None]):
        p = info.predictive
        target = y[at : at + len(p.loc), None]
        at += len(target)
        with jax.enable_x64(True):
            log_density.append(np.asarray(p.component_log_density(jnp.asarray(target))) + np.log(scale))
        mean.append((np.asarray(p.loc)[:, :, 0] - centre) / scale)
    return np.concatenate(log_density), np.concatenate(mean), learner.experts


def by_basis(experts: list[FittedExpert]) -> list[int]:
    """Return the number of each expert's basis."""
    bases = list(dict.fromkeys(expert.basis for expert in experts))
    return [bases.index(expert.basis) for expert in experts]


@eqx.filter_jit
def weigh(rule: Any, log_density: jax.Array) -> jax.Array:
    """Return the weights before every row."""

    def step(state: Any, row: jax.Array) -> tuple[Any, jax.Array]:
        return rule.update(state, row), rule.predict(state)

    K = log_density.shape[1]
    return jax.lax.scan(step, rule.init(jnp.full(K, -np.log(K))), log_density)[1]
