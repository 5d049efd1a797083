"""Text inputs of a fleet: what levels are worth, by the definition, whatever the chunks."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from streamgp import StreamingGPFleet
from streamgp.fleet.directory import Directory
from streamgp.fleet.levels import MEMORY, TextInputs
from streamgp.numerics.coding import level_codes
from streamgp.stream.level_effects import LIMIT
from streamgp.table import DataError
from tests.fleet_streams import fleet
from tests.oracles.level_means import worth_by_hand

ROWS, KEYS, LEVELS = 120, 3, 60


def stream(rows: int = ROWS, levels: int = LEVELS) -> pl.DataFrame:
    """Return rows of keys of very different sizes whose targets depend on a column of many levels."""
    rng = np.random.default_rng(0)
    key, level = rng.integers(KEYS, size=rows), rng.integers(levels, size=rows)
    effect = rng.normal(size=levels)
    y = 10.0**key * (3.0 + effect[level] + 0.3 * rng.normal(size=rows))
    y[rng.random(rows) < 0.05] = np.nan
    names = pl.Series([f"item {i}" if i else None for i in level])
    return pl.DataFrame({"unique_id": [f"k{k}" for k in key], "ds": np.arange(rows), "y": y, "item": names})


def units_by_hand(key: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return targets in units of the rows of their key before them, row by row."""
    found, known = np.full(len(y), np.nan), {}
    for i, (k, value) in enumerate(zip(key.tolist(), y.tolist(), strict=True)):
        if np.isnan(value):
            continue
        n, center, square = known.get(k, (0, value, 0.0))
        off = value - center
        if n >= 2:
            found[i] = off / square**0.5
        if n > 10:
            off = min(max(off, -LIMIT * square**0.5), LIMIT * square**0.5)
        square += (off * off - square) / min(max(n, 1), MEMORY) if n else 0.0
        known[k] = n + 1, center + off / min(n + 1, MEMORY), square
    return found


def test_levels_are_worth_what_the_definition_says():
    rng = np.random.default_rng(1)
    key, level, y = rng.integers(3, size=120), rng.integers(9, size=120), rng.normal(size=120)
    y = np.where(level == 3, y + 2.0, y) * 10.0**key
    directory = Directory(4)
    directory.add([0, 1, 2])
    codes = level_codes(map(str, level), ())
    X = np.column_stack([rng.normal(size=120), codes])
    found = TextInputs([1], directory).learn(key, X, y)
    z = units_by_hand(key, y)
    there = ~np.isnan(z)
    assert np.array_equal(found[:, 0], X[:, 0])
    expected = worth_by_hand(level[there].tolist(), z[there], 1_000.0, LIMIT)
    np.testing.assert_allclose(found[there, 1], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_chunks_do_not_matter_and_neither_does_a_saved_fleet(tmp_path: Path):
    rows = stream()
    whole = fleet(warmup=60).evaluate(rows).frame
    parts, model = [], fleet(warmup=60)
    for at, stop in ((0, 7), (7, 90), (90, ROWS)):
        parts.append(model.evaluate(rows[at:stop]).frame)
        model.save(tmp_path / "fleet")
        model = StreamingGPFleet.load(tmp_path / "fleet")
    found = pl.concat(parts)
    for name in ("mean", "std", "q05"):
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-9)
    ahead = model.predict(rows[-5:].drop("y").with_columns(ds=pl.col("ds") + ROWS))
    assert ahead["mean"].is_finite().all()


@pytest.mark.slow
def test_a_fleet_learns_from_text_across_keys_of_any_size():
    rows = stream(400, levels=30)
    unit = 10.0 ** rows["unique_id"].str.slice(1).cast(pl.Int64).to_numpy()
    late = slice(200, None)

    def error(given: pl.DataFrame) -> float:
        off = (fleet(warmup=60).evaluate(given).frame["mean"] - rows["y"]).to_numpy() / unit
        return float(np.nanmean(off[late] ** 2))

    assert error(rows) < 0.6 * error(rows.drop("item"))


@pytest.mark.slow
def test_no_prediction_sees_its_own_target_or_a_later_one():
    rows = stream()
    other = rows.with_columns(y=pl.when(pl.col("ds") >= 100).then(-pl.col("y")).otherwise("y"))
    one, two = (fleet(warmup=60).evaluate(each).frame["mean"].to_numpy() for each in (rows, other))
    assert np.array_equal(one[:101], two[:101])


def test_forecasts_know_the_levels_to_come_and_new_ones():
    rows = stream()
    model = fleet(warmup=60).partial_fit(rows)
    future = pl.DataFrame({"unique_id": ["k0", "k0"], "ds": [ROWS + 1, ROWS + 2], "item": ["item 5", "never seen"]})
    assert len(model.forecast(2, X_future=future, keys=["k0"])) == 2


def test_a_column_stays_what_it_was_in_the_first_frame():
    rows = stream()[:30]
    columns = fleet().partial_fit(rows).learner.columns
    assert columns is not None and columns.texts == ("item",)
    numbers = rows.with_columns(item=pl.lit(1.0))
    with pytest.raises(DataError, match=r"expected a number .*got 'item"):
        fleet().partial_fit(numbers).partial_fit(rows.with_columns(ds=pl.col("ds") + ROWS).drop_nulls("item"))
    typo = pl.DataFrame({"unique_id": ["a"] * 3, "ds": [1, 2, 3], "y": [1.0, 2.0, 3.0], "x": ["1", "2", "x"]})
    with pytest.raises(DataError, match=r"expected a number .*got 'x'"):
        fleet().partial_fit(typo)
