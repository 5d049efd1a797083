"""The rate at which a machine multiplies matrices, beside which other rates stand; JAX is not loaded for it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np


def matrix_products() -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """Return jobs that multiply float64 matrices on all cores, and the floating-point operations of each."""
    rng = np.random.default_rng(0)
    jobs, flops = {}, {}
    for n in (512, 1024, 2048):
        A, name = rng.normal(size=(n, n)), f"product {n}"
        jobs[name], flops[name] = partial(np.matmul, A, A), 2.0 * n**3
    return jobs, flops
