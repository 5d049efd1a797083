"""Online learners of many kernels: rows a second, errors beside an ensemble's, and conformal bands on real streams.

``python benchmarks/multikernel.py --data DIR`` runs everything and puts the tables into docs/multikernel.md and
docs/bands.md; ``--part`` names one of them.
"""

import json
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import typer
from default_page import put

from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.multikernel import (
    OMKLGF,
    OMKR,
    SFG,
    AdaRaker,
    FeedbackGraph,
    MultiKernel,
    Raker,
    constant,
    draw_features,
    squared_exponentials,
)
from streamgp.models.multikernel.omkr import kinds
from streamgp.models.presets import MULTIKERNEL, SFG_MKL_DICTIONARY
from streamgp_papers.many_kernels import FEATURES, LOSS, NEIGHBOURS
from streamgp_papers.sfg import SECONDS

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
RESULTS = HERE / "results" / "multikernel.json"
INPUTS = {"Airfoil": 5, "Concrete": 8, "Naval": 15, "Wine": 11}
PAPER_ROWS = {"Airfoil": 1503, "Concrete": 1030, "Naval": 11934, "Wine": 4898}
SETS = ("elevators_ucids", "cpusmall", "kin40k", "schunk_arm", "sml2010_stream", "beijing_pm25")
ROWS = 6_000


def run_speed(data: Path, seeds: int) -> dict[str, Any]:
    """Rows a second of every learner, 41 kernels of 100 features, pieces of 1,024 rows."""
    found: dict[str, Any] = {}
    dictionary = squared_exponentials(SFG_MKL_DICTIONARY)
    with jax.enable_x64(True):
        for name, dim in INPUTS.items():
            bank = draw_features(dictionary, dim, FEATURES, jax.random.key(0))
            graph = FeedbackGraph.of(dictionary, dim, NEIGHBOURS)
            rate = constant(0.02)
            learners: dict[str, Any] = {
                "Raker": Raker(bank, LOSS, rate),
                "OMKL-GF": OMKLGF(bank, LOSS, rate, rate),
                "SFG-MKL": SFG(bank, graph, LOSS, rate, rate),
                "SFG-MKL-R": SFG(bank, graph, LOSS, rate, rate, refine=True),
                "AdaRaker": AdaRaker(bank, LOSS),
                "OMKR": OMKR(*kinds(dictionary), LOSS, rate, dim),
            }
            found[name] = {label: _rate(learner, dim, seeds) for label, learner in learners.items()}
    return found


def _rate(learner: Any, dim: int, repeats: int) -> float:
    rng = np.random.default_rng(0)
    X = jnp.asarray(rng.uniform(size=(1024, dim)) / np.sqrt(dim))
    y = jnp.sin(3.0 * X[:, :1])
    model = MultiKernel(learner, ("",) * len(SFG_MKL_DICTIONARY), dim)
    state, _ = jax.block_until_ready(model.update(model.init(jax.random.key(0)), X, y))
    rates = []
    for _ in range(repeats):
        began = perf_counter()
        for _ in range(4):
            state, _ = model.update(state, X, y)
        jax.block_until_ready(state)
        rates.append(4 * len(X) / (perf_counter() - began))
    return median(rates)


def table_speed(found: dict[str, Any]) -> str:
    """As Markdown."""
    lines = [
        "| | " + " | ".join(f"{name}, {INPUTS[name]} inputs" for name in found) + " | SFG-MKL is faster by |",
        "|---|" + "---|" * (len(found) + 1),
    ]
    for label in next(iter(found.values())):
        cells = [f"{found[name][label]:,.0f}" for name in found]
        ratios = [found[name]["SFG-MKL"] / found[name][label] for name in found]
        lines.append(f"| {label} | {' | '.join(cells)} | {min(ratios):.1f} to {max(ratios):.1f} |")
        if label in SECONDS:
            paper = [PAPER_ROWS[name] / seconds for name, seconds in zip(found, SECONDS[label], strict=True)]
            lines.append(f"| {label}, the paper's | {' | '.join(f'{rows:,.0f}' for rows in paper)} | |")
    return "\n".join(lines)


def _rows(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    frame = pl.read_parquet(data / f"{name}.parquet").head(ROWS)
    columns = [column for column in frame.columns if column.startswith("x")]
    frame = frame.select(*columns, "y").cast(pl.Float64).filter(pl.all_horizontal(pl.all().is_finite()))
    return frame.select(columns).to_numpy(), frame["y"].to_numpy()


def run_errors(data: Path, seeds: int) -> dict[str, Any]:
    """nMSE and coverage of every preset on real streams, beside the light ensemble and the default."""
    found: dict[str, Any] = {}
    for name in SETS:
        X, y = _rows(data, name)
        found[name] = {}
        for model in (*MULTIKERNEL, "e-doebe", "default"):
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


def table_errors(found: dict[str, Any]) -> str:
    """As Markdown."""
    models = list(next(iter(found.values())))
    lines = ["| nMSE | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for model in models:
        lines.append(f"| `{model}` | " + " | ".join(f"{found[name][model]['nmse']:.3f}" for name in found) + " |")
    return "\n".join(lines)


def table_bands(found: dict[str, Any]) -> str:
    """As Markdown."""
    lines = ["| data | model | own band holds | its width | conformal holds | its width | unbounded rows |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, models in found.items():
        for model in ("sfg-mkl", "raker", "e-doebe", "default"):
            s = models[model]
            lines.append(
                f"| {name} | `{model}` | {100 * s['own_coverage']:.1f}% | {s['own_width']:.2f} | "
                f"{100 * s['coverage']:.1f}% | {s['width']:.2f} | {s['unbounded']:.0f} |"
            )
    return "\n".join(lines)


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    part: Annotated[list[str] | None, typer.Option(help="speed or errors; both by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds, or repeats, of each run.")] = 3,
) -> None:
    """Run the parts, keep what they found, and put their tables into the pages."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in part or ["speed", "errors"]:
        stored[name] = {"speed": run_speed, "errors": run_errors}[name](data, seeds)
        RESULTS.write_text(json.dumps(stored) + "\n")
    for name, page, table in (
        ("speed", "multikernel.md", table_speed),
        ("errors", "multikernel.md", table_errors),
        ("bands", "bands.md", table_bands),
    ):
        found = stored.get("errors" if name == "bands" else name)
        if found is not None:
            path = DOCS / page
            path.write_text(put(path.read_text(), f"multikernel-{name}", table(found)))
            print(table(found), flush=True)


if __name__ == "__main__":
    typer.run(main)
