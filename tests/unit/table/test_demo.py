"""The demo's table against the packaged readings, read with the standard library alone."""

import csv
import gzip
import importlib.util
import math
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from streamgp.table import demo

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    pytest.importorskip("bokeh_sampledata")
    path = tmp_path_factory.mktemp("demo") / "demo.csv"
    info = demo.write_demo_csv(path)
    with path.open() as file:
        return info, list(csv.DictReader(file))


@pytest.fixture(scope="module")
def readings() -> dict[datetime, tuple[float, float]]:
    """Glucose and current by nominal time: the report's time to the nearest 5 minutes."""
    spec = importlib.util.find_spec("bokeh_sampledata")
    assert spec is not None and spec.origin is not None
    by_time = {}
    with gzip.open(Path(spec.origin).parent / "_data" / "CGM.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            time = datetime.fromisoformat(row["datetime"])
            nominal = time.replace(minute=0) + 5 * MINUTE * math.floor(time.minute / 5 + 0.5)
            current = math.nan if row["isig"] == "nil" else float(row["isig"])
            by_time.setdefault(nominal, (float(row["glucose"]), current))
    return by_time


def test_every_row_agrees_with_the_readings_by_its_definition(written, readings):
    _, rows = written
    for row in rows:
        t = datetime.fromisoformat(row["time"])
        glucose, current = readings[t]
        angle = 2 * math.pi * (t.hour + t.minute / 60) / 24
        expected = {
            "glucose": glucose,
            **{f"change_{m}min": glucose - readings[t - m * MINUTE][0] for m in (5, 15, 30, 60)},
            "current": current,
            "current_change_15min": current - readings[t - 15 * MINUTE][1],
            "day_sin": math.sin(angle),
            "day_cos": math.cos(angle),
            "glucose_in_30min": readings[t + 30 * MINUTE][0],
        }
        assert {k: float(v) for k, v in row.items() if k != "time"} == pytest.approx(expected, abs=6e-5)


def test_no_target_is_known_before_its_row_has_passed(written):
    """The target of a row is the reading of 30 minutes later: no row may come sooner than that."""
    _, rows = written
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    assert min(b - a for a, b in pairwise(times)) == 30 * MINUTE


def test_table_is_large_enough_complete_and_as_described(written):
    info, rows = written
    assert 5_000 <= len(rows) <= 20_000
    assert [info.time, *info.features, info.target] == list(rows[0])
    numbers = np.array([[float(row[c]) for c in (*info.features, info.target)] for row in rows])
    assert np.isfinite(numbers).all()
    assert (numbers.std(0) > 0).all()


def test_inputs_tell_more_than_the_last_reading(written):
    """Least squares on the first 1,000 rows beats persistence on the rest by a quarter (squared error)."""
    info, rows = written
    X = np.array([[1.0] + [float(row[c]) for c in info.features] for row in rows])
    y = np.array([float(row[info.target]) for row in rows])
    coefficients = np.linalg.lstsq(X[:1000], y[:1000])[0]
    error = np.mean((y - X @ coefficients)[1000:] ** 2)
    persistence = np.mean((y[1000:] - y[999:-1]) ** 2)
    assert error < 0.75 * persistence < 0.75 * np.var(y[1000:])


def test_missing_package_is_one_clear_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "streamgp\[demo\]"'):
        demo.write_demo_csv(tmp_path / "demo.csv")
    assert not (tmp_path / "demo.csv").exists()


def test_release_without_the_file_is_the_same_sentence(monkeypatch, tmp_path):
    """Releases before 2026.1 carry the readings under another name."""
    older = importlib.util.spec_from_file_location("bokeh_sampledata", tmp_path / "__init__.py")
    monkeypatch.setattr(demo, "find_spec", lambda name: older)
    with pytest.raises(ImportError, match=r"2026\.1 or later"):
        demo.write_demo_csv(tmp_path / "demo.csv")
