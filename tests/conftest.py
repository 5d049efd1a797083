"""Run every test in float64 with shape and type checks on, without touching the process's own settings."""

import os
from collections.abc import Iterator

import jax
import pytest
from jaxtyping import config, install_import_hook

# Tests run side by side, each on a core of its own: threads of two processes on the same cores wait for each other.
if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
# Programs are compiled quickly rather than well: there are thousands, and most of them run for a moment. The flag is
# read when JAX starts its first device.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"
jax.config.update("jax_disable_most_optimizations", True)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # for the processes that tests start
_hook = install_import_hook("streamgp", "typecheck.typecheck")
# Modules that send whole streams, or a row at a time, through everything: checks of every call took a third of their
# time. Every function is called by tests of its own as well, with checks.
UNCHECKED = {
    *("test_causality", "test_docs", "test_equivalence", "test_forecasts", "test_horizon", "test_lagged_streams"),
    *("test_learner", "test_nearest_blend", "test_noise", "test_rowwise", "test_sklearn_checks"),
}


@pytest.fixture(autouse=True, scope="module")
def types_and_shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check those of every call, except where whole streams go through."""
    config.update("jaxtyping_disable", request.path.stem in UNCHECKED or request.path.parent.name == "app")
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def plain_provisional_experts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of labels and counts, planes alone predict the warm-up: half as much to compile; `test_label_runs` has all."""
    if request.path.stem != "test_label_runs":
        monkeypatch.setattr("streamgp.warmup_generalised.PROVISIONAL_LENGTHSCALES", ())


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
