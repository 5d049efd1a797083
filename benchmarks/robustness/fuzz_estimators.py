"""Generated arrays and frames through the estimators: whatever comes, a sentence or finite predictions.

    python -m benchmarks.robustness.fuzz_estimators --examples 10000 --out benchmarks/results/fuzz_estimators.json

Hypothesis makes a few calls of one estimator after another: odd cells, types, shapes, containers and times, in any
order. A call may refuse its arguments in a sentence of its own, and then nothing is learnt; after any other,
predictions of ordinary rows are finite and the rows are counted.
"""

import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from benchmarks.common import campaigns
from streamgp import (
    SplittingGPRegressor,
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)

WARMUP = 24
MAKERS: dict[str, Callable[[], Any]] = {
    "regressor": lambda: StreamingGPRegressor("linear", warmup=WARMUP, random_state=0),
    "robust regressor": lambda: StreamingGPRegressor(
        bases=("linear",), noise=("constant", "adaptive 0.8"), warmup=WARMUP, random_state=0
    ),
    "lags": lambda: StreamingGPRegressor("linear", warmup=WARMUP, lags=(1, 2), horizon=2, random_state=0),
    "skips": lambda: StreamingGPRegressor("linear", warmup=WARMUP, missing="skip", random_state=0),
    "classifier": lambda: StreamingGPClassifier("linear", warmup=WARMUP, random_state=0),
    "counts": lambda: StreamingGPCountRegressor("linear", warmup=WARMUP, random_state=0),
    "grades": lambda: StreamingGPOrdinal("linear", warmup=WARMUP, random_state=0),
    "many kernels": lambda: StreamingGPRegressor("raker", features_per_basis=10, warmup=WARMUP, random_state=0),
    "local": lambda: SplittingGPRegressor(batch_size=20, warmup=WARMUP, random_state=0),
}
ODD = (np.nan, np.inf, -np.inf, 1e5, -1e9, 1e30, 1e99, 1e101, 1e308, -1e308, 1e-320, -0.0, 0.5)
SIZES = (WARMUP, 40, 8, 1, 3, 0)  # few, since every size is compiled
LEARN = ("partial_fit", "fit", "learn one", "evaluate")
METHODS = {
    "quantiles": "predict_quantiles",
    "density": "log_density",
    "sample": "sample",
    "one": "predict_one",
    "learn one": "learn_one",
}
# Of these a user can make nothing: they are of the inside.
INNER = (
    "broadcast",
    "zero-size",
    "out of bounds",
    "unhashable",
    "einsum",
    "dot_general",
    "tracer",
    "pytree",
    "NoneType",
)
PROBE = np.array([[0.1, -0.3], [1.0, 1.0], [0.0, 0.0]])
REFUSALS = (ValueError, TypeError, NotFittedError)
CONTAINERS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda X: X,
    lambda X: X.tolist(),
    lambda X: pd.DataFrame(X),
    lambda X: pd.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])}),
    lambda X: pl.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])}),
    lambda X: np.asfortranarray(X),
    lambda X: X[::-1][::-1],
    lambda X: X.astype(object),
    lambda X: X.astype(np.float32),
    lambda X: X.ravel(),
    lambda X: X.astype(str),
    lambda X: X.astype(complex),
    lambda X: X > 0.0,
    lambda X: np.ma.masked_invalid(X),
    lambda X: X[:, :, None],
    lambda X: pd.DataFrame(X).astype("Float64"),
    lambda X: None,
    lambda X: "rows",
)
# What Hypothesis takes for simplest, the first, comes more often than the others.
USUALLY_FIRST = 12


class Call(NamedTuple):
    """A method and what it is given."""

    what: str
    X: Any
    y: Any
    times: Any
    levels: Any
    number: Any


def mostly(*values: Any) -> st.SearchStrategy[Any]:
    """Draw the first value in most cases, or one of the others."""
    return st.sampled_from((values[0],) * USUALLY_FIRST + values[1:])


@st.composite
def inputs(draw: st.DrawFn, rows: int) -> Any:
    """Draw rows of two numbers, nearly always; some of them odd."""
    width = draw(mostly(2, 1, 3, 0))
    X = np.random.default_rng(draw(st.integers(0, 3))).normal(size=(rows, width))
    if X.size:
        for _ in range(draw(st.sampled_from((0, 0, 1, 3)))):
            X.flat[draw(st.integers(0, X.size - 1))] = draw(st.sampled_from(ODD))
        if draw(mostly(False, True)):
            X[:, 0] = draw(st.sampled_from((0.0, 3.0, *ODD)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return draw(mostly(*CONTAINERS))(X)


@st.composite
def targets(draw: st.DrawFn, name: str, rows: int) -> Any:
    """Draw as many targets as rows, nearly always, of the kind that the estimator wants, nearly always."""
    rng = np.random.default_rng(draw(st.integers(0, 3)))
    n = draw(mostly(rows, rows + 1, max(rows - 1, 0)))
    usual = {"classifier": "labels", "counts": "counts", "grades": "grades"}.get(name, "numbers")
    kind = draw(mostly(usual, "numbers", "counts", "labels", "grades", "constant", "two", "odd", "none", "mixed"))
    y: Any = rng.normal(size=n)
    if kind in ("counts", "grades"):
        y = rng.poisson(2.0, size=n) if kind == "counts" else rng.integers(1, 4, size=n)
        y = y.astype(draw(mostly(np.int64, np.float64, np.uint8)))
    elif kind == "labels":
        y = np.array(["cat", "dog", "a bird"])[rng.integers(0, draw(st.sampled_from((2, 3, 1))), size=n)]
    elif kind == "constant":
        y = np.full(n, draw(st.sampled_from((0.0, 1.0, 7.0, *ODD))))
    elif kind == "two":
        y = rng.normal(size=(n, 2))
    elif kind == "none":
        y = np.array([None] * n, dtype=object)
    elif kind == "mixed":
        y = np.array([1, "a", None, 2.5, True] * n, dtype=object)[:n]
    if y.dtype.kind == "f" and y.size:
        for _ in range(draw(st.sampled_from((0, 0, 0, 1, 3)))):
            y.flat[draw(st.integers(0, y.size - 1))] = draw(st.sampled_from(ODD))
    series = (
        (lambda y: pd.Series(y), lambda y: pl.Series(y.tolist(), strict=False)) if y.ndim == 1 else (pd.DataFrame,)
    )
    return draw(mostly(lambda y: y, lambda y: y.tolist(), *series))(y)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[Call]]:
    """Draw the name of an estimator, and calls of its methods."""
    name = draw(st.sampled_from(tuple(MAKERS)))
    timed = draw(mostly(False, True))
    made = []
    clock = 0.0
    for step in range(draw(st.integers(1, 5))):
        rows = draw(st.sampled_from(SIZES))
        times = None
        if timed:
            gaps = draw(mostly(1.0, 0.0, -1.0, 1e12, np.nan, np.inf))
            times = clock + gaps * np.arange(rows)
            clock += rows
        what = draw(
            mostly("partial_fit", "predict", "quantiles", "density", "sample", "one", "learn one", "evaluate", "save")
            if step
            else mostly("partial_fit", "predict", "fit", "one", "evaluate")
        )
        X = draw(inputs(1 if what in ("one", "learn one") else rows))
        y = draw(targets(name, rows)) if what in ("partial_fit", "fit", "density", "evaluate", "learn one") else None
        levels = (
            draw(mostly([0.05, 0.95], [], [0.0], [1.5], [np.nan], "a", None, 0.5)) if what == "quantiles" else None
        )
        number = draw(mostly(2, 0, -1, 1.5, None)) if what == "sample" else None
        made.append(Call(what, X, y, times, levels, number))
    return name, made


def first(rows: Any) -> Any:
    """Return the first of several rows, where there are any."""
    return rows[0] if isinstance(rows, np.ndarray | list | pl.Series) and len(rows) else rows


def make(model: Any, call: Call, folder: Path) -> Any:
    """Make one call; the model to go on with."""
    what, X, y, times, levels, number = call
    if what in ("partial_fit", "fit"):
        getattr(model, what)(X, y, times=times)
    elif what == "predict":
        model.predict(X, times=times)
    elif what == "quantiles":
        model.predict_quantiles(X, levels, times=times)
    elif what == "density":
        model.log_density(X, y, times=times)
    elif what == "sample":
        model.sample(X, number, times=times)
    elif what == "one":
        model.predict_one(first(X), time=first(times))
    elif what == "learn one":
        model.learn_one(first(X), first(y), time=first(times))
    elif what == "evaluate":
        evaluate(model, X, y, times=times)
    elif what == "save":
        model.save(folder / "model")
        return type(model).load(folder / "model")
    return model


def probe(model: Any, timed: bool) -> np.ndarray | None:
    """Return what a model predicts for ordinary rows; None before the first."""
    if not model.__sklearn_is_fitted__() or model.n_features_in_ != PROBE.shape[1]:
        return None
    times = np.full(len(PROBE), 1e15) if timed else None
    if hasattr(model, "predict_proba"):
        return model.predict_proba(PROBE, times=times)
    return np.stack(model.predict(PROBE, return_std=True, times=times))


def check(name: str, made: list[Call], folder: Path) -> list[str]:
    """Make the calls one after the other; how each ended, in a word.

    Raises
    ------
    AssertionError
        If a call failed without a sentence, or changed what it should not have, or left a model that is of no use.
    """
    model, ends, timed = MAKERS[name](), [], False
    for call in made:
        if not hasattr(model, METHODS.get(call.what, "fit")):
            continue
        fitted = model.__sklearn_is_fitted__()
        rows, before = (model.rows_, probe(model, timed)) if fitted else (0, None)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        where = f"{name}, call {len(ends)} ({call.what})"
        try:
            model = make(model, call, folder)
        except REFUSALS as refusal:
            said = str(refusal)
            assert said, f"{where}: {type(refusal).__name__} says nothing"
            assert not any(word in said for word in INNER), f"{where}: {said}"
            after = probe(model, timed)
            assert after is None or model.rows_ == rows, f"{where}: refused, yet rows were learnt"
            if before is not None:
                assert after is not None and np.array_equal(before, after, equal_nan=True), (
                    f"{where}: refused ({said}), yet predictions are others"
                )
            ends.append("refused")
            continue
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        if call.what == "fit" or (call.what in LEARN and not fitted):
            timed = call.times is not None
        after = probe(model, timed)
        if call.what not in LEARN and before is not None:
            assert after is not None and np.array_equal(before, after), f"{where}: predicting changed the model"
        if after is not None:
            assert np.isfinite(after).all(), f"{where}: predictions of ordinary rows are not finite: {after}"
        ends.append("learnt" if call.what in LEARN else "answered")
    return ends


def campaign(examples: int, minutes: float, start: int = 0) -> dict[str, Any]:
    """Generate so many sequences of calls, or as many as fit into the minutes; how the calls ended."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)  # every shape is compiled anew
    warnings.simplefilter("ignore")
    ends: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    done = 0
    began = time.monotonic()

    with tempfile.TemporaryDirectory() as folder:

        @seed(start)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(calls())
        def one(made: tuple[str, list[Call]]) -> None:
            nonlocal done
            if time.monotonic() - began > 60 * minutes:
                return
            try:
                ends.update(check(*made, Path(folder) / "work"))
            except AssertionError as failure:
                if str(failure) not in failures:
                    print(failure, [c._replace(X=repr(c.X)[:300], y=repr(c.y)[:300]) for c in made[1]], flush=True)
                failures[str(failure)] += 1
            done += 1
            if done % 200 == 0:
                passed = time.monotonic() - began
                print(f"{done} of {examples}, {passed:.0f} s: {dict(ends)}, {failures.total()} failures", flush=True)

        one()
    return {
        "examples": done,
        "calls": dict(ends),
        "failures": dict(failures),
        "seed": start,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "examples", 10_000, campaign)


if __name__ == "__main__":
    main()
