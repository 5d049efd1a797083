"""Growth of the regret of SFG-MKL and SFG-MKL-R with the length of the stream (Ghari and Shen 2021, Thms. 3, 4)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from streamgp.app.outputs import RunError
from streamgp.numerics import keys
from streamgp.numerics.accelerator import jnp
from streamgp.numerics.precision import float64
from streamgp.research.annex import SFG_MKL_DICTIONARY
from streamgp.research.multikernel import (
    SFG,
    FeatureBank,
    FeedbackGraph,
    Raker,
    constant,
    draw_features,
    squared_exponentials,
)
from streamgp_papers.many_kernels import FEATURES, LOSS, NEIGHBOURS, predict_stream

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
FIT_FROM = 512
EXPONENT_SFG, EXPONENT_REFINED = 0.75, 0.5
RADIUS = 1.0
INPUTS = 3
SINES, PLANE = "mkl-sines", "mkl-plane"


def run_growth(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Measure the regret at every length, on a stream drawn by the seed; `directory` is not used.

    Raises
    ------
    RunError
        If fewer than three lengths are left with so few rows: a slope needs three.
    """
    lengths = [length for length in LENGTHS if rows is None or length <= rows]
    fitted = [length for length in LENGTHS if length >= FIT_FROM]
    if len([length for length in lengths if length >= FIT_FROM]) < 3:
        raise RunError(f"{data}: expected at least {fitted[2]:,} rows for three lengths of the stream, got {rows}")
    lines: dict[str, list[float]] = {}
    largest = 0.0
    with float64():
        dictionary = squared_exponentials(SFG_MKL_DICTIONARY)
        bank = draw_features(dictionary, INPUTS, FEATURES, keys.key(seed))
        graph = FeedbackGraph.of(dictionary, INPUTS, NEIGHBOURS)
        for length in lengths:
            X, y = generate(length, seed, plane=data == PLANE)
            best = best_loss(bank, X, y)
            for name, make in LEARNERS.items():
                loss = np.square(predict_stream(make(bank, graph, length), X, y, seed)[0] - y)
                lines.setdefault(name, []).append(float(loss.sum() - best))
                largest = max(largest, float(loss.max()))
    models = {
        name: {"regret": values[-1], "exponent": fit_exponent(lengths, values)} for name, values in lines.items()
    }
    curves = {name: {"rows": lengths, "regret": values} for name, values in lines.items()}
    remark = f"largest loss {largest:.2g} (seed 0)"
    return {"rows": max(lengths), "inputs": INPUTS, "models": models, "regret": curves, "remarks": [remark]}


def generate(rows: int, seed: int, *, plane: bool) -> tuple[np.ndarray, np.ndarray]:
    """Generate inputs with |x| <= 1 and targets in [0, 1], by one rule for all lengths: a plane, or sines."""
    rng = np.random.default_rng([seed, rows])
    X = rng.uniform(0.0, 1.0, (rows, INPUTS)) / np.sqrt(INPUTS)
    waves = 0.25 * np.sin(6.0 * X[:, 0]) * np.cos(5.0 * X[:, 1]) + 0.2 * X[:, 2]
    signal = 0.5 + (0.4 * (X[:, 0] - X[:, 1]) if plane else waves)
    return X, np.clip(signal + 0.05 * rng.normal(size=rows), 0.0, 1.0)


def best_loss(bank: FeatureBank, X: np.ndarray, y: np.ndarray) -> float:
    """Compute the least loss in hindsight, of any kernel with coefficients of at most the learners' length."""
    best = np.inf
    for kernel in range(bank.num_kernels):
        Z = np.asarray(FeatureBank(bank.frequencies[kernel : kernel + 1])(jnp.asarray(X)))[:, 0]
        values, vectors = np.linalg.eigh(Z.T @ Z)
        right = vectors.T @ (Z.T @ y)
        theta = vectors @ _within_radius(np.maximum(values, 1e-12 * values[-1]), right)
        best = min(best, float(np.sum(np.square(Z @ theta - y))))
    return best


def _within_radius(curvature: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Minimise c x^2 - 2 r x over |x| <= RADIUS: x = r / (c + m), with the least feasible multiplier m >= 0."""

    def excess(log_m: float) -> float:
        return float(np.sum(np.square(right / (curvature + np.exp(log_m))))) - RADIUS**2

    free = right / curvature
    if np.sum(np.square(free)) <= RADIUS**2:
        return free
    log_m: Any = brentq(excess, -40.0, 40.0, xtol=1e-10)
    return right / (curvature + np.exp(log_m))


def fit_exponent(lengths: list[int], regret: list[float]) -> float:
    """Fit the slope of log regret in log T."""
    kept = [(length, value) for length, value in zip(lengths, regret, strict=True) if length >= FIT_FROM]
    if any(value <= 0.0 for _, value in kept):
        return float("-inf")  # the learner has less loss than any fixed coefficients
    at, values = np.log(np.array(kept)).T
    return float(np.polyfit(at, values, 1)[0])


def _theorem_3(bank: FeatureBank, graph: FeedbackGraph, rows: int) -> SFG:
    rates = constant(rows**-0.5), constant(rows**-0.25)
    return SFG(bank, graph, LOSS, *rates, penalty=0.0, radius=RADIUS, greedy_after=None)


def _theorem_4(bank: FeatureBank, graph: FeedbackGraph, rows: int) -> SFG:
    rates = constant(rows**-0.5), constant(rows**-0.5)
    least = 1.0 / bank.num_kernels
    return SFG(bank, graph, LOSS, *rates, penalty=0.0, radius=RADIUS, refine=True, least=least, greedy_after=None)


def _experiments(bank: FeatureBank, graph: FeedbackGraph, rows: int) -> SFG:
    rates = constant(rows**-0.5), constant(rows**-0.5)
    return SFG(bank, graph, LOSS, *rates, penalty=0.0, radius=RADIUS, greedy_after=None)


def _raker(bank: FeatureBank, graph: FeedbackGraph, rows: int) -> Raker:
    return Raker(bank, LOSS, constant(rows**-0.5), 0.0, RADIUS)


LEARNERS: dict[str, Callable[[FeatureBank, FeedbackGraph, int], Any]] = {
    "SFG-MKL, theorem": _theorem_3,
    "SFG-MKL-R, theorem": _theorem_4,
    "SFG-MKL, xi of the experiments": _experiments,
    "Raker": _raker,
}
