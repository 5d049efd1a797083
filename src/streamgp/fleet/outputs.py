"""From mixtures to columns, and from the sums over every key's rows to scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.fleet.directory import Directory
from streamgp.fleet.engine import DOF, FleetEngine
from streamgp.fleet.model import QUANTILES, Mixture
from streamgp.fleet.states import take
from streamgp.numerics import mixtures
from streamgp.numerics.crps import mixture_crps
from streamgp.numerics.quantiles import mixture_quantiles

COVERAGE_LEVELS = (50, 90, 95)
NAMES = ("q05", "q50", "q95")
BATCH = 4_096  # rows at a time
KEYS = 4_096  # keys at a time, whose covariances are read

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class FleetEvaluation:
    """What `StreamingGPFleet.evaluate` found.

    Attributes
    ----------
    frame
        The key, time and target of every row, what was predicted of it before it was learnt, and its log density and
        CRPS.
    metrics
        Scores over the rows after the warm-up.
    scores
        By key, as `StreamingGPFleet.scores` returns them.
    """

    frame: Any
    metrics: dict[str, Any]
    scores: Any


def spread(values: Values, good: np.ndarray, rows: int) -> Values:
    """Return columns of the good rows as columns of all rows, NaN in the others."""
    wide = {name: np.full(rows, np.nan) for name in values}
    for name, value in values.items():
        wide[name][good] = value
    return wide


def quantiles(mixture: Mixture, probabilities: Sequence[float]) -> list[Float[np.ndarray, " n"]]:
    """Return quantiles of every row."""
    parts = [mixture_quantiles(_flat(part), list(probabilities)) for part in _batches(mixture)]
    return (
        [np.concatenate(each) for each in zip(*parts, strict=True)] if parts else [np.empty(0)] * len(probabilities)
    )


def predictions(mixture: Mixture) -> Values:
    """Return mean, standard deviation and quantiles of every row."""
    mean, std = mixture.moments
    return {"mean": mean, "std": std} | dict(zip(NAMES, quantiles(mixture, QUANTILES), strict=True))


def judge(mixture: Mixture, y: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return CRPS and the level at which the target came of every row, NaN where there is none."""
    found = []
    for part, target in zip(_batches(mixture), (y[i : i + BATCH] for i in range(0, len(y), BATCH)), strict=True):
        m, there = _flat(part), np.nan_to_num(target)
        at_y = mixtures.evaluate(m, there)
        both = np.stack([mixture_crps(m, there, at_y), mixtures.cdf(m, at_y)])
        found.append(np.where(np.isnan(target), np.nan, both))
    crps, level = np.concatenate(found, axis=1) if found else np.empty((2, 0))
    return crps, level


def metrics(
    values: Values, y: Float[np.ndarray, " n"], level: Float[np.ndarray, " n"], scored: Bool[np.ndarray, " n"]
) -> dict[str, Any]:
    """Return scores over rows: those with a target that the fitted fleet predicted, which came at these levels."""
    rows = scored & ~np.isnan(y)
    count = int(rows.sum())
    found: dict[str, Any] = {"rows": len(y), "scored_rows": count}
    if not count:
        return found
    y, of = y[rows], {name: value[rows] for name, value in values.items()}
    error = y - of["mean"]
    return found | {
        "rmse": float(np.sqrt(np.mean(np.square(error)))),
        "mae": float(np.mean(np.abs(error))),
        "pll": float(np.mean(of["log_density"])),
        "crps": float(np.mean(of["crps"])),
        "coverage": {str(c): float(np.mean(np.abs(level[rows] - 0.5) <= c / 200.0)) for c in COVERAGE_LEVELS},
    }


def scores(engine: FleetEngine, directory: Directory) -> Mapping[str, np.ndarray]:
    """Return the scores of every key; NaN where there are none yet."""
    n = len(directory)
    found: Values = {name: getattr(directory, name) for name in Directory.COUNTS}
    found["last_seen"] = directory.seen
    none = np.full(n, np.nan)
    if engine.states is None or engine.model is None:
        zero = np.zeros(n, np.int64)
        found |= {"scored_rows": zero, "flagged": zero, "resets": zero, "borrowed": np.ones(n)}
        return found | dict.fromkeys(("nmse", "pll", "coverage", "nmse_persistence", "nmse_running_mean"), none)
    states = engine.states
    sums = take(states.scores, slice(0, n))
    with np.errstate(all="ignore"):
        each = np.where(sums.rows > 0, sums.rows, np.nan)
        whole = np.where(sums.m2 > 0, sums.m2, np.nan)
        return found | {
            "scored_rows": sums.rows.astype(np.int64),
            "nmse": sums.squared / whole,
            "pll": sums.log_density / each,
            "coverage": sums.covered / each,
            "nmse_persistence": sums.persistence / whole,
            "nmse_running_mean": sums.running / whole,
            "flagged": states.flagged[:n].copy(),
            "resets": states.beliefs.resets[:n].copy(),
            "borrowed": borrowed(engine, n),
        }


def borrowed(engine: FleetEngine, keys: int) -> Float[np.ndarray, " n"]:
    """Return the share of the prior's variance that every key's beliefs still have, by the weights of its experts.

    One for a new key: all that it believes is the fleet's. It falls as its own rows say more.
    """
    assert engine.model is not None and engine.states is not None
    features = engine.model.features.num_features
    on = engine.model.priors[0].root.diagonal(axis1=1, axis2=2) > 0.0
    diagonal = np.cumsum(np.arange(1, features + 1)) - 1
    found = np.empty(keys)
    for start in range(0, keys, KEYS):
        beliefs = take(engine.states.beliefs, slice(start, min(start + KEYS, keys)))
        left = np.where(on, beliefs.cov[..., diagonal], 0.0).sum(-1) / on.sum(-1)
        weights = np.exp(beliefs.log_weights).reshape(*left.shape, -1).sum(-1)
        found[start : start + KEYS] = np.vecdot(weights, left) / weights.sum(-1)
    return found


def _flat(part: Mixture) -> mixtures.Mixtures:
    return mixtures.flatten(
        part.log_weights, part.mean[..., None], part.var[..., None], np.broadcast_to(DOF, part.mean.shape)
    )


def _batches(mixture: Mixture) -> list[Mixture]:
    return [Mixture(*(a[i : i + BATCH] for a in mixture)) for i in range(0, len(mixture.mean), BATCH)]
