"""Progress: a bar on a terminal after a while, lines elsewhere, and nothing for short work or for who asks so."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate, progress
from streamgp.app.cli import app
from streamgp.table.extent import Extent


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """Standard error, as a terminal or a file."""

    terminal = True

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "monotonic", found)
    monkeypatch.delenv("STREAMGP_PROGRESS", raising=False)
    return found


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    found = Screen()

    def console(**options: Any) -> Console:
        assert options == {"stderr": True}
        return Console(file=found, force_terminal=True, width=120)

    monkeypatch.setattr("rich.console.Console", console)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))  # as pytest has its own
    return found


@pytest.fixture
def lines(screen: Screen) -> Screen:
    screen.terminal = False
    return screen


def show(clock: Clock, seconds: list[float], enabled: bool = True) -> None:
    with progress.progress_bar("digging", 50, enabled) as bar:
        for done, passed in enumerate(seconds):
            clock.now += passed
            bar.at(10 * done)
        bar.at(30, "filling")


# On a terminal


def test_a_bar_appears_on_a_terminal_after_two_seconds(clock: Clock, screen: Screen):
    show(clock, [1.0, 0.9, 0.2])
    assert "filling" in screen.getvalue()
    assert "60%" in screen.getvalue()


@pytest.mark.parametrize(
    ("terminal", "seconds", "enabled"),
    [(True, [0.5, 0.5], True), (False, [9.0], True), (True, [9.0], False), (False, [90.0], False)],
)
def test_it_stays_away(clock: Clock, screen: Screen, terminal: bool, seconds: list[float], enabled: bool):
    screen.terminal = terminal
    show(clock, seconds, enabled)
    assert screen.getvalue() == ""


def test_an_unknown_total_counts_up(clock: Clock, screen: Screen):
    with progress.progress_bar("digging", None) as bar:
        clock.now += 3.0
        bar.at(12_345)
    assert "12,345" in screen.getvalue()


def test_fits_are_named_on_the_bar(clock: Clock, screen: Screen):
    with progress.progress_bar("digging", 50) as bar:
        bar.at(25)
        clock.now += 3.0
        bar.fits("fitting experts", 3, 8)
    assert "fitting experts: 3 of 8" in screen.getvalue()
    assert "50%" in screen.getvalue()


def test_an_error_inside_still_clears_the_line(clock: Clock, screen: Screen):
    with pytest.raises(KeyError), progress.progress_bar("digging", 5) as bar:
        clock.now += 3.0
        bar.at(1)
        raise KeyError
    assert screen.getvalue().endswith("\x1b[2K")


# Elsewhere


def test_a_line_every_ten_seconds_says_how_much_how_fast_and_how_long(clock: Clock, lines: Screen):
    with progress.progress_bar("stream", 10_000) as bar:
        for done in range(0, 3_001, 250):
            bar.at(done)
            clock.now += 2.5
    assert lines.getvalue().splitlines() == [
        "stream, 1,000 of 10,000 rows, 10%, 100 rows/s, 0:01:30 left",
        "stream, 2,000 of 10,000 rows, 20%, 100 rows/s, 0:01:20 left",
        "stream, 3,000 of 10,000 rows, 30%, 100 rows/s, 0:01:10 left",
    ]


def test_speed_is_that_of_the_stage_and_fits_say_what_is_left_of_them(clock: Clock, lines: Screen):
    with progress.progress_bar("warm-up", 2_000) as bar:
        clock.now += 1.0
        bar.at(1_000)
        for done in range(5):
            bar.fits("fitting experts", done, 8)
            clock.now += 6.0
        bar.at(1_200, "stream")
        clock.now += 10.0
        bar.at(1_300)
    assert lines.getvalue().splitlines() == [
        "fitting experts: 2 of 8, 0:00:36 left",
        "fitting experts: 4 of 8, 0:00:24 left",
        "stream, 1,300 of 2,000 rows, 65%, 19 rows/s, 0:00:37 left",
    ]


def test_a_file_of_unknown_rows_is_measured_by_its_bytes(clock: Clock, lines: Screen):
    with progress.progress_bar("stream", 8e6, counts_rows=False) as bar:
        clock.now += 20.0
        bar.at(2e6, rows=500)
    with progress.progress_bar("stream", None) as bar:
        clock.now += 20.0
        bar.at(500)
    with progress.progress_bar("copying", 1.0, counts_rows=False) as bar:
        clock.now += 20.0
        bar.at(0.25)
    assert lines.getvalue().splitlines() == [
        "stream, 500 rows, 25%, 25 rows/s, 0:01:00 left",
        "stream, 500 rows, 25 rows/s",
        "copying, 25%, 0:01:00 left",
    ]


@pytest.mark.parametrize(
    ("source", "most", "expected"),
    [
        ({"total_rows": 70, "bytes_total": None}, None, (70, True)),
        ({"total_rows": 70, "bytes_total": None}, 50, (50, True)),
        ({"total_rows": 70, "bytes_total": None}, 90, (70, True)),
        ({"total_rows": None, "bytes_total": 800}, None, (800, False)),
        ({"total_rows": None, "bytes_total": 800}, 50, (50, True)),
        ({"total_rows": None, "bytes_total": None}, None, (None, True)),
    ],
)
def test_the_extent_of_a_source(source: dict[str, Any], most: int | None, expected: tuple[int | None, bool]):
    extent = Extent.of(type("Source", (), source), most)
    assert (extent.total, extent.counts_rows) == expected
    assert extent.done(20, 300) == (20 if extent.counts_rows else 300)


# Who shows it, and who is silent

X = np.random.default_rng(0).normal(size=(300, 2))
Y = X[:, 0] + 0.1 * X[:, 1]


class Ticking(Clock):
    """A clock on which every look takes eleven seconds."""

    def __call__(self) -> float:
        self.now += 11.0
        return self.now


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch, lines: Screen) -> Screen:
    monkeypatch.setattr(progress, "monotonic", Ticking())
    monkeypatch.delenv("STREAMGP_PROGRESS", raising=False)
    return lines


def learn() -> None:
    StreamingGPRegressor("linear", warmup=100).partial_fit(X, Y)


def learn_keys() -> None:
    keys = pl.DataFrame({"unique_id": ["a", "b", "c"] * 100, "ds": np.arange(300.0), "y": Y})
    StreamingGPFleet(warmup=60).partial_fit(keys)


USES = {
    "learning": learn,
    "test, then train": lambda: evaluate(StreamingGPRegressor("linear", warmup=100), X, Y),
    "fleet": learn_keys,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_those_who_wait_are_told(ticking: Screen, name: str):
    USES[name]()
    said = ticking.getvalue()
    assert f"{name}, 300 of 300 rows, 100%" in said
    assert name == "fleet" or ("warm-up, " in said and "fitting experts: 1 of 1" in said)


@pytest.mark.slow
def test_silence(ticking: Screen, monkeypatch: pytest.MonkeyPatch):
    with progress.silenced():
        learn()
    evaluate(StreamingGPRegressor("linear", warmup=100), X, Y, progress=False)
    with progress.progress_bar("whole", None):
        learn()  # whose parts say nothing for themselves
    monkeypatch.setenv("STREAMGP_PROGRESS", "off")
    learn()
    assert ticking.getvalue() == ""


@pytest.mark.slow
@pytest.mark.parametrize("key", [False, True])
def test_the_command_tells_on_standard_error_alone_unless_it_is_to_be_quiet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, key: bool
):
    monkeypatch.setattr(progress, "monotonic", Ticking())
    monkeypatch.chdir(tmp_path)
    keys = {"key": ["a", "b", "c"] * 100} if key else {}
    pl.DataFrame({"x": X[:, 0], "y": Y} | keys).write_csv("rows.csv")
    words = ["run", "rows.csv", "--target", "y", "--warmup", "60", "--chunk", "20"]
    words += ["--key", "key"] if key else ["--model", "linear"]
    loud, quiet = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--quiet"]))
    assert loud.exit_code == quiet.exit_code == 0
    name = "fleet" if key else "stream"
    assert f"{name}, 300 rows, 100%" in loud.stderr
    assert "rows/s" not in quiet.stderr and "rows/s" not in loud.stdout
    assert not progress._SILENT.get()
