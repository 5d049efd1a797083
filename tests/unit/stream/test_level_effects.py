"""What the levels of a column are worth: before each row, by the definition, in C and in NumPy, and within bounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles.level_means import worth_by_hand
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.stream import level_effects
from streamgp.stream.level_effects import CAPACITY, LIMIT, SETS, WAYS, LevelEffects

N = 300


def rows(n: int = N, levels: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, size=(n, 1)).astype(float)
    return codes, rng.normal(size=(levels, 1))[codes[:, 0].astype(int)] + 0.5 * rng.normal(size=(n, 1))


def new(columns: int = 1, statistics: int = 1, horizon: int = 0) -> LevelEffects:
    return LevelEffects.empty(columns, statistics, horizon, limited=True)


@pytest.fixture(params=["compiled", "numpy"])
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    if request.param == "numpy":
        monkeypatch.setattr(level_effects, "_compiled", lambda: None)
    elif level_effects._compiled() is None:
        pytest.skip("the kernel was not built")


def test_worth_is_that_of_the_definition(twin: None):
    codes, y = rows()
    y[50] = 1e6  # a glitch
    expected = worth_by_hand(codes[:, 0].tolist(), y[:, 0], level_effects.MEMORY, LIMIT)
    assert expected[100:].std() > 0.3
    assert_allclose(new().learn(codes, y)[1][:, 0, 0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("horizon", [0, 3])
def test_both_forms_are_one(monkeypatch: pytest.MonkeyPatch, horizon: int):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2 * CAPACITY, size=(3_000, 2)).astype(float)
    codes[5], codes[9, 1], y = np.nan, -1.0, rng.normal(size=(3_000, 2))
    y[70:90, 1] = np.nan
    found = new(2, 2, horizon).learn(codes, y)
    monkeypatch.setattr(level_effects, "_compiled", lambda: None)
    other = new(2, 2, horizon).learn(codes, y)
    assert_allclose(found[1], other[1], rtol=1e-12, atol=1e-15)
    for name in vars(found[0]):
        assert_allclose(getattr(found[0], name), getattr(other[0], name), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("horizon", [0, 3])
def test_any_pieces_are_the_whole(twin: None, horizon: int):
    codes, y = rows()
    after, whole = new(horizon=horizon).learn(codes, y)
    some, parts = new(horizon=horizon), []
    for at in (slice(0, 1), slice(1, 2), slice(2, 70), slice(70, 70), slice(70, N)):
        ahead = some.encode(codes[at])
        some, worth = some.learn(codes[at], y[at])
        parts.append(worth)
        if len(worth) == 1 and not horizon:
            assert_allclose(ahead, worth, rtol=1e-12)  # to ask before the target is to ask for it alone
    assert_array_equal(np.concatenate(parts), whole)
    for name in vars(after):
        assert_array_equal(getattr(some, name), getattr(after, name))


@pytest.mark.parametrize("horizon", [0, 3])
def test_no_row_knows_its_target_or_a_later_one(twin: None, horizon: int):
    codes, y = rows()
    other = y.copy()
    other[200:] += 7.0
    worth, changed = (new(horizon=horizon).learn(codes, each)[1] for each in (y, other))
    # With a horizon a row's level is asked for once its own target is known, for the target of a later row.
    seen = 200 if horizon else 201
    assert_array_equal(worth[:seen], changed[:seen])
    assert (worth[seen:] != changed[seen:]).any()


def test_with_a_horizon_a_target_teaches_the_level_of_the_row_that_it_was_forecast_from(twin: None):
    h = 3
    codes, y = rows()
    lagged = new(horizon=h).learn(codes, y)[0]
    # The same pairs, as they would come without a horizon; before the first pair there are targets without a level.
    pairs = np.concatenate([np.full((h, 1), np.nan), codes[:-h]])
    paired = new().learn(pairs, y)[0]
    for name in ("codes", "rows", "mean", "shared", "center"):
        assert_array_equal(getattr(lagged, name), getattr(paired, name))


def test_levels_that_were_not_seen_and_gaps_are_worth_nothing_and_asking_changes_nothing(twin: None):
    codes, y = rows()
    effects = new().learn(codes, y)[0]
    before = effects.copied()
    assert_array_equal(effects.encode(np.array([[40.0], [np.nan], [-1.0], [2.0**52]])), 0.0)
    for name in vars(before):
        assert_array_equal(getattr(effects, name), getattr(before, name))


def test_a_glitch_counts_as_a_usual_row(twin: None):
    codes, y = rows(1_000)
    other = y.copy()
    other[500] = 1e9
    usual, with_glitch = (new().learn(codes, each)[0].encode(np.arange(40.0)[:, None]) for each in (y, other))
    assert np.abs(with_glitch - usual).max() < 0.5 * y.std()


def test_a_column_of_noise_is_worth_little(twin: None):
    rng = np.random.default_rng(2)
    codes, y = rng.integers(0, 200, size=(4_000, 1)).astype(float), rng.normal(size=(4_000, 1))
    found = new().learn(codes, y)[0].encode(np.arange(200.0)[:, None])
    assert found.std() < 0.15 * y.std()
    unique = new().learn(np.arange(4_000.0)[:, None], y)[1]
    assert_array_equal(unique, 0.0)


def test_known_effects_are_found_and_follow_a_trend(twin: None):
    codes, y = rows(6_000, levels=100)
    trend = y + np.linspace(0.0, 30.0, 6_000)[:, None]
    true = np.array([y[codes[:, 0] == c].mean() for c in range(100)])
    for each in (y, trend):
        found = new().learn(codes, each)[0].encode(np.arange(100.0)[:, None])[:, 0, 0]
        assert np.corrcoef(found, true)[0, 1] > 0.97


def test_beyond_its_capacity_the_level_learnt_longest_ago_is_forgotten(twin: None):
    codes = 3.0 + SETS * np.arange(WAYS + 1.0)[:, None]  # of one set
    y = np.arange(WAYS + 1.0)[:, None]
    effects = new().learn(codes[:WAYS], y[:WAYS])[0].learn(codes[:1], y[:1])[0].learn(codes[WAYS:], y[WAYS:])[0]
    kept = set(effects.codes[0][np.isfinite(effects.codes[0])])
    assert kept == set(codes[:, 0]) - {codes[1, 0]}
    many = new().learn(np.arange(3.0 * CAPACITY)[:, None], np.zeros((3 * CAPACITY, 1)))[0]
    assert np.isfinite(many.codes).all()
    assert many.codes.shape == (1, CAPACITY)


def test_of_several_targets_one_that_comes_alone_teaches_its_own(twin: None):
    rng = np.random.default_rng(3)
    codes, y = rows()
    both = np.concatenate([y, rng.normal(size=y.shape)], axis=1)
    known = new(statistics=2).learn(codes, both)[0]
    after = known.of_target(1).learn(codes, both[:, 1:])[0]
    every = np.arange(40.0)[:, None]
    assert_array_equal(after.mean[..., 0], known.mean[..., 0])
    assert (after.encode(every)[..., 1] != known.encode(every)[..., 1]).any()


def test_kept_in_a_checkpoint(twin: None):
    effects = new(horizon=2).learn(*rows())[0]
    again = decode(*encode(effects), {})
    codes, y = rows(seed=5)
    assert_array_equal(again.learn(codes, y)[1], effects.learn(codes, y)[1])
