"""Checkpoints: the latest, each whole, one that a damaged one falls back to, and older ones to return to."""

from pathlib import Path

import pytest

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.service.checkpoints import Checkpoints, Return
from streamgp.service.problems import Problem


def save(text: str):
    def write(path: Path) -> None:
        path.mkdir()
        (path / "state").write_text(text)

    return write


def read(path: Path) -> str:
    text = (path / "state").read_text()
    if text == "damaged":
        raise CheckpointError("damaged")
    return text


def test_the_two_latest_are_kept(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load(0, read) is None
    assert checkpoints.write(5, save("a")) == 5
    assert checkpoints.write(9, save("b")) == 5
    assert checkpoints.write(12, save("c")) == 9
    assert checkpoints.positions() == [9, 12]
    assert checkpoints.load(20, read) == (12, "c")


def test_one_that_fails_leaves_the_others(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(5, save("a"))

    def fail(path: Path) -> None:
        save("half")(path)
        raise CheckpointError("no space")

    with pytest.raises(CheckpointError):
        checkpoints.write(9, fail)
    assert checkpoints.positions() == [5]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{5:015d}"]
    save("left by a crash")(tmp_path / "new")
    assert checkpoints.write(9, save("b")) == 5


def test_a_damaged_one_is_passed_over(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(5, save("a"))
    checkpoints.write(9, save("damaged"))
    assert checkpoints.load(20, read) == (5, "a")


def test_one_beyond_the_log_is_passed_over(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(5, save("a"))
    checkpoints.write(9, save("b"))
    assert checkpoints.load(7, read) == (5, "a")
    with pytest.raises(Problem, match="the log ends at 3, before the first checkpoint, at 5"):
        checkpoints.load(3, read)


def test_older_ones_are_kept_of_the_last_minutes_hours_and_days(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    day, last = 60 * 24, 60 * 24 * 10
    written = [*range(0, last - day, 240), *range(last - day, last - 60, 60), *range(last - 60, last + 1, 5)]
    for minute in written:
        checkpoints.write(minute, save("a"), {"at": 60.0 * minute})
    days = [day * (n + 1) - 240 for n in range(4, 9)] + [last - 5]  # and the last of today
    hours = [last - 60 * n for n in range(5, 1, -1)]
    minutes = [last - 15, last - 5, last]
    assert checkpoints.positions() == sorted({*days, *hours, *minutes})
    assert checkpoints.about(last) == {"at": 60.0 * last, "asked": False}


def test_those_that_were_asked_for_are_kept(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    for position in range(1, 30):
        checkpoints.write(position, save("a"), {"at": float(position)})
        if position in (3, 4, 6, 8, 10, 12):
            checkpoints.ask_for(position)
    assert checkpoints.positions() == [4, 6, 8, 10, 12, 28, 29]


def test_what_a_return_left_behind_is_not_offered_and_what_it_needs_is_kept(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    for position in (5, 9, 12):
        checkpoints.write(position, save(f"{position}"), {"at": float(position)})
        checkpoints.ask_for(position)
    back = [Return(13, 9, 0.0)]
    checkpoints.held.append(5)
    assert checkpoints.write(13, save("9"), {}, back) == 12
    assert list(checkpoints.offered(back)) == [5, 9, 13]
    assert checkpoints.load(20, read) == (13, "9")
    assert checkpoints.write(20, save("20"), {}, back) == 13
    assert checkpoints.positions() == [5, 9, 13, 20]  # 12 is gone


def test_one_without_notes_has_the_time_of_its_directory(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path)
    save("a")(checkpoints.path(5))
    assert checkpoints.about(5)["at"] == checkpoints.path(5).stat().st_mtime
    assert list(checkpoints.offered([])) == [5]
