"""The time of latent variable models: ``python -m benchmarks.speed.latent [DATA]`` prints JSON.

DATA is a directory with mnist_t10k.parquet, whose 10,000 images are repeated, each time with a little noise of its
own, to 70,000 rows of 784 numbers; without it rows of that size are generated. Parts: the whole stream, with
milliseconds of a row along it and by step; batches of several sizes; and, with ``--gpy`` and GPy installed, the
variational model of Titsias and Lawrence (2010) with 100 inducing inputs on oil flow and USPS (minutes to hours).
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import print_json

from benchmarks.common.measure import in_fresh_process, in_turn, installed, memory_mb, spread
from streamgp.latent import LatentEnsemble, LatentLearner, LatentSpec
from streamgp.latent.neighbours import Neighbours
from streamgp_papers.data_files import is_available, load
from streamgp_papers.embeddings import Images, embed

ROWS, ENTRIES = 70_000, 784
WARMUP = 500
AT = (1_000, 3_000, 10_000, 30_000, 60_000)  # rows before those that are timed
TIMED = 1_024
BATCHES = (1, 8, 64, 256)
INDUCING, STEPS = 100, 1_000


def images(directory: Path | None) -> np.ndarray:
    """Return rows (70,000, 784), with something of the 10,000 images in each repetition that was never seen."""
    rng = np.random.default_rng(0)
    if directory is not None and is_available("mnist-t10k", directory):
        X, _ = load("mnist-t10k", directory, keep_constant=True)
        some = np.concatenate([X] * -(-ROWS // len(X)))[:ROWS]
        return some + 0.05 * X.std() * rng.normal(size=some.shape)
    places = rng.normal(size=(ROWS, 2))
    return np.tanh(places @ rng.normal(size=(2, ENTRIES))) + 0.1 * rng.normal(size=(ROWS, ENTRIES))


def stream(directory: Path | None) -> dict[str, Any]:
    """Learn all rows by the estimator's settings: seconds, milliseconds of a row along the stream, and memory."""
    X = images(directory)
    before = memory_mb()["now"]
    learner = LatentLearner(LatentSpec(warmup=WARMUP), X.shape[1])
    steps = {
        "index": _timed(Neighbours, "search", "add"),
        "places": _timed(LatentEnsemble, "embed"),
        "learning": _timed(LatentEnsemble, "learn"),
    }
    began = time.perf_counter()
    _all(learner.learn(X[:WARMUP]))
    warmup = time.perf_counter() - began
    along, at = {}, WARMUP
    for start in AT:
        _all(learner.learn(X[at:start]))
        for spent in steps.values():
            spent[0] = 0.0
        first = time.perf_counter()
        _all(learner.learn(X[start : start + TIMED]))
        each = {"all": time.perf_counter() - first} | {name: spent[0] for name, spent in steps.items()}
        along[start] = {name: 1e3 * seconds / TIMED for name, seconds in each.items()}
        at = start + TIMED
    _all(learner.learn(X[at:]))
    seconds = time.perf_counter() - began
    return {
        "rows": len(X),
        "entries": X.shape[1],
        "seconds": seconds,
        "warmup_seconds": warmup,
        "ms_a_row": along,
        "growth": along[AT[-1]]["all"] / along[AT[0]]["all"],
        "memory_mb": memory_mb()["now"] - before,
    }


def _all(parts: Iterator[Any]) -> None:
    for _ in parts:
        pass


def _timed(of: Any, *names: str) -> list[float]:
    """Return the seconds that are spent in methods from now on, as a list of one number that is updated."""
    spent = [0.0]

    def wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = jax.block_until_ready(method(*args, **kwargs))
            spent[0] += time.perf_counter() - began
            return result

        return run

    for name in names:
        setattr(of, name, wrapped(getattr(of, name)))
    return spent


def batches(directory: Path | None, runs: int = 3) -> dict[int, Any]:
    """Return rows a second by the size of the batches, after the warm-up."""
    X = images(directory)[: 2_000 + 2 * TIMED]
    learners = {size: LatentLearner(LatentSpec(warmup=WARMUP, batch_size=size), X.shape[1]) for size in BATCHES}
    for learner in learners.values():
        _all(learner.learn(X[:2_000]))  # a batch is at most a tenth of the rows before it
    some = X[2_000 : 2_000 + TIMED]
    seconds = in_turn({str(size): partial(_all_of, learner, some) for size, learner in learners.items()}, runs)
    return {size: spread([TIMED / each for each in seconds[str(size)]]) for size in BATCHES}


def _all_of(learner: LatentLearner, rows: np.ndarray) -> None:
    _all(learner.learn(rows))


def variational(data: str, directory: Path) -> dict[str, Any]:
    """Fit GPy's model of all rows beside ours in the stream, in one process: errors in percent, CPU seconds."""
    from GPy.models import BayesianGPLVM  # pyright: ignore[reportMissingImports]

    X, labels = load(data, directory, keep_constant=True)
    some = Images(X, labels, len(X) // 10, 0)
    # Processor time is measured, since other programs run during these long runs.
    began = time.process_time()
    with jax.enable_x64(True):
        ours = embed(some)
    our_seconds = time.process_time() - began
    np.random.seed(0)  # noqa: NPY002, the package has no generator of its own
    centred = X - X.mean(axis=0)
    began = time.process_time()
    model = BayesianGPLVM(centred / centred.std(), 2, num_inducing=INDUCING)
    model.optimize(max_iters=STEPS)
    seconds = time.process_time() - began
    return {
        "rows": len(X),
        "ours": {"error": some.error(ours.coordinates[:, ours.learner.leading]), "seconds": our_seconds},
        "variational": {"error": some.error(np.asarray(model.X.mean)), "seconds": seconds},
        "times_as_long": seconds / our_seconds,
    }


def main() -> None:
    """Measure and print."""
    words = [word for word in sys.argv[1:] if word != "--gpy"]
    directory = Path(words[0]) if words else None
    if "--gpy" in sys.argv:
        if directory is not None and installed("GPy"):
            for data in ("oil-flow", "usps"):
                print_json(data={data: in_fresh_process(variational, data, directory)})
        return
    print_json(data={"stream": in_fresh_process(stream, directory), "batches": in_fresh_process(batches, directory)})


if __name__ == "__main__":
    main()
