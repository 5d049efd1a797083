"""Run every test in float64 with shape and type checks on, without touching the process's own settings."""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
import jax
import jaxtyping
import pytest
from jaxtyping import config, install_import_hook, jaxtyped
from threadpoolctl import threadpool_limits

# Tests run side by side, each on a core of its own: threads of two processes on the same cores wait for each other.
if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
    threadpool_limits(1)  # of BLAS, whose threads are older than this line
# How long a case takes says what else the machine does.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
# Programs are compiled quickly rather than well: there are thousands, and most of them run for a moment. They are not
# split for several cores to compile, as a test has one. The flags are read when JAX starts its first device.
FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_cpu_enable_async_dispatch", False)  # else callbacks may wait for ever (jax-ml/jax 25861)
os.environ.setdefault("NPROC", "4")  # threads of XLA: on one core it has one, and callbacks wait for it
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # for the processes that tests start
# What one process has compiled, the others read, those that tests start among them: JAX's cache, in a directory of
# this session's own, or the one that STREAMGP_TEST_CACHE names, which several may share.
if "PYTEST_XDIST_WORKER" not in os.environ:
    compiled = TemporaryDirectory(prefix="streamgp-tests-", ignore_cleanup_errors=True)
    os.environ["STREAMGP_CACHE"] = os.environ.get("STREAMGP_TEST_CACHE", compiled.name)
jax.config.update("jax_compilation_cache_dir", os.environ["STREAMGP_CACHE"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
# Other packages are imported before the hook is there, which finds no bytecode of what streamgp's modules import.
for name in ("equinox", "matplotlib.figure", "narwhals", "pandas", "polars", "rich", "scipy.stats", "sklearn.base"):
    import_module(name)


# Called for every leaf of every tree, with leaves of any type.
FREE = {f"streamgp.numerics.{name}" for name in ("arrays", "module", "tree")}


def decorate(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator that makes jaxtyping's at the first call that is checked, of a dataclass in its `__init__`.

    To make one takes more than a millisecond, there are thousands, and most are never called in a process. Functions
    inside others have none where nothing would be checked: without annotations, and while no checks are made.
    """
    decorator = jaxtyped(typechecker=typechecker)

    def decorated(of: Any) -> Any:
        if of.__module__ in FREE:
            return of
        if isinstance(of, type):
            if is_dataclass(of) and not hasattr(of.__init__, "checked_later"):
                of.__init__ = later(of.__init__)
            return of
        inside = "<locals>" in of.__qualname__
        return of if inside and (config.jaxtyping_disable or not of.__annotations__) else later(of)

    def later(fn: Callable[..., Any]) -> Callable[..., Any]:
        checked = None

        @wraps(fn)
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal checked
            if config.jaxtyping_disable:
                return fn(*args, **kwargs)
            checked = checked or decorator(fn)
            return checked(*args, **kwargs)

        called.checked_later = True
        return called

    return decorated


jaxtyping.jaxtyped = decorate  # where the hook finds it
_hook = install_import_hook(["streamgp", "streamgp_papers"], "typecheck.typecheck")
import_module("streamgp.numerics.accelerator")  # JAX takes modules as trees from here on
# Only tests of single units have their types and shapes checked. The others send whole streams, or a row at a time,
# through everything: checks of every call took a third of their time.
TESTS = Path(__file__).parent
CHECKED = "unit"
UNCHECKED = {  # modules of unit/ that send whole streams too, or draw pages
    *("test_alarms", "test_baseline_bands", "test_boosted_trees", "test_compare", "test_conformal"),
    *("test_conformal_sets", "test_expert_weights", "test_explanations_of_labels", "test_fleet_groups"),
    *("test_fleet_hibernation", "test_fleet_input", "test_fleet_page", "test_fleet_text", "test_forecasts"),
    *("test_importance", "test_influence", "test_kinds_of_rows", "test_label_pages", "test_lag_glitch"),
    *("test_crafted_checkpoints", "test_local_models", "test_presets", "test_warmup"),
    *("test_loading", "test_monitor", "test_moves", "test_nearest_blend", "test_pipelines", "test_prediction"),
    *("test_report", "test_river", "test_rules", "test_session", "test_shown", "test_verdicts"),
}
# Modules that count compilations: nothing is compiled there before they begin.
COUNTED = {
    *("test_ensemble", "test_estimators", "test_fleet_in_use", "test_generalised", "test_latent_predictive"),
    *("test_learner", "test_local_models", "test_model", "test_optimizer", "test_rowwise", "test_streaming_gplvm"),
}
MAPS = Path("/proc/self/maps")
MAX_MAPS = 30_000  # of the 65,530 that Linux allows a process; a compiled program takes about ten


traced_unchecked = False


def is_unchecked(module: Path) -> bool:
    return module.stem in UNCHECKED or module.relative_to(TESTS).parts[0] != CHECKED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the modules that count compilations first, then those that are checked: others share what is compiled."""
    items.sort(key=lambda item: (item.path.stem not in COUNTED, is_unchecked(item.path)))


def pytest_collection_finish() -> None:
    """Collect garbage seldom: most objects are those of modules and of traced programs, and stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def pytest_runtest_call() -> None:
    """Remember that programs are traced without checks, if they are."""
    global traced_unchecked
    traced_unchecked |= config.jaxtyping_disable


@pytest.fixture(autouse=True, scope="module")
def types_and_shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check those of every call, except where whole streams go through.

    What one module has compiled serves the next ones, until there are too many programs. But checks are made while
    programs are traced: what was traced without them is forgotten where they come back.
    """
    global traced_unchecked
    name, unchecked = request.path.stem, is_unchecked(request.path)
    checks_return = traced_unchecked and not unchecked
    if checks_return or name in COUNTED or not MAPS.exists() or MAPS.read_bytes().count(b"\n") > MAX_MAPS:
        jax.clear_caches()
        traced_unchecked = False
    config.update("jaxtyping_disable", unchecked)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def plain_provisional_experts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of labels and counts, planes alone predict the warm-up: half as much to compile; `test_label_runs` has all."""
    if request.path.stem != "test_label_runs":
        monkeypatch.setattr("streamgp.models.generalised.warmup.PROVISIONAL_LENGTHSCALES", ())


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    """Every test computes in float64, as the estimators do, and no shape is promoted silently."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small CSV file of the test's own."""
    from small_runs import table

    path = tmp_path / "data.csv"
    table().write_csv(path)
    return path
