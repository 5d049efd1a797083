"""Naive forecasts from an origin beside a loop over all rows, and at which steps a verdict says what."""

from math import gcd
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from streamgp.app.outputs import forecasts_of
from streamgp.evaluation.metrics.judgement import judge
from streamgp.evaluation.step_baselines import StepBaselines, rows_between_origins
from streamgp.evaluation.step_scores import LEVELS, StepScores
from streamgp.reports import step_verdict

STEPS, SEASON, WARMUP = 4, 6, 50


@pytest.mark.parametrize("stored_at", [0, 3, 20])
def test_errors_by_step_are_those_of_a_loop(stored_at: int):
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(400) * 2 * np.pi / SEASON)[:, None] + rng.normal(size=(400, 2))
    y[rng.random((400, 2)) < 0.05] = np.nan
    ours = rng.normal(size=(400, 2))
    baselines, scores, every = StepBaselines(STEPS, 2), StepScores(STEPS, ["a", "b"]), 5
    baselines.take_in(y[:WARMUP])
    wanted: dict[tuple[int, int], list[list[float]]] = {}
    for number, origin in enumerate(range(WARMUP, 400 - every + 1, every)):
        baselines.forecast([2, SEASON, 3_000])
        scores.begin(baselines.names)
        cut = 1 + number % STEPS
        for part in (slice(0, cut), slice(cut, STEPS)):
            rows = slice(origin + part.start, origin + part.stop)
            mean, inside = y[rows] - ours[rows], np.zeros((len(LEVELS), *y[rows].shape), bool)
            usual = np.broadcast_to(baselines.scales, mean.shape)
            scores.add(np.arange(STEPS)[part], y[rows], mean, mean, inside, baselines.naive(part), usual)
        for h in range(STEPS):
            for e in range(2):
                last = next(value for value in y[origin - 1 :: -1, e] if not np.isnan(value))
                season = next((v for v in y[origin + h % SEASON - SEASON :: -SEASON, e] if not np.isnan(v)), last)
                target = y[origin + h, e]
                errors = [ours[origin + h, e], target - last, target - season]
                if not np.isnan(target):
                    wanted.setdefault((h, e), []).append(errors)
        baselines.take_in(y[origin : origin + every])
        if number == stored_at:
            baselines = StepBaselines.from_tree(baselines.to_tree())
            scores = StepScores.from_tree(scores.to_tree())
    assert baselines.seasons == (SEASON,)
    entries = {(each["step"] - 1, "ab".index(each["target"])): each for each in scores.entries()}
    assert wanted.keys() == entries.keys()
    for place, errors in wanted.items():
        judgement, naive = entries[place]["judgement"], entries[place]["naive"]
        assert judgement["rows"] == len(errors)
        mean = np.mean(np.square(errors), axis=0)
        losses = {name: each["loss"] for name, each in judgement["against"].items()}
        found = [judgement["loss"], losses["persistence"], losses[f"seasonal_{SEASON}"]]
        assert found == pytest.approx(mean.tolist(), rel=1e-12)
        roots = [entries[place]["rmse"], naive["persistence"]["rmse"], naive[f"seasonal_{SEASON}"]["rmse"]]
        assert roots == pytest.approx(np.sqrt(mean).tolist(), rel=1e-9)
    change = np.abs(y[SEASON:WARMUP] - y[: WARMUP - SEASON])
    assert_allclose(baselines.scales, np.nanmean(change, axis=0), rtol=1e-12)


@pytest.mark.parametrize(("steps", "seasons"), [(48, (48, 336)), (24, (24, 168)), (7, (7,)), (12, ()), (10, (7, 12))])
def test_origins_meet_every_part_of_a_season(steps: int, seasons: tuple[int, ...]):
    every = rows_between_origins(steps, seasons)
    assert steps <= every <= steps + 7
    for season in seasons:
        assert gcd(every, season) == 1
        assert len({k * every % season for k in range(season)}) == season


def entry(step: int, ours: float, naive: float, rows: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    noise = rng.chisquare(8, size=(2, rows)) / 8
    losses = {"model": ours * noise[0], "persistence": 9.0 * naive * noise[1], "seasonal_48": naive * noise[1]}
    return {"step": step, "rows": rows, "judgement": judge("squared_error", losses).to_json()}


def said(ratios: list[float], rows: int = 60) -> dict[str, Any]:
    steps = {"by_step": [entry(i + 1, ratio, 1.0, rows) for i, ratio in enumerate(ratios)]}
    seasons = [{"rows": 48, "cycle": "day"}]
    (found,) = step_verdict.sentences({"steps_ahead": steps, "seasons": seasons, "horizon": None})
    return found


def test_the_verdict_by_step_in_words():
    best = "The best of these baselines is the value of a day before (48 rows)."
    assert said([0.1] * 6)["text"] == (
        f"Forecasts of the next 6 rows, by squared error: better than every naive baseline 1 to 6 rows (0.5 to 3 h) "
        f"ahead. {best}"
    )
    assert said([0.1] * 6)["mark"] == "good"
    mixed = said([0.1, 0.1, 9.0, 9.0, 9.0, 0.1])
    assert mixed["text"] == (
        f"Forecasts of the next 6 rows, by squared error: better than every naive baseline 1 to 2 rows (0.5 to 1 h) "
        f"and 6 rows (3 h) ahead; worse than the best of them 3 to 5 rows (1.5 to 2.5 h) ahead. {best}"
    )
    assert mixed["mark"] == "plain"
    assert said([9.0, 9.0, 0.1])["mark"] == "warn"
    assert "cannot be told apart from the best of them 1 row (0.5 h) ahead" in said([1.0, 0.1])["text"]
    scattered = said([0.1, 9.0] * 5)
    assert "1 row (0.5 h), 3 rows (1.5 h), 5 rows (2.5 h) and 2 other rows ahead" in scattered["text"]
    assert said([0.1], rows=5)["text"].startswith("Too few to judge forecasts step by step: 5 forecasts, of the")
    assert not step_verdict.sentences({"steps_ahead": None})


def test_the_table_of_forecasts():
    names = ("mean", "std", "q05", "q50", "q95")
    columns = {f"ahead_{name}{end}": np.arange(7.0) + i for i, name in enumerate(names) for end in ("", "_b")}
    place = {
        "row": [3, 4, 6, 7, 8, 9, 10],
        "step": [0, 1, 2, 3, 0, 1, 2],
        "y": np.arange(7.0),
        "y_b": -np.arange(7.0),
    }
    predictions = pl.LazyFrame(place | columns)
    found = forecasts_of(predictions, ["a", "b"])
    assert found is not None
    frame = found.collect()
    assert frame.columns == ["origin", "step", "row", "target", "y", *names]
    assert frame["origin"].to_list() == [3, 3, 3, 8, 8] * 2 and frame["step"].to_list() == [1, 2, 3, 1, 2] * 2
    assert frame["target"].to_list() == ["a"] * 5 + ["b"] * 5
    assert frame["row"].to_list() == [4, 6, 7, 9, 10] * 2
    assert frame["y"].to_list() == [1.0, 2.0, 3.0, 5.0, 6.0, -1.0, -2.0, -3.0, -5.0, -6.0]
    assert frame["q50"].to_list() == [4.0, 5.0, 6.0, 8.0, 9.0] * 2
    assert forecasts_of(predictions.drop("step"), ["a"]) is None


def test_each_of_several_targets_has_its_verdict():
    steps = [entry(1, ratio, 1.0) | {"target": name} for name, ratio in (("heat", 0.1), ("power", 9.0))]
    seasons = [{"rows": 48, "cycle": "day"}]
    heat, power = step_verdict.sentences({"steps_ahead": {"by_step": steps}, "seasons": seasons, "horizon": None})
    assert heat["text"].startswith("Target heat: forecasts of the next 1 rows, by squared error: better than")
    assert power["text"].startswith("Target power: forecasts of the next 1 rows, by squared error: worse than")
    assert (heat["mark"], power["mark"]) == ("good", "warn")
