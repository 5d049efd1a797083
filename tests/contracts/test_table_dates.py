"""How times are written: every front door reads the same dates, and refuses others in the same words."""

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from odd_tables import DOORS, ROWS, WARMUP, cells, followed, said, same, text
from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate
from streamgp.service import follow, growing
from streamgp.service.config import StreamConfig
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.table.dates import find_order, to_iso

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning"),
]


def written(form: str) -> list[str]:
    return [datetime.fromisoformat(row[1]).strftime(form) for row in cells()]


FORMS = ["%d/%m/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M:%S", "%d-%m-%Y %H:%M"]


@cache
def timed(door: str) -> Any:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return said(door, text().encode(), Path(folder), "--time", "time")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
def test_dates_are_read_in_the_order_that_the_column_tells(form: str, door: str, tmp_path: Path):
    same(said(door, text(time=written(form)).encode(), tmp_path, "--time", "time"), timed(door))


def frame(times: list[str]) -> tuple[pd.DataFrame, np.ndarray]:
    return pd.DataFrame({"a": [float(row[2]) for row in cells()]}), np.array([float(row[3]) for row in cells()])


def learnt(times: Any, **options: Any) -> StreamingGPRegressor:
    X, y = frame(times)
    model = StreamingGPRegressor("linear", warmup=WARMUP, **options)
    for start in range(0, ROWS, 25):
        part = slice(start, start + 25)
        model.partial_fit(X[part], y[part], times=times[part])
    return model


@pytest.mark.parametrize("form", FORMS)
def test_estimators_read_the_same_dates(form: str):
    """The second half of the rows does not tell the order: January's first days do, as the first half has told it."""
    times = written(form)
    X, y = frame(times)
    expected = evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y, times=written("%Y-%m-%dT%H:%M"))
    found = evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y, times=times)
    assert_allclose(found.mean, expected.mean, rtol=1e-9)
    model, other = learnt(times), learnt(written("%Y-%m-%dT%H:%M"))
    assert model._learner.last_time == other._learner.last_time == timestamp(ROWS - 1)


def timestamp(row: int) -> float:
    return datetime.fromisoformat(cells()[row][1]).replace(tzinfo=UTC).timestamp()


CONFIG = StreamConfig("s", "y", ("a",), model="linear", warmup=WARMUP, timed=True)


def sent(times: list[str]) -> list[dict[str, Any]]:
    return [
        {"time": time, "x": {"a": float(row[2])}, "y": float(row[3])}
        for time, row in zip(times, cells(), strict=False)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_the_service_reads_the_same_dates(form: str):
    found = rows_with_inputs(CONFIG, sent(written(form)), with_target=True)
    assert_allclose(found.times, [timestamp(row) for row in range(ROWS)])


UNSURE = [f"0{1 + i // 10}/0{1 + i % 10 // 2}/2024" for i in range(ROWS)]
CLOCKS = [f"{i % 24:02d}:00:00" for i in range(ROWS)]
ADVICE = {
    "unsure": (UNSURE, "'01/01/2024': that may begin with the day or with the month, and the first rows do not tell"),
    "clock": (CLOCKS, "'00:00:00': a time of day alone is no time stamp; write it with its date"),
}


@pytest.mark.parametrize("kind", ADVICE)
@pytest.mark.parametrize("door", [*DOORS, "estimator", "evaluate", "service"])
def test_times_that_cannot_be_told_are_refused_in_the_same_words(kind: str, door: str, tmp_path: Path):
    times, words = ADVICE[kind]
    X, y = frame(times)
    if door in DOORS:
        found = said(door, text(time=times).encode(), tmp_path, "--time", "time")
    elif door == "service":
        with pytest.raises(Problem) as problem:
            rows_with_inputs(CONFIG, sent(times), with_target=True)
        found = problem.value.detail.replace('"', "'")
    else:
        model = StreamingGPRegressor("linear", warmup=WARMUP)
        with pytest.raises(ValueError, match="times: expected") as error:
            learnt(times) if door == "estimator" else evaluate(model, X, y, times=times)
        found = str(error.value)
    assert words in found


def test_notes_advise_no_option_that_would_refuse_the_column(tmp_path: Path):
    for (times, _), reason in zip(ADVICE.values(), ("with the day or with the month", "times of day"), strict=True):
        notes = said("command", text(time=times).encode(), tmp_path)["said"]
        assert reason in notes
        assert "--time" not in notes
    notes = said("command", text(time=written("%d/%m/%Y %H:%M")).encode(), tmp_path)["said"]
    assert "--time 'time' lets forgetting follow it" in notes


def test_the_order_of_dates_is_never_guessed():
    assert find_order(["01/02/2024", "31/12/2024"]) == "day"
    assert find_order(["01/02/2024", "12/31/2024"]) == "month"
    assert find_order(["31/12/2024", "12/31/2024"]) == ""
    assert find_order(["01/02/2024", None, 3.0, "2024-01-31"]) == ""
    assert find_order(["01.02.2024"]) == "day"
    assert to_iso("1/2/2024 12:30 am", "month") == "2024-01-02T00:30"
    assert to_iso("1/2/2024", "") == "1/2/2024"


# Characters that no date has, which `datetime.fromisoformat` overlooks

ODD = {"NUL at the end": "{}\0", "NUL after the zone": "{}Z\0", "no letter T": None}
AT = 40


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "door", [*DOORS, "list", "numpy", "pandas", "polars", "row", "evaluate", "predict", "fleet", "service"]
)
def test_a_time_with_a_character_that_no_date_has_is_bad(odd: str, door: str, tmp_path: Path):
    times: Any = [row[1] for row in cells()]
    times[AT] = ODD[odd].format(times[AT]) if ODD[odd] else times[AT].replace("T", "\0")
    X, y = frame(times)
    if door in DOORS:
        found = said(door, text(time=times).encode(), tmp_path, "--time", "time")
        assert found["skipped_rows"] == 1, found
        return
    before = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X[:AT], y[:AT], times=times[:AT])
    with pytest.raises((ValueError, Problem)) as error:
        if door == "service":
            rows_with_inputs(CONFIG, sent(times), with_target=True)
        elif door == "fleet":
            rows = pd.DataFrame({"site": "s", "time": times, "a": X["a"], "y": y})
            StreamingGPFleet("site", "time", "y", warmup=WARMUP).partial_fit(rows)
        elif door in ("pandas", "polars"):
            make = pd.DataFrame if door == "pandas" else pl.DataFrame
            model = StreamingGPRegressor("linear", warmup=WARMUP)
            model.partial_fit(make({"a": X["a"].to_numpy(), "time": times}), y, times="time")
        elif door == "row":
            before.learn_one({"a": 1.0}, 1.0, time=times[AT])
        elif door == "evaluate":
            evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y, times=times)
        elif door == "predict":
            before.predict(X[AT : AT + 1], times=times[AT : AT + 1])
        else:
            learnt(np.array(times, dtype=object) if door == "numpy" else times)
    found = getattr(error.value, "detail", str(error.value))
    assert "time" in found
    row = {"row": "", "predict": "row 0", "list": f"row {AT - 25}", "numpy": f"row {AT - 25}"}
    assert row.get(door, f"row {AT}") in found


# Local times at the end of summer time

BEFORE = [datetime(2024, 10, 27) + timedelta(minutes=15 * i) for i in range(-(ROWS - 4) + 12, 12)]  # until 2:45
LOCAL = [*BEFORE, *(datetime(2024, 10, 27, 2) + timedelta(minutes=15 * i) for i in range(4))]
TWICE = "the clock seems to have been set back at the end of summer time"


@pytest.mark.parametrize("door", [*DOORS, "estimator", "dates", "evaluate", "predict", "fleet", "service"])
def test_an_hour_that_comes_twice_is_named(door: str, tmp_path: Path):
    times: Any = [each.isoformat() for each in LOCAL]
    X, y = frame(times)
    if door in DOORS:
        found = said(door, text(time=times).encode(), tmp_path, "--time", "time", "--missing", "raise")
        if not isinstance(found, str):
            found = str(found)
    elif door == "service":
        with pytest.raises(Problem) as problem:
            rows_with_inputs(CONFIG, sent(times), with_target=True)
        found = problem.value.detail
    elif door == "fleet":
        fleet = StreamingGPFleet("site", "time", "y", warmup=WARMUP)
        with pytest.raises(ValueError) as error:
            fleet.partial_fit(pl.DataFrame({"site": ["s"] * ROWS, "time": LOCAL, "a": X["a"].to_numpy(), "y": y}))
        found = str(error.value)
    else:
        model = StreamingGPRegressor("linear", warmup=WARMUP)
        with pytest.raises(ValueError) as error:
            if door == "evaluate":
                evaluate(model, X, y, times=times)
            elif door == "predict":
                learnt([*times[:-4], *times[-5:-4] * 4]).predict(X[-4:], times=times[-4:])
            else:
                learnt(times if door == "estimator" else np.array(LOCAL, dtype="datetime64[s]"))
        found = str(error.value)
    assert TWICE in found


def test_other_times_that_go_back_are_to_be_sorted(tmp_path: Path):
    times = [(each + timedelta(days=1)).isoformat() for each in LOCAL]  # a Monday
    found = said("command", text(time=times).encode(), tmp_path, "--time", "time", "--missing", "raise")
    assert "sort the file by time" in str(found)
    assert TWICE not in str(found)


# A file that is followed


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE", 0.01)
    monkeypatch.setattr(growing, "PAUSE", 0.01)


@pytest.mark.parametrize("form", FORMS)
def test_dates_of_a_followed_file(form: str, tmp_path: Path, short_pauses: None):
    status, heard = followed(tmp_path, text(time=written(form)).encode(), time="time")
    assert (status["rows"], status["skipped"], heard) == (ROWS, 0, [])


def test_times_of_a_followed_file_that_cannot_be_told(tmp_path: Path, short_pauses: None):
    for name, (times, words) in {**ADVICE, "twice": ([each.isoformat() for each in LOCAL], TWICE)}.items():
        folder = tmp_path / name
        folder.mkdir()
        status, heard = followed(folder, text(time=times).encode(), time="time")
        assert status["skipped"] == (3 if name == "twice" else ROWS)
        assert words in heard[0]
