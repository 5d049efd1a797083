"""The page of a fleet: what it says of keys against loops over their rows, and what the page holds."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fleet_streams import fleet, frame
from streamgp.fleet import figures as fleet_figures
from streamgp.fleet import page_content as page
from streamgp.fleet.page import render_fleet
from streamgp.fleet.scores import SKILLS

WARMUP = 40


def rows(keys: int = 6, count: int = 300, seed: int = 0) -> pl.DataFrame:
    """Return rows of keys, some without a target, some left out; one key comes late, and one stops."""
    rng = np.random.default_rng(seed)
    at = np.arange(count)
    key = rng.integers(0, keys - 1, count)
    key = np.where((at > 0.95 * count) & (key == 0), keys - 1, key)  # the first stops, the last comes
    y = key + rng.normal(size=count)
    y[rng.random(count) < 0.05] = np.nan
    mean, std = key + 0.1 * rng.normal(size=count), np.exp(0.2 * rng.normal(size=count))
    mean[rng.random(count) < 0.03] = np.nan
    left_out = np.isnan(mean)
    return pl.DataFrame(
        {
            "key": [f"<k{k}>" for k in key],
            "time": np.datetime64("2025-01-01", "us") + at * np.timedelta64(6, "h"),
            "y": y,
            "mean": mean,
            "std": np.where(left_out, np.nan, std),
            "q05": mean - 1.645 * std,
            "q50": mean,
            "q95": mean + 1.645 * std,
            "log_density": -0.5 * (np.log(2 * np.pi * std**2) + ((y - mean) / std) ** 2),
        }
    )


def scores_of(table: pl.DataFrame) -> pl.DataFrame:
    no_skill = dict.fromkeys(SKILLS, np.nan)
    return (
        table.select("key").unique(maintain_order=True).with_columns(nmse=0.5, borrowed=0.25, flagged=1, **no_skill)
    )


def scored(table: pl.DataFrame) -> np.ndarray:
    accepted = ~np.isnan(table["mean"].to_numpy())
    return accepted & (np.cumsum(accepted) > WARMUP) & ~np.isnan(table["y"].to_numpy())


def by_loop(table: pl.DataFrame) -> dict[str, list[tuple[float, float, float]]]:
    """Return of every key the log densities of the rows that can be compared: the fleet's and the two baselines'."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    past: dict[str, list[float]] = {}
    errors: dict[str, tuple[list[float], list[float]]] = {}
    for (key, y, ours), is_scored in zip(table.select("key", "y", "log_density").rows(), scored(table), strict=True):
        seen, squares = past.setdefault(key, []), errors.setdefault(key, ([], []))
        if np.isnan(y):
            continue
        if seen:
            said = [seen[-1], np.mean(seen)]
            theirs = []
            for each, guess in zip(squares, said, strict=True):
                if len(each) >= page.MIN_ERRORS:
                    var = np.mean(each)
                    theirs.append(-0.5 * (np.log(2 * np.pi * var) + (y - guess) ** 2 / var))
                each.append((y - guess) ** 2)
            if is_scored and len(theirs) == 2:
                found.setdefault(key, []).append((ours, *theirs))
        seen.append(y)
    return found


def test_keys_are_held_against_baselines_that_know_only_what_came_before():
    table = rows()
    keys = page.by_key(page.judged(table.lazy(), WARMUP), scores_of(table))
    expected = by_loop(table)
    for line in keys.iter_rows(named=True):
        compared = expected.get(line["key"], [])
        assert line["compared"] == len(compared)
        mine = scored(table) & (table["key"] == line["key"]).to_numpy()
        assert line["scored"] == mine.sum()
        if compared:
            ours = ("mean_log_density", "mean_log_density_last", "mean_log_density_average")
            np.testing.assert_allclose([line[name] for name in ours], np.mean(compared, axis=0), rtol=1e-9)
        if len(compared) >= page.MIN_ROWS:
            mean = np.mean(compared, axis=0)
            np.testing.assert_allclose(line["gain"], mean[0] - max(mean[1:]), rtol=1e-9)
        else:
            assert line["gain"] is None
    assert keys["gain"].is_null().any() and keys["gain"].is_not_null().sum() >= 4
    weights = [len(expected[key]) for key in keys.filter(pl.col("gain").is_not_null())["key"]]
    found = page.against(keys)
    every = [value for key in keys.filter(pl.col("gain").is_not_null())["key"] for value in expected[key]]
    np.testing.assert_allclose([each["pll"] for each in found], np.mean(every, axis=0), rtol=1e-9)
    assert sum(weights) == len(every)


def test_the_strip_has_the_errors_of_its_keys_and_times():
    table = rows()
    judged = page.judged(table.lazy(), WARMUP)
    ranked = page.by_key(judged, scores_of(table)).sort("gain", nulls_last=True)
    cells = page.strip(judged, ranked)
    assert cells.shape == (6, page.BINS)
    time = table["time"].to_numpy().astype("datetime64[us]").astype(float)
    bins = np.minimum((time - time[0]) / (time[-1] - time[0]) * page.BINS, page.BINS - 1).astype(int)
    z = ((table["y"] - table["mean"]) / table["std"]).to_numpy()
    expected = np.full(cells.shape, np.nan)
    for line, key in enumerate(ranked["key"]):
        for b in range(page.BINS):
            here = scored(table) & (table["key"] == key).to_numpy() & (bins == b)
            if here.any():
                expected[line, b] = np.sqrt(np.mean(z[here] ** 2))
    np.testing.assert_allclose(cells, expected, rtol=1e-9)
    assert fleet_figures.strip(cells).startswith("data:image/png;base64,")


def test_the_coverage_by_chance_is_that_of_a_calibrated_fleet():
    rng = np.random.default_rng(0)
    counts, edges = rng.integers(10, 60, 400), np.linspace(0.5, 1.0, 21)
    expected = page.coverage_by_chance(counts, edges)
    drawn = [np.histogram(rng.binomial(counts, 0.9) / counts, edges)[0] for _ in range(400)]
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(np.mean(drawn, axis=0) - expected) < 4.5 * error + 0.02).all()


def metrics(table: pl.DataFrame) -> dict:
    count = int(scored(table).sum())
    return {"rows": len(table), "warmup": WARMUP, "scored_rows": count, "pll": -1.2, "crps": 0.6} | {
        "coverage": {"50": 0.5, "90": 0.7, "95": 0.95}
    }


def test_the_page_is_whole_and_escapes_what_keys_are_called():
    table = rows()
    html = render_fleet(metrics(table) | {"warnings": ["a <note>"]}, table.lazy(), scores_of(table)).decode()
    assert "<k0>" not in html and html.count("&lt;k0&gt;") >= 2
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", html)  # nothing from outside
    assert "the 90% band contained only 70.0% of the targets and is too narrow" in html
    assert "a &lt;note&gt;" in html
    lines = re.findall(r"<tr><td>(&lt;k\d&gt;)<td", html)
    gain = page.by_key(page.judged(table.lazy(), WARMUP), scores_of(table)).sort("gain", nulls_last=True)
    assert lines[: len(gain)] == [key.replace("<", "&lt;").replace(">", "&gt;") for key in gain["key"]]
    assert '<p id="search" hidden>' in html  # without a script there is no box, and the table is whole
    assert "1 key came in the last tenth of the time" in html and "2025-0" in html


def test_a_fleet_without_scored_rows_has_a_page():
    table = rows(count=20)
    nothing = {"rows": 20, "warmup": 20, "scored_rows": 0}
    html = render_fleet(nothing | {"coverage": {}}, table.lazy(), scores_of(table)).decode()
    assert "Nothing to score yet: 20 rows of" in html


def test_an_evaluation_writes_its_page(tmp_path):
    stream = frame(keys=4, rows=60, glitches=False)
    model = fleet()
    model.partial_fit(stream[:30])
    for part, options in ((stream[30:200], {}), (stream[200:], {})):
        found = model.evaluate(part, **options)
        html = found.report(tmp_path / "page.html").read_text()
        assert f"On {found.metrics['scored_rows']:,} rows of " in html
    plain = fleet(time_col=None)
    rows = stream.drop("ds").with_columns(unique_id=pl.col("unique_id").str.slice(4).cast(int))
    found = plain.evaluate(pd.DataFrame(rows.to_dict(as_series=False)))
    assert "row 0" in found.report(tmp_path / "plain.html").read_text()
    early = fleet().evaluate(stream[:9]).report(tmp_path / "early.html").read_text()
    assert "Nothing to score yet" in early


@pytest.mark.slow
def test_ten_thousand_keys_fit_into_five_megabytes():
    table = pl.concat([rows(keys=10_001, count=60_000, seed=seed) for seed in range(2)])
    html = render_fleet(metrics(table), table.lazy(), scores_of(table))
    assert table["key"].n_unique() > 9_900 and len(html) < 5e6
