"""What is said of a stream: how long a restart would take, after how long it is stale; and what a fork is told."""

import os
from pathlib import Path
from time import monotonic, sleep

import pytest

from live_streams import copied, data, inputs, started, step, working
from streamgp.service import restart_time
from streamgp.service.knowledge import Knowledge
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.service.status import check_ready

pytestmark = pytest.mark.slow

X, Y = data(120)


@pytest.mark.parametrize("together", [1, 8])
def test_a_restart_of_slow_entries_takes_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    apply = Knowledge.apply

    def slowly(self: Knowledge, requests: list) -> list:
        sleep(0.03)  # for one request or a group
        return apply(self, requests)

    monkeypatch.setattr(Knowledge, "apply", slowly)
    monkeypatch.setattr(restart_time, "_imports", 0.0)
    stream = started(tmp_path / "power")
    for i in range(0, 96, together):
        rows = [{"x": inputs(X[j]), "y": float(Y[j])} for j in range(i, i + together)]
        if together == 1:
            step(stream, rows)
        else:
            made = [stream.step(rows_with_inputs(stream.config, [row], with_target=True)) for row in rows]
            assert all(each.result(60) for each in made)
    said = stream.durability()
    killed = copied(stream, tmp_path / "killed")
    began = monotonic()
    with working(killed) as again:
        took = monotonic() - began
        assert took > 96 * 0.03 * 0.9
        assert said["recovery_seconds_at_best"] / 2 < took < 2 * said["recovery_seconds"], (said, took)
        more = again.durability()  # of what it has itself learnt again
        assert more["recovery_seconds_at_best"] / 2 < took < 2 * more["recovery_seconds"], (more, took)
        again.write_checkpoint().result(60)
        assert again.durability()["recovery_seconds"] < 0.5 * took
    stream.stop()


def test_what_must_be_compiled_again_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_time._Compiled, "seconds", 30.0)
    monkeypatch.setattr(restart_time, "_imports", 2.0)
    time = restart_time.RestartTime()
    time.opened()
    low, high = time.expected(0)
    assert low == pytest.approx(2.0, abs=0.1) and high == low  # nothing to learn: nothing to compile
    with time.measured(0, 1):
        sleep(0.01)
    low, high = time.expected(0)
    assert low == pytest.approx(2.01, abs=0.1) and high == pytest.approx(low + 30.0)
    assert time.expected(5).high == pytest.approx(2.0, abs=0.1)  # after a checkpoint


def test_a_backfill_of_hourly_rows_is_not_stale_for_hours(tmp_path: Path) -> None:
    with working(tmp_path / "power", timed=True) as stream:
        assert stream.status()["stale_after"] is None
        rows = [{"time": 1_700_000_000 + 3_600 * i, "x": inputs(X[i]), "y": float(Y[i])} for i in range(120)]
        for i in range(0, 120, 10):
            step(stream, rows[i : i + 10])
        assert stream.status()["stale_after"] == pytest.approx(36_000.0)
        assert stream.knowledge.recent(5, -1, None)["stale_after"] == pytest.approx(36_000.0)


def test_a_stream_that_came_along_into_another_process_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working(tmp_path / "power") as stream:
        monkeypatch.setattr(os, "getpid", lambda: stream.process + 1)
        with pytest.raises(Problem, match="was forked from it; open the directory in one process"):
            check_ready(stream, learning=True)
        monkeypatch.undo()
        check_ready(stream, learning=True)
