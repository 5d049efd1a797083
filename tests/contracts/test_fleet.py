"""What every fleet must keep: a key's numbers are its own, whatever comes beside it, in whatever pieces."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fleet_streams import assert_same, fleet, frame, learnt, steps_ahead, textbooks
from streamgp import StreamingGPFleet
from streamgp.fleet.directory import shard_of

pytestmark = pytest.mark.slow

ROWS = frame()
# Keys of two groups: those with odd numbers, and the others.
GROUPED = ROWS.with_columns(kind=pl.col("unique_id").str.slice(4).cast(int) % 2)
WARM, DUE = 145, 185  # rows after which the fleet has been fitted, and before its pooled prior is due again


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory):
    """A fleet right after its warm-up, on disk."""
    path = tmp_path_factory.mktemp("fleet")
    model = fleet()
    model.partial_fit(ROWS[:WARM])
    assert model.is_warm_ and model.learner.engine.refresh_at > DUE
    model.save(path)
    return path


@pytest.fixture(scope="module")
def whole():
    """What a fleet that learns all rows in one call predicts of them, and the fleet."""
    model = fleet()
    return learnt(model, ROWS), model


def test_every_key_is_the_textbooks_filter(whole):
    predicted, model = whole
    engine = model.learner.engine
    assert len(engine.model.priors) > 3
    flagged = model.scores()["flagged"].sum()
    assert flagged > 3
    checked = shifts = late = renewed = 0
    for key in model.keys_:
        mine = predicted.filter(pl.col("unique_id") == key)
        steps = list(textbooks(model, ROWS, key))
        loop = steps[-1][1]
        for i, (index, _, row) in enumerate(steps):
            late += i == 0 and index >= np.sqrt(2.0) * engine.fitted_at + 1
            if index >= engine.fitted_at:
                mean = row.weights @ row.mean
                std = np.sqrt(row.weights @ (row.var + (row.mean - mean) ** 2))
                expected = [mean, std, row.log_density]
                np.testing.assert_allclose(
                    mine.select("mean", "std", "log_density").row(i), expected, rtol=1e-9, atol=1e-9
                )
                checked += 1
        shifts, renewed = shifts + loop.shifts, renewed + loop.renewed
        beliefs, k = engine.keys.states.beliefs, model.keys_.index(key)
        for name in ("level", "run", "agreement", "last", "rate"):
            expected = [getattr(expert, name) for expert in loop.experts]
            np.testing.assert_allclose(getattr(beliefs, name)[k], expected, rtol=1e-8, atol=1e-9, err_msg=name)
    assert checked > 250 and shifts > 0 and late > 0 and renewed > 3


def test_every_key_is_the_textbooks_filter_where_rows_come_within_days():
    hours = (pl.col("ds") * 3_600e6 * 2).cast(pl.Int64)
    rows = ROWS.with_columns(ds=pl.from_epoch(hours, time_unit="us"))
    model = fleet()
    predicted, engine = learnt(model, rows), model.learner.engine
    features, carried = engine.model.features, engine.keys.states.carried
    assert features.short == 3 and "weekend" in features.calendar and len(features.pairs) > 20
    assert engine.model.experts.carries.tolist() == [False, True, True]
    assert (carried.share[:5, 1:] > 0.05).any()
    key = model.keys_[0]
    found = predicted.filter(unique_id=key).select("mean", "log_density").to_numpy()
    seconds = rows.with_columns(pl.col("ds").dt.timestamp("us") / 1e6)
    for i, (index, _, row) in enumerate(textbooks(model, seconds, key)):
        if index >= engine.fitted_at:
            expected = [row.weights @ row.mean, row.log_density]
            np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9)
    assert_same(learnt(fleet(), rows, [150] + [1] * 200), predicted)


@pytest.fixture(scope="module")
def grouped():
    """What a fleet with groups that learns all rows in one call predicts of them, and the fleet."""
    model = fleet(group_col="kind")
    return learnt(model, GROUPED), model


@pytest.mark.parametrize("sizes", [[150] + [1] * 200, [37] * 12, [5, 1, 150, 2, 90]])
def test_chunks_do_not_matter(whole, sizes):
    assert_same(learnt(fleet(), ROWS, sizes), whole[0])


@pytest.mark.parametrize("awake", [1, 3, 5])
def test_keys_that_sleep_are_keys_awake(whole, awake):
    predicted, model = whole
    sleepy = fleet(max_active=awake)
    assert_same(learnt(sleepy, ROWS, [70] + [1] * 120 + [37] * 10), predicted)
    assert sleepy.learner.engine.keys.sleepers.names and len(sleepy.learner.engine.model.priors) > 1
    assert_frame_equal(sleepy.scores(), model.scores(), rel_tol=1e-9)
    future = steps_ahead(model, 3, a=0.3, b=-1.0)
    assert_same(sleepy.forecast(3, X_future=future), model.forecast(3, X_future=future))
    ahead = ROWS[-60:].drop("y").with_columns(unique_id=pl.col("unique_id").replace("key 3", "new"))
    assert_same(sleepy.predict(ahead), model.predict(ahead))


def test_groups_in_any_pieces_asleep_and_resumed(tmp_path, whole, grouped):
    predicted, model = grouped
    assert len(model.learner.engine.model.by_group) == 2 and len(model.learner.engine.model.priors) > 5
    born = model.learner.engine.keys.states.beliefs.prior[: len(model.keys_)]
    assert set(born.tolist()) & set(range(1, len(model.learner.engine.model.priors)))
    # From the end of the warm-up on, keys have other numbers than without groups.
    end = model.learner.engine.fitted_at
    assert_same(predicted[:end], whole[0][:end])
    assert not np.allclose(predicted[end:]["mean"], whole[0][end:]["mean"], rtol=1e-4)
    for options in ({}, {"max_active": 2}):
        sleepy = fleet(group_col="kind", **options)
        parts = [learnt(sleepy, GROUPED[:300], [31] * 10)]
        sleepy.save(tmp_path / "fleet")
        sleepy = StreamingGPFleet.load(tmp_path / "fleet", **options)
        parts.append(learnt(sleepy, GROUPED[300:], [1] * 60))
        assert_same(pl.concat(parts), predicted)
        assert_frame_equal(sleepy.scores(), model.scores(), rel_tol=1e-9)
        ahead = GROUPED[-4:].drop("y").with_columns(unique_id=pl.lit("new"), kind=pl.Series([0, 1, 7, 0]))
        assert_same(sleepy.predict(ahead), model.predict(ahead))


def test_a_key_beside_others_is_a_key_alone(whole, saved):
    rest = ROWS[WARM:DUE]
    together = learnt(StreamingGPFleet.load(saved), rest)
    for key in rest["unique_id"].unique().to_list():
        alone = learnt(StreamingGPFleet.load(saved), rest.filter(pl.col("unique_id") == key))
        assert_same(alone, together.filter(pl.col("unique_id") == key))
    assert_same(together, whole[0][WARM:DUE])


def test_the_order_of_rows_of_different_keys_does_not_matter(saved):
    rest = ROWS[WARM:DUE]
    by_key = rest.sort("unique_id", "ds")
    one = learnt(StreamingGPFleet.load(saved), rest).sort("unique_id", "ds")
    assert_same(one, learnt(StreamingGPFleet.load(saved), by_key))


@pytest.mark.parametrize("number", [1, 3, 256])
def test_the_number_of_shards_does_not_matter(tmp_path, whole, number):
    model = fleet(shards=number)
    learnt(model, ROWS[:200])
    model.save(tmp_path / "fleet")
    assert_same(learnt(StreamingGPFleet.load(tmp_path / "fleet"), ROWS[200:]), whole[0][200:])


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_a_fleet_are_the_fleet(saved, parts):
    rest = ROWS[WARM:DUE]
    together = learnt(StreamingGPFleet.load(saved), rest)
    keys_seen = 0
    for part in range(parts):
        mine = [shard for shard in range(256) if shard % parts == part]
        worker = StreamingGPFleet.load(saved, shards=mine)
        keys_seen += len(worker.keys_)
        theirs = [key for key in rest["unique_id"].unique() if shard_of(key, 256) in mine]
        of_worker = pl.col("unique_id").is_in(theirs)
        if theirs:
            assert_same(learnt(worker, rest.filter(of_worker)), together.filter(of_worker))
    assert keys_seen == len(StreamingGPFleet.load(saved).keys_)


@pytest.mark.parametrize("at", [20, WARM, 350])
def test_a_fleet_that_was_saved_goes_on(tmp_path, whole, at):
    model = fleet()
    before = learnt(model, ROWS[:at])
    model.save(tmp_path / "fleet")
    model.partial_fit(ROWS[at:])  # what it does later is not in the files
    again = StreamingGPFleet.load(tmp_path / "fleet")
    assert_same(pl.concat([before, learnt(again, ROWS[at:])]), whole[0])
    assert again.scores().equals(model.scores())


@pytest.mark.parametrize("at", [10, 100, 300])
def test_a_prediction_knows_no_target_from_its_row_on(whole, at):
    changed = ROWS.with_columns(y=pl.Series(np.r_[ROWS["y"].to_numpy()[:at], 100.0 + np.arange(len(ROWS) - at)]))
    names = ["mean", "std", "q05", "q50", "q95"]
    moved = learnt(fleet(), changed)
    before = [each[: at + 1].select(names).to_numpy() for each in (moved, whole[0])]
    np.testing.assert_allclose(*before, rtol=1e-12, atol=1e-12)
    assert not np.allclose(moved[at + 1 :]["mean"], whole[0][at + 1 :]["mean"])


def test_predicting_changes_nothing_and_is_what_learning_finds(whole, saved):
    model = StreamingGPFleet.load(saved)
    rest = ROWS[WARM:200].unique("unique_id", keep="first", maintain_order=True)
    predicted = model.predict(rest.drop("y"))
    assert_same(predicted, model.predict(rest))
    assert_same(predicted, model.evaluate(rest).frame)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, 1e99, -1e20, np.nan])
@pytest.mark.parametrize("column", ["y", "a"])
def test_a_bad_row_costs_no_other_key_anything(saved, column, value):
    rest = ROWS[WARM:DUE]
    at = int((rest["unique_id"] == "key 3").arg_max()) + 1
    spoilt = rest.with_columns(pl.Series(column, np.where(np.arange(len(rest)) == at - 1, value, rest[column])))
    plain, odd = learnt(StreamingGPFleet.load(saved), rest), learnt(model := StreamingGPFleet.load(saved), spoilt)
    others = pl.col("unique_id") != "key 3"
    assert_same(odd.filter(others), plain.filter(others), rtol=0.0)
    mine = odd.filter(~others)
    assert np.isfinite(mine.select("mean", "std", "q05", "q95").to_numpy()).all()
    # And the key itself goes on: its later errors are hardly larger.
    later = slice(3, None)
    errors = [np.nanmean(np.abs(each["y"] - each["mean"])[later]) for each in (mine, plain.filter(~others))]
    assert errors[0] < 2.0 * errors[1] + 0.1, errors
    if column == "y" and np.isfinite(value) and value < 1e200:
        assert model.scores().filter(pl.col("unique_id") == "key 3")["flagged"][0] >= 1
    if np.isinf(value) or value == 1e300:
        assert model.scores().filter(pl.col("unique_id") == "key 3")["unusable"][0] == 1


@pytest.mark.parametrize("seed", range(4))
def test_any_mixture_in_any_pieces(seed):
    rng = np.random.default_rng(seed)
    rows = frame(keys=int(rng.integers(1, 12)), rows=int(rng.integers(20, 40)), seed=seed)
    sizes = rng.integers(1, 60, size=30).tolist()
    options = {"random_state": seed, "lags": int(rng.integers(1, 4))}
    assert_same(learnt(fleet(**options), rows, sizes), learnt(fleet(**options), rows))
