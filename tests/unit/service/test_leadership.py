"""When a leader acknowledges, and what a standby may rely on."""

from pathlib import Path
from typing import Any

import pytest

from streamgp.service.problems import Problem
from streamgp.service.standby import epoch, leadership
from streamgp.service.standby.epoch import EpochFile
from streamgp.service.standby.leadership import Leadership

T = 10.0


class Leader(Leadership):
    """A leader of streams with these positions, and the answers that it gives."""

    def __init__(self, folder: Path, **positions: int) -> None:
        self.positions, self.answers = positions, list[Any]()
        super().__init__(EpochFile(folder), lambda: dict(self.positions), T)

    def enter(self, name: str = "a") -> int:
        self.positions[name] += 1
        position = self.positions[name]
        self.acknowledge(name, position, lambda problem: self.answers.append((position, problem and problem.status)))
        return position


def in_step(folder: Path) -> Leader:
    leader = Leader(folder, a=5)
    assert leader.confirm("s", {"a": 5})
    return leader


def test_a_leader_by_itself_waits_for_nobody(tmp_path: Path):
    leader = Leader(tmp_path, a=5)
    leader.enter()
    assert leader.answers == [(6, None)]
    assert not (tmp_path / "epoch.json").exists()


def test_an_entry_waits_for_the_standby(tmp_path: Path):
    leader = in_step(tmp_path)
    leader.enter()
    leader.enter()
    assert leader.answers == []
    assert leader.confirm("s", {"a": 6})
    assert leader.answers == [(6, None)]
    assert leader.confirm("s", {"a": 8})  # it has more than is learnt here
    leader.positions["a"] = 7
    leader.enter()
    assert leader.answers == [(6, None), (7, None), (8, None)]


def test_a_lease_says_that_the_standby_has_all_that_was_acknowledged(tmp_path: Path):
    leader = Leader(tmp_path, a=5_000)
    assert not leader.confirm("s", {"a": 10})
    leader.enter()
    assert leader.answers == [(5_001, None)]  # alone, as the standby is far behind
    assert not leader.confirm("s", {"a": 4_900})  # near: from now on it is waited for
    leader.enter()
    assert len(leader.answers) == 1 and leader.file.now.alone
    assert not leader.confirm("s", {"a": 5_000})
    assert leader.confirm("s", {"a": 5_001})
    assert not leader.file.now.alone
    assert not leader.confirm("s", {"a": 4_000})  # it has lost what it had
    assert not leader.confirm("s", {})


@pytest.mark.parametrize("has", [{"a": 5}, {"a": 6}, {}])
def test_a_leader_that_begins_again_gives_a_lease_for_all_that_it_has(tmp_path: Path, has: dict[str, int]):
    in_step(tmp_path)
    again = Leader(tmp_path, a=7)  # of which 6 may have been acknowledged, for all that it knows
    again.enter()
    assert again.answers == []
    assert not again.confirm("s", has)
    assert again.confirm("s", {"a": 8})
    assert again.answers == [(8, None)]


def test_it_goes_on_alone_after_the_time_and_the_disk_has_that_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    leader = in_step(tmp_path)
    leader.enter()
    for _ in range(99):
        leader.passed(0.1)
    assert leader.answers == []
    leader.passed(30.0)  # it stood still, and may have been replaced meanwhile
    for _ in range(99):
        leader.passed(0.1)
    assert leader.answers == []

    def full(**_: Any) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(leader.file, "write", full)
        leader.passed(0.2)
        assert leader.answers == []
    leader.passed(0.2)
    assert leader.answers == [(6, None)]
    assert EpochFile(tmp_path).now.alone and not leader.is_in_step
    leader.enter()
    assert leader.answers[-1] == (7, None)
    again = Leader(tmp_path, a=7)
    again.enter()
    assert again.answers == [(8, None)]


def test_a_standby_that_asks_and_takes_nothing_gets_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    leader = in_step(tmp_path)
    leader.enter()
    assert leader.confirm("s", {"a": 5})
    now = leadership.monotonic()
    monkeypatch.setattr(leadership, "monotonic", lambda: now + T + 1.0)
    for _ in range(101):
        assert not leader.confirm("s", {"a": 5})
        leader.passed(0.1)
    assert leader.answers == [(6, None)]


def test_it_has_one_standby_until_that_is_silent(tmp_path: Path):
    leader = in_step(tmp_path)
    with pytest.raises(Problem, match="a service has one"):
        leader.confirm("t", {"a": 5})
    for _ in range(11):
        leader.passed(1.0)
    assert leader.confirm("t", {"a": 5})
    assert leader.file.now.standby == "t"


def test_one_that_was_replaced_acknowledges_nothing(tmp_path: Path):
    leader = in_step(tmp_path)
    leader.file.write(service="x")
    leader.enter()
    for service, number in (("y", 1), ("x", 0)):
        with pytest.raises(Problem, match="expected a later one than 0"):
            leader.replaced(service, number, "http://b")
    assert leader.answers == []
    leader.replaced("x", 1, "http://b")
    leader.enter()
    assert leader.answers == [(6, 503), (7, 503)]
    leader.replaced("x", 1, "http://b")  # the same word again
    again = Leader(tmp_path, a=7)
    with pytest.raises(Problem, match="replaced by http://b, which leads in epoch 1"):
        again.check()
    with pytest.raises(Problem, match="replaced by"):
        again.confirm("s", {"a": 7})


def test_who_stops_acknowledges_nothing_that_the_standby_may_not_have(tmp_path: Path):
    leader = in_step(tmp_path)
    leader.start()
    leader.enter()
    leader.leave()
    leader.stop()
    leader.enter()
    assert leader.answers == [(6, 503), (7, 503)]
    assert not EpochFile(tmp_path).now.alone


@pytest.mark.parametrize("text", ["", "{}x", '{"role": 1}', '{"rank": "leader"}', "[]"])
def test_a_file_that_says_nothing_is_not_taken_for_a_leader(tmp_path: Path, text: str):
    (tmp_path / epoch.NAME).write_text(text)
    with pytest.raises(Problem, match="expected who leads these streams"):
        EpochFile(tmp_path)
