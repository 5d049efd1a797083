"""`streamgp run` in this process: its numbers, and what it makes of bad data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import norm

from small_runs import ROWS, WARMUP, close, predictions, results, run_linear, run_small, run_spec, table
from streamgp import StreamingGPRegressor, evaluate
from streamgp.app.outputs import RunError
from streamgp.app.report import write_report
from streamgp.models.registry import make_spec
from streamgp.table import DataError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of several experts; not to be changed."""
    path = tmp_path_factory.mktemp("small")
    table().write_csv(path / "data.csv")
    run_small(path / "data.csv", path / "out")
    return path / "out"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of one expert; not to be changed."""
    path = tmp_path_factory.mktemp("plain")
    table().write_csv(path / "data.csv")
    run_linear(path / "data.csv", path / "out")
    return path / "out"


def test_a_run_says_what_experts_fitted_anew_are_worth(tmp_path: Path):
    table().write_csv(tmp_path / "data.csv")
    spec = make_spec("best", bases=["linear", "boosted"], features_per_basis=5, dynamics="static", noise="constant")
    outcome = run_spec(tmp_path / "data.csv", None, spec)
    experts = outcome.metrics["experts"]
    last = max(expert.get("since", 0) for expert in experts)
    weight = sum(expert["weight"] for expert in experts if expert.get("since", 0))
    assert last > 200
    expected = f"experts fitted anew as the stream went on, last after row {last}, have {weight:.0%} of the weight"
    assert expected in outcome.metrics["warnings"]


# The numbers


def test_metrics_are_those_of_the_predictions_by_their_definitions(small: Path):
    metrics = json.loads((small / "metrics.json").read_text())
    rows = predictions(small)
    assert rows["row"].to_list() == list(range(ROWS))
    np.testing.assert_array_equal(rows["y"], table()["y"])
    scored = rows[WARMUP:]
    error = (scored["mean"] - scored["y"]).to_numpy()
    assert metrics["rows"] == ROWS
    assert metrics["warmup"] == WARMUP
    assert metrics["scored_rows"] == ROWS - WARMUP
    np.testing.assert_allclose(metrics["nmse"], np.mean(error**2) / np.var(scored["y"].to_numpy()), rtol=1e-12)
    np.testing.assert_allclose(metrics["rmse"], np.sqrt(np.mean(error**2)), rtol=1e-12)
    np.testing.assert_allclose(metrics["mae"], np.mean(np.abs(error)), rtol=1e-12)
    np.testing.assert_allclose(metrics["pll"], scored["log_density"].mean(), rtol=1e-12)
    np.testing.assert_allclose(metrics["crps"], scored["crps"].mean(), rtol=1e-12)
    moment = norm.logpdf(scored["y"], scored["mean"], scored["std"]).mean()
    np.testing.assert_allclose(metrics["pll_moment"], moment, rtol=1e-12)
    unit = np.log(np.std(rows["y"][:WARMUP].to_numpy()))
    np.testing.assert_allclose(metrics["pll_standardised"], metrics["pll"] + unit, rtol=1e-12)
    inside90 = scored["y"].is_between(scored["q05"], scored["q95"]).mean()
    np.testing.assert_allclose(metrics["coverage"]["90"], inside90, rtol=1e-12)
    for level in (50, 95):
        inside = ((scored["pit"] - 0.5).abs() <= level / 200).mean()
        np.testing.assert_allclose(metrics["coverage"][str(level)], inside, rtol=1e-12)
    y = rows["y"].to_numpy()
    before = np.cumsum(y)[WARMUP - 1 : -1] / np.arange(WARMUP, ROWS)
    np.testing.assert_allclose(
        metrics["naive"]["running_mean"]["rmse"], np.sqrt(np.mean((before - y[WARMUP:]) ** 2)), rtol=1e-12
    )
    last = np.sqrt(np.mean(np.diff(y)[WARMUP - 1 :] ** 2))
    np.testing.assert_allclose(metrics["naive"]["persistence"]["rmse"], last, rtol=1e-12)


@pytest.mark.parametrize("features", [["a", "b"], None])
def test_lags_of_a_file_are_those_of_the_estimator(tmp_path: Path, features: list[str] | None):
    rows = table().select("a", "b", "y") if features else table().select("stamp", "y")
    rows.write_csv(tmp_path / "series.csv")
    spec = make_spec("linear", lags=[1, 5])
    metrics = run_spec(
        tmp_path / "series.csv", tmp_path / "out", spec, features=features, time=None if features else "stamp"
    ).metrics
    assert metrics["features"] == [*(features or []), "y lag 1", "y lag 5"]
    X = rows.select(features or []).to_numpy().reshape(ROWS, -1)
    times = None if features else rows["stamp"].to_numpy()
    model = StreamingGPRegressor("linear", warmup=WARMUP, lags=[1, 5])
    expected = evaluate(model, X, rows["y"].to_numpy(), times, progress=False)
    np.testing.assert_allclose(predictions(tmp_path / "out")["mean"], expected.mean, rtol=1e-9, atol=1e-9)


def test_forecasts_of_a_file_are_those_of_the_estimator(tmp_path: Path):
    rows = table().select("a", "b", "y")
    rows.write_csv(tmp_path / "series.csv")
    metrics = run_spec(
        tmp_path / "series.csv", tmp_path / "out", make_spec("linear", lags=1, horizon=5), features=["a", "b"]
    ).metrics
    assert metrics["horizon"] == 5
    y = rows["y"].to_numpy()
    model = StreamingGPRegressor("linear", warmup=WARMUP, lags=1, horizon=5)
    expected = evaluate(model, rows.select("a", "b").to_numpy(), y, progress=False)
    found = predictions(tmp_path / "out")
    np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found["persistence_mean"][5:], y[:-5])
    assert found["persistence_mean"][:5].is_nan().all()
    assert results(tmp_path / "out")[1]["row"].to_list() == list(range(WARMUP + 4, ROWS))


@pytest.mark.parametrize("rows", [WARMUP + 1, WARMUP + 4, WARMUP + 5])
def test_a_stream_may_end_before_the_experts_forecasts_fall_due(tmp_path: Path, rows: int):
    table()[:rows].write_csv(tmp_path / "data.csv")
    run_spec(tmp_path / "data.csv", tmp_path / "out", make_spec("linear", horizon=5))
    page = write_report(tmp_path / "out").read_text()
    assert ("ended before any row that the experts predicted" in page) == (rows < WARMUP + 5)


def test_the_directory_holds_what_the_documentation_names(small: Path):
    metrics = json.loads((small / "metrics.json").read_text())
    named = "model rows warmup scored_rows nmse rmse mae pll pll_moment crps coverage seconds rows_per_second"
    assert set(f"{named} skipped_rows experts".split()) <= set(metrics)
    assert set(metrics["coverage"]) == {"50", "90", "95"}
    assert set(metrics["seconds"]) == {"read", "warmup", "stream", "total"}
    assert all({"name", "basis", "dynamics", "weight"} <= set(expert) for expert in metrics["experts"])
    assert {"row", "y", "mean", "std", "q05", "q50", "q95", "log_density"} <= set(predictions(small).columns)
    assert sorted(path.name for path in small.iterdir()) == [
        "checkpoint",
        "metrics.json",
        "predictions.parquet",
        "weights.parquet",
    ]


def test_weights_are_those_of_the_experts_and_sum_to_one(small: Path):
    metrics = json.loads((small / "metrics.json").read_text())
    weights = results(small)[1]
    assert weights["row"].to_list() == list(range(WARMUP, ROWS))
    assert weights.columns[1:] == [expert["name"] for expert in metrics["experts"]]
    assert len(weights.columns) > 2
    np.testing.assert_allclose(weights[:, 1:].sum_horizontal(), 1.0, rtol=1e-6)
    steps = weights[:, 1:].to_numpy().astype(float) * 2.0**24
    np.testing.assert_array_equal(steps, np.round(steps))  # digits that say nothing are not stored


@pytest.mark.parametrize(("chunk", "rows"), [(1, 160), (7, ROWS)])
def test_chunk_size_is_a_matter_of_speed_only(small: Path, tmp_path: Path, chunk: int, rows: int):
    table().write_csv(tmp_path / "data.csv")
    run_small(tmp_path / "data.csv", tmp_path / "out", chunk=chunk, max_rows=rows)
    for whole, part in zip(results(small), results(tmp_path / "out"), strict=True):
        close(whole.filter(pl.col("row") < rows), part)


@pytest.mark.parametrize("first_changed", [150, 5])
def test_later_rows_change_no_prediction(plain: Path, tmp_path: Path, first_changed: int):
    rows = table()
    later = pl.int_range(pl.len()) >= first_changed
    changed = rows.with_columns(pl.when(later).then(pl.col("a", "b", "y") * 50 - 9).otherwise(pl.col("a", "b", "y")))
    if first_changed > WARMUP:  # the columns' kinds and levels are taken from the rows of the warm-up
        changed = changed.with_columns(wind=pl.when(later).then(pl.lit("unseen")).otherwise("wind"))
    changed.write_csv(tmp_path / "changed.csv")
    run_linear(tmp_path / "changed.csv", tmp_path / "two")
    one, two = predictions(plain), predictions(tmp_path / "two")
    exact = ["row", "mean", "std", "persistence_mean", "running_mean"]
    assert_frame_equal(one[:first_changed].select(exact), two[:first_changed].select(exact), check_exact=True)
    # Quantiles are found for many rows together, until all of them are precise enough.
    rounded = ["q05", "q50", "q95"]
    close(one[:first_changed].select(rounded), two[:first_changed].select(rounded))
    assert one["mean"][-1] != two["mean"][-1]


def test_several_targets_share_the_file_with_times_which_never_go_back(data: Path, tmp_path: Path):
    stamp = table()["stamp"].to_list()
    stamp[250:] = [t - 1000 for t in stamp[250:]]
    table().with_columns(stamp=pl.Series(stamp)).write_csv(data)
    options: dict[str, Any] = {"targets": ["y", "z"], "time": "stamp"}
    first = run_linear(data, tmp_path / "out", **options)
    assert first.stopped is not None
    assert "data row 251 (line 252), time column 'stamp': expected times that never decrease" in first.stopped
    assert run_linear(data, tmp_path / "out", **options, resume=True).stopped == first.stopped
    table().write_csv(data)
    metrics = run_linear(data, tmp_path / "out", **options, resume=True).metrics
    rows = predictions(tmp_path / "out")
    np.testing.assert_array_equal(rows["time"], table()["stamp"])
    for target, suffix in (("y", ""), ("z", "_z")):
        np.testing.assert_array_equal(rows["y" + suffix], table()[target])
        scored = rows[WARMUP:]
        rmse = ((scored["mean" + suffix] - scored["y" + suffix]) ** 2).mean() ** 0.5
        np.testing.assert_allclose(metrics["per_target"][target]["rmse"], rmse, rtol=1e-12)
    assert metrics["per_target"]["z"]["nmse"] < 0.2
    assert metrics["targets"] == ["y", "z"]


def test_a_categorical_column_is_one_hot_and_unseen_levels_are_counted(tmp_path: Path):
    rows = table().with_columns(
        wind=pl.when(pl.int_range(pl.len()).is_in([300, 301])).then(pl.lit("W")).otherwise("wind")
    )
    rows.write_csv(tmp_path / "data.csv")
    metrics = run_linear(tmp_path / "data.csv").metrics
    assert metrics["features"] == ["a", "b", *(f"wind={level}" for level in dict.fromkeys(rows["wind"][:WARMUP]))]
    assert [w for w in metrics["warnings"] if "level" in w] == [
        "column 'wind': 2 rows with a level that the first rows had not, taken as no level"
    ]


def test_the_warmup_is_a_fifth_of_a_short_file(data: Path):
    assert run_linear(data, warmup=None).metrics["warmup"] == ROWS // 5
    assert run_linear(data, warmup=None, max_rows=300).metrics["warmup"] == 60


# Bad data


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("nan", "data row 251 (line 252): column 'a': expected a finite number, got 'nan'"),
        ("1,2", "data row 251 (line 252): expected 6 cells, got 7"),
    ],
)
def test_a_bad_row_ends_the_run_and_is_resumed_from_once_fixed(
    data: Path, plain: Path, tmp_path: Path, cell: str, message: str
):
    good = data.read_text()
    lines = good.splitlines()
    cells = lines[251].split(",")
    lines[251] = ",".join([cells[0], cell, *cells[2:]])
    data.write_text("\n".join(lines) + "\n")
    outcome = run_linear(data, tmp_path / "out", missing="raise")
    assert not outcome.interrupted
    assert outcome.stopped is not None
    assert outcome.stopped.startswith(f"{data}: {message}; correct the row, or fill the gap or skip such rows with")
    assert outcome.metrics["stopped"] == outcome.stopped
    assert len(predictions(tmp_path / "out")) == 250
    again = run_linear(data, tmp_path / "out", missing="raise", resume=True)
    assert again.stopped == outcome.stopped
    skipped = run_linear(data, missing="skip").metrics
    assert (skipped["rows"], skipped["skipped_rows"]) == (ROWS - 1, 1)
    assert f"skipped 1 bad row: {message}" in skipped["warnings"]
    data.write_text(good)
    assert run_linear(data, tmp_path / "out", missing="raise", resume=True).stopped is None
    close(predictions(tmp_path / "out"), predictions(plain))


def test_files_joined_with_their_headers_lose_no_row_and_teach_no_header(data: Path, tmp_path: Path):
    header, *lines = data.read_text().splitlines()
    joined = tmp_path / "joined.csv"
    joined.write_text("\n".join([header, *lines[:200], f" {header}", *lines[200:], header]) + "\n")
    out = run_linear(joined, tmp_path / "out").metrics
    assert (out["rows"], out["skipped_rows"]) == (ROWS, 2)
    assert (
        "skipped 2 bad rows, such as data row 201 (line 202): expected data, got the column names again"
        in (out["warnings"])
    )
    assert out["nmse"] == pytest.approx(run_linear(data).metrics["nmse"], rel=1e-12)


def test_the_index_of_a_data_frame_is_no_input_and_a_date_says_how_to_use_it(data: Path, tmp_path: Path):
    frame = pl.read_csv(data)
    indexed, dated = tmp_path / "indexed.csv", tmp_path / "dated.csv"
    frame.with_row_index("").write_csv(indexed)
    frame.with_columns(pl.lit("2024-01-31").alias("")).write_csv(dated)
    found = run_linear(indexed, features=None).metrics
    assert "column '' was left out: it has no name and counts the rows" in found["warnings"]
    assert found["features"] == run_linear(data, features=None).metrics["features"]
    assert "" in run_linear(indexed, features=["", "a"]).metrics["features"]
    assert (
        "column '' was left out: it looks like a date or time; --calendar day,week,year makes inputs of its cycles"
    ) in run_linear(dated, features=None).metrics["warnings"]


def test_a_long_file_has_the_whole_warm_up_though_targets_are_missing(tmp_path: Path):
    frame = table(6_000).with_columns(pl.when(pl.int_range(pl.len()) % 10 > 0).then("y").alias("y"))
    frame.write_csv(tmp_path / "data.csv")
    assert run_linear(tmp_path / "data.csv", warmup=None).metrics["warmup"] == 1_000


def test_a_constant_input_is_noted_and_a_constant_target_refused(tmp_path: Path):
    data = tmp_path / "data.csv"
    table().with_columns(b=pl.lit(0.1)).write_csv(data)
    outcome = run_linear(data)
    assert outcome.stopped is None
    assert any("one single value" in w and w.endswith("'b'") for w in outcome.metrics["warnings"])
    table().with_columns(y=pl.lit(3.25)).write_csv(data)
    for resume in (False, True):
        outcome = run_linear(data, tmp_path / "out", resume=resume)
        assert outcome.stopped is not None
        assert f"target column 'y' has the single value 3.25 in all {WARMUP} rows of the warm-up" in outcome.stopped
        assert len(predictions(tmp_path / "out")) == WARMUP
        json.loads((tmp_path / "out" / "metrics.json").read_text(), parse_constant=pytest.fail)


def test_a_target_that_stands_still_in_the_warmup_is_noted_where_noise_adapts(tmp_path: Path):
    data = tmp_path / "data.csv"
    still = pl.when(pl.int_range(pl.len()) < WARMUP + 20).then(3.25).otherwise(pl.col("y"))
    table().with_columns(y=still).write_csv(data)
    outcome = run_spec(data, tmp_path / "out", make_spec("linear", noise=["constant", "adaptive 0.9"]))
    assert outcome.stopped is None
    assert len(predictions(tmp_path / "out")) == ROWS
    assert any("'y' had the single value 3.25 in all rows of the warm-up" in w for w in outcome.metrics["warnings"])


def test_fewer_rows_than_the_warmup_are_kept_and_a_fitting_warmup_is_named(tmp_path: Path):
    data = tmp_path / "data.csv"
    table()[:60].write_csv(data)
    outcome = run_linear(data, tmp_path / "out")
    assert outcome.stopped is not None
    assert "the stream ended after 60 rows, within the warm-up of 100" in outcome.stopped
    assert outcome.stopped.endswith("--warmup 12")
    assert len(predictions(tmp_path / "out")) == 60
    assert outcome.metrics["nmse"] is None
    assert run_linear(data, warmup=12).stopped is None
    table().write_csv(data)
    resumed = run_linear(data, tmp_path / "out", resume=True)
    assert (resumed.stopped, resumed.metrics["rows"]) == (None, ROWS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,y\nnan,1\n1,nan\n", "no usable row: every one was skipped as bad"),
        ("a,y\n", "the file has no data rows"),
        ("", "the file is empty"),
        ("a,x\n1,2\n", "there is no column 'y'"),
        ("a,y\n1,2024-01-31\n2,\n", "target column 'y': expected numbers, got '2024-01-31'"),
    ],
)
def test_a_file_without_a_usable_row_is_refused_and_leaves_no_run(tmp_path: Path, content: str, message: str):
    data = tmp_path / "data.csv"
    data.write_text(content)
    with pytest.raises(DataError, match=message):
        run_linear(data, tmp_path / "out", features=["a"], missing="skip")
    table().write_csv(data)
    assert run_linear(data, tmp_path / "out").stopped is None


def test_options_that_cannot_work_are_refused_before_any_row_is_read(data: Path, tmp_path: Path):
    with pytest.raises(RunError, match="--target: expected the name of a column"):
        run_linear(data, targets=[])
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="--out: expected a directory, got the file"):
        run_linear(data, tmp_path / "file")
    with pytest.raises(RunError, match="at most 3 inputs for 'hilbert-product', got 5"):
        run_spec(data, None, make_spec("oebe", bases=["hilbert-product"]))
