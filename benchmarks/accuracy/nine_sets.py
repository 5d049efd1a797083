"""`streamgp.compare` on nine data sets: the default beside what one would use instead, with paired intervals.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.nine_sets --data DIR`` writes ``results/nine_sets.json`` after every
data set; started again, it goes on where it stopped. The default was chosen on one of the nine, elevators. The models
of river stand behind its scaler, with the target standardised by the rows of the warm-up for all.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import narwhals as nw
import numpy as np
import typer

from benchmarks.common.datasets import APART, load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, compare

RESULTS = RESULTS_DIR / "nine_sets.json"
NINE = (*APART, "elevators_ucids")
WARMUP = 1_000


class Persistence:
    """The last target."""

    last = 0.0

    def predict_one(self, x: dict) -> float:
        """Return it."""
        return self.last

    def learn_one(self, x: dict, y: float) -> None:
        """Remember it."""
        self.last = y


def models() -> dict[str, Any]:
    """Return what is compared, new."""
    from lightgbm import LGBMRegressor
    from river import forest, linear_model, preprocessing

    return {
        "streamgp, default": StreamingGPRegressor(warmup=WARMUP, random_state=0),
        "LightGBM, refitted": LGBMRegressor(random_state=0, n_jobs=1, verbose=-1),
        "adaptive random forest": preprocessing.StandardScaler() | forest.ARFRegressor(n_models=10, seed=0),
        "Bayesian linear regression": preprocessing.StandardScaler() | linear_model.BayesianLinearRegression(),
        "last value": Persistence(),
    }


def columns(frame: Any) -> dict[str, list[Any]]:
    """Return a frame as lists by their names."""
    return nw.from_native(frame).to_dict(as_series=False)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    rows: Annotated[int, typer.Option(min=2 * WARMUP, help="Rows of each data set, at most.")] = 5_000,
) -> None:
    """Run what is missing."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sets": {}}
    for name in NINE:
        if name in found["sets"]:
            continue
        X, y = load(name, data, rows)
        y = (y - y[:WARMUP].mean()) / y[:WARMUP].std()
        # The models of other packages know the columns by their numbers.
        compared = compare(models(), X, y, warmup=WARMUP, refit_every=500, progress=False)
        found["sets"][name] = {
            "rows": len(X),
            "scored": int(np.sum(compared.scored)),
            "scores": columns(compared.to_frame()),
            "differences": columns(compared.differences()),
        }
        found["machine"] = machine()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(name, compared.to_frame(), compared.differences(), sep="\n", flush=True)


if __name__ == "__main__":
    typer.run(main)
