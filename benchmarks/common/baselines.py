"""Models that a user would run instead of streamgp, all tested, then trained: row i is predicted from rows before i.

Inputs and target are standardised by the first 1,000 rows, from which every model learns too; those that are timed
call `warmed` once they have. River's models need `river`, LightGBM `lightgbm`, that of bayesianbandits
`bayesianbandits`, besides what streamgp itself needs.
"""
# pyright: reportMissingImports=false

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor

from streamgp.models.fitting.screening import screen
from streamgp.stream.lag_choice import choose_lags
from streamgp.stream.lags import LaggedTargets

WARMUP = 1_000
REFIT_EVERY = 500

Rows = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]
Prediction = tuple[Column, Column | None]  # mean and, where the model has one, variance of every row
Warmed = Callable[[], object]


def nothing() -> None:
    """Do nothing."""


def persistence(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict the last target seen (zero, the mean of the warm-up, before any)."""
    return np.concatenate([[0.0], y[:-1]]), None


def running_mean(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict the mean of all targets seen (zero before any)."""
    return np.concatenate([[0.0], np.cumsum(y[:-1]) / np.arange(1, len(y))]), None


def river_bayesian_linear(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by river's BayesianLinearRegression as it comes: unit prior and noise variance, no intercept."""
    from river import linear_model

    model = linear_model.BayesianLinearRegression()
    mean, var = np.empty(len(y)), np.empty(len(y))
    for i, (row, target) in enumerate(_rows(X, y, warmed)):
        p: Any = model.predict_one(row, with_dist=True)
        mean[i], var[i] = p.mu, p.sigma**2
        model.learn_one(row, target)
    return mean, var


def river_linear(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by river's LinearRegression (stochastic gradient, defaults) behind its StandardScaler."""
    from river import linear_model, preprocessing

    return _river(preprocessing.StandardScaler() | linear_model.LinearRegression(), X, y, warmed)


def river_hoeffding_tree(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by river's Hoeffding tree, its defaults."""
    from river import tree

    return _river(tree.HoeffdingTreeRegressor(), X, y, warmed)


def river_adaptive_tree(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by river's Hoeffding tree that replaces branches after a change, its defaults."""
    from river import tree

    return _river(tree.HoeffdingAdaptiveTreeRegressor(seed=seed), X, y, warmed)


def river_arf(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by river's adaptive random forest, 10 trees (Gomes et al. 2018)."""
    from river import forest

    return _river(forest.ARFRegressor(n_models=10, seed=seed), X, y, warmed)


def bayesianbandits_linear(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by bayesianbandits' linear regression of unknown noise as it comes: no intercept, nothing forgotten.

    No call of it gives a row's variance, which is that of Student's t here, worked out from what it has learnt. The
    rows of the warm-up, which it learns in one go, get no prediction.
    """
    from bayesianbandits import NormalInverseGammaRegressor

    model = NormalInverseGammaRegressor(random_state=seed).fit(X[:WARMUP], y[:WARMUP])
    mean, var = np.full(len(y), np.nan), np.full(len(y), np.nan)
    warmed()
    for i in range(WARMUP, len(y)):
        row = X[i : i + 1]
        mean[i] = model.predict(row)[0]
        scale = model.b_ / model.a_ + row[0] @ model.shape_.solve(row[0])
        # The variance of Student's t with 2a degrees of freedom.
        var[i] = scale * model.a_ / (model.a_ - 1.0)
        model.partial_fit(row, y[i : i + 1])
    return mean, var


def boosting_refitted(X: Rows, y: Column, seed: int) -> Prediction:
    """Predict by scikit-learn's HistGradientBoosting, refitted on everything seen so far every 500 rows.

    The rows of the warm-up get no prediction. The defaults draw only above 10,000 rows (to stop early).
    """
    mean = np.full(len(y), np.nan)
    for start in range(WARMUP, len(y), REFIT_EVERY):
        model = HistGradientBoostingRegressor(random_state=seed).fit(X[:start], y[:start])
        mean[start : start + REFIT_EVERY] = model.predict(X[start : start + REFIT_EVERY])
    return mean, None


def lightgbm_refitted(X: Rows, y: Column, seed: int, warmed: Warmed = nothing) -> Prediction:
    """Predict by LightGBM as it comes, refitted on everything seen so far every 500 rows."""
    import lightgbm

    mean = np.full(len(y), np.nan)
    for at in range(WARMUP, len(y), REFIT_EVERY):
        model = lightgbm.LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1).fit(X[:at], y[:at])
        if at == WARMUP:
            warmed()
        mean[at : at + REFIT_EVERY] = np.asarray(model.predict(X[at : at + REFIT_EVERY]))
    return mean, None


def with_chosen_lags(X: Rows, y: Column) -> tuple[Rows, tuple[int, ...]]:
    """Return the inputs with the past targets that the default would choose at the end of the warm-up; and which."""
    usual = screen(X[:WARMUP], y[:WARMUP, None], 0)[0]
    lags = choose_lags(X[:WARMUP], usual)
    return LaggedTargets.empty(lags, 1).widen(X, y[:, None], y[:WARMUP].mean()), lags


def _rows(X: Rows, y: Column, warmed: Warmed) -> Iterator[tuple[dict, float]]:
    for i, (row, target) in enumerate(zip(X, y, strict=True)):
        if i == WARMUP:
            warmed()
        yield dict(enumerate(row.tolist())), float(target)


def _river(model, X: Rows, y: Column, warmed: Warmed) -> Prediction:
    mean = np.empty(len(y))
    for i, (row, target) in enumerate(_rows(X, y, warmed)):
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
