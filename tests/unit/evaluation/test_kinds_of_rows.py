"""Coverage by kinds of rows: fifths by the rows before, whatever the chunks."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation.kinds_of_rows import FIFTHS, Bands, KindsOfRows
from streamgp.reports import curves, figures, kinds_chart, wording

ROWS = 5_000
TIMES = 1_767_225_600.0 + 1_800.0 * np.arange(ROWS)  # every half hour from the first of January 2026


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(ROWS, 2))
    values[::7, 1] = np.nan
    held = rng.random((ROWS, 1)) < np.where(values[:, :1] > 0.0, 0.8, 0.95)
    return values, held, np.arange(ROWS)[:, None] >= 100


def fed(*sizes: int) -> KindsOfRows:
    kinds, at = KindsOfRows(1, 2), 0
    while at < ROWS:
        for size in sizes:
            values, held, scored = (a[at : at + size] for a in rows())
            kinds.add(values, bands(held, scored), TIMES[at : at + size])
            at += size
    return kinds


def bands(held: np.ndarray, scored: np.ndarray) -> Bands:
    return Bands(held, scored, 1.0 + held)


@pytest.mark.parametrize("sizes", [(1_000,), (64,), (977, 3)])
def test_chunks_do_not_matter_and_neither_does_a_checkpoint(sizes):
    whole, parts = fed(ROWS), fed(*sizes)
    again = KindsOfRows.from_tree(parts.to_tree())
    for g in range(2):
        assert whole.result(0, g) == parts.result(0, g) == again.result(0, g)
    for name in ("hour", "weekday"):
        assert whole.on_clock(0, name) == parts.on_clock(0, name) == again.on_clock(0, name)


def test_shares_are_those_of_fifths():
    kinds = fed(ROWS)
    shares, widths, counted = kinds.result(0, 0)
    assert sum(counted) == ROWS - 100
    np.testing.assert_allclose(np.array(widths), 1.0 + np.array(shares))
    np.testing.assert_allclose(np.array(counted) / sum(counted), 1.0 / FIFTHS, atol=0.04)
    assert np.all(np.abs(np.array(shares)[[0, 1, 3, 4]] - [0.95, 0.95, 0.8, 0.8]) < 0.04)
    assert sum(kinds.result(0, 1).rows) < sum(counted)  # a missing value has no fifth


def test_memory_is_constant_and_a_constant_has_one_kind():
    kinds = KindsOfRows(1, 1)
    for _ in range(200):
        kinds.add(np.ones((100, 1)), bands(np.ones((100, 1), bool), np.ones((100, 1), bool)))
    assert kinds.to_tree()["fifths"]["_kept"].size <= 1_024
    shares, _, counted = kinds.result(0, 0)
    assert shares[0] == 1.0 and shares[1:] == [None] * 4 and counted[0] == 20_000 - 40


def test_an_evaluation_tells_width_interval_score_and_coverage_by_kind():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.normal(size=600)
    model = StreamingGPRegressor("linear", warmup=100, random_state=0, noise_by_input=True)
    r = evaluate(model, X, y, progress=False)
    late, m = slice(100, None), r.metrics
    outside = np.maximum(r.q05 - y, 0.0) + np.maximum(y - r.q95, 0.0)
    assert m["width"] == pytest.approx(np.mean((r.q95 - r.q05)[late]))
    assert m["interval_score"] == pytest.approx(np.mean((r.q95 - r.q05 + 20.0 * outside)[late]))
    assert {"predicted_noise", "predicted_std"} < set(m["coverage_by"]) and len(m["coverage_by"]) == 4
    assert all(len(each) == FIFTHS for each in m["coverage_by"].values())


def test_a_report_names_the_kind_that_is_furthest_off():
    shares = {"predicted_std": [0.9, 0.91, 0.9, 0.9, 0.78], "carat": [0.9, 0.7, 0.9, 0.9, None]}
    rows = {"predicted_std": [500] * 5, "carat": [500, 20, 500, 500, 0]}  # twenty rows are too few to tell
    said = wording.worst_kind({"coverage_by": shares, "coverage_by_rows": rows})
    assert said == "Of rows in the highest fifth of the predicted standard deviation, the 90% bands contained 78.0%."
    assert not wording.worst_kind({"coverage_by": {"a": [0.88] * 5}, "coverage_by_rows": {"a": [500] * 5}})
    assert not wording.worst_kind({})


@pytest.mark.parametrize("late_first", [False, True])
def test_rows_whose_last_values_are_not_known_count_as_rows_with_nan(late_first: bool):
    # Of a row whose label comes late the inputs are not kept.
    values, held, scored = rows()
    few = (np.arange(ROWS) // 50 % 2 == 0) == late_first
    kinds, whole = KindsOfRows(1, 1 if late_first else 2), KindsOfRows(1, 2)
    for at in range(0, ROWS, 50):
        part = slice(at, at + 50)
        kinds.add(values[part, :1] if few[at] else values[part], bands(held[part], scored[part]))
    whole.add(np.where(few[:, None] & [[False, True]], np.nan, values), bands(held, scored))
    for g in range(2):
        assert kinds.result(0, g) == whole.result(0, g)


@pytest.mark.parametrize("name", ["hour", "weekday"])
def test_rows_by_the_clock_are_those_of_the_calendar(name: str):
    _, held, scored = rows()
    stamps = [datetime.fromtimestamp(time, UTC) for time in TIMES]
    part = np.array([stamp.hour if name == "hour" else stamp.weekday() for stamp in stamps])
    coverage, width, counted = fed(ROWS).on_clock(0, name)
    assert len(coverage) == (24 if name == "hour" else 7)
    for i in range(len(coverage)):
        here = (part == i) & scored[:, 0]
        assert counted[i] == here.sum()
        assert coverage[i] == pytest.approx(held[here].mean())
        assert width[i] == pytest.approx(1.0 + held[here].mean())


def test_numbers_that_are_no_dates_have_no_hour():
    kinds = KindsOfRows(1, 1)
    every = np.ones((4, 1), bool)
    kinds.add(np.ones((4, 1)), bands(every, every), np.array([0.0, 3_600.0, np.nan, 1e12]))
    assert kinds.on_clock(0, "hour").rows == [0] * 24


def evaluated() -> tuple[Any, pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(2)
    when = pl.datetime_range(datetime(2026, 1, 1), datetime(2026, 3, 1), "1h", eager=True)
    n, kind = len(when), rng.choice(["a", "b", "c"], len(when))
    X = pl.DataFrame({"kind": kind, "x": rng.normal(size=n), "when": when})
    y = X["x"].to_numpy() + (kind == "b") + np.where(when.dt.weekday().to_numpy() > 5, 2.0, 0.5) * rng.normal(size=n)
    model = StreamingGPRegressor("linear", warmup=100, random_state=0)
    return evaluate(model, X, y, times="when", progress=False), X, y


def test_an_evaluation_tells_bands_by_the_clock_and_by_the_column_that_it_is():
    r, X, y = evaluated()
    late, day = slice(100, None), X["when"].dt.weekday().to_numpy() - 1
    held, width = ((r.q05 <= y) & (y <= r.q95))[late], (r.q95 - r.q05)[late]
    for i in range(7):
        here = day[late] == i
        assert r.metrics["coverage_by"]["weekday"][i] == pytest.approx(held[here].mean(), abs=2.0 / here.sum())
        assert r.metrics["width_by"]["weekday"][i] == pytest.approx(width[here].mean())
    assert {"x", "hour", "weekday"} < set(r.metrics["coverage_by"])
    assert "kind=a" not in r.metrics["coverage_by"]
    assert "weekday" in wording.worst_kind(r.metrics) or "on S" in wording.worst_kind(r.metrics)


def metrics_by_kind() -> dict[str, Any]:
    shares = {"predicted_std": [0.9, 0.91, 0.9, None, 0.78], "<b>": [0.9] * 5, "hour": [0.9] * 24}
    widths = {name: [1.0 if each else None for each in values] for name, values in shares.items()}
    rows = {"predicted_std": [500, 500, 500, 0, 500], "<b>": [500] * 5, "hour": [100] * 24}
    return {"coverage_by": shares, "width_by": widths, "coverage_by_rows": rows, "width": 1.5}


def test_the_charts_are_of_kinds_with_several_parts_and_say_their_numbers():
    metrics = metrics_by_kind()
    panels = kinds_chart.panels(figures, metrics)
    assert [panel.title for panel in panels] == [
        "predicted standard deviation, in fifths",
        "<b>, in fifths",
        "hour (UTC)",
    ]
    assert ["var(--miss)" in panel.svg for panel in panels] == [True, False, False]
    assert "highest fifth of the predicted standard deviation 78.0%" in panels[0].svg
    assert "<b>" not in panels[1].svg
    assert kinds_chart.panels(figures, {}) == []
    one = {"importance": [{"name": "other"}], "coverage_by": {"one": [0.9]}, "width_by": {"one": [1.0]}}
    assert kinds_chart.panels(figures, metrics | one | {"coverage_by_rows": {"one": [9]}}) == []


def test_a_chart_shows_each_share_with_what_is_tolerated_and_its_width():
    drawn: dict[str, Axes] = {}

    class Kept:
        @staticmethod
        def kinds(name: str, label: str, kinds: kinds_chart.Kinds, scale: kinds_chart.Scale) -> str:
            drawn[name] = Figure().add_axes((0.1, 0.1, 0.8, 0.8))
            curves.kinds(drawn[name], kinds, scale)
            return ""

    kinds_chart.panels(Kept, metrics_by_kind())
    usual, missed = (each.get_xydata() for each in drawn["kinds0"].lines[1:3])
    assert np.array_equal(usual, [[0, 0.9], [1, 0.91], [2, 0.9]]) and np.array_equal(missed, [[4, 0.78]])
    strip, bars = (bars.patches for bars in drawn["kinds2"].containers if isinstance(bars, BarContainer))
    # 3.5 standard deviations of 100 rows are 10.5 points; the widths are two thirds of that of all rows.
    assert strip[7].get_bbox().bounds == pytest.approx((6.5, 0.795, 1.0, 0.205))
    (foot, top), usual = drawn["kinds2"].get_ylim(), drawn["kinds2"].lines[-1].get_ydata()
    assert top == 1.0 and len(bars) == 24
    assert 1.5 * bars[7].get_height() == pytest.approx(np.array(usual) - foot)
