"""The synthetic checks of Lu, Karanikolas and Giannakis (2022, App. A) as runs of a reproduction."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.app.outputs import RunError
from streamgp.research.regret.checks import bands, static_growth, switching_growth

LENGTHS = (50, 100, 200, 400, 800, 1600)
# A point of the grid is near the rows if a row is no further away than this.
NEAR = 0.1
# So many standard deviations hold 95% of a normal distribution.
Z95 = 1.959964


def run_check(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run one of the three checks, by the name of its data; `directory` is not used.

    Raises
    ------
    RunError
        If fewer than three lengths are left with so few rows: a curve needs three.
    """
    if data == "iegp-bands":
        return _bands(seed)
    lengths = [length for length in LENGTHS if rows is None or length <= rows]
    if len(lengths) < 3:
        raise RunError(f"{data}: expected at least {LENGTHS[2]} rows for three lengths of the stream, got {rows}")
    return (_static if data == "iegp-sines" else _switching)(seed, lengths)


def _bands(seed: int) -> dict[str, Any]:
    """Reproduce Fig. 9: the width of the bands, and their coverage of the function."""
    b = bands(seed)
    near = np.abs(b.grid[:, None] - b.x[None, :]).min(axis=1) <= NEAR
    half = Z95 * b.std
    inside = np.abs(b.truth - b.mean) <= half
    models = {
        name: {"width": float(np.mean(2.0 * half[where])), "coverage": float(np.mean(inside[where]))}
        for name, where in (("near the rows", near), ("far from the rows", ~near))
    }
    picture = {
        "x": b.x.tolist(),
        "y": b.y.tolist(),
        "grid": b.grid.tolist(),
        "truth": b.truth.tolist(),
        "mean": b.mean.tolist(),
        "low": (b.mean - half).tolist(),
        "high": (b.mean + half).tolist(),
    }
    return {"rows": len(b.x), "inputs": 1, "models": models, "bands": picture}


def _static(seed: int, lengths: Sequence[int]) -> dict[str, Any]:
    """Reproduce Fig. 10: static regret of IE-GP as the stream grows, and the misfit of two laws."""
    points = static_growth(seed, lengths, dense_rows=max(lengths))
    to_kernel, to_basis = [point.to_kernel for point in points], [point.to_basis for point in points]
    models: dict[str, dict[str, float | None]] = {
        "IE-GP against kernels": {"regret": to_kernel[-1]},
        "IE-GP against bases": {"regret": to_basis[-1]},
        "Lemma 1's bound": {"regret": points[-1].bound},
    }
    lines = {
        "IE-GP against kernels": to_kernel,
        "IE-GP against bases": to_basis,
        "Lemma 1's bound": [point.bound for point in points],
    }
    for what, values in (("kernels", to_kernel), ("bases", to_basis)):
        models[f"{what}: a + b log T"] = {"misfit": _misfit(np.log(lengths), values)}
        models[f"{what}: a + b T"] = {"misfit": _misfit(lengths, values)}
    return {"rows": max(lengths), "inputs": 1, "models": models, "regret": _lines(lengths, lines)}


def _switching(seed: int, lengths: Sequence[int]) -> dict[str, Any]:
    """Reproduce Fig. 11: average switching regret, a stream for each length."""
    points = switching_growth(seed, lengths)
    lines = {
        "SIE-GP against kernels": [point.to_kernel / point.rows for point in points],
        "SIE-GP against bases": [point.to_basis / point.rows for point in points],
        "own slots against bases": [point.own_to_basis / point.rows for point in points],
        "bound for own slots": [point.bound / point.rows for point in points],
    }
    models = {name: {"regret_per_row": values[-1]} for name, values in lines.items()}
    models |= {f"{name}, shortest stream": {"regret_per_row": lines[name][0]} for name in [*lines][:3]}
    return {"rows": max(lengths), "inputs": 1, "models": models, "regret": _lines(lengths, lines)}


def _misfit(at: Sequence[float] | np.ndarray, values: Sequence[float | None]) -> float:
    """Compute the root mean squared distance of the values from the best straight line in `at`."""
    y = np.array(values, dtype=float)
    design = np.stack([np.ones(len(y)), np.asarray(at, dtype=float)], axis=1)
    return float(np.sqrt(np.mean(np.square(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]))))


def _lines(lengths: Sequence[int], lines: dict[str, list]) -> dict[str, Any]:
    return {name: {"rows": list(lengths), "regret": values} for name, values in lines.items()}
