"""Checkpoints: the two latest, each whole, and one that a damaged one falls back to."""

from pathlib import Path

import pytest

from streamgp.checkpoint import CheckpointError
from streamgp.service.checkpoints import Checkpoints
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
