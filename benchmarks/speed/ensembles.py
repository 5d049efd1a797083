"""A whole ensemble against the approach of the public research code: one compiled scan for each expert.

``python -m benchmarks.speed.ensembles`` prints its figures as JSON.
"""

import tempfile
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
from jax.scipy.stats import norm
from rich import print_json

from benchmarks.common.measure import RUNS, in_turn, ratio, spread
from benchmarks.common.workload import expert, rows, stream
from benchmarks.speed.filters import per_row
from streamgp.bases import BASES
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.weights import share

ROWS, INPUTS, FEATURES = 15_599, 18, 100  # the shape of the elevators data after its warm-up


def edoebe() -> tuple[Ensemble, list[Expert]]:
    """Make E-DOEBE: six bases, each standing still and walking."""
    X, _ = rows(1000, INPUTS)
    experts, groups = [], []
    for family in ("fourier", "hilbert"):
        for i, start in enumerate((0.3, 1.0, 3.0)):
            basis = BASES[family].from_data(X, num_features=FEATURES, start=start, key=keys.key(i))
            groups += [len(groups) // 2] * 2
            experts += [expert(basis, q) for q in (0.0, 1e-3)]
    return ensemble(experts, share(groups, 0.05)), experts


def forget(cache: str | None) -> None:
    """Drop all compiled programs, and from now on keep them in a directory, or in none."""
    jax.config.update("jax_compilation_cache_dir", cache)
    compilation_cache.reset_cache()
    jax.clear_caches()


def whole_ensemble(runs: int = RUNS) -> dict[str, Any]:
    """Time 12 experts' online phase (c); the public approach compiles anew in every run, as it does there."""
    X, y = rows(ROWS, INPUTS)
    model, experts = edoebe()
    target = jnp.asarray(y[:, 0])

    def the_public_way() -> None:
        densities = []
        for one in experts:
            run = jax.jit(lambda X, y, q, one=one: per_row(True)(one.basis(X), y, q))
            loc, var = run(jnp.asarray(X), target, one.dynamics.diffusion)
            densities.append(norm.logpdf(target, loc, jnp.sqrt(var)))
        weights = jax.jit(lambda d: jax.lax.scan(lambda w, d: (w + d - jnp.max(w + d), w), jnp.zeros(12), d))
        jax.block_until_ready(weights(jnp.stack(densities, axis=1)))

    ours = partial(stream, model, X, y)
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    # The command uses the same setting.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    with tempfile.TemporaryDirectory() as cache:
        seconds = in_turn(
            {
                "forget": partial(forget, None),
                "public": the_public_way,
                "nothing compiled": ours,
                "forget, but on disk": partial(forget, cache),
                "compiled on disk": ours,
                "compiled": ours,
            },
            runs,
        )
        forget(None)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    kinds = ("nothing compiled", "compiled on disk", "compiled")
    return {
        "seconds": {kind: spread(seconds[kind]) for kind in (*kinds, "public")},
        "ratio": {kind: ratio(seconds["public"], seconds[kind]) for kind in kinds},
    }


if __name__ == "__main__":
    with jax.enable_x64(True):
        print_json(data=whole_ensemble())
