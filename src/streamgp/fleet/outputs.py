"""Columns of output from mixtures, and scores of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.fleet import targets
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.model import QUANTILES
from streamgp.likelihoods import TargetMap
from streamgp.numerics import mixtures
from streamgp.numerics.crps import mixture_crps
from streamgp.numerics.digits import shortest
from streamgp.numerics.quantiles import mixture_quantiles

COVERAGE_LEVELS = (50, 90, 95)
NAMES = ("q05", "q50", "q95")
BATCH = 4_096  # rows at a time

Values = dict[str, np.ndarray]


def spread(values: Values, good: np.ndarray, rows: int) -> Values:
    """Return columns of the good rows as columns of all rows, NaN in the others."""
    wide = {name: np.full(rows, np.nan) for name in values}
    for name, value in values.items():
        wide[name][good] = value
    return wide


def quantiles(mixture: Mixture, probabilities: Sequence[float], target: TargetMap) -> list[Float[np.ndarray, " n"]]:
    """Return quantiles of every row's target."""
    parts = [mixture_quantiles(_flat(part), list(probabilities)) for part in _batches(mixture)]
    if not parts:
        return [np.empty(0)] * len(probabilities)
    return [target.inverse(np.concatenate(each)) for each in zip(*parts, strict=True)]


def predictions(mixture: Mixture, target: TargetMap) -> Values:
    """Return mean, standard deviation and quantiles of every row's target."""
    mean, std = targets.moments(mixture, target)
    return {"mean": mean, "std": std} | dict(zip(NAMES, quantiles(mixture, QUANTILES, target), strict=True))


def bands(mixture: Mixture, levels: Sequence[float], target: TargetMap) -> Values:
    """Return the ends of the central bands that hold these percentages of every row's distribution."""
    ends: Values = {}
    for level in levels:
        low, high = quantiles(mixture, [0.5 - level / 200.0, 0.5 + level / 200.0], target)
        ends |= {f"mean-lo-{shortest(level)}": low, f"mean-hi-{shortest(level)}": high}
    return ends


def judge(
    mixture: Mixture, y: Float[np.ndarray, " n"], target: TargetMap
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return CRPS and the level at which the target came of every row, NaN where there is none."""
    found = []
    for part, came in zip(_batches(mixture), (y[i : i + BATCH] for i in range(0, len(y), BATCH)), strict=True):
        there = ~np.isnan(came)
        both = np.full((2, len(came)), np.nan)
        if there.any():
            both[:, there] = _judged(Mixture(*(a[there] for a in part)), came[there], target)
        found.append(both)
    crps, level = np.concatenate(found, axis=1) if found else np.empty((2, 0))
    return crps, level


def _judged(mixture: Mixture, y: Float[np.ndarray, " n"], target: TargetMap) -> Float[np.ndarray, "2 n"]:
    if not target.changes_nothing:
        whole = targets.mapped(mixture, target)
        return np.stack([whole.crps(y[:, None])[:, 0], whole.pit(y[:, None])[:, 0]])
    m = _flat(mixture)
    at_y = mixtures.evaluate(m, y)
    return np.stack([mixture_crps(m, y, at_y), mixtures.cdf(m, at_y)])


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


def _flat(part: Mixture) -> mixtures.Mixtures:
    return mixtures.flatten(part.log_weights, part.mean[..., None], part.var[..., None], part.dof)


def _batches(mixture: Mixture) -> list[Mixture]:
    return [Mixture(*(a[i : i + BATCH] for a in mixture)) for i in range(0, len(mixture.mean), BATCH)]
