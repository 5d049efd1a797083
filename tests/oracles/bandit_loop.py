"""Upper confidence bounds of a moving function on a grid, method by method: inverses and fresh determinants.

GP-UCB (Srinivas et al. 2010), R- and TV-GP-UCB (Bogunovic, Scarlett and Cevher 2016), SW-GP-UCB (Zhou and Shroff
2021), W-GP-UCB (Deng et al. 2022) and SparQ-GP-UCB (Mauduit, Berthier and Simonetto, Algorithm 1), in NumPy alone.
"""

from typing import NamedTuple

import numpy as np


class Seen(NamedTuple):
    """An evaluation of the function: where, what, when, after how many steps, and whether an expert made it."""

    x: np.ndarray
    y: float
    time: float
    step: int
    answer: bool


class Model(NamedTuple):
    """A squared-exponential kernel, the noise of rewards and of answers, and what the methods are told.

    Without a `mean` the constant is the one of greatest likelihood.
    """

    lengthscale: float
    variance: float
    noise_var: float
    answer_var: float
    mean: float | None
    window: int
    eps: float
    gamma: float
    reuse: bool = False


def kernel(model: Model, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return model.variance * np.exp(-0.5 * np.sum((X[:, None] - Z[None]) ** 2, axis=2) / model.lengthscale**2)


def trusted(method: str, model: Model, seen: list[Seen], step: int, time: float) -> list[tuple[Seen, float]]:
    """What the method uses after so many steps, at a time, and the variance that each has for it."""
    kept, newest = [], max((one.step for one in seen if not one.answer), default=0)
    for one in seen:
        age, var = time - one.time, model.answer_var if one.answer else model.noise_var
        if method == "r-gp-ucb" and (one.step - (not one.answer)) // model.window != step // model.window:
            continue  # of an earlier block than the next step; answers after a block's last step are of the next
        if method == "sw-gp-ucb" and one.step <= step - model.window:
            continue
        if method == "w-gp-ucb":
            var = var * model.gamma**-age
        if method == "sparq-gp-ucb":
            var = var + model.noise_var * age**2
            most = model.noise_var * np.log(step) if step else 0.0
            if one.answer:
                most = model.variance + model.answer_var - model.noise_var if model.reuse else 0.0
            if var > most and one.step != (step if one.answer else newest):
                continue
        kept.append((one, var))
    return kept


def upper_bounds(
    method: str,
    model: Model,
    seen: list[Seen],
    grid: np.ndarray,
    *,
    step: int,
    time: float,
    next_time: float,
    beta: str | float,
    delta: float,
    bound: float,
) -> np.ndarray:
    """mu + beta sigma at the points of a grid (m, d), for the choice that follows step number `step`."""
    kept = trusted(method, model, seen, step, time)
    mean, var, inside = np.full(len(grid), model.mean or 0.0), np.full(len(grid), model.variance), 1.0
    if kept:
        X, y = np.stack([one.x for one, _ in kept]), np.array([one.y for one, _ in kept])
        times, noise_vars = np.array([one.time for one, _ in kept]), np.array([var for _, var in kept])
        K, k = kernel(model, X, X), kernel(model, X, grid)
        if method == "tv-gp-ucb":
            K = K * (1.0 - model.eps) ** (np.abs(times[:, None] - times[None]) / 2.0)
            k = k * (1.0 - model.eps) ** ((next_time - times) / 2.0)[:, None]
        inverse, one = np.linalg.inv(K + np.diag(noise_vars)), np.ones(len(y))
        level = one @ inverse @ y / (one @ inverse @ one) if model.mean is None else model.mean
        mean = level + k.T @ inverse @ (y - level)
        var = model.variance - np.sum(k * (inverse @ k), axis=0)
        inside = np.linalg.det(np.eye(len(y)) + K / noise_vars[None])  # |S + K| / |S|
    if beta == "theory":
        beta = np.sqrt(2.0 * np.log(2.0 * np.sqrt(inside) / delta)) + bound
    elif beta == "log":
        beta = 0.8 * np.log(4.0 * (step + 1))
    return mean + beta * np.sqrt(var)
