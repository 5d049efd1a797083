"""Glitches, and keys like no other, in whole fleets: in the warm-up, at its end, after it; in targets and inputs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fleet_streams import assert_same
from streamgp import StreamingGPFleet

KEYS, ROWS = 12, 80
Change = Callable[[np.ndarray, np.ndarray], None]


def streams(change: Change | None = None, seed: int = 0) -> pl.DataFrame:
    """Return rows of keys that answer to an input, changed in place by `change(y, a)`."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(ROWS, KEYS))
    y = a + rng.normal(size=(ROWS, KEYS))
    if change is not None:
        change(y, a)
    keys = [f"k{key}" for _ in range(ROWS) for key in range(KEYS)]
    return pl.DataFrame(
        {"unique_id": keys, "ds": np.repeat(np.arange(float(ROWS)), KEYS), "y": y.ravel(), "a": a.ravel()}
    )


def end(rows: pl.DataFrame, warmup: int = 300) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what was predicted of the last 30 rows of the keys, and of the next row of each and of a new one."""
    fleet = StreamingGPFleet(warmup=warmup, season=None)
    found = fleet.evaluate(rows).frame
    names = [*(f"k{key}" for key in range(KEYS)), "new"]
    return found[-30 * KEYS :], fleet.predict(pl.DataFrame({"unique_id": names, "ds": float(ROWS), "a": 1.0}))


def put(row: int, value: float, keys: int = 1, of: str = "y") -> Change:
    """Return the change of a value of the first keys in a row."""

    def change(y: np.ndarray, a: np.ndarray) -> None:
        (y if of == "y" else a)[row, :keys] = value

    return change


GLITCHES = {
    f"{of} {value:g} in row {row} of {keys}": put(row, value, keys, of)
    for of, value, row, keys in (
        *(("y", 1e4, row, 1) for row in (0, 1, 10, 40)),
        *(("y", -1e12, row, 1) for row in (0, 1, 40)),
        *(("y", 1e99, row, 1) for row in (0, 1, 10)),
        ("y", 1e250, 3, 1),
        ("y", 1e6, 5, 4),
        ("y", 1e6, 0, 12),
        *(("a", 1e12, row, 1) for row in (0, 1, 10, 40)),
        ("a", -1e4, 0, 1),
        ("a", -1e250, 3, 1),
        ("a", 1e6, 0, 12),
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GLITCHES)
def test_a_glitch_leaves_later_rows_nearly_as_they_were(name: str):
    (plain, then), (odd, now) = end(streams()), end(streams(GLITCHES[name]))
    std = plain["std"].to_numpy()
    off = (odd["mean"].to_numpy() - plain["mean"].to_numpy()) / std
    assert np.sqrt(np.mean(off.reshape(-1, KEYS) ** 2, axis=0)).max() < 0.35
    assert np.abs(np.log(odd["std"].to_numpy() / std)).max() < np.log(1.5)
    assert np.abs(np.log(now["std"].to_numpy() / then["std"].to_numpy())).max() < np.log(1.5)
    assert np.abs(now["mean"].to_numpy() - then["mean"].to_numpy()).max() < 1.5


@pytest.mark.slow
def test_a_key_that_lives_elsewhere_is_predicted_there_and_the_others_where_they_are():
    def moved(y: np.ndarray, a: np.ndarray) -> None:
        y[:, 0] += 1e4
        y[:, 1] *= 1e6
        y[:, 2] *= 0.01

    (_, then), (odd, now) = end(streams()), end(streams(moved))
    level, size = np.zeros(KEYS), np.ones(KEYS)
    level[0], size[1], size[2] = 1e4, 1e6, 0.01
    ratio = now["std"].to_numpy()[:KEYS] / then["std"].to_numpy()[:KEYS]
    np.testing.assert_allclose(np.log(ratio / size), 0.0, atol=np.log(2.0))
    errors = ((odd["y"] - odd["mean"]) / odd["std"]).to_numpy().reshape(-1, KEYS)
    rms = np.sqrt(np.mean(errors**2, axis=0))
    assert (rms < 1.6).all() and (rms > 0.6).all()
    assert abs(now["mean"][0] - 1e4) < 5.0
    assert abs(now["mean"][KEYS] - then["mean"][KEYS]) < 0.5 and now["std"][KEYS] < 2.0 * then["std"][KEYS]


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1, 4])
def test_a_glitch_of_a_new_key_after_the_warmup(row: int):
    rng = np.random.default_rng(7)
    a = rng.normal(size=30)
    y = a + rng.normal(size=30)
    new = pl.DataFrame({"unique_id": "late", "ds": np.arange(30.0), "y": y, "a": a})
    odd = new.with_columns(y=pl.when(pl.int_range(30) == row).then(1e4).otherwise("y"))
    found = []
    for each in (new, odd):
        fleet = StreamingGPFleet(warmup=300, season=None).partial_fit(streams())
        found.append(fleet.evaluate(each).frame[row + 3 :])
    assert np.abs((found[1]["mean"] - found[0]["mean"]) / found[0]["std"]).mean() < 0.5
    assert (found[1]["std"] / found[0]["std"])[10:].max() < 1.6


@pytest.mark.parametrize("sizes", [[1] * 40, [7, 100, 3]])
def test_chunks_and_resumed_fleets_are_one_in_the_warmup_too(tmp_path: Path, sizes: list[int]):
    rows = streams(GLITCHES["y 10000 in row 1 of 1"])[: 30 * KEYS].drop("a")
    whole = StreamingGPFleet(warmup=200).evaluate(rows).frame
    fleet, parts, at = StreamingGPFleet(warmup=200), [], 0
    for size in [*sizes, len(rows)]:
        parts.append(fleet.evaluate(rows[at : at + size]).frame)
        at = min(at + size, len(rows))
        if at in (sum(sizes[:2]), sum(sizes)):
            fleet.save(tmp_path)
            fleet = StreamingGPFleet.load(tmp_path)
        if at == len(rows):
            break
    assert_same(pl.concat(parts), whole)


def test_the_order_of_keys_in_a_row_changes_little_of_what_is_known_after_it():
    rows = streams()[: 10 * KEYS].drop("a")
    other = rows.sort("ds", "unique_id", descending=[False, True])
    ahead = pl.DataFrame({"unique_id": [f"k{key}" for key in range(KEYS)], "ds": 10.0})
    one, two = (StreamingGPFleet().partial_fit(each).predict(ahead) for each in (rows, other))
    np.testing.assert_allclose(one["mean"], two["mean"], rtol=1e-12)
    np.testing.assert_allclose(one["std"], two["std"], rtol=0.1)
