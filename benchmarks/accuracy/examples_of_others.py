"""Example data of river, statsforecast and MAPIE through our interface, beside what their own examples use.

``python -m benchmarks.accuracy.examples_of_others`` writes ``results/examples_of_others.json`` and prints a table.
All data come with the packages: ``pip install 'streamgp[benchmarks]' statsforecast mapie``. Rows of the warm-up are
scored for nobody. Ours have no settings but the warm-up, and where stated.
"""

import json
from collections.abc import Callable
from datetime import date
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, StreamingGPRegressor, compare, evaluate
from streamgp.evaluation.metrics import interval_score

RESULTS = RESULTS_DIR / "examples_of_others.json"
SEEDS = range(5)
FIRST, AHEAD = 60, 12  # the first month that is forecast, and how many months are
Found = dict[str, dict[str, float]]


def _rows_of(data: Any) -> tuple[pl.DataFrame, np.ndarray]:
    """Return a data set of river as a table of numbers and its targets."""
    rows, targets = zip(*data, strict=True)
    return pl.DataFrame(list(rows)), np.asarray(targets)


def regressions(name: str, warmup: int = 200) -> Found:
    """Return mean absolute error, and the share of targets in the central 90%, on a data set of river."""
    from river import datasets, forest, linear_model, preprocessing, tree

    X, y = _rows_of(getattr(datasets, name)())
    scaler = preprocessing.StandardScaler
    models: dict[str, Any] = {
        f"streamgp {preset}": StreamingGPRegressor(preset, warmup=warmup) for preset in ("default", "fast", "linear")
    } | {
        "river LinearRegression": scaler() | linear_model.LinearRegression(intercept_lr=0.1),
        # Its prior is of targets around zero, so that it needs theirs scaled.
        "river BayesianLinearRegression": scaler()
        | preprocessing.TargetStandardScaler(linear_model.BayesianLinearRegression()),
        "river ARFRegressor": scaler() | forest.ARFRegressor(seed=42),
        "river HoeffdingTreeRegressor": scaler() | tree.HoeffdingTreeRegressor(),
    }
    compared = compare(models, X, y.astype(float), warmup=warmup, progress=False)
    found: Found = {}
    for model, rows in compared.models.items():
        found[model] = {"mae": float(compared.losses(model)["mae"].mean()), "seconds": rows.seconds}
        if rows.covered is not None:
            found[model]["covered_90"] = float(np.mean(rows.covered[compared.scored]))
    return found


def labels(name: str, warmup: int) -> Found:
    """Return accuracy and log loss on a data set of river with two classes."""
    from river import datasets, forest, linear_model, naive_bayes, preprocessing

    X, y = _rows_of(getattr(datasets, name)())
    scores, scored = {}, slice(warmup, None)
    for preset in ("default", "linear"):
        began, ours = perf_counter(), StreamingGPClassifier(preset, warmup=warmup)
        found = evaluate(ours, X, y, progress=False)  # each row is predicted before its label is seen
        p = found.probabilities[:, ours.classes_.tolist().index(True)]
        scores[f"streamgp {preset}"] = _of_labels(y[scored], p[scored]) | {"seconds": perf_counter() - began}
    theirs: dict[str, Any] = {
        "river LogisticRegression": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "river ARFClassifier": forest.ARFClassifier(seed=42),
        "river GaussianNB": naive_bayes.GaussianNB(),
    }
    for model, theirs_now in theirs.items():
        began, p = perf_counter(), np.full(len(y), 0.5)
        for i, (x, label) in enumerate(zip(X.iter_rows(named=True), y.tolist(), strict=True)):
            p[i] = theirs_now.predict_proba_one(x).get(True, 0.0)
            theirs_now.learn_one(x, label)
        scores[model] = _of_labels(y[scored], p[scored]) | {"seconds": perf_counter() - began}
    return scores


def _of_labels(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    safe = np.clip(p, 1e-6, 1.0 - 1e-6)
    loss = -np.where(y, np.log(safe), np.log(1.0 - safe))
    return {"accuracy": float(np.mean((p > 0.5) == y)), "log_loss": float(loss.mean())}


def ahead(
    y: np.ndarray, forecast: Callable[[int], tuple[np.ndarray, ...]], learn: Callable[[int], Any] | None = None
) -> dict[str, float]:
    """Score what is forecast of the `AHEAD` rows from each on, before it is learnt: means, and maybe ends of 90%."""
    began, errors, inside = perf_counter(), [], []
    for now in range(len(y) - AHEAD + 1):
        if now >= FIRST:
            mean, *ends = forecast(now)
            target = y[now : now + AHEAD]
            errors.append(np.abs(np.asarray(mean) - target))
            inside += [(ends[0] <= target) & (target <= ends[1])] if ends else []
        if learn is not None:
            learn(now)
    covered = {"covered_90": float(np.mean(inside))} if inside else {}
    scores = {"mae": float(np.mean(errors)), "median_mae": float(np.median(np.mean(errors, axis=1)))}
    return scores | {"seconds": perf_counter() - began} | covered


def airline_passengers() -> Found:
    """Return forecasts of 12 months by river's models, with the settings of its pages, statsforecast's, and ours.

    statsforecast's are chosen and fitted anew every month. Ours has the season among its lags, and the log of the
    target.
    """
    from river import datasets, linear_model, optim, preprocessing, time_series
    from statsforecast.models import AutoARIMA, AutoETS

    rows = list(datasets.AirlinePassengers())
    y = np.array([target for _, target in rows], dtype=float)
    months = [_month(x["month"]) for x, _ in rows]
    ours = StreamingGPRegressor(lags=(1, 12, 13), target_transform="log", warmup=FIRST)

    def by_ours(_: int) -> tuple[np.ndarray, ...]:
        frame = ours.forecast(AHEAD, level=90)
        return tuple(frame[name].to_numpy() for name in ("mean", "mean-lo-90", "mean-hi-90"))

    def learn_ours(row: int) -> None:
        ours.partial_fit(np.empty((1, 0)), y[row : row + 1])

    found = {"streamgp default, log, lags 1, 12, 13": ahead(y, by_ours, learn_ours)}
    regressor = preprocessing.StandardScaler() | linear_model.LinearRegression(
        intercept_init=110, optimizer=optim.SGD(0.01), intercept_lr=0.3
    )
    theirs: dict[str, Any] = {
        "HoltWinters": time_series.HoltWinters(alpha=0.3, beta=0.1, gamma=0.6, seasonality=12, multiplicative=True),
        "SNARIMAX": time_series.SNARIMAX(p=12, d=1, q=12, m=12, sd=1),
        "SNARIMAX of months": time_series.SNARIMAX(p=1, d=0, q=0, m=12, sp=3, sq=6, regressor=regressor),
    }
    for name, model in theirs.items():
        inputs = months if name.endswith("months") else [None] * len(y)

        def by_river(now: int, model: Any = model, inputs: Any = inputs) -> tuple[np.ndarray, ...]:
            xs = None if inputs[now] is None else inputs[now : now + AHEAD]
            return (np.asarray(model.forecast(AHEAD, xs)),)

        def learn_river(row: int, model: Any = model, inputs: Any = inputs) -> None:
            model.learn_one(y[row], inputs[row])

        found[f"river {name}"] = ahead(y, by_river, learn_river)
    found["season before"] = ahead(y, lambda now: (y[now - AHEAD : now],))
    for make in (AutoARIMA, AutoETS):

        def fitted(now: int, make: Any = make) -> tuple[np.ndarray, ...]:
            told = make(season_length=12).forecast(y[:now], h=AHEAD, level=[90])
            return told["mean"], told["lo-90"], told["hi-90"]

        found[f"statsforecast {make.__name__}"] = ahead(y, fitted)
    return found


def _month(day: date) -> dict[str, float]:
    """Return what river's page tells SNARIMAX of a month: its date, and how near it is to each of the twelve."""
    return {"date": float(day.toordinal())} | {str(m): float(np.exp(-((day.month - m) ** 2))) for m in range(1, 13)}


def intervals(
    data: Callable[[int], tuple[np.ndarray, np.ndarray]], estimator: Callable[[], Any], quantiles: Callable[[], Any]
) -> Found:
    """Return 90% intervals of the last half of the rows, medians over seeds: coverage, mean width, interval score."""
    from mapie.regression import ConformalizedQuantileRegressor, CrossConformalRegressor, SplitConformalRegressor

    each: dict[str, list[dict[str, float]]] = {}
    for seed in SEEDS:
        X, y = data(seed)
        half, third = len(y) // 2, len(y) // 3
        split = SplitConformalRegressor(estimator(), confidence_level=0.9, prefit=False)
        split.fit(X[:third], y[:third]).conformalize(X[third:half], y[third:half])
        cross = CrossConformalRegressor(estimator(), confidence_level=0.9, method="plus", cv=10)
        cross.fit_conformalize(X[:half], y[:half])
        by_quantile = ConformalizedQuantileRegressor(quantiles(), confidence_level=0.9)
        by_quantile.fit(X[:third], y[:third]).conformalize(X[third:half], y[third:half])
        theirs = {"split": split, "jackknife+ (10 folds)": cross, "quantile regression": by_quantile}
        # Where the noise is next to nothing, the two quantiles cross: the ends are swapped.
        found = {
            f"MAPIE {name}": np.sort(model.predict_interval(X[half:])[1][:, :, 0].T, axis=0)
            for name, model in theirs.items()
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
            inside = (low <= y[half:]) & (y[half:] <= high)
            each.setdefault(name, []).append(
                {
                    "covered_90": float(np.mean(inside)),
                    "width": float(np.mean(high - low)),
                    "interval_score": float(np.mean(interval_score(low, high, y[half:], 0.9))),
                }
            )
    return {
        name: {score: float(np.median([of[score] for of in scores])) for score in scores[0]}
        for name, scores in each.items()
    }


def a_line() -> Found:
    """Return MAPIE's first example: a line with even noise, 500 rows."""
    from sklearn.datasets import make_regression
    from sklearn.linear_model import LinearRegression, QuantileRegressor

    def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
        return make_regression(n_samples=500, n_features=1, noise=20, random_state=59 + seed)

    return intervals(data, LinearRegression, lambda: QuantileRegressor(solver="highs", alpha=0.0))


def uneven_noise() -> Found:
    """Return a function like that of MAPIE's tutorial of one dimension: x sin x with noise that grows, 1,000 rows."""
    from sklearn.linear_model import LinearRegression, QuantileRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        x = rng.uniform(0.0, 5.0, 1_000)
        return x[:, None], x * np.sin(x) + rng.normal(size=len(x)) * 0.5 * x

    def polynomial(last: Any) -> Any:
        return make_pipeline(PolynomialFeatures(10, include_bias=False), StandardScaler(), last)

    return intervals(
        data,
        lambda: polynomial(LinearRegression()),
        lambda: polynomial(QuantileRegressor(solver="highs", alpha=0.0)),
    )


PARTS: dict[str, Callable[[], Found]] = {
    "river: TrumpApproval": partial(regressions, "TrumpApproval"),
    "river: ChickWeights": partial(regressions, "ChickWeights"),
    "river: Phishing": partial(labels, "Phishing", 200),
    "river: Bananas": partial(labels, "Bananas", 500),
    "river, statsforecast: airline passengers": airline_passengers,
    "MAPIE: a line": a_line,
    "MAPIE: noise that grows": uneven_noise,
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
