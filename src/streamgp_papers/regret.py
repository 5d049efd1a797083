"""The synthetic checks of Lu, Karanikolas and Giannakis (2022, App. A) as runs of a reproduction."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from streamgp.app.outputs import RunError
from streamgp.bases import UserFunction
from streamgp.filters.dynamics import static
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics.accelerator import jnp
from streamgp.numerics.precision import float64
from streamgp.research.regret import (
    best_functions,
    optimal_stay,
    run_losses,
    sequence_bound,
    slots_bound,
    switching_regret,
)
from streamgp.research.regret.checks import bands, static_growth, switching_growth
from streamgp.weights import WeightRule, fixed_share, scan_rule

LENGTHS = (50, 100, 200, 400, 800, 1600)
COUNTER_ROWS = 1_000
# A point of the grid is near the rows if a row is no further away than this.
NEAR = 0.1
# So many standard deviations hold 95% of a normal distribution.
Z95 = 1.959964


def run_check(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run one of the four checks, by the name of its data; `directory` is not used.

    Raises
    ------
    RunError
        If fewer than three lengths are left with so few rows: a curve needs three.
    """
    if data == "iegp-bands":
        return _bands(seed)
    if data == "iegp-counterexamples":
        return _counterexamples()
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


def _counterexamples() -> dict[str, Any]:
    """Measure the regret where Lemmas 2 and 3 are false as printed; nothing is random.

    Lemma 2: all experts but one fail at each row; the one that does not switches six times. Lemma 3: two experts with
    one constant feature, 500 targets of 10 and then 500 of -10.
    """
    T = COUNTER_ROWS
    path = np.repeat(np.arange(7), [143] * 6 + [142])
    losses = np.full((T, 10), 1e4)
    losses[np.arange(T), path] = 0.0
    lemma_2 = sequence_bound(T, 10, 6)
    slots = np.repeat([0, 1], T // 2)
    X, y = np.zeros((T, 1)), np.where(slots == 0, 10.0, -10.0)
    with float64():
        mixture = _mixture_loss(fixed_share(10, 1.0 - optimal_stay(T, 6)), losses)
        expert = Expert(UserFunction(jnp.ones_like, 1), jnp.asarray(100.0), jnp.asarray(1.0), static())
        model = ensemble([expert, expert], fixed_share(2, 1.0 - optimal_stay(T, 1)))
        fits = best_functions(model, X, y, slots)
        as_run, own = (
            float(switching_regret(each.experts[np.arange(T), slots], fits, slots)[-1])
            for each in (run_losses(model, X, y), run_losses(model, X, y, slots))
        )
    norms = [100.0 * fit.squared_norm for fit in fits]
    regrets = {
        "switching experts": mixture,
        "Lemma 2's bound, as printed": lemma_2 - 6.0 * np.log(9.0),
        "Lemma 2's bound, corrected": lemma_2,
        "SIE-GP's experts": as_run,
        "experts of their own slots": own,
        "Lemma 3's bound": slots_bound(T, norms, 100.0, 1, curvature=1.0),
    }
    return {"rows": T, "inputs": 1, "models": {name: {"regret": float(each)} for name, each in regrets.items()}}


def _mixture_loss(rule: WeightRule, losses: np.ndarray) -> float:
    """Compute the loss of the mixture of experts with these losses (T, M): what the best sequence loses is zero."""
    before = scan_rule(rule, rule.init(np.full(losses.shape[1], -np.log(losses.shape[1]))), -losses)[1].log_weights
    return -float(np.sum(np.asarray(logsumexp(np.asarray(before) - losses, axis=1))))


def _misfit(at: Sequence[float] | np.ndarray, values: Sequence[float | None]) -> float:
    """Compute the root mean squared distance of the values from the best straight line in `at`."""
    y = np.array(values, dtype=float)
    design = np.stack([np.ones(len(y)), np.asarray(at, dtype=float)], axis=1)
    return float(np.sqrt(np.mean(np.square(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]))))


def _lines(lengths: Sequence[int], lines: dict[str, list]) -> dict[str, Any]:
    return {name: {"rows": list(lengths), "regret": values} for name, values in lines.items()}
