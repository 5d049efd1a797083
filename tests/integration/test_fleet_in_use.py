"""Fleets on streams whose truth is known: new keys, seasons, forecasts, glitches, changes, keys that come back."""

import copy
from dataclasses import replace

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student

from fleet_streams import fleet, frame, learnt, steps_ahead, textbooks
from streamgp import StreamingGPFleet, evaluate
from streamgp.fleet.demo_data import write_fleet_demo_csv

pytestmark = pytest.mark.slow

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


def alike(keys: int, rows: int, seed: int = 0, season: int = 0) -> pl.DataFrame:
    """Return keys that share how they answer to an input and to their past, each in a scale of its own."""
    rng = np.random.default_rng(seed)
    level, scale, last = 10.0 * rng.normal(size=keys), np.exp(0.5 * rng.normal(size=keys)), np.zeros(keys)
    shape = 2.0 * rng.normal(size=max(season, 1)) * (season > 0)
    parts = []
    for i in range(rows):
        a = rng.normal(size=keys)
        last = 0.7 * last + a + 0.3 * rng.normal(size=keys)
        y = level + scale * (last + shape[i % max(season, 1)])
        names = [f"k{k}" for k in range(keys)]
        parts.append(pl.DataFrame({"unique_id": names, "ds": np.full(keys, float(i)), "y": y, "a": a}))
    return pl.concat(parts)


def test_bands_hold_and_the_baselines_are_beaten():
    model = StreamingGPFleet(warmup=400)
    found = model.evaluate(alike(20, 150))
    scored = found.metrics["scored_rows"]
    assert scored > 2_000
    for level, held in found.metrics["coverage"].items():
        share = int(level) / 100
        assert abs(held - share) < 5 * np.sqrt(share * (1 - share) / scored) + 0.03
    last = found.frame[-scored:].drop_nans()
    inside = ((last["q05"] <= last["y"]) & (last["y"] <= last["q95"])).mean()
    assert inside == pytest.approx(found.metrics["coverage"]["90"], abs=1e-9)
    scores = found.scores
    assert (scores["nmse"] < 0.3 * scores["nmse_persistence"]).all()
    assert (scores["nmse"] < 0.3 * scores["nmse_running_mean"]).all()
    assert (scores["borrowed"] < 0.9).all()
    pit = (found.frame["y"] < found.frame["q50"])[-scored:].mean()
    assert abs(pit - 0.5) < 5 * np.sqrt(0.25 / scored) + 0.01
    assert evaluate(StreamingGPFleet(warmup=400), alike(20, 150)).metrics == found.metrics


def test_a_new_key_begins_with_what_the_others_know():
    rows = alike(21, 120)
    late = rows.filter(unique_id="k20")
    model = StreamingGPFleet(warmup=400).partial_fit(rows.filter(pl.col("unique_id") != "k20"))
    born = model.predict(late[:1])
    found = learnt(model, late[:50])
    alone = learnt(StreamingGPFleet(warmup=20), late[:50])
    errors = [((each["y"] - each["mean"]) ** 2)[1:].mean() for each in (found, alone)]
    assert errors[0] < 0.5 * errors[1], errors
    assert np.isfinite(born["std"][0]) and born["std"][0] > 3.0  # of where it lies nothing is known
    shares = model.scores()
    assert shares.filter(unique_id="k20")["borrowed"][0] > shares.filter(unique_id="k3")["borrowed"][0]


def test_the_season_is_a_lag():
    rows = alike(20, 60, season=7)
    with_season, without = StreamingGPFleet(warmup=600), StreamingGPFleet(warmup=600, season=None)
    one, other = with_season.evaluate(rows), without.evaluate(rows)
    assert with_season.learner.engine.model.features.lags == (1, 2, 3, 7)
    assert one.metrics["rmse"] < 0.8 * other.metrics["rmse"]


@pytest.mark.parametrize("calendar", [True, False])
def test_forecasts_are_what_simulated_futures_average_to(calendar):
    rows = frame(keys=3, rows=70, glitches=False)
    if calendar:
        stamps = pl.from_epoch((pl.col("ds") * 86_400e6).cast(pl.Int64), time_unit="us")
        rows = rows.with_columns(ds=stamps).sort("ds")
    model = fleet(lags=(1, 2)).partial_fit(rows)
    h, paths, engine = 4, 3_000, model.learner.engine
    assert bool(engine.model.features.calendar) == calendar
    forecast = model.forecast(h, level=(80,), X_future=steps_ahead(model, h, a=0.4, b=-0.8))
    assert forecast.columns[-2:] == ["mean-lo-80", "mean-hi-80"]
    key = model.keys_[1]
    mine = rows.filter(unique_id=key)
    seconds = mine["ds"].dt.timestamp("us") / 1e6 if calendar else mine["ds"]
    in_seconds = rows.with_columns(pl.col("ds").dt.timestamp("us") / 1e6) if calendar else rows
    *_, (_, loop, _) = textbooks(model, in_seconds, key)
    rng = np.random.default_rng(0)
    futures = np.empty((paths, h))
    start = list(loop.targets)
    for path in futures:
        loop.targets = list(start)
        for step in range(h):
            row = loop.predict(np.array([0.4, -0.8]), seconds[-1] + (step + 1) * engine.model.unit)
            j = rng.choice(len(row.weights), p=row.weights)
            scale = np.sqrt(row.var[j] * (loop.dof[j] - 2) / loop.dof[j])
            path[step] = row.mean[j] + scale * student.rvs(loop.dof[j], random_state=rng)
            loop.targets.append(path[step])
    mean, std = futures.mean(0), futures.std(0)
    found = forecast.filter(unique_id=key)
    # The first order in the Fourier features, and the error of the simulation.
    np.testing.assert_allclose(found["mean"], mean, atol=0.08 * std.max() + 4 * std.max() / np.sqrt(paths))
    np.testing.assert_allclose(found["std"], std, rtol=0.1)
    lower = (futures < found["mean-lo-80"].to_numpy()).mean(0)
    # To the first order a forecast is symmetric, and the futures are not quite.
    assert (np.abs(lower - 0.1) < 0.04).all()


def test_the_errors_of_all_steps_are_carried_on():
    rows = frame(keys=3, rows=80, glitches=False)
    model = fleet(lags=(1, 2, 3)).partial_fit(rows)
    h, engine = 6, model.learner.engine
    forecast = model.forecast(h, X_future=steps_ahead(model, h, a=0.4, b=-0.8)).filter(unique_id=model.keys_[1])
    states, X = engine.keys.take(np.array([1])), np.array([[0.4, -0.8]])
    means, times = forecast["mean"].to_numpy(), forecast["ds"].to_numpy()

    def predict(past: np.ndarray, step: int) -> tuple[float, float]:
        ahead = engine.model.predict(replace(states, past=past[None]), X, times[step : step + 1])
        mean, std = ahead.mixture.moments
        return mean[0], std[0]

    slopes, own = np.zeros((h, h)), np.empty(h)
    for step in range(h):
        past = np.r_[states.past[0], means[:step]]
        assert predict(past, step)[0] == pytest.approx(means[step], rel=1e-9)
        own[step] = predict(past, step)[1]
        for earlier in range(step):
            moved = np.zeros(len(past))
            moved[len(states.past[0]) + earlier] = 1e-4
            slopes[step, earlier] = (predict(past + moved, step)[0] - predict(past - moved, step)[0]) / 2e-4
    assert (np.abs(slopes) > 0.01).sum() > 5
    # Each step's error is its own and what the errors before make of it.
    whole = np.linalg.inv(np.eye(h) - slopes)
    np.testing.assert_allclose(forecast["std"] ** 2, np.diag(whole @ np.diag(own**2) @ whole.T), rtol=1e-5)


def test_in_the_warmup_the_last_target_is_what_is_forecast():
    rows = frame(keys=4, rows=60)[:12].with_columns(ds=pl.int_range(12) * 7.0, unique_id=pl.lit("a"))
    early = fleet().partial_fit(rows.drop("a", "b")).forecast(2)
    assert early["ds"].to_list() == [84.0, 91.0]
    assert early["mean"].is_finite().all() and (early["std"][1::2] > early["std"][::2]).all()


def test_a_change_is_followed_and_a_glitch_is_not():
    rows = alike(6, 200)
    of_k1 = pl.col("unique_id") == "k1"
    jump = rows.with_columns(y=pl.when(of_k1 & (pl.col("ds") >= 120)).then(pl.col("y") + 80.0).otherwise("y"))
    glitch = rows.with_columns(y=pl.when(of_k1 & (pl.col("ds") == 120)).then(pl.col("y") + 80.0).otherwise("y"))
    plain, jumped, odd = (
        StreamingGPFleet(warmup=300).evaluate(each).frame.filter(of_k1) for each in (rows, jump, glitch)
    )
    scale = plain["std"][100:].median()
    # Ten rows after the jump the errors are those of a key that never jumped, but for a little.
    after = (jumped["y"] - jumped["mean"]).abs()[135:].mean()
    assert after < 2.0 * (plain["y"] - plain["mean"]).abs()[135:].mean()
    assert (odd["mean"] - plain["mean"]).abs()[121:].max() < 3.0 * scale
    assert (odd["mean"] - plain["mean"]).abs()[125:].mean() < 0.3 * scale
    assert (odd["std"] / plain["std"])[125:].max() < 1.6


def test_a_key_that_comes_back_is_a_key_that_waited():
    rows = alike(6, 120)
    gone = rows.filter((pl.col("unique_id") != "k2") | (pl.col("ds") < 60))
    model = StreamingGPFleet(warmup=300).partial_fit(gone)
    assert model.scores().filter(unique_id="k2").select("rows", "last_seen").row(0) == (60, 59.0)
    back = rows.filter((pl.col("unique_id") == "k2") & (pl.col("ds") >= 100))
    found = model.evaluate(back).frame
    errors = (found["y"] - found["mean"]).abs()
    assert errors[1:].mean() < 2.0 * found["std"][1:].mean()
    long_after = model.predict(back[-1:].with_columns(ds=pl.lit(1e6)))
    assert np.isfinite(long_after["std"][0])


def test_a_broken_belief_starts_again_and_is_counted():
    rows = alike(4, 150)
    model, sound = (StreamingGPFleet(warmup=200).partial_fit(rows[:440]) for _ in range(2))
    # A pooled prior would be without beliefs that are not finite.
    assert model.learner.engine.refresh_at > len(rows)
    beliefs = model.learner.engine.keys.states.beliefs
    beliefs.mean[1, 0, 0] = np.nan
    beliefs.cov[2, 1] = -5.0
    beliefs.cov[2, 2, 7] = np.inf
    found, expected = learnt(model, rows[440:]), learnt(sound, rows[440:])
    assert found.select("mean", "std", "log_density").to_numpy().all() and found["std"].is_finite().all()
    whole = pl.col("unique_id").is_in(["k0", "k3"])
    assert found.filter(whole).equals(expected.filter(whole))
    assert model.scores()["resets"].to_list() == [0, 1, 1, 0]
    assert sound.scores()["resets"].sum() == 0


def test_beliefs_stay_covariances():
    model = fleet().partial_fit(frame(keys=5, rows=400, seed=3))
    engine = model.learner.engine
    features = engine.model.features.num_features
    i, j = np.tril_indices(features)
    for triangles in engine.keys.states.beliefs.cov[:5]:
        for triangle in triangles:
            P = np.zeros((features, features))
            P[i, j] = P[j, i] = triangle
            values = np.linalg.eigvalsh(P)
            assert values.min() > -1e-12 and values.max() < 1.0 + 1e-9


def test_no_program_is_compiled():
    rows = alike(5, 100)
    COMPILED.clear()
    model = StreamingGPFleet(warmup=100)
    for start in range(0, 456, 57):
        model.partial_fit(rows[start : start + 57])
    model.predict(rows[456:473])
    model.evaluate(rows[456:])
    model.forecast(3, X_future=steps_ahead(model, 3, a=0.0))
    model.scores()
    assert COMPILED == []


def test_a_fleet_that_grows_and_wakes_has_no_more_than_it_needs():
    model = StreamingGPFleet(warmup=200)
    model.partial_fit(alike(10, 60))
    many = pl.DataFrame({"unique_id": [f"n{i}" for i in range(3_000)], "ds": 1.0, "y": np.arange(3_000.0), "a": 0.0})
    model.partial_fit(many)
    states = model.learner.engine.keys.states
    assert len(model.keys_) == 3_010 <= len(states.past) < 1.3 * 3_010
    assert len(model.predict(many)) == 3_000


def test_a_copy_goes_its_own_way():
    rows = alike(5, 100)
    model = StreamingGPFleet(warmup=100).partial_fit(rows[:300])
    twin = copy.deepcopy(model)
    twin.partial_fit(rows[300:])
    assert model.rows_ == 300
    assert learnt(model, rows[300:]).equals(learnt(StreamingGPFleet(warmup=100).partial_fit(rows[:300]), rows[300:]))


def test_targets_of_any_unit_are_the_same_problem():
    rows = alike(6, 100)
    plain = learnt(StreamingGPFleet(warmup=150), rows)
    for factor, shift in ((1e6, 0.0), (1e-6, 0.0), (1.0, 1e5)):
        moved = learnt(StreamingGPFleet(warmup=150), rows.with_columns(y=pl.col("y") * factor + shift))
        scored = slice(200, None)
        np.testing.assert_allclose(
            (moved["mean"][scored] - shift) / factor, plain["mean"][scored], rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(moved["std"][scored] / factor, plain["std"][scored], rtol=1e-5)


def test_bands_hold_where_most_keys_are_smooth_and_a_few_are_not(tmp_path):
    pytest.importorskip("bokeh_sampledata")
    demo = write_fleet_demo_csv(tmp_path / "demo.csv")
    model = StreamingGPFleet(demo.key, demo.time, demo.target, group_col=demo.group)
    found = model.evaluate(pl.read_csv(tmp_path / "demo.csv")).metrics
    assert found["pll"] > 1.8 and found["crps"] < 0.09
    for level, most in (("50", 0.06), ("90", 0.06), ("95", 0.04)):
        assert abs(found["coverage"][level] - float(level) / 100.0) < most
