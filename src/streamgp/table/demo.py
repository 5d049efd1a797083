"""The table of ``streamgp demo``: half a year of a glucose sensor, from the package bokeh_sampledata."""

from importlib.util import find_spec
from math import tau
from pathlib import Path
from typing import NamedTuple

import polars as pl


class DemoData(NamedTuple):
    """The contents of the written table: the names of its columns, and the source of the numbers."""

    target: str
    features: tuple[str, ...]
    time: str
    description: str
    source: str
    licence: str


def write_demo_csv(path: Path) -> DemoData:
    """Write the demo's table as a CSV file, in time order.

    One row for every 30 minutes of 2010-03-24 to 2010-10-10 in which the sensor was on (about 8,000). The
    target is the reading of 30 minutes later: it is known when the next row arrives, and not before. The
    inputs are all known at the row's own time.

    Parameters
    ----------
    path
        The file to write.

    Raises
    ------
    ImportError
        If bokeh_sampledata, which carries the readings, is not installed.
    """
    every, ahead = "5m", 6  # the sensor reports every 5 minutes; 6 reports are 30 minutes
    glucose, current = pl.col("glucose"), pl.col("isig")
    day = tau * (pl.col("time").dt.hour() * 60.0 + pl.col("time").dt.minute()) / (24 * 60)
    changes = {f"change_{5 * k}min": glucose - glucose.shift(k) for k in (1, 3, 6, 12)}
    table = (
        pl.read_csv(packaged("CGM.csv.gz"), null_values="nil")
        .with_columns(pl.col("datetime").str.to_datetime().dt.round(every).alias("time"))
        # Of two reports within one slot, as after the clock was set back, the first counts.
        .unique("time", keep="first", maintain_order=True)
        .sort("time")
        .upsample("time", every=every)
        .select(
            "time",
            glucose,
            **changes,
            current=current,
            current_change_15min=current - current.shift(3),
            day_sin=day.sin(),
            day_cos=day.cos(),
            glucose_in_30min=glucose.shift(-ahead),
        )
        .gather_every(ahead)
        .drop_nulls()
    )
    table.write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%S", float_precision=4)
    return DemoData(
        target="glucose_in_30min",
        features=tuple(table.columns[1:-1]),
        time="time",
        description=(
            "Blood glucose (mg/dL) of one person, 30 minutes ahead: from the reading of now, its changes "
            "over the last hour, the sensor's current (nA) and the time of day. The days follow a rhythm, "
            "and the sensor's calibration drifts: from 9.8 mg/dL per nA in March to 6.3 in September."
        ),
        source="CGM.csv.gz of the Python package bokeh_sampledata (a gift to its maintainer)",
        licence="public domain (the package: BSD-3-Clause)",
    )


def packaged(name: str) -> Path:
    """Return the path of a file of the package; it is not imported, since that would load pandas.

    Raises
    ------
    ImportError
        If the package is not installed.
    """
    spec = find_spec("bokeh_sampledata")
    path = Path(spec.origin).parent / "_data" / name if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ImportError(
            "streamgp demo: expected the package bokeh_sampledata (2026.1 or later), which carries the data, "
            'but it is not installed; run pip install "streamgp[demo]".'
        )
    return path
