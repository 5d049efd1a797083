"""A fleet on disk: only what changed is written, and whatever fails, the directory loads as it was or as it is."""

import numpy as np
import polars as pl
import pytest

from failing_disk import Disk
from fleet_streams import assert_same, fleet, frame
from streamgp import CheckpointError, StreamingGPFleet
from streamgp.fleet.directory import shard_of

ROWS = frame(keys=5, rows=50)
HALF = 170


@pytest.fixture(scope="module")
def model():
    return fleet(shards=4).partial_fit(ROWS[:HALF])


def shards_in(path) -> dict[str, str]:
    """Return which directory holds which shard, by what they hold."""
    return {each.name.split("-")[1]: each.name for each in path.glob("shard-*")}


def test_only_shards_with_new_rows_are_written(tmp_path):
    model = fleet(shards=4).partial_fit(ROWS[:HALF])
    model.save(tmp_path)
    before = shards_in(tmp_path)
    assert len(before) == len({shard_of(key, 4) for key in model.keys_}) > 1
    model.save(tmp_path)
    assert shards_in(tmp_path) == before
    row = ROWS[HALF : HALF + 1]
    model.partial_fit(row)
    model.save(tmp_path)
    after = shards_in(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {f"{shard_of(row['unique_id'][0], 4):05d}"}
    assert_same(StreamingGPFleet.load(tmp_path).evaluate(ROWS[200:]).frame, model.evaluate(ROWS[200:]).frame)
    # Another directory gets all of them.
    model.save(tmp_path / "other")
    assert shards_in(tmp_path / "other").keys() == after.keys()


def test_two_fleets_in_turn_in_one_directory(tmp_path, model):
    model.save(tmp_path)
    other = fleet(shards=4).partial_fit(ROWS[:20])
    other.save(tmp_path)
    assert StreamingGPFleet.load(tmp_path).rows_ == 20
    model.save(tmp_path)
    assert StreamingGPFleet.load(tmp_path).rows_ == HALF


@pytest.mark.slow
def test_wherever_the_disk_fails_the_directory_loads_as_before_or_as_now(tmp_path, monkeypatch):
    model = fleet(shards=2).partial_fit(ROWS[:HALF])
    calls, fail_at, outcomes = 1, 0, set()
    while fail_at < calls:
        fail_at += 1
        path = tmp_path / str(fail_at)
        old = StreamingGPFleet.load(path) if path.exists() else None
        assert old is None
        first = fleet(shards=2).partial_fit(ROWS[:HALF])
        first.save(path)
        first.partial_fit(ROWS[HALF:])
        with monkeypatch.context() as patch:
            disk = Disk(patch, fail_at=fail_at, dead=True)
            try:
                first.save(path)
                failed = False
            except (CheckpointError, OSError):
                failed = True
            calls = max(calls, len(disk.calls))
        found = StreamingGPFleet.load(path).rows_
        assert found in (HALF, len(ROWS))
        outcomes.add((failed, found))
        if fail_at % 4 == 1:  # and the fleet itself can still be saved
            first.save(path)
            assert StreamingGPFleet.load(path).rows_ == len(ROWS)
    assert (True, HALF) in outcomes
    assert model.rows_ == HALF


def test_a_damaged_shard_is_named(tmp_path, model):
    model.save(tmp_path)
    broken = next(tmp_path.glob("shard-*"))
    arrays = next(broken.glob("arrays-*"))
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match=rf"{broken.name}.*damaged"):
        StreamingGPFleet.load(tmp_path)


def test_what_is_no_fleet_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="expected a checkpoint, found no such directory"):
        StreamingGPFleet.load(tmp_path / "none")
    from streamgp.numerics import checkpoint

    checkpoint.save(tmp_path / "other", {}, {"kind": "SomethingElse"})
    with pytest.raises(CheckpointError, match="expected a checkpoint of a StreamingGPFleet"):
        StreamingGPFleet.load(tmp_path / "other")


def test_a_fleet_before_its_first_row_and_one_in_its_warmup(tmp_path):
    fleet(lags=2).save(tmp_path / "new")
    assert StreamingGPFleet.load(tmp_path / "new").settings.lags == (2,)
    early = fleet().partial_fit(ROWS[:15])
    early.save(tmp_path / "early")
    again = StreamingGPFleet.load(tmp_path / "early")
    assert_same(again.evaluate(ROWS[15:]).frame, early.evaluate(ROWS[15:]).frame)
    with pytest.raises(ValueError, match="expected a fleet after its warm-up"):
        StreamingGPFleet.load(tmp_path / "early", shards=[0, 1])


def test_keys_without_a_row_since_the_warmup_are_written_when_it_ends(tmp_path):
    rows = frame(keys=6, rows=60, seed=2, glitches=False)
    model = fleet(warmup=60)
    start = next(i for i in range(len(rows)) if rows["unique_id"][:i].n_unique() == 4)
    model.partial_fit(rows[:start])
    model.save(tmp_path)
    silent = rows["unique_id"][0]
    others = rows[start:].filter(pl.col("unique_id") != silent)
    model.partial_fit(others)
    assert model.is_warm_
    model.save(tmp_path)
    later = rows[start:].filter(pl.col("unique_id") == silent)
    assert_same(StreamingGPFleet.load(tmp_path).evaluate(later).frame, model.evaluate(later).frame)


def test_a_part_is_not_saved_over_the_whole(tmp_path, model):
    model.save(tmp_path / "whole")
    part = StreamingGPFleet.load(tmp_path / "whole", shards=[0, 1])
    with pytest.raises(ValueError, match="expected another directory than that of the whole fleet"):
        part.save(tmp_path / "whole")
    part.save(tmp_path / "part")
    assert StreamingGPFleet.load(tmp_path / "part").keys_ == part.keys_
    assert len(StreamingGPFleet.load(tmp_path / "whole").keys_) == len(model.keys_) > len(part.keys_)


def test_the_step_that_was_learnt_last_is_kept(tmp_path):
    model = fleet()
    model.step(7, ROWS[:60])
    model.save(tmp_path)
    again = StreamingGPFleet.load(tmp_path)
    assert again.step(7, ROWS[:60]) is None
    assert_same(again.step(8, ROWS[60:70]), model.step(8, ROWS[60:70]))


def test_shards_are_those_of_every_process():
    # SHA-like hashes have no seed: these are for ever.
    from hashlib import blake2b

    for key, name in (("a", b"sa"), (17, b"i17"), ("17", b"s17"), ("schön", "sschön".encode())):
        expected = int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % 256
        assert shard_of(key, 256) == expected
    of = [shard_of(f"key {i}", 16) for i in range(4000)]
    assert np.abs(np.bincount(of, minlength=16) - 250).max() < 5 * np.sqrt(250)
