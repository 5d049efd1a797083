"""One run of the tables of Ghari and Shen (2021): online learners of many kernels on one data set."""

from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases import Fourier
from streamgp.filters.dynamics import static
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.numerics.accelerator import jax, jnp
from streamgp.numerics.precision import float64
from streamgp.research.annex import SFG_MKL_DICTIONARY
from streamgp.research.multikernel import (
    OMKLGF,
    OMKR,
    SFG,
    AdaRaker,
    FeatureBank,
    FeedbackGraph,
    MultiKernel,
    Raker,
    SquaredLoss,
    constant,
    draw_features,
    falling,
    squared_exponentials,
)
from streamgp.research.multikernel.omkr import group_by_kernel
from streamgp.weights import BMA
from streamgp_papers.data_files import load

FEATURES = 100
NEIGHBOURS = 5
PENALTY = 1e-3
GREEDY_AFTER = 300
BATCH_ROWS = 1024
# Of the Bayesian experts on the table's own scaling: squared-exponential kernels, one of two noise variances.
BAYESIAN_SCALES = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
BAYESIAN_NOISE = (1e-3, 1e-2)
# OMKR is run on so many rows of a shuffled stream at most: its time grows with their square.
MAX_EXPANDED_ROWS = 6_000
LOSS = SquaredLoss(1)


def run_many_kernels(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run all learners on one data set.

    Scores are the mean squared errors over all rows, in thousandths of the target's squared range.
    """
    X, y = load(data, directory, rows, seed, keep_constant=True)
    # Both scalings look ahead, as those of the authors' scripts: for the paper's table alone.
    scaled, target = X / np.linalg.norm(X, axis=1).max(), (y - y.min()) / float(np.ptp(y))
    dictionary = squared_exponentials(SFG_MKL_DICTIONARY)
    with float64():
        bank = draw_features(dictionary, X.shape[1], FEATURES, keys.key(seed))
        graph = FeedbackGraph.of(dictionary, X.shape[1], NEIGHBOURS)
        models = {
            name: _learn(learner, scaled, target, seed)
            for name, learner in make_learners(bank, graph, len(y)).items()
        }
        models["Bayesian, same scaling"] = _score_bayesian(scaled, target, seed)
    # Methods that draw nothing, or are expensive, run once for all trials: on the first of the shuffled streams.
    if not data.endswith("-shuffled") or len(y) <= MAX_EXPANDED_ROWS:
        models["OMKR"] = _score_omkr(data, directory, rows)
    models |= {f"{name}, causal scaling": score for name, score in _score_causal(data, directory, rows).items()}
    before = np.r_[0.5, target[:-1]]
    models["persistence"] = _score(before, target)
    means = np.r_[0.5, np.cumsum(target[:-1]) / np.arange(1, len(target))]
    models["running mean"] = _score(means, target)
    return {"rows": len(y), "inputs": X.shape[1], "models": models}


def make_learners(bank: FeatureBank, graph: FeedbackGraph, rows: int) -> dict[str, Any]:
    """Make the paper's learners with its settings, and with those of its authors' scripts where they differ.

    As printed: eta = xi = 1 / sqrt(T), constants; weights use the loss before the step; nothing is clipped.
    """
    eta = constant(rows**-0.5)
    common = {"penalty": PENALTY, "greedy_after": GREEDY_AFTER}
    script = {**common, "clip": (0.1, 0.2), "weights_after": True}
    stays = {**common, "clip": (0.1, 0.2), "stay_at": 0}
    return {
        "Raker": Raker(bank, LOSS, eta, PENALTY),
        "Raker, script": Raker(bank, LOSS, falling(), PENALTY, weights_after=True),
        "OMKL-GF": OMKLGF(bank, LOSS, eta, eta, penalty=PENALTY),
        "OMKL-GF, plain steps": OMKLGF(bank, LOSS, eta, eta, penalty=PENALTY, plain_steps=True),
        "OMKL-GF, script": OMKLGF(
            bank,
            LOSS,
            falling(),
            falling(),
            penalty=PENALTY,
            clip=0.05,
            plain_steps=True,
            weights_after=True,
        ),
        "SFG-MKL": SFG(bank, graph, LOSS, eta, eta, **common),
        "SFG-MKL-R": SFG(bank, graph, LOSS, eta, eta, refine=True, **common),
        "SFG-MKL, script": SFG(bank, graph, LOSS, falling(0.1), falling(), **script),
        "SFG-MKL, clipped, stays at node 1": SFG(bank, graph, LOSS, eta, eta, **stays),
        "SFG-MKL-R, clipped, stays at node 1": SFG(bank, graph, LOSS, eta, eta, refine=True, **stays),
        "AdaRaker": AdaRaker(bank, LOSS, PENALTY),
    }


def predict_stream(learner: Any, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Predict and learn every row; return the predictions, and the seconds without compilation."""
    model = MultiKernel(learner, ("",) * len(SFG_MKL_DICTIONARY), X.shape[1])
    fresh = state = model.init(keys.key(seed))
    size = min(BATCH_ROWS, len(y))
    padding = -len(y) % size
    X, y = np.pad(X, ((0, padding), (0, 0))), np.pad(y, (0, padding))[:, None]
    mask = np.arange(len(y)) < len(y) - padding
    batches: list[Any] = [tuple(jnp.asarray(a[i : i + size]) for a in (X, y, mask)) for i in range(0, len(y), size)]
    jax.block_until_ready(model.update(fresh, *batches[0]))
    predicted, began = [], perf_counter()
    for batch in batches:
        state, info = model.update(state, *batch)
        predicted.append(info.predictive.loc[:, 0, 0])
    found = np.concatenate([np.asarray(each) for each in predicted])
    return found[mask], perf_counter() - began


def _learn(learner: Any, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    predicted, seconds = predict_stream(learner, X, y, seed)
    return _score(predicted, y) | {"seconds": seconds}


def _score(predicted: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {"mse": 1e3 * float(np.mean(np.square(predicted - y)))}


@lru_cache(maxsize=64)
def _score_omkr(data: str, directory: Path | None, rows: int | None) -> dict[str, float]:
    """Score OMKR, which draws nothing."""
    X, y = load(data, directory, rows, keep_constant=True)
    X, y = X / np.linalg.norm(X, axis=1).max(), (y - y.min()) / np.ptp(y)
    # Its kernels alone are exp(-|r|^2 / g): of lengthscale sqrt(g / 2).
    scales = tuple(scale * 2.0**-0.5 for scale in SFG_MKL_DICTIONARY)
    with float64():
        kernels = group_by_kernel(squared_exponentials(scales))
        return _learn(OMKR(*kernels, LOSS, constant(len(y) ** -0.5), X.shape[1], len(y)), X, y, 0)


@lru_cache(maxsize=64)
def _score_causal(data: str, directory: Path | None, rows: int | None) -> dict[str, dict[str, float]]:
    """Score this library's models as a user runs them: inputs and target scaled by the rows before."""
    X, y = load(data, directory, rows)
    found = {}
    for name in ("default", "raker", "sfg-mkl"):
        began = perf_counter()
        result = evaluate(StreamingGPRegressor(name), X, y, progress=False)
        # Before the first row nothing is known, not even the scale.
        found[name] = _score(result.mean[1:] / np.ptp(y), y[1:] / np.ptp(y)) | {"seconds": perf_counter() - began}
    return found


def _score_bayesian(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """Score an ensemble of Gaussian processes on five of the kernels, none fitted, on the table's scaling."""
    features = draw_features(squared_exponentials(BAYESIAN_SCALES), X.shape[1], FEATURES, keys.key(seed))
    experts = [
        Expert(Fourier(frequencies, jnp.ones(X.shape[1])), jnp.asarray(1.0), jnp.asarray(noise), static())
        for frequencies in features.frequencies
        for noise in BAYESIAN_NOISE
    ]
    model = ensemble(experts, BMA())
    state, predicted, began = model.init(keys.key(0)), [], perf_counter()
    for i in range(0, len(y), BATCH_ROWS):
        state, info = model.update(
            state, jnp.asarray(X[i : i + BATCH_ROWS]), jnp.asarray(y[i : i + BATCH_ROWS, None])
        )
        predicted.append(np.asarray(info.predictive.mean)[:, 0])
    return _score(np.concatenate(predicted), y) | {"seconds": perf_counter() - began}
