"""Chores, a step at a time."""

import logging
from collections.abc import Generator
from pathlib import Path
from time import monotonic, sleep

import pytest

from streamgp.service import sequencer, upkeep
from streamgp.service.log import EventLog
from streamgp.service.sequencer import Sequencer, Standing
from streamgp.service.upkeep import Upkeep


class Clock:
    """A clock that stands still, but for the time that steps take."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(upkeep, "monotonic", clock)
    return clock


def chore(done: list[str], name: str, clock: Clock, steps: int = 2, seconds: float = 0.0) -> Generator[None]:
    try:
        for i in range(steps):
            clock.now += seconds
            done.append(f"{name}{i}")
            yield
    except GeneratorExit:
        done.append(f"{name} left")


def test_chores_are_done_in_turn_with_a_pause_between_steps(clock: Clock):
    done: list[str] = []
    work = Upkeep()
    assert work.wait is None
    work.step()
    work.add("a", chore(done, "a", clock))
    work.add("b", chore(done, "b", clock))
    for _ in range(6):
        assert work.wait is not None
        clock.now += work.wait
        work.step()
        work.step()  # not due
    assert done == ["a0", "a1", "b0", "b1"] and work.wait is None


def test_steps_take_a_share_of_the_time(clock: Clock):
    work = Upkeep()
    work.add("a", chore([], "a", clock, seconds=1.0))
    work.step()
    assert clock.now == 101.0 and work.wait == pytest.approx(4.0)


def test_a_chore_takes_the_place_of_one_of_its_kind_that_waits(clock: Clock):
    done: list[str] = []
    work = Upkeep()
    for i in range(9):
        for kind in "ab":
            work.add(kind, chore(done, f"{kind}{i} ", clock))
        # More come than are done; all kinds have their turn.
        clock.now += work.wait or 0.0
        work.step()
    assert done == ["a0 0", "a0 1", "b2 0", "b2 1", "a5 0", "a5 1"]
    while work.wait is not None:
        clock.now += work.wait
        work.step()
    assert done[6:] == ["b8 0", "b8 1", "a8 0", "a8 1"]


def test_a_chore_that_fails_is_over(clock: Clock):
    def failing() -> Generator[None]:
        yield
        raise OSError("no space")

    done: list[str] = []
    work = Upkeep()
    work.add("a", failing())
    work.add("b", chore(done, "b", clock))
    work.step()
    clock.now += 1.0
    with pytest.raises(OSError, match="no space"):
        work.step()
    clock.now += 1.0
    work.step()
    assert done == ["b0"]
    work.close()
    assert done == ["b0", "b left"] and work.wait is None


def test_the_disk_has_where_the_log_ends_while_a_chore_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sequencer, "SYNC_SECONDS", 0.01)
    log = EventLog(tmp_path)
    log.begin()
    log.add("learn", 0.0, b"")
    log.commit()
    assert log.end_is_behind
    work = Sequencer(log, lambda _: None, lambda _: None, Standing(None))
    work.keep_up("a", lambda _: (None for _ in range(9)))
    for each in work._found():
        each(log)
    work._upkeep._due = monotonic() + 60.0
    assert work._found() == [] and not log.end_is_behind


def test_a_chore_that_fails_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    failed: list[str] = []

    def failing(kind: str) -> Generator[None]:
        yield
        failed.append(kind)
        raise OSError("no space")

    work = Sequencer(EventLog(tmp_path), lambda _: None, lambda _: None, Standing(None))
    with caplog.at_level(logging.WARNING, "streamgp.service"):
        work.start()
        for kind in "abc":
            work.keep_up(kind, lambda _, kind=kind: failing(kind))
        while len(failed) < 3:
            sleep(0.001)
        work.stop()
    assert caplog.messages == [f"{tmp_path}: no space"]
