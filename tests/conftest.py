"""Run every test in float64 with shape and type checks on, without touching the process's own settings."""

import os
from collections.abc import Iterator

import jax
import pytest
from jaxtyping import install_import_hook

# Tests run side by side, each on a core of its own: threads of two processes on the same cores wait for each other.
if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
# Programs are compiled quickly rather than well: there are thousands, and most of them run for a moment.
jax.config.update("jax_disable_most_optimizations", True)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # for the processes that tests start
_hook = install_import_hook("streamgp", "typecheck.typecheck")


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """Every test computes in float64, as the estimators do, and no shape is promoted silently."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(autouse=True, scope="module")
def no_programs_left() -> Iterator[None]:
    """Thousands of compiled programs would be more memory maps than a process may have."""
    yield
    jax.clear_caches()
