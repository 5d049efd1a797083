"""What a text file looks like: every front door for files takes the same ones, and refuses others in the same words."""

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate
from streamgp.app.cli import app
from streamgp.service import follow, growing
from streamgp.service.config import StreamConfig
from streamgp.service.follow import Follower
from streamgp.service.following import Following
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.service.streams import Streams
from streamgp.table.dates import find_order, to_iso
from streamgp.table.layout import find_layout
from streamgp.table.names import split_names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning"),
]

ROWS, WARMUP = 50, 20
NAMES = ["site", "time", "a", "y"]
START = datetime(2024, 12, 20, tzinfo=UTC)
DOORS = ("command", "stdin", "key", "resume")


@cache
def cells() -> list[list[str]]:
    """Return the cells of each row: of one site, a row every twelve hours."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=ROWS)
    y = a + 0.1 * rng.normal(size=ROWS)
    times = [(START + timedelta(hours=12 * i)).strftime("%Y-%m-%dT%H:%M") for i in range(ROWS)]
    return [["s", time, f"{x:.4f}", f"{t:.4f}"] for time, x, t in zip(times, a, y, strict=True)]


def text(separator: str = ",", names: list[str] = NAMES, end: str = "", **columns: list[str]) -> str:
    """Return the table, with some columns in another spelling."""
    at = {name: NAMES.index(name) for name in columns}
    rows = [list(row) for row in cells()]
    for name, column in columns.items():
        for row, cell in zip(rows, column, strict=True):
            row[at[name]] = cell
    return "\n".join([separator.join(names), *(separator.join(row) + end for row in rows)]) + "\n"


def said(door: str, content: bytes, folder: Path, *options: str, target: str = "y", name: str = "t.csv") -> Any:
    """Return the metrics of a run through one door, or the sentence that refuses the file."""
    file = folder / name
    file.write_bytes(content)
    words = ["--target", target, "--warmup", str(WARMUP), *options]
    words += ["--key", "site"] if door == "key" else ["--model", "linear", "--lags", "none"]
    words += ["--json", str(folder / "m.json")]
    given: dict[str, Any] = {}
    source = str(file)
    if door == "stdin":
        source, given = "-", {"input": content}
    if door == "resume":
        words += ["--out", str(folder / "out")]
        first = CliRunner().invoke(app, ["run", source, *words, "--max-rows", "35"])
        if first.exit_code == 0:
            words.append("--resume")
    result = CliRunner().invoke(app, ["run", source, *words], **given)
    if result.exit_code:
        assert isinstance(result.exception, SystemExit), result.exception
        sentence = result.stderr.splitlines()[-1].removeprefix("streamgp: ")
        return sentence.removeprefix("standard input: ").removeprefix(f"{file}: ")
    return json.loads((folder / "m.json").read_text()) | {"said": " ".join(result.stdout.split())}


def same(found: Any, expected: Any) -> None:
    assert not isinstance(found, str), found
    assert found["scored_rows"] == expected["scored_rows"] > 20
    assert_allclose(found["nmse"], expected["nmse"], rtol=1e-9)


@cache
def plain(door: str) -> Any:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        found = said(door, text().encode(), Path(folder))
    assert not isinstance(found, str), found
    return found


def wide(separator: str) -> str:
    """Return the table with columns under each other."""
    lines = [line.split(",") for line in text().splitlines()]
    return "".join(separator.join(f"{cell:<18}" for cell in line) + "\n" for line in lines)


TITLES = "Station Zurich, Switzerland\nElevation (m),400\n\n"
READ = {
    "lines before the header": TITLES + text(),
    "comments before the header": "# site, time, and what was measured, then\n# all of it\n" + text(),
    "sep=;": "sep=;\n" + text(";").replace(".", ","),
    "sep=, in quotes": '"sep=,"\n' + text(),
    "blanks": text(" "),
    "columns under each other": wide("  "),
    "blanks, and lines before the header": "Station Zurich\n\n" + wide("   "),
    "a separator at the end of each row": text(end=","),
    "gzip": text(),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", READ)
def test_odd_layouts_are_read(kind: str, door: str, tmp_path: Path):
    content = READ[kind].encode()
    same(said(door, gzip.compress(content) if kind == "gzip" else content, tmp_path), plain(door))


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("t.csv", text())
    return archive.getvalue()


REFUSED = {
    "a name too few": (
        text(names=["time", "a", "y"]).encode(),
        "line 1 names 3 columns ('time', 'a', 'y'), but line 2 and those after it have 4 cells ('s', "
        "'2024-12-20T00:00', ",
        "give every column a name, an index as well.",
    ),
    "a name too few below other lines": (
        (TITLES + text(names=["time", "a", "y"])).encode(),
        "line 4 names 3 columns ('time', 'a', 'y'), but line 5 and those after it have 4 cells",
        "",
    ),
    "a name too few between blanks": (
        text(" ", names=["time", "a", "y"]).encode(),
        "line 1 names 3 columns ('time', 'a', 'y'), but line 2 and those after it have 4 cells",
        "",
    ),
    "a name too many": (
        text(names=["site", "time", "a", "b", "y"]).encode(),
        "line 1 names 5 columns ('site', 'time', 'a', 'b', ...), but line 2 and those after it have 4 cells",
        "write as many cells in each row, empty ones where there is no value.",
    ),
    "zip": (zipped(), "expected a table of text, got a zip archive", "unpack it, or save the sheet as CSV."),
    "Parquet": (b"PAR1\n\x00\xff", "expected a table of text, got a Parquet file; name it .parquet.", ""),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", REFUSED)
def test_other_layouts_are_refused_in_a_sentence(kind: str, door: str, tmp_path: Path):
    content, begin, end = REFUSED[kind]
    found = said(door, content, tmp_path)
    assert isinstance(found, str)
    assert found.startswith(begin), found
    assert found.endswith(end), found


# Names with commas

POWER = "Power (kW, AC)"
COMMAS = text(names=["site", "time", '"in, m/s"', f'"{POWER}"'])


@pytest.mark.parametrize("door", DOORS)
def test_a_target_may_have_a_comma_in_its_name(door: str, tmp_path: Path):
    same(said(door, COMMAS.encode(), tmp_path, target=POWER), plain(door))


@pytest.mark.parametrize("features", ["in, m/s", '"in, m/s"', "in, m/s,time2", 'time2,"in, m/s"'])
def test_features_may_have_commas_in_their_names(features: str, tmp_path: Path):
    content = text(names=["time2", "site", '"in, m/s"', f'"{POWER}"'], site=["1"] * ROWS, time=["s"] * ROWS)
    found = said("command", content.encode(), tmp_path, "--features", features, target=POWER)
    same(found, plain("command"))


def test_a_name_with_a_comma_that_is_not_there_is_refused_with_the_way_to_write_it(tmp_path: Path):
    found = said("command", COMMAS.encode(), tmp_path, target="Power (kW)")
    assert "there is no column 'Power (kW)'" in found
    assert f"""a name with a comma stands in double quotes, as in '"in, m/s"'""" in found


def test_lists_of_names():
    assert split_names("a, b") == ["a", "b"]
    assert split_names('"a, b",c') == ["a, b", "c"]
    assert split_names("a, b,c", ["a, b", "c"]) == ["a, b", "c"]
    assert split_names("a,b,c", ["a, b", "c"]) == ["a, b", "c"]
    assert split_names("a, b", ["a, b", "a", "b"]) == ["a", "b"]
    assert split_names("a,b, c", ["b, c", "a,b, c", "a"]) == ["a", "b, c"]
    assert split_names("") == []


# What reads as before


@pytest.mark.parametrize(
    "lines",
    [
        ["x,y", "1,2"],
        ["x,y"],
        ["x,y", "1,2", "3"],
        ["x,y", "1", "3,4", "5,6"],
        ["c,d,y", "u", "u,v,w", "a,b,c"],  # text alone: nothing shows that the first line is no header
        ["#x,y", "1,2", "3,4"],
        ["y", "1", "2"],
        ["a title, of a column", "one, two", "three, four"],
        ["x,y", ",kW", "1,2"],
        ["wind speed", "3.2", "4.1"],
        [],
    ],
)
def test_the_first_line_is_the_header_where_nothing_speaks_against_it(lines: list[str]):
    found = find_layout([f"{line}\n" for line in lines])
    assert (found.separator, found.before, found.fault) == (",", 0, None)


def test_a_comment_sign_before_names_is_no_name():
    found = find_layout(["# one\n", "# x y\n", "1 2\n", "3 4\n"])
    assert (found.separator, found.before, found.fault) == (" ", 1, None)


# Dates


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
    "clock": (CLOCKS, "'00:00:00': a time of day alone is no time stamp; write it with its date, as 2024-01-31T12:00"),
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


def followed(folder: Path, content: bytes, **more: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what a service says of a file that it has followed to its end."""
    file = folder / "t.csv"
    file.write_bytes(content)
    heard: list[str] = []
    streams = Streams(folder / "streams")
    what = Following(file, "y", **{"features": ("a",), "model": "linear", "warmup": WARMUP} | more)
    streams.follow(Follower(streams, what, heard.append))
    streams.start()
    try:
        end = monotonic() + 30.0
        while True:
            status = streams.source(what.name)
            assert status is not None
            if status["rows"] + status["skipped"] >= ROWS or not status["following"]:
                return status, heard
            assert monotonic() < end, (status, heard)
            sleep(0.005)
    finally:
        streams.stop()


@pytest.mark.parametrize(
    "content",
    [
        "Station Zurich\n\n" + text(),
        "# one, two\n" + text(),
        "sep=;\n" + text(";").replace(".", ","),
        text(" "),
        wide(" "),
        text(end=","),
    ],
)
def test_a_followed_file_may_have_the_same_layouts(content: str, tmp_path: Path, short_pauses: None):
    status, heard = followed(tmp_path, content.encode())
    assert (status["rows"], status["skipped"], heard) == (ROWS, 0, [])


@pytest.mark.parametrize("form", FORMS)
def test_dates_of_a_followed_file(form: str, tmp_path: Path, short_pauses: None):
    status, heard = followed(tmp_path, text(time=written(form)).encode(), time="time")
    assert (status["rows"], status["skipped"], heard) == (ROWS, 0, [])


def test_what_a_followed_file_may_not_be(tmp_path: Path, short_pauses: None):
    status, _ = followed(tmp_path, gzip.compress(text().encode(), compresslevel=0))
    assert not status["following"]
    assert "expected a table of text, got gzip data" in status["last_error"]
    for name, (times, words) in {**ADVICE, "twice": ([each.isoformat() for each in LOCAL], TWICE)}.items():
        folder = tmp_path / name
        folder.mkdir()
        status, heard = followed(folder, text(time=times).encode(), time="time")
        assert status["skipped"] == (3 if name == "twice" else ROWS)
        assert words in heard[0]
