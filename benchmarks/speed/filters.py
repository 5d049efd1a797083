"""The block filter against the textbook filter, and against the machine's own matrix products.

``python -m benchmarks.speed.filters`` prints, as JSON: (a) the block engine against the per-row filter as one
`lax.scan`; (b) the share of the machine's matrix-product rate; how the block length matters.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from rich import print_json

from benchmarks.common.matrices import matrix_products
from benchmarks.common.measure import RUNS, in_turn, ratio, spread
from benchmarks.common.workload import LEVELS, NOISE_VAR, PRIOR_VAR, fourier_experts, rows, stream
from streamgp.filters.engine import blocks
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA

# Rows of a stream and of a scan, by number of features. A stream is short beside what the job before it leaves behind
# (threads that go on spinning, cold caches) unless it has many.
ROWS = {100: 16_384, 500: 4_096}
SCANNED = {"O(F^2)": {100: 1_024, 500: 1_024}, "as public code": {100: 1_024, 500: 64}}
SWEPT = 4_096


def per_row(cubic: bool) -> Callable[..., Any]:
    """Return the textbook filter of one expert over precomputed features, one row after another.

    It begins from the prior, or from the mean and covariance that it is given.
    """

    def step(state: tuple, row: tuple) -> tuple:
        mean, cov, q, noise_var = state
        phi, y = row
        F = len(phi)
        ahead = cov + q * jnp.eye(F)
        gain = ahead @ phi
        r = phi @ gain + noise_var
        loc = phi @ mean
        mean = mean + gain * (y - loc) / r
        # The public scripts write the update as a product of two matrices; the other form costs O(F^2).
        cov = (jnp.eye(F) - jnp.outer(gain / r, phi)) @ ahead if cubic else ahead - jnp.outer(gain, gain) / r
        return (mean, cov, q, noise_var), (loc, r)

    def run(Phi: jax.Array, y: jax.Array, q: jax.Array, noise_var: Any = NOISE_VAR, belief: Any = None) -> tuple:
        F = Phi.shape[1]
        mean, cov = (jnp.zeros(F), PRIOR_VAR * jnp.eye(F)) if belief is None else belief
        return jax.lax.scan(step, (mean, cov, q, noise_var), (Phi, y))[1]

    return run


def against_rows(runs: int = RUNS) -> list[dict[str, Any]]:
    """Time (a) and (b): 18 experts on the same rows; us for a row and expert, 4F^2 + 3BF operations each."""
    found = []
    for F in ROWS:
        experts = fourier_experts(6, F)
        model, (X, y) = ensemble(experts, BMA()), rows(ROWS[F])
        state = model.init(keys.key(0))
        q = jnp.asarray(LEVELS * 6)
        jobs: dict[str, Callable[[], Any]] = {"block": partial(stream, model, X, y, state)}
        lengths = {"block": ROWS[F]} | {name: few[F] for name, few in SCANNED.items()}
        for name, cubic in (("O(F^2)", False), ("as public code", True)):
            few = lengths[name]
            Phi = jnp.stack([experts[3 * i].basis(jnp.asarray(X[:few])) for i in range(6)]).repeat(3, axis=0)
            jobs[name] = partial(_scan(cubic, jnp.asarray(y[:few, 0])), Phi, q)
        products, flops = matrix_products()
        seconds = in_turn(jobs | products, runs)
        each = {name: [s / n / len(experts) for s in seconds[name]] for name, n in lengths.items()}
        # The machine's rate in each round: that of the size it is best at.
        rate = [max(flops[name] / seconds[name][i] for name in products) for i in range(runs)]
        work = 4 * F**2 + 3 * blocks.BLOCK * F
        found.append(
            {
                "features": F,
                "us": {name: spread(values, 1e6) for name, values in each.items()},
                "ratio": {name: ratio(each[name], each["block"]) for name in each if name != "block"},
                "matrix_gflops": spread(rate, 1e-9),
                "share_of_matrix_rate": ratio([work / s for s in each["block"]], rate),
            }
        )
    return found


def _scan(cubic: bool, y: jax.Array) -> Callable[..., Any]:
    """Scan all experts with the textbook filter, one after the other: each keeps its covariance in cache."""
    run = jax.jit(lambda Phi, q: jax.lax.map(lambda a: per_row(cubic)(a[0], y, a[1]), (Phi, q)))
    return lambda Phi, q: jax.block_until_ready(run(Phi, q))


def block_lengths(runs: int = RUNS) -> dict[str, Any]:
    """Return microseconds for a row and expert at other block lengths, by number of features."""
    X, y = rows(SWEPT)
    usual = blocks.BLOCK
    found: dict[str, Any] = {"block": usual, "us": {}}
    for F in (50, 100, 200, 400, 800):
        model = ensemble(fourier_experts(2, F), BMA())
        state = model.init(keys.key(0))
        found["us"][F] = {}
        for size in (16, 32, 64, 128, 256):
            blocks.BLOCK = size
            jax.clear_caches()  # the length is a constant of the compiled arrangement
            seconds = in_turn({"stream": partial(stream, model, X, y, state)}, runs)["stream"]
            found["us"][F][size] = spread(seconds, 1e6 / SWEPT / 6)
    blocks.BLOCK = usual
    jax.clear_caches()
    return found


if __name__ == "__main__":
    with jax.enable_x64(True):
        print_json(data={"filters": against_rows(), "block_lengths": block_lengths()})
