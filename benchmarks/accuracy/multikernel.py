"""Online learners of many kernels: errors beside an ensemble's, and conformal bands, on real streams.

``python -m benchmarks.accuracy.multikernel --data DIR`` writes the part ``errors`` of ``results/multikernel.json``;
``python -m benchmarks.pages.multikernel`` renders the tables of docs/research/multikernel.md and
docs/research/bands.md.
"""

import json
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.research.annex import MULTIKERNEL

RESULTS = RESULTS_DIR / "multikernel.json"
SETS = ("elevators_ucids", "cpusmall", "kin40k", "schunk_arm", "sml2010_stream", "beijing_pm25")
ROWS = 6_000


def _rows(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    frame = pl.read_parquet(data / f"{name}.parquet").head(ROWS)
    columns = [column for column in frame.columns if column.startswith("x")]
    frame = frame.select(*columns, "y").cast(pl.Float64).filter(pl.all_horizontal(pl.all().is_finite()))
    return frame.select(columns).to_numpy(), frame["y"].to_numpy()


def run_errors(data: Path, seeds: int) -> dict[str, Any]:
    """Score every preset on real streams, beside the light ensemble and the default: nMSE and coverage."""
    found: dict[str, Any] = {}
    for name in SETS:
        X, y = _rows(data, name)
        found[name] = {}
        for model in (*MULTIKERNEL.models, "e-doebe", "default"):
            runs = []
            for seed in range(1 if model == "default" else seeds):
                result = evaluate(StreamingGPRegressor(model, random_state=seed), X, y, conformal=0.9)
                bands = result.metrics["conformal"]
                own = {f"own_{key}": value for key, value in bands["own"].items()}
                scale = float(np.std(y))
                runs.append(
                    {"nmse": result.metrics["nmse"], "crps": result.metrics["crps"] / scale}
                    | {"coverage": bands["coverage"], "width": bands["width"] / scale}
                    | {"own_coverage": own["own_coverage"], "own_width": own["own_width"] / scale}
                    | {"unbounded": bands["unbounded_rows"]}
                )
            found[name][model] = {key: median(run[key] for run in runs) for key in runs[0]}
            print(name, model, found[name][model], flush=True)
    return found


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 3,
) -> None:
    """Run all models on all sets and keep what they found."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored["errors"] = run_errors(data, seeds)
    RESULTS.write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    typer.run(main)
