"""A fleet's interval coverage on smooth and on rough keyed streams: countries, carbon dioxide, weather, shares.

``python -m benchmarks.accuracy.fleet_bands --data DIR [--label NAME]`` adds its figures to
``results/fleet_bands.json`` under a label, so that those of an earlier version may stand beside them. The demo's data
need the package bokeh_sampledata, carbon dioxide at Mauna Loa statsmodels: its weeks, as one key, and as a key for
each month of the year.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from benchmarks.common.machine import machine
from benchmarks.common.measure import installed
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPFleet
from streamgp.fleet.demo_data import write_fleet_demo_csv

RESULTS = RESULTS_DIR / "fleet_bands.json"


def streams(data: Path) -> Iterator[tuple[str, pl.DataFrame, StreamingGPFleet]]:
    """Return the name and rows of every stream, and a new fleet for it."""
    if installed("bokeh_sampledata"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "demo.csv"
            demo = write_fleet_demo_csv(path)
            table = pl.read_csv(path)
        yield "the demo", table, StreamingGPFleet(demo.key, demo.time, demo.target, group_col=demo.group)
    if installed("statsmodels"):
        from statsmodels.datasets import co2

        weeks = pl.from_pandas(co2.load_pandas().data.reset_index(names="ds")).rename({"co2": "y"}).drop_nulls()
        yield "CO2, one key", weeks.with_columns(unique_id=pl.lit("CO2")), StreamingGPFleet(warmup=300)
        yield "CO2 by month", weeks.with_columns(unique_id=pl.col("ds").dt.month()), StreamingGPFleet(warmup=300)
    for name in ("aus_weather", "sp500_volume"):
        table = pl.read_parquet(data / f"{name}.parquet").sort("time", "key", maintain_order=True)
        yield name, table.with_columns(pl.col("key").cast(pl.Int64)), StreamingGPFleet("key", "time")


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    label: Annotated[str, typer.Option(help="What these figures are of.")] = "fleet",
    out: Annotated[Path, typer.Option(help="Where to add them.")] = RESULTS,
) -> None:
    """Measure, keep and print."""
    stored = json.loads(out.read_text()) if out.exists() else {"versions": {}}
    found = {}
    for name, rows, model in streams(data):
        metrics = model.evaluate(rows).metrics
        found[name] = {each: metrics[each] for each in ("scored_rows", "coverage", "crps", "pll", "rmse")}
        print(label, name, found[name], flush=True)
    stored["machine"], stored["versions"][label] = machine(), found
    out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
