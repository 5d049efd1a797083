"""The cost of a row in river's own loop: predict one, then learn one.

Run from the repository root: ``python -m benchmarks.speed.river_rows``. The data come with river: 1,001 rows of
TrumpApproval. Errors are of the rows after the first 100, times a row of those after 300.
"""

from time import perf_counter
from typing import Any

from river import datasets, linear_model, metrics, preprocessing

from streamgp.adapters.river import RiverRegressor

WARMUP, TIMED = 100, 300


def main() -> None:
    """Print a row of a table for each model."""
    models: dict[str, Any] = {
        name: RiverRegressor(name, warmup=WARMUP) for name in ("linear", "sfg-mkl", "fast", "default")
    }
    # Its prior is of targets around zero, so that it needs theirs scaled.
    scaled = preprocessing.TargetStandardScaler(linear_model.BayesianLinearRegression())
    models["river's BayesianLinearRegression"] = preprocessing.StandardScaler() | scaled
    print("| model | MAE | ms a row |\n|---|---|---|")
    for name, model in models.items():
        error, began, rows = metrics.MAE(), 0.0, 0
        for rows, (x, y) in enumerate(datasets.TrumpApproval()):
            if rows == TIMED:
                began = perf_counter()
            predicted = model.predict_one(x)
            if rows >= WARMUP:
                error.update(y, predicted)
            model.learn_one(x, y)
        seconds = perf_counter() - began
        print(f"| {name} | {error.get():.3f} | {1e3 * seconds / (rows + 1 - TIMED):.2f} |", flush=True)


if __name__ == "__main__":
    main()
