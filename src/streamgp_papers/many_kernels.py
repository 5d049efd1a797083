"""One run of the tables of Ghari and Shen (2021): online learners of many kernels on one data set."""

from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases import Fourier
from streamgp.filters.dynamics import static
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.models.multikernel import (
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
from streamgp.models.multikernel.omkr import group_by_kernel
from streamgp.models.presets import SFG_MKL_DICTIONARY
from streamgp.weights import BMA
from streamgp_papers.datasets import load

FEATURES = 100
NEIGHBOURS = 5
PENALTY = 1e-3
GREEDY_AFTER = 300
PIECE = 1024
# Of each Bayesian expert on the table's own scaling: squared-exponential kernels, one of two noise variances.
BAYESIAN_SCALES = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
BAYESIAN_NOISE = (1e-3, 1e-2)
MOST_EXPANDED = 6_000  # rows of a shuffled stream on which OMKR is run: its time grows with their square
LOSS = SquaredLoss(1)


def run_many_kernels(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """All learners on one data set: the mean squared error over all rows, in units of the target's squared range."""
    X, y = load(data, directory, rows, seed, keep_constant=True)
    spread = float(np.ptp(y))
    # Both look ahead, as the authors' scripts do: for the paper's table alone.
    scaled, target = X / np.linalg.norm(X, axis=1).max(), (y - y.min()) / spread
    dictionary = squared_exponentials(SFG_MKL_DICTIONARY)
    with jax.enable_x64(True):
        bank = draw_features(dictionary, X.shape[1], FEATURES, jax.random.key(seed))
        graph = FeedbackGraph.of(dictionary, X.shape[1], NEIGHBOURS)
        models = {
            name: _learn(learner, scaled, target, seed) for name, learner in learners(bank, graph, len(y)).items()
        }
        models["Bayesian, same scaling"] = _bayesian(scaled, target, seed)
    # What draws nothing, or takes long, is run once for all trials: on the first of the shuffled streams.
    if not data.endswith("-shuffled") or len(y) <= MOST_EXPANDED:
        models["OMKR"] = _expansions(data, directory, rows)
    models |= {f"{name}, causal scaling": score for name, score in _causal(data, directory, rows).items()}
    before = np.r_[0.5, target[:-1]]
    models["persistence"] = _score(before, target)
    means = np.r_[0.5, np.cumsum(target[:-1]) / np.arange(1, len(target))]
    models["running mean"] = _score(means, target)
    return {"rows": len(y), "inputs": X.shape[1], "models": models}


def learners(bank: FeatureBank, graph: FeedbackGraph, rows: int) -> dict[str, Any]:
    """The paper's learners with its settings, and with what its authors' scripts have otherwise.

    As printed: eta = xi = 1 / sqrt(T), constants; weights take the loss before the step; nothing is clipped.
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


def stream(learner: Any, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """What a learner predicts of each row, and its seconds, those of compiling not counted."""
    model = MultiKernel(learner, ("",) * len(SFG_MKL_DICTIONARY), X.shape[1])
    fresh = state = model.init(jax.random.key(seed))
    size = min(PIECE, len(y))
    padding = -len(y) % size
    X, y = np.pad(X, ((0, padding), (0, 0))), np.pad(y, (0, padding))[:, None]
    mask = np.arange(len(y)) < len(y) - padding
    pieces: list[Any] = [tuple(jnp.asarray(a[i : i + size]) for a in (X, y, mask)) for i in range(0, len(y), size)]
    jax.block_until_ready(model.update(fresh, *pieces[0]))
    told, began = [], perf_counter()
    for piece in pieces:
        state, info = model.update(state, *piece)
        told.append(info.predictive.loc[:, 0, 0])
    found = np.concatenate([np.asarray(each) for each in told])
    return found[mask], perf_counter() - began


def _learn(learner: Any, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    told, seconds = stream(learner, X, y, seed)
    return _score(told, y) | {"seconds": seconds}


def _score(told: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {"mse": 1e3 * float(np.mean(np.square(told - y)))}


@lru_cache(maxsize=64)
def _expansions(data: str, directory: Path | None, rows: int | None) -> dict[str, float]:
    """OMKR, which draws nothing."""
    X, y = load(data, directory, rows, keep_constant=True)
    X, y = X / np.linalg.norm(X, axis=1).max(), (y - y.min()) / np.ptp(y)
    # Its kernels alone are exp(-|r|^2 / g): of lengthscale sqrt(g / 2).
    scales = tuple(scale * 2.0**-0.5 for scale in SFG_MKL_DICTIONARY)
    with jax.enable_x64(True):
        kernels = group_by_kernel(squared_exponentials(scales))
        return _learn(OMKR(*kernels, LOSS, constant(len(y) ** -0.5), X.shape[1], len(y)), X, y, 0)


@lru_cache(maxsize=64)
def _causal(data: str, directory: Path | None, rows: int | None) -> dict[str, dict[str, float]]:
    """This library's models as anyone would run them: inputs and target scaled by the rows before."""
    X, y = load(data, directory, rows)
    found = {}
    for name in ("default", "raker", "sfg-mkl"):
        began = perf_counter()
        result = evaluate(StreamingGPRegressor(name), X, y, progress=False)
        # Of the first row nothing is known, not even the scale.
        found[name] = _score(result.mean[1:] / np.ptp(y), y[1:] / np.ptp(y)) | {"seconds": perf_counter() - began}
    return found


def _bayesian(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """An ensemble of Gaussian processes with five of the kernels, none of them fitted, on the table's scaling."""
    features = draw_features(squared_exponentials(BAYESIAN_SCALES), X.shape[1], FEATURES, jax.random.key(seed))
    experts = [
        Expert(Fourier(frequencies, jnp.ones(X.shape[1])), jnp.asarray(1.0), jnp.asarray(noise), static())
        for frequencies in features.frequencies
        for noise in BAYESIAN_NOISE
    ]
    model = ensemble(experts, BMA())
    state, told, began = model.init(jax.random.key(0)), [], perf_counter()
    for i in range(0, len(y), PIECE):
        state, info = model.update(state, jnp.asarray(X[i : i + PIECE]), jnp.asarray(y[i : i + PIECE, None]))
        told.append(np.asarray(info.predictive.mean)[:, 0])
    return _score(np.concatenate(told), y) | {"seconds": perf_counter() - began}
