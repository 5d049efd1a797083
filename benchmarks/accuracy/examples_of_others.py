"""Example data of river, statsforecast and MAPIE through our interface, beside what their own examples use.

``python -m benchmarks.accuracy.examples_of_others`` writes ``results/examples_of_others.json`` and prints a table.
All data come with the packages: ``pip install 'streamgp[benchmarks]' statsforecast mapie``. Rows of the warm-up are
scored for nobody. Ours have no settings but the warm-up, and where stated.
"""

import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, StreamingGPRegressor, compare, evaluate

RESULTS = RESULTS_DIR / "examples_of_others.json"
SEEDS = range(5)
Found = dict[str, dict[str, float]]


def _rows_of(data: Any) -> tuple[pl.DataFrame, np.ndarray]:
    """Return a data set of river as a table of numbers and its targets."""
    rows, targets = zip(*data, strict=True)
    return pl.DataFrame(list(rows)), np.asarray(targets)


def _compared(models: dict[str, Any], X: pl.DataFrame, y: np.ndarray, warmup: int) -> Found:
    """Return mean absolute error, and the share of targets in the central 90% where there is one."""
    found = compare(models, X, y.astype(float), warmup=warmup, progress=False)
    scores = {}
    for name, rows in found.models.items():
        error = np.abs(rows.mean - y)[found.scored]
        scores[name] = {"mae": float(error.mean()), "seconds": rows.seconds}
        if rows.covered is not None:
            scores[name]["covered_90"] = float(np.mean(rows.covered[found.scored]))
    return scores


def _rivers_regressors() -> dict[str, Any]:
    from river import forest, linear_model, preprocessing, tree

    scaler = preprocessing.StandardScaler
    return {
        "river LinearRegression": scaler() | linear_model.LinearRegression(intercept_lr=0.1),
        "river BayesianLinearRegression": scaler() | linear_model.BayesianLinearRegression(),
        "river ARFRegressor": scaler() | forest.ARFRegressor(seed=42),
        "river HoeffdingTreeRegressor": scaler() | tree.HoeffdingTreeRegressor(),
    }


def trump_approval() -> Found:
    """Return river's usual example of a regression: 1,001 rows, 6 inputs."""
    from river import datasets

    X, y = _rows_of(datasets.TrumpApproval())
    ours = {f"streamgp {name}": StreamingGPRegressor(name, warmup=200) for name in ("default", "fast", "linear")}
    return _compared(ours | _rivers_regressors(), X, y, 200)


def chick_weights() -> Found:
    """Return another: 578 rows, weights of chicks by time, chick and diet."""
    from river import datasets

    X, y = _rows_of(datasets.ChickWeights())
    ours = {f"streamgp {name}": StreamingGPRegressor(name, warmup=200) for name in ("default", "fast", "linear")}
    return _compared(ours | _rivers_regressors(), X, y, 200)


def _labelled(data: Any, warmup: int) -> Found:
    """Return accuracy and log loss of classifiers along a stream."""
    from river import forest, linear_model, naive_bayes, preprocessing

    X, y = _rows_of(data)
    scores, scored = {}, slice(warmup, None)
    for name in ("default", "linear"):
        began, model = perf_counter(), StreamingGPClassifier(name, warmup=warmup)
        told = evaluate(model, X, y, progress=False)  # each row is predicted before its label is seen
        p = told.probabilities[:, model.classes_.tolist().index(True)]
        scores[f"streamgp {name}"] = _of_labels(y[scored], p[scored]) | {"seconds": perf_counter() - began}
    theirs: dict[str, Any] = {
        "river LogisticRegression": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "river ARFClassifier": forest.ARFClassifier(seed=42),
        "river GaussianNB": naive_bayes.GaussianNB(),
    }
    for name, model in theirs.items():
        began, p = perf_counter(), np.full(len(y), 0.5)
        for i, (x, label) in enumerate(zip(X.iter_rows(named=True), y.tolist(), strict=True)):
            p[i] = model.predict_proba_one(x).get(True, 0.0 if i else 0.5)
            model.learn_one(x, label)
        scores[name] = _of_labels(y[scored], p[scored]) | {"seconds": perf_counter() - began}
    return scores


def _of_labels(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    safe = np.clip(p, 1e-6, 1.0 - 1e-6)
    loss = -np.where(y, np.log(safe), np.log(1.0 - safe))
    return {"accuracy": float(np.mean((p > 0.5) == y)), "log_loss": float(loss.mean())}


def phishing() -> Found:
    """Return river's usual example of a classification: 1,250 rows, 9 inputs."""
    from river import datasets

    return _labelled(datasets.Phishing(), 200)


def bananas() -> Found:
    """Return another: 5,300 rows, 2 inputs, no straight line between the classes."""
    from river import datasets

    return _labelled(datasets.Bananas(), 500)


def airline_passengers() -> Found:
    """Return forecasts of the 12 months to come, after each month from the 60th on: river's HoltWinters and SNARIMAX.

    Theirs have the settings of river's pages. Ours has the month as a season of 12 and the log of the target.
    """
    from river import datasets, time_series

    y = np.array([target for _, target in datasets.AirlinePassengers()], dtype=float)
    start, h = 60, 12
    ours = StreamingGPRegressor(lags=(1, 12, 13), target_transform="log", warmup=start)
    theirs: dict[str, Any] = {
        "river HoltWinters": time_series.HoltWinters(
            alpha=0.3, beta=0.1, gamma=0.6, seasonality=12, multiplicative=True
        ),
        "river SNARIMAX": time_series.SNARIMAX(p=12, d=1, q=12, m=12, sd=1),
    }
    nothing = np.empty((len(y), 0))
    found: Found = {}
    began, errors, inside = perf_counter(), [], []
    ours.partial_fit(nothing[:start], y[:start])
    for now in range(start, len(y) - h + 1):
        told = ours.forecast(h, level=90)
        target = y[now : now + h]
        errors.append(np.abs(told["mean"].to_numpy() - target))
        inside.append((told["mean-lo-90"].to_numpy() <= target) & (target <= told["mean-hi-90"].to_numpy()))
        ours.partial_fit(nothing[now : now + 1], y[now : now + 1])
    found["streamgp default, log, lags 1, 12, 13"] = {
        "mae": float(np.mean(errors)),
        "covered_90": float(np.mean(inside)),
        "seconds": perf_counter() - began,
    }
    for name, model in theirs.items():
        began, errors = perf_counter(), []
        for now, target in enumerate(y.tolist()):
            if start <= now <= len(y) - h:
                errors.append(np.abs(np.asarray(model.forecast(horizon=h)) - y[now : now + h]))
            model.learn_one(target)
        found[name] = {"mae": float(np.mean(errors)), "seconds": perf_counter() - began}
    found["season before"] = {
        "mae": float(np.mean([np.abs(y[now - 12 : now] - y[now : now + h]) for now in range(start, len(y) - h + 1)]))
    }
    return found


def air_passengers_arima() -> Found:
    """Return the same forecasts of the models that statsforecast's pages use on them, fitted every month."""
    from statsforecast import StatsForecast
    from statsforecast.models import AutoARIMA, AutoETS
    from statsforecast.utils import AirPassengersDF

    frame = AirPassengersDF
    y, start, h = frame["y"].to_numpy(), 60, 12
    models = [AutoARIMA(season_length=12), AutoETS(season_length=12)]
    found: Found = {}
    for model in models:
        began, errors, inside = perf_counter(), [], []
        for now in range(start, len(y) - h + 1):
            told = StatsForecast(models=[model], freq="ME").forecast(df=frame[:now], h=h, level=[90])
            name, target = type(model).__name__, y[now : now + h]
            errors.append(np.abs(told[name].to_numpy() - target))
            low, high = (told[f"{name}-{end}-90"].to_numpy() for end in ("lo", "hi"))
            inside.append((low <= target) & (target <= high))
        found[f"statsforecast {type(model).__name__}"] = {
            "mae": float(np.mean(errors)),
            "covered_90": float(np.mean(inside)),
            "seconds": perf_counter() - began,
        }
    return found


def _intervals(data: Callable[[int], tuple[np.ndarray, np.ndarray]], estimator: Callable[[], Any]) -> Found:
    """Return 90% intervals of the last half of the rows, medians over seeds: coverage, mean width, interval score."""
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

    each: dict[str, list[dict[str, float]]] = {}
    for seed in SEEDS:
        X, y = data(seed)
        half, third = len(y) // 2, len(y) // 3
        split = SplitConformalRegressor(estimator(), confidence_level=0.9, prefit=False)
        split.fit(X[:third], y[:third]).conformalize(X[third:half], y[third:half])
        cross = CrossConformalRegressor(estimator(), confidence_level=0.9, method="plus", cv=10)
        cross.fit_conformalize(X[:half], y[:half])
        found = {
            f"MAPIE {name}": model.predict_interval(X[half:])[1][:, :, 0].T
            for name, model in {"split": split, "jackknife+ (10 folds)": cross}.items()
        }
        for name, goes_on in {"fitted to the first half": False, "learns on": True}.items():
            model = StreamingGPRegressor(warmup=half, random_state=seed).partial_fit(X[:half], y[:half])
            ends = []
            for at in range(half, len(y), 1 if goes_on else len(y)):
                now = slice(at, at + 1 if goes_on else len(y))
                ends.append(np.array(model.predict_interval(X[now], 0.9)))
                if goes_on:
                    model.partial_fit(X[now], y[now])
            found[f"streamgp default, {name}"] = np.concatenate(ends, axis=1)
        for name, (low, high) in found.items():
            missed = np.maximum(low - y[half:], 0.0) + np.maximum(y[half:] - high, 0.0)
            each.setdefault(name, []).append(
                {
                    "covered_90": float(np.mean(missed == 0.0)),
                    "width": float(np.mean(high - low)),
                    "interval_score": float(np.mean(high - low + missed / 0.05)),
                }
            )
    return {
        name: {score: float(np.median([of[score] for of in scores])) for score in scores[0]}
        for name, scores in each.items()
    }


def mapie_quickstart() -> Found:
    """Return MAPIE's first example: a line with even noise, 500 rows."""
    from sklearn.datasets import make_regression
    from sklearn.linear_model import LinearRegression

    return _intervals(
        lambda seed: make_regression(n_samples=500, n_features=1, noise=20, random_state=59 + seed), LinearRegression
    )


def mapie_uneven_noise() -> Found:
    """Return the function of MAPIE's tutorial of one dimension, x sin x with noise that grows with x, 1,000 rows."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        x = rng.uniform(0.0, 5.0, 1_000)
        return x[:, None], x * np.sin(x) + rng.normal(size=len(x)) * 0.5 * x

    return _intervals(data, lambda: make_pipeline(PolynomialFeatures(10), LinearRegression()))


PARTS: dict[str, Callable[[], Found]] = {
    "river: TrumpApproval": trump_approval,
    "river: ChickWeights": chick_weights,
    "river: Phishing": phishing,
    "river: Bananas": bananas,
    "river: AirlinePassengers": airline_passengers,
    "statsforecast: AirPassengers": air_passengers_arima,
    "MAPIE: quick start": mapie_quickstart,
    "MAPIE: noise that grows": mapie_uneven_noise,
}


def main() -> None:
    """Run every part and keep its figures."""
    found: dict[str, Any] = {"machine": machine(), "parts": {}}
    for name, part in PARTS.items():
        found["parts"][name] = part()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(name, pl.DataFrame([{"model": model} | scores for model, scores in found["parts"][name].items()]))


if __name__ == "__main__":
    main()
