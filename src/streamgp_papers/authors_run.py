"""SFG-MKL and OMKL-GF as the public code of Ghari and Shen runs them, from the printed algorithm one step at a time.

A program of its own, in NumPy, beside the library's: what it shares with that is the graph of the kernels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.research.annex import SFG_MKL_DICTIONARY
from streamgp.research.multikernel import squared_exponentials
from streamgp.research.multikernel.graph import dominating_set, neighbours
from streamgp_papers.data_files import load
from streamgp_papers.many_kernels import FEATURES, GREEDY_AFTER, NEIGHBOURS, PENALTY

DRAWS = 10  # of OMKL-GF, with repetition
_BLOCK = 256  # rows whose features are computed together


@dataclass(frozen=True)
class Departures:
    """In what the code differs from the printed Algorithms 1 and 2.

    Attributes
    ----------
    clips
        Least q and p by which losses are divided.
    one_dimensional
        Whether kernels are compared as functions of one input, however many there are.
    by_prediction
        Whether u shrinks with what was predicted, in place of the loss.
    first_kernel
        Whether the node is the first kernel from row 300 on, in place of that of the largest u.
    """

    clips: tuple[float, float] = (0.0, 0.0)
    one_dimensional: bool = False
    by_prediction: bool = False
    first_kernel: bool = False


PRINTED = Departures()
# From the printed algorithm to what was run, each with one departure more than the one before.
PATH: dict[str, Departures] = {"SFG-MKL, as printed": PRINTED}
for _name, _change in (
    ("q and p clipped", {"clips": (0.1, 0.2)}),
    ("graph of one input", {"one_dimensional": True}),
    ("u by the prediction", {"by_prediction": True}),
    ("first kernel from row 300, all as run", {"first_kernel": True}),
):
    PATH[f"SFG-MKL, ... {_name}"] = replace([*PATH.values()][-1], **_change)
AS_RUN = [*PATH][-1]
# What of these alone, and all but the first kernel's being taken, comes to.
ALONE = {"SFG-MKL, printed, but first kernel from row 300": replace(PRINTED, first_kernel=True)}
OMKL_GF = {
    "OMKL-GF, plain steps": False,
    "OMKL-GF, ... draws stay from row 300, as run": True,
}


def run_as_authors(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run every variant on one data set; scores are those of `run_many_kernels`."""
    X, y = load(data, directory, rows, seed, keep_constant=True)
    X, y = X / np.linalg.norm(X, axis=1).max(), (y - y.min()) / float(np.ptp(y))
    rng = np.random.default_rng(seed)
    scales = np.asarray(SFG_MKL_DICTIONARY)
    frequencies = rng.normal(size=(len(scales), FEATURES // 2, X.shape[1])) / scales[:, None, None]
    found = {}
    for name, departures in (PATH | ALONE).items():
        found[name] = predicted_by_sfg(X, y, frequencies, departures, np.random.default_rng([seed, 1]))
    for name, stays in OMKL_GF.items():
        found[name] = predicted_by_omkl_gf(X, y, frequencies, np.random.default_rng([seed, 2]), stays=stays)
    models = {name: {"mse": 1e3 * float(np.mean(np.square(each - y)))} for name, each in found.items()}
    return {"rows": len(y), "inputs": X.shape[1], "models": models}


def predicted_by_sfg(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    frequencies: Float[np.ndarray, "k f d"],
    departures: Departures,
    rng: np.random.Generator,
) -> Float[np.ndarray, " n"]:
    """Predict and learn every row (Ghari and Shen 2021, Alg. 1 and 2), with eta = xi = 1 / sqrt(T)."""
    n, k = len(y), len(frequencies)
    dictionary = squared_exponentials(SFG_MKL_DICTIONARY)
    out = neighbours(dictionary, 1 if departures.one_dimensional else X.shape[1], NEIGHBOURS)
    sees = np.zeros((k, k))
    np.put_along_axis(sees, out, 1.0, axis=1)
    dominates = dominating_set(out)
    eta = xi = n**-0.5
    theta, log_w, log_u, found = np.zeros((k, FEATURES)), np.zeros(k), np.zeros(k), np.empty(n)
    for t, z_of in enumerate(_features(X, frequencies)):
        u = np.exp(log_u - log_u.max())
        p = (1.0 - xi) * u / u.sum() + xi * dominates / dominates.sum()
        node = int(rng.choice(k, p=p / p.sum()))
        if t >= GREEDY_AFTER:
            node = 0 if departures.first_kernel else int(np.argmax(log_u))
        which = out[node]
        z, w = z_of(which), np.exp(log_w[which] - log_w[which].max())
        each = np.einsum("kf,kf->k", z, theta[which])
        found[t] = each @ w / w.sum()
        q = np.maximum((p @ sees)[which], departures.clips[0])
        losses = np.square(each - y[t]) + PENALTY * np.sum(np.square(theta[which]), axis=1)
        gradient = 2.0 * (each - y[t])[:, None] * z + 2.0 * PENALTY * theta[which]
        theta[which] -= eta * gradient / q[:, None]
        log_w[which] -= eta * losses / q
        weighed = found[t] if departures.by_prediction else np.square(found[t] - y[t])
        log_u[node] -= eta * weighed / max(p[node], departures.clips[1])
    return found


def predicted_by_omkl_gf(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    frequencies: Float[np.ndarray, "k f d"],
    rng: np.random.Generator,
    *,
    stays: bool,
) -> Float[np.ndarray, " n"]:
    """Predict and learn every row (Ghari and Shen 2020) with one node and steps that are not divided.

    With `stays` the kernels drawn at row 300 are those of all later rows.
    """
    n, k = len(y), len(frequencies)
    eta = xi = n**-0.5
    theta, log_w, found = np.zeros((k, FEATURES)), np.zeros(k), np.empty(n)
    which: Int[np.ndarray, " m"] = np.zeros(0, np.int64)
    for t, z_of in enumerate(_features(X, frequencies)):
        w = np.exp(log_w - log_w.max())
        p = (1.0 - xi) * w / w.sum() + xi / k
        if t <= GREEDY_AFTER or not stays:
            which = np.unique(rng.choice(k, DRAWS, p=p / p.sum()))
        z, own = z_of(which), np.exp(log_w[which] - log_w[which].max())
        each = np.einsum("kf,kf->k", z, theta[which])
        found[t] = each @ own / own.sum()
        q = -np.expm1(DRAWS * np.log1p(-np.minimum(p[which], 1.0 - 1e-16)))
        losses = np.square(each - y[t]) + PENALTY * np.sum(np.square(theta[which]), axis=1)
        theta[which] -= eta * (2.0 * (each - y[t])[:, None] * z + 2.0 * PENALTY * theta[which])
        log_w[which] -= eta * losses / q
    return found


class _Row:
    """The features of a row, by kernel."""

    def __init__(self, waves: Float[np.ndarray, "k f"]) -> None:
        self._waves = waves

    def __call__(self, which: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m g"]:
        waves = self._waves[which]
        return np.concatenate([np.sin(waves), np.cos(waves)], axis=1) / np.sqrt(waves.shape[1])


def _features(X: Float[np.ndarray, "n d"], frequencies: Float[np.ndarray, "k f d"]) -> Iterator[_Row]:
    """Yield the random features of each row."""
    for start in range(0, len(X), _BLOCK):
        yield from map(_Row, np.einsum("nd,kfd->nkf", X[start : start + _BLOCK], frequencies, optimize=True))
