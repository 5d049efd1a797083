"""Keys that sleep on disk: who sleeps, where their states lie, and what happens when a disk fails."""

import copy
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors

from fleet_streams import assert_same, fleet, frame, learnt
from streamgp import CheckpointError, StreamingGPFleet
from streamgp.fleet import hibernating_keys, sleepers
from streamgp.fleet.sleepers import Sleepers
from streamgp.fleet.states import take
from streamgp.table import files

ROWS = frame(keys=6, rows=50)
WARM = 150


@pytest.fixture(scope="module")
def awake():
    """A fleet that keeps all keys awake, after the warm-up."""
    return fleet().partial_fit(ROWS)


@pytest.fixture(scope="module")
def states(awake):
    return awake.learner.engine.keys.take(np.arange(5))


def same(one, other) -> None:
    np.testing.assert_array_equal(one.past, other.past)
    np.testing.assert_array_equal(one.beliefs.cov, other.beliefs.cov)
    np.testing.assert_array_equal(one.beliefs.prior, other.beliefs.prior)
    np.testing.assert_array_equal(one.scores.log_density, other.scores.log_density)
    np.testing.assert_array_equal(one.moments.loc, other.moments.loc)
    np.testing.assert_array_equal(one.learnt, other.learnt)


def of(states, *at: int):
    return take(states, np.array(at))


def test_keys_wake_as_they_fell_asleep_in_any_order(tmp_path, states):
    asleep = Sleepers(tmp_path)
    asleep.put(np.array([7, 2]), of(states, 0, 1))
    asleep.put(np.array([30, 4, 9]), of(states, 2, 3, 4))
    assert asleep.holds(np.array([2, 3, 4, 30, 900])).tolist() == [True, False, True, True, False]
    same(asleep.take(np.array([4, 7, 9, 2])), of(states, 3, 0, 4, 1))
    assert len(list(tmp_path.iterdir())) == len(asleep.names) == 2
    asleep.wake(np.array([7, 2]))  # the last of a file take it with them
    assert len(list(tmp_path.iterdir())) == len(asleep.names) == 1
    assert not asleep.holds(np.array([7])).any()
    same(Sleepers(tmp_path, asleep.names).take(np.array([9, 30])), of(states, 4, 2))


def test_the_last_record_of_a_key_holds(tmp_path, states):
    asleep = Sleepers(tmp_path)
    asleep.put(np.array([0, 1]), of(states, 0, 1))
    asleep.put(np.array([1, 2]), of(states, 2, 3))
    for each in (asleep, Sleepers(tmp_path, asleep.names)):
        same(each.take(np.array([0, 1, 2])), of(states, 0, 2, 3))


def test_files_that_are_half_empty_go_into_the_next(tmp_path, states):
    asleep = Sleepers(tmp_path)
    asleep.put(np.arange(5), states)
    asleep.wake(np.array([0, 1, 4]))
    assert len(asleep.names) == 1
    asleep.put(np.array([8]), of(states, 4))
    assert len(asleep.names) == len(list(tmp_path.iterdir())) == 1
    same(asleep.take(np.array([2, 3, 8])), of(states, 2, 3, 4))


def test_nothing_is_left_of_files_that_are_gone(tmp_path, states):
    asleep = Sleepers(tmp_path)
    asleep.put(np.array([7]), of(states, 0))
    for at in range(20):
        asleep.put(np.array([at % 3]), of(states, at % 5))
    assert len(asleep._files) == len(list(tmp_path.iterdir())) == len(asleep.names)
    assert max(asleep._files) <= 4
    for each in (asleep, Sleepers(tmp_path, asleep.names)):
        same(each.take(np.array([0, 1, 2, 7])), of(states, 3, 4, 2, 0))


def test_many_keys_go_to_several_files(tmp_path, states, monkeypatch):
    monkeypatch.setattr(sleepers, "FILE_KEYS", 2)
    asleep = Sleepers(tmp_path)
    asleep.put(np.arange(5), states)
    assert len(asleep.names) == 3
    same(asleep.take(np.arange(5)), states)


def test_a_damaged_or_lost_file_is_named(tmp_path, states):
    asleep = Sleepers(tmp_path)
    asleep.put(np.arange(5), states)
    path = tmp_path / asleep.names[0]
    whole = path.read_bytes()
    with safetensors.safe_open(path, framework="numpy") as file:
        width = file.get_slice("records").get_shape()[1]
    third = len(whole) - 3 * width + 40  # a byte of the key numbered 2
    path.write_bytes(whole[:third] + bytes([whole[third] ^ 1]) + whole[third + 1 :])
    same(asleep.take(np.array([1, 3])), of(states, 1, 3))
    with pytest.raises(CheckpointError, match=rf"{path.name}: a key's checksum does not match"):
        asleep.take(np.array([1, 2]))
    path.write_bytes(whole[:-10])
    with pytest.raises(CheckpointError, match=f"{path.name}: sleeping keys could not be read"):
        asleep.take(np.array([1]))
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{path.name}: sleeping keys could not be read"):
        asleep.take(np.array([1]))


def test_a_disk_without_room_says_so_and_keeps_what_it_has(tmp_path, states, monkeypatch):
    asleep = Sleepers(tmp_path)
    asleep.put(np.arange(3), of(states, 0, 1, 2))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "put_in_place", full)
        with pytest.raises(CheckpointError, match=r"could not be put to sleep \(No space left"):
            asleep.put(np.array([0, 7]), of(states, 3, 4))
    assert not asleep.holds(np.array([7])).any()
    same(asleep.take(np.arange(3)), of(states, 0, 1, 2))
    assert len(list(tmp_path.iterdir())) == 1


def test_those_sleep_that_had_no_row_for_longest(tmp_path):
    model = fleet(max_active=3, directory=tmp_path).partial_fit(ROWS[:WARM])
    for at in range(WARM, WARM + 60):
        model.partial_fit(ROWS[at : at + 1])
        keys = model.learner.engine.keys
        awake = {model.keys_[k] for k in keys._holder if k != hibernating_keys.NOWHERE}
        recent = ROWS[: at + 1]["unique_id"].reverse().unique(maintain_order=True)
        if at > WARM + 20:  # the call with the warm-up's end took them one after the other
            assert awake == set(recent[:3])
        assert keys.sleepers.holds(np.arange(len(model.keys_))).sum() == len(model.keys_) - 3
    folder = list(tmp_path.iterdir())
    assert len(folder) == 1 and len(list(folder[0].iterdir())) == len(keys.sleepers.names)
    del model, keys
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_memory_is_that_of_the_keys_awake():
    model = fleet(max_active=2).partial_fit(ROWS)
    assert len(model.learner.engine.keys._awake.states.last) <= 3
    assert fleet().partial_fit(ROWS).learner.engine.keys.states.last.size >= 6


def test_what_is_saved_loads_into_memory_or_to_sleep(tmp_path):
    model = fleet(max_active=2, shards=4)
    learnt(model, ROWS[:WARM], [40] * 4)
    model.save(tmp_path)
    first = set(tmp_path.iterdir())
    learnt(model, ROWS[WARM:200], [7] * 10)
    model.save(tmp_path)
    assert set(tmp_path.glob("asleep-*")) != {each for each in first if each.name.startswith("asleep-")}
    assert len(list(tmp_path.glob("asleep-*"))) == len(model.learner.engine.keys.sleepers.names)
    for options in ({}, {"max_active": 1}, {"max_active": 4, "directory": tmp_path / "asleep"}):
        again = StreamingGPFleet.load(tmp_path, **options)
        assert again.scores().equals(model.scores())
        # Once saved, all is there, whoever slept where.
        again.save(tmp_path / "again")
        for path in (tmp_path / "again", tmp_path):
            rest = learnt(StreamingGPFleet.load(path, max_active=3), ROWS[200:], [30] * 4)
            assert_same(rest, learnt(StreamingGPFleet.load(path), ROWS[200:]))
        again.save(tmp_path)  # and where it was
        assert StreamingGPFleet.load(tmp_path).scores().equals(model.scores())
        learnt(again, ROWS[200:240], [11] * 4)
        again.save(tmp_path / "later")
        assert StreamingGPFleet.load(tmp_path / "later").scores().equals(again.scores())
    half = [StreamingGPFleet.load(tmp_path, shards=some, max_active=1) for some in ([0, 2], [1, 3])]
    assert sorted(half[0].keys_ + half[1].keys_) == sorted(model.keys_)
    for part in half:
        mine = ROWS[200:].filter(pl.col("unique_id").is_in(part.keys_))
        assert_same(learnt(part, mine), learnt(StreamingGPFleet.load(tmp_path), mine))


def test_another_disk_gets_copies(tmp_path, monkeypatch):
    def another(*_):
        raise OSError(18, "Invalid cross-device link")

    model = fleet(max_active=2).partial_fit(ROWS)
    monkeypatch.setattr(sleepers.os, "link", another)
    model.save(tmp_path)
    assert StreamingGPFleet.load(tmp_path).scores().equals(model.scores())
    assert not list(tmp_path.glob("*.tmp"))


def test_options_that_do_not_go_together():
    with pytest.raises(ValueError, match="max_active: expected a whole number from 1 to"):
        fleet(max_active=0)
    with pytest.raises(ValueError, match="max_active: expected none with engine='ray', got 5"):
        fleet(engine="ray", workers=2, max_active=5)
    with pytest.raises(ValueError, match="directory: expected max_active beside it"):
        fleet(directory="here")
    with pytest.raises(TypeError, match="a fleet with max_active cannot be copied"):
        copy.deepcopy(fleet(max_active=2).partial_fit(ROWS[:WARM]))
    assert fleet(max_active=2, directory="here").settings.directory == Path("here")
