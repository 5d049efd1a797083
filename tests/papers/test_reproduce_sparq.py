"""The reproductions of Mauduit, Berthier and Simonetto: what a run tells, on a few steps."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from streamgp.app.outputs import RunError
from streamgp.bandits import sparq_rate
from streamgp.bandits.problems import MovingBump, Played
from streamgp_papers import moving, sparq

pytestmark = pytest.mark.papers


def test_a_run_tells_of_every_method_and_of_what_needs_none():
    run = moving.run_synthetic("moving-bump", 0, directory=None, rows=8)
    printed = {model for _, model, _ in sparq.SYNTHETIC.figures}
    claimed = {model for claim in sparq.SYNTHETIC.claims for model in (*claim.ahead, *claim.behind)}
    assert printed | claimed | {"random point", "best fixed point"} <= set(run["models"])
    assert (run["rows"], run["inputs"]) == (8, 1)
    assert set(run["dynamic_regret"]) == {*run["models"], "shape of the bound"}
    # All methods of a beta make the same first choices: they have seen the same, and differ in what they forget.
    for beta in moving.BETAS:
        firsts = {run["dynamic_regret"][f"{name}, beta {beta}"]["regret"][0] for name in moving.BASELINES}
        assert len(firsts) == 1


def test_scores_are_those_of_the_definition():
    regret = np.array([2.0, *np.full(399, 1.0)])
    found = moving.compute_scores(Played(regret, np.array([3.0, np.nan, 5.0])))
    assert found["regret"] == pytest.approx(401.0 / 400.0)
    assert found["exponent"] == pytest.approx(np.log(401.0 / 101.0) / np.log(4.0))
    assert found["per_evaluation"] == pytest.approx((401.0 + 8.0) / 402.0)
    root = np.diff(np.sqrt(np.arange(401.0)))
    assert moving.compute_scores(Played(root, np.zeros(0)))["exponent"] == pytest.approx(0.5)
    assert set(moving.compute_scores(Played(np.array([1.0, np.nan]), np.zeros(0)))) == {"regret"}


def test_a_curve_is_the_average_of_the_steps_with_a_reading():
    line = moving.average_regret(np.array([1.0, np.nan, 3.0, 5.0]))
    assert line["rows"] == [1, 2, 3, 4]
    assert line["regret"] == pytest.approx([1.0, 1.0, 2.0, 3.0])


def test_yardsticks_on_a_function_known_by_heart():
    problem = MovingBump(points=201)
    steps = 30
    x = np.linspace(-50.0, 50.0, 201)
    f = np.array(
        [np.exp(-0.05 * (x - 5 * np.sin(0.1 * t)) ** 2) + 0.5 * np.cos(0.2 * x) + 1.5 for t in range(1, steps + 1)]
    )
    found = moving.play_references(problem, steps, 0)
    best = f.max(axis=1)
    fixed = (best[:, None] - f).mean(axis=0).min()
    assert found["best fixed point"].regret.mean() == pytest.approx(fixed)
    last = [best[t] - f[t, np.argmax(f[t - 1])] for t in range(1, steps)]
    assert found["best of the step before"].regret[1:] == pytest.approx(last, abs=1e-12)
    assert np.isnan(found["best of the step before"].regret[0])
    everywhere = (best[:, None] - f).mean()
    error = (best[:, None] - f).std() / np.sqrt(steps)
    assert abs(found["random point"].regret.mean() - everywhere) < 4.0 * error


@pytest.mark.parametrize("by_day", [True, False])
def test_stations_are_read_day_by_day_or_station_by_station(tmp_path: Path, by_day: bool):
    places = np.array([[1.0, 5.0], [2.0, 4.0], [3.0, 9.0]])
    readings = np.array([[10.0, 20.0, np.nan], [11.0, 21.0, 31.0]])
    table = readings if by_day else readings.T
    where = np.tile(places, (2, 1)) if by_day else np.repeat(places, 2, axis=0)
    frame = pl.DataFrame({"x0": where[:, 0], "x1": where[:, 1], "y": table.ravel()})
    frame.with_columns(pl.col("y").fill_nan(None)).write_parquet(tmp_path / "ny_ozone.parquet")
    problem = moving.load_stations("ny-ozone", tmp_path)
    np.testing.assert_array_equal(problem.places, places)
    np.testing.assert_array_equal(problem.readings, readings)
    assert problem.best(1) == 20.0
    run = moving.run_sensors("ny-ozone", 0, directory=tmp_path, rows=2)
    assert run["rows"] == 6
    frame[:-1].write_parquet(tmp_path / "ny_ozone.parquet")
    with pytest.raises(RunError, match="as many days of every station, got 1 to 2"):
        moving.load_stations("ny-ozone", tmp_path)
    with pytest.raises(RunError, match=r"expected a file midwest_ozone.parquet: .*--data"):
        moving.load_stations("midwest-ozone", tmp_path)


def test_the_entries_of_a_table_have_names_of_their_own():
    for entries in (
        moving.paper_entries(),
        moving.fairness_entries(),
        moving.extended_entries("2"),
        moving.new_optimum_entries(),
    ):
        names = [one.name for one in entries]
        assert len(set(names)) == len(names)


def test_the_negative_entries_change_what_they_say():
    entries = {one.name: one for one in moving.fairness_entries()}
    few = entries["SparQ-GP-UCB, 1 log t queries, beta log"]
    assert few.settings["num_queries"] == "1 log t"
    assert few.settings["query_rule"] == "past"
    noisy = entries["SparQ-GP-UCB, answers of variance 1, beta log"]
    assert noisy.side_noise_std == 1.0
    assert noisy.settings["expert_noise_var"] == 1.0
    assert all(one.answers == (one.name != "Ensemble, beta 2") for one in entries.values())


def test_the_shape_of_the_bound_rises_as_long_as_the_notes_say():
    steps = np.arange(10, 10_000)
    peak = int(steps[np.argmax(sparq_rate(steps) / steps)])
    assert any(f"until step {peak:,}" in note for note in sparq.SYNTHETIC.notes)
    assert moving.bound_shape(500)["regret"][-1] == 1.0
