"""One bad clock value poisons no stream: every front door finds the same row, says the same, and goes on."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from live_streams import working
from small_runs import run_linear
from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate
from streamgp.fleet.run import run_fleet
from streamgp.fleet.run_settings import FleetRunSettings
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.table.cells import to_seconds
from streamgp.table.clock import FAR, Pace, judge, judge_one, say_jump

pytestmark = pytest.mark.slow

ROWS, WARMUP, AT = 60, 20, 40
HOUR, DAY = 3_600.0, 86_400.0
START = 1_700_000_000.0


class Told(NamedTuple):
    """What a door made of a stream: rows learnt, and what it said of the first one that it did not learn."""

    rows: int
    said: str


def stream(times: np.ndarray) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=len(times))
    return pl.DataFrame({"stamp": times, "a": a, "y": a + 0.1 * rng.normal(size=len(times))})


def sentence(text: str | None) -> str:
    """What was expected, what came and what to do, without where it was said."""
    found = re.search(r"expected times that go on.*?is taken\)|expected times that go on.*?by time\)", text or "")
    return "" if found is None else found.group()


def by_command(table: pl.DataFrame, tmp_path: Path) -> Told:
    table.write_csv(tmp_path / "data.csv")
    out = run_linear(tmp_path / "data.csv", features=["a"], time="stamp", warmup=WARMUP, missing="skip")
    return Told(out.metrics["rows"], sentence(" ".join(out.metrics["warnings"])))


def by_keyed_command(table: pl.DataFrame, tmp_path: Path) -> Told:
    table.with_columns(id=pl.lit("k")).write_csv(tmp_path / "data.csv")
    options: dict[str, Any] = {"target": "y", "key": "id", "time": "stamp", "warmup": WARMUP, "missing": "skip"}
    metrics = run_fleet(FleetRunSettings(str(tmp_path / "data.csv"), **options)).metrics
    return Told(metrics["rows"] - metrics["skipped_rows"], sentence(" ".join(metrics["warnings"])))


def by_estimator(table: pl.DataFrame, tmp_path: Path) -> Told:
    """Row by row: what is refused raises, and the rest goes on."""
    model, said = StreamingGPRegressor("linear", warmup=WARMUP), ""
    for row in table.rows(named=True):
        try:
            model.learn_one([row["a"]], row["y"], row["stamp"])
        except ValueError as error:
            said = said or str(error)
    return Told(model.rows_, sentence(said))


def by_evaluate(table: pl.DataFrame, tmp_path: Path) -> Told:
    model = StreamingGPRegressor("linear", warmup=WARMUP, missing="skip")
    rest, y = table.drop("y"), table["y"].to_numpy()
    result = evaluate(model, rest, y, times="stamp")
    return Told(model.rows_, sentence(" ".join(result._given.about["warnings"])))


def by_fleet(table: pl.DataFrame, tmp_path: Path) -> Told:
    fleet, said = StreamingGPFleet("id", "stamp", "y", warmup=WARMUP), ""
    for i in range(len(table)):
        try:
            fleet.partial_fit(table[i : i + 1].with_columns(id=pl.lit("k")))
        except ValueError as error:
            said = said or str(error)
    return Told(fleet.rows_, sentence(said))


def by_service(table: pl.DataFrame, tmp_path: Path) -> Told:
    learnt, said = 0, ""
    with working(tmp_path / "stream", features=("a",), timed=True, warmup=WARMUP) as live:
        for row in table.rows(named=True):
            given = {"x": {"a": row["a"]}, "y": row["y"], "time": row["stamp"]}
            try:
                live.step(rows_with_inputs(live.config, [given], with_target=True)).result(60)
                learnt += 1
            except Problem as problem:
                assert problem.status == 422
                said = said or problem.detail
    return Told(learnt, sentence(said))


DOORS: dict[str, Callable[[pl.DataFrame, Path], Told]] = {
    "command": by_command,
    "command with keys": by_keyed_command,
    "estimator": by_estimator,
    "evaluate": by_evaluate,
    "fleet": by_fleet,
    "service": by_service,
}


def bad(value: Callable[[float], float]) -> Callable[[np.ndarray], None]:
    def change(times: np.ndarray) -> None:
        times[AT] = value(times[AT])

    return change


def later(by: float) -> Callable[[np.ndarray], None]:
    def change(times: np.ndarray) -> None:
        times[AT:] += by

    return change


# The step, a change of the times, and how many rows are not learnt.
CASES: dict[str, tuple[float, Callable[[np.ndarray], None], int]] = {
    "2099": (HOUR, bad(lambda t: 4_070_908_800.0), 1),
    "2099 among days": (DAY, bad(lambda t: 4_070_908_800.0), 1),
    "milliseconds": (HOUR, bad(lambda t: 1e3 * t), 1),
    "nanoseconds": (1.0, bad(lambda t: 1e9 * t), 1),
    "a week-end": (1.0, later(2.7 * DAY), 0),
    "a month": (1.0, later(31 * DAY), 0),
    "two years of days": (DAY, later(730 * DAY), 0),
    "a jump": (HOUR, later(3e8), 1),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES)
def test_every_door_leaves_out_the_row_that_jumps_and_no_other(case: str, door: str, tmp_path: Path):
    step, change, lost = CASES[case]
    times = START + step * np.arange(ROWS)
    change(times)
    told = DOORS[door](stream(times), tmp_path)
    assert told.rows == ROWS - lost
    verdict = judge(times, -np.inf, Pace(), dated=door == "service")
    expected = "" if verdict.first is None else say_jump(verdict.first, dated=door == "service")
    assert told.said == expected
    assert bool(expected) == bool(lost)


def test_the_sentence_names_value_distance_usual_step_and_what_to_do():
    times = START + HOUR * np.arange(ROWS)
    times[AT] *= 1e3
    jump = judge(times, -np.inf, Pace(), dated=False).first
    assert jump is not None
    assert say_jump(jump, dated=False) == (
        "expected times that go on as the rows before, which usually come 1 hour apart, got 1700144000000, 53,820 "
        "years after 1700140400; it looks like milliseconds among seconds (if the clock did jump, leave this row "
        "out: one that goes on from there is taken)"
    )


@pytest.mark.parametrize("step", [0.01, 1.0, 60.0, HOUR, DAY, 7 * DAY])
def test_a_gap_passes_up_to_a_year_and_a_thousand_steps(step: float):
    for gap in (step * FAR, 366 * DAY):
        times = START + step * np.arange(30)
        times[20:] += gap - step
        assert not judge(times, -np.inf, Pace(), dated=True).doubtful.any()
    times = START + step * np.arange(30)
    times[20:] += 1.01 * max(step * FAR, 366 * DAY)
    assert np.flatnonzero(judge(times, -np.inf, Pace(), dated=True).doubtful).tolist() == [20]


@pytest.mark.parametrize("change", [bad(lambda t: 4e9), bad(lambda t: 1e3 * t), later(3e8), later(DAY)])
def test_pieces_and_single_rows_are_judged_alike(change: Callable[[np.ndarray], None]):
    rng = np.random.default_rng(1)
    times = START + np.cumsum(rng.exponential(HOUR, 300))
    change(times)
    whole = judge(times, -np.inf, Pace(), dated=False)
    for size in (1, 7, 64):
        pace, last, found = Pace(), -np.inf, []
        for at in range(0, len(times), size):
            piece = times[at : at + size]
            verdict = judge(piece, last, pace, dated=False)
            if size == 1:
                one = judge_one(float(piece[0]), last, pace, dated=False)
                assert (one.doubtful.tolist(), one.pace) == (verdict.doubtful.tolist(), verdict.pace)
            pace = Pace.from_tree(verdict.pace.to_tree())
            last = max([last, *piece[~verdict.doubtful].tolist()])
            found += verdict.doubtful.tolist()
        assert found == whole.doubtful.tolist()
        assert pace == whole.pace


def test_a_value_that_is_stuck_is_never_believed():
    times = START + HOUR * np.arange(ROWS)
    times[AT : AT + 5] = 4_070_908_800.0
    assert np.flatnonzero(judge(times, -np.inf, Pace(), dated=True).doubtful).tolist() == list(range(AT, AT + 5))


def test_rows_given_together_speak_for_each_other_where_bad_ones_raise(tmp_path: Path):
    times = START + HOUR * np.arange(ROWS)
    later(3e8)(times)
    table = stream(times)
    X, y = table.select("a").to_numpy(), table["y"].to_numpy()
    assert StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y, times=times).rows_ == ROWS
    fleet = StreamingGPFleet("id", "stamp", "y", warmup=WARMUP).partial_fit(table.with_columns(id=pl.lit("k")))
    assert fleet.rows_ == ROWS
    table.write_csv(tmp_path / "data.csv")
    for chunk in (1, 8, 64):  # the row that jumps ends a chunk, or does not
        options: dict[str, Any] = {"features": ["a"], "time": "stamp", "warmup": WARMUP, "missing": "raise"}
        assert run_linear(tmp_path / "data.csv", chunk=chunk, **options).metrics["rows"] == ROWS


def test_a_refused_row_leaves_everything_as_it_was_but_the_next_one_may_speak_for_it(tmp_path: Path):
    table = stream(START + HOUR * np.arange(ROWS))
    X, y, times = table.select("a").to_numpy(), table["y"].to_numpy(), table["stamp"].to_numpy()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X[:AT], y[:AT], times=times[:AT])
    with pytest.raises(ValueError, match="times: row 1: expected times that go on as the rows before"):
        model.partial_fit(X[AT : AT + 2], y[AT : AT + 2], times=[times[AT], times[AT + 1] + 3e8])
    assert model.rows_ == AT
    model.save(tmp_path / "model")
    again = StreamingGPRegressor.load(tmp_path / "model")
    assert again.learn_one(X[AT], y[AT], float(times[AT + 2] + 3e8)).rows_ == AT + 1  # it goes on from there
    assert model.learn_one(X[AT], y[AT], float(times[AT])).rows_ == AT + 1


def test_the_keys_of_a_fleet_have_clocks_of_their_own(tmp_path: Path):
    times = START + HOUR * np.arange(ROWS)
    late = times.copy()
    late[AT] = 4_070_908_800.0
    both = pl.concat([stream(times).with_columns(id=pl.lit("good")), stream(late).with_columns(id=pl.lit("late"))])
    frame = both.sort("a")  # keys mixed
    frame = pl.concat([frame.filter(id="good").sort("stamp"), both.filter(id="late")])
    fleet = StreamingGPFleet("id", "stamp", "y", warmup=WARMUP, missing="skip").partial_fit(frame)
    counts = dict(zip(fleet.keys_, fleet.scores()["skipped"].to_list(), strict=True))
    assert counts == {"good": 0, "late": 1}
    fleet.save(tmp_path / "fleet")
    again = StreamingGPFleet.load(tmp_path / "fleet")
    odd = pl.DataFrame({"id": ["late"], "stamp": [4_070_908_801.0], "a": [0.0], "y": [0.0]})
    assert again.partial_fit(odd).rows_ == fleet.rows_
    with pytest.raises(ValueError, match=r"row 8 \('late' at .*usually come 1 hour apart"):
        StreamingGPFleet("id", "stamp", "y", warmup=WARMUP).partial_fit(both.filter(id="late")[AT - 8 : AT + 1])


def test_a_restarted_stream_of_the_service_knows_its_pace(tmp_path: Path):
    table = stream(START + HOUR * np.arange(ROWS))

    def step(live: Any, rows: pl.DataFrame) -> None:
        given = [{"x": {"a": r["a"]}, "y": r["y"], "time": r["stamp"]} for r in rows.rows(named=True)]
        live.step(rows_with_inputs(live.config, given, with_target=True)).result(60)

    with working(tmp_path / "stream", features=("a",), timed=True, warmup=WARMUP) as live:
        step(live, table[:AT])
    with working(tmp_path / "stream", features=("a",), timed=True, warmup=WARMUP) as live:
        with pytest.raises(Problem, match="usually come 1 hour apart"):
            step(live, table[AT : AT + 1].with_columns(stamp=4_070_908_800.0))
        step(live, table[AT:])


def test_a_request_of_the_service_blames_the_row_that_jumps_not_the_one_after(tmp_path: Path):
    times = START + HOUR * np.arange(3)
    times[1] = to_seconds(["2099-01-01"])[0]
    with working(tmp_path / "stream", features=("a",), timed=True) as live:
        given = [{"x": {"a": 0.0}, "y": 0.0, "time": time} for time in times.tolist()]
        with pytest.raises(Problem, match="row 1, time: expected times that go on"):
            rows_with_inputs(live.config, given, with_target=True)
