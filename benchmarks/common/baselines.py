"""Models that a user would run instead of streamgp, all tested, then trained: row i is predicted from rows before i.

Inputs and target are standardised by the first 1,000 rows, from which every model learns too. River's models need
`river`, LightGBM `lightgbm`, besides what streamgp itself needs.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from river import forest, linear_model, preprocessing
from sklearn.ensemble import HistGradientBoostingRegressor

from streamgp.fitting.screening import screen
from streamgp.stream.lag_choice import choose_lags
from streamgp.stream.lags import LaggedTargets

WARMUP = 1_000
REFIT_EVERY = 500

Rows = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]
Prediction = tuple[Column, Column | None]  # mean and, where the model has one, variance of every row


def persistence(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict the last target seen (zero, the mean of the warm-up, before any)."""
    return np.concatenate([[0.0], y[:-1]]), None


def running_mean(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict the mean of all targets seen (zero before any)."""
    return np.concatenate([[0.0], np.cumsum(y[:-1]) / np.arange(1, len(y))]), None


def river_bayesian_linear(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict by river's BayesianLinearRegression as it comes: unit prior and noise variance, no intercept."""
    model = linear_model.BayesianLinearRegression()
    mean, var = np.empty(len(y)), np.empty(len(y))
    for i, (row, target) in enumerate(_rows(X, y)):
        p: Any = model.predict_one(row, with_dist=True)
        mean[i], var[i] = p.mu, p.sigma**2
        model.learn_one(row, target)
    return mean, var


def river_linear(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict by river's LinearRegression (stochastic gradient, defaults) behind its StandardScaler."""
    return _river(preprocessing.StandardScaler() | linear_model.LinearRegression(), X, y)


def river_arf(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict by river's adaptive random forest, 10 trees (Gomes et al. 2018)."""
    return _river(forest.ARFRegressor(n_models=10, seed=seed), X, y)


def boosting_refitted(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict by scikit-learn's HistGradientBoosting, refitted on everything seen so far every 500 rows.

    The rows of the warm-up get no prediction. The defaults draw only above 10,000 rows (to stop early).
    """
    mean = np.full(len(y), np.nan)
    for start in range(WARMUP, len(y), REFIT_EVERY):
        model = HistGradientBoostingRegressor(random_state=seed).fit(X[:start], y[:start])
        mean[start : start + REFIT_EVERY] = model.predict(X[start : start + REFIT_EVERY])
    return mean, None


def lightgbm_refitted(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict by LightGBM as it comes, refitted on everything seen so far every 500 rows."""
    import lightgbm

    mean = np.full(len(y), np.nan)
    for at in range(WARMUP, len(y), REFIT_EVERY):
        model = lightgbm.LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1).fit(X[:at], y[:at])
        mean[at : at + REFIT_EVERY] = np.asarray(model.predict(X[at : at + REFIT_EVERY]))
    return mean, None


def with_chosen_lags(X: Rows, y: Column) -> tuple[Rows, tuple[int, ...]]:
    """Return the inputs with the past targets that the default would choose at the end of the warm-up; and which."""
    usual = screen(X[:WARMUP], y[:WARMUP, None], 0)[0]
    lags = choose_lags(X[:WARMUP], usual)
    return LaggedTargets.empty(lags, 1).widen(X, y[:, None], y[:WARMUP].mean()), lags


def _rows(X: Rows, y: Column) -> Iterator[tuple[dict, float]]:
    for row, target in zip(X, y, strict=True):
        yield dict(enumerate(row.tolist())), float(target)


def _river(model, X: Rows, y: Column) -> Prediction:
    mean = np.empty(len(y))
    for i, (row, target) in enumerate(_rows(X, y)):
        mean[i] = model.predict_one(row)
        model.learn_one(row, target)
    return mean, None


def standardise(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scale `values` by the mean and deviation of the warm-up rows; a constant column is only centred."""
    shift, scale = values[:WARMUP].mean(0), values[:WARMUP].std(0)
    # Rounding can leave the deviation of a constant column above zero: ask the range.
    constant = np.ptp(values[:WARMUP], axis=0) == 0
    scale = np.where(constant, 1.0, scale)
    return (values - shift) / scale, shift, scale
