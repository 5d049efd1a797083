"""Frames, summaries, charts and pages of evaluations: what they hold, and what they share with the command."""

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.axes import Axes
from polars.testing import assert_frame_equal

from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)

mpl.use("Agg")
ROWS, WARMUP = 240, 60
SMALL: dict[str, Any] = {"warmup": WARMUP, "features_per_basis": 10}
BAD = 100  # a row with a bad input
UNLABELLED = 120

pytestmark = pytest.mark.slow


def stream(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=ROWS)


def number_rows() -> tuple[pd.DataFrame, pd.Series]:
    X, y = stream()
    X[BAD, 1], y[UNLABELLED] = np.nan, np.nan
    index = pd.date_range("2026-01-01", periods=ROWS, freq="h")
    return pd.DataFrame(X, columns=["a", "b"], index=index), pd.Series(y, index=index, name="load")


@pytest.fixture(scope="module")
def numbers() -> Any:
    return evaluate(StreamingGPRegressor("oebe", **SMALL), *number_rows(), progress=False)


@pytest.fixture(scope="module")
def skipping() -> Any:
    """Of polars, with a row that was skipped."""
    X, y = number_rows()
    model = StreamingGPRegressor("oebe", missing="skip", **SMALL)
    return evaluate(model, pl.DataFrame(X), pl.Series("load", y.to_numpy()), conformal=0.8, progress=False)


@pytest.fixture(scope="module")
def labelled() -> Any:
    """Integers of three classes, of which one comes late, with a row whose label is missing."""
    X, f = stream(1)
    y = np.where(f > 0.0, 7.0, 3.0)
    y[200:] = np.where(f[200:] > 0.5, 5.0, y[200:])
    y[UNLABELLED] = np.nan
    return evaluate(StreamingGPClassifier("oebe", **SMALL), X, y, progress=False)


@pytest.fixture(scope="module")
def counted() -> Any:
    X, f = stream(2)
    y = np.random.default_rng(2).poisson(np.exp(np.clip(f, -2, 2)))
    return evaluate(StreamingGPCountRegressor("oebe", **SMALL), X, y, progress=False)


@pytest.fixture(scope="module")
def graded() -> Any:
    X, f = stream(3)
    return evaluate(StreamingGPOrdinal("oebe", **SMALL), X, np.digitize(f, [-1.0, 0.0, 1.0]), progress=False)


ALL = ("numbers", "skipping", "labelled", "counted", "graded")


@pytest.fixture(params=ALL)
def any_one(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


# Frames


def test_a_frame_has_the_rows_the_index_and_the_predictions_of_the_evaluation(numbers: Any):
    X, y = number_rows()
    frame = numbers.to_frame()
    assert isinstance(frame, pd.DataFrame)
    pd.testing.assert_index_equal(frame.index, X.index)
    np.testing.assert_array_equal(frame["y"], y)
    for name in ("mean", "std", "q05", "q50", "q95", "pit", "crps", "log_density"):
        np.testing.assert_array_equal(frame[name], getattr(numbers, name))
    assert np.isnan(frame["log_density"].iloc[UNLABELLED])
    assert np.isfinite(frame["mean"].iloc[[BAD, UNLABELLED]]).all()
    np.testing.assert_array_equal(frame["persistence_mean"].iloc[1:UNLABELLED], y.iloc[: UNLABELLED - 1])


def test_rows_that_were_skipped_are_missing(skipping: Any):
    frame = skipping.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert len(frame) == ROWS
    gone = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    assert gone.arg_true().to_list() == [BAD, UNLABELLED]
    np.testing.assert_array_equal(frame["conformal_high"].to_numpy(), skipping.conformal[:, 1])
    assert frame["log_density"][WARMUP:].mean() == pytest.approx(skipping.metrics["pll"], rel=1e-2)


def test_labels_come_back_as_they_were_given(labelled: Any):
    frame = labelled.to_frame()
    assert isinstance(frame, pl.DataFrame)  # for NumPy
    assert set(frame["y"].drop_nulls()) == {3.0, 5.0, 7.0}
    assert frame["y"].is_null().arg_true().to_list() == [UNLABELLED]
    np.testing.assert_array_equal(frame["predicted"].to_numpy(), labelled.predicted)
    columns = [name for name in frame.columns if name.startswith("p_")]
    assert len(columns) == 3
    np.testing.assert_array_equal(frame.select(columns).fill_null(0.0).to_numpy(), labelled.probabilities)
    assert frame[columns[2]].null_count() >= 200  # it was not known before


def test_flagged_rows_are_marked():
    X, y = stream()
    y[150] = 1e4
    model = StreamingGPRegressor("oebe", robust=True, **SMALL)
    flagged = evaluate(model, X, y, progress=False).to_frame()["flagged"]
    assert (flagged[WARMUP:].arg_true() + WARMUP).to_list() == [150]
    assert flagged[:WARMUP].sum() <= 1


def test_several_targets_have_columns_of_their_own():
    X, y = stream()
    targets = pd.DataFrame({"u": y, "v": -2.0 * y})
    found = evaluate(StreamingGPRegressor("oebe", **SMALL), pd.DataFrame(X), targets, progress=False)
    frame, summary = found.to_frame(), found.summary()
    np.testing.assert_array_equal(frame["mean_v"], found.mean[:, 1])
    np.testing.assert_array_equal(frame["y"], y)
    assert summary["target"].tolist() == ["u", "u", "u", "v", "v", "v"]
    of_v = found.metrics["per_target"]["y1"]
    assert summary["rmse"].tolist()[3:5] == [of_v["rmse"], of_v["naive"]["persistence"]["rmse"]]


def test_a_frame_of_arrow():
    pa = pytest.importorskip("pyarrow")
    X, y = number_rows()
    model = StreamingGPRegressor("oebe", missing="skip", **SMALL)
    frame = evaluate(model, pa.Table.from_pandas(X, preserve_index=False), y.to_numpy(), progress=False).to_frame()
    assert isinstance(frame, pa.Table)
    assert frame["mean"].null_count == 2


# Summaries


def test_a_summary_has_the_scores_of_the_model_and_the_baselines(any_one: Any):
    summary = any_one.summary()
    rows = summary.to_dict("records") if isinstance(summary, pd.DataFrame) else summary.to_dicts()
    assert [row.pop("predictor") for row in rows] == ["oebe", *any_one.metrics["naive"]]
    for row, scores in zip(rows, (any_one.metrics, *any_one.metrics["naive"].values()), strict=True):
        shown = {name: value for name, value in row.items() if value is not None and value == value}
        for name, value in shown.items():
            level = name.removeprefix("coverage_")
            assert value == (scores[name] if level == name else scores["coverage"][level])
        assert shown


def test_a_notebook_shows_the_result(any_one: Any):
    page = any_one._repr_html_()
    assert re.match(r"<p>On 1\d\d rows, each predicted before its target was seen", page)
    assert page.count("<tr>") == 2 + len(any_one.metrics["naive"])
    assert len(page) < 3_000


# Charts


@pytest.mark.parametrize("kind", ["predictions", "errors", "calibration", "weights"])
def test_charts_are_drawn(any_one: Any, kind: str, tmp_path: Path):
    ax = any_one.plot(kind)
    assert isinstance(ax, Axes)
    assert ax.lines or ax.collections
    ax.figure.savefig(tmp_path / "chart.png")
    plt.close(ax.figure)


def test_charts_show_what_they_should(numbers: Any):
    figure, axes = plt.subplots(1, 3)
    assert numbers.plot(ax=axes[0], last=50) is axes[0]
    inside, outside = (line for line in axes[0].lines if line.get_linestyle() == "None")
    frame = numbers.to_frame().tail(50)
    within = frame["y"].between(frame["q05"], frame["q95"])
    np.testing.assert_array_equal(inside.get_ydata(), frame["y"][within])
    np.testing.assert_array_equal(outside.get_ydata(), frame["y"][~within])
    observed = numbers.plot("calibration", ax=axes[1]).lines[1]
    share = dict(zip(np.round(observed.get_xdata(), 2), observed.get_ydata(), strict=True))
    assert share[0.9] == pytest.approx(numbers.metrics["coverage"]["90"], rel=1e-12)
    errors = numbers.plot("errors", ax=axes[2])
    *_, so_far, _ = errors.lines
    assert so_far.get_ydata()[-1] == pytest.approx(numbers.metrics["nmse"], rel=1e-9)
    plt.close(figure)


def test_a_chart_that_there_is_not(numbers: Any, labelled: Any):
    with pytest.raises(ValueError, match="kind: expected one of predictions, errors, calibration, pit, weights, got"):
        numbers.plot("scatter")
    with pytest.raises(ValueError, match="predictions, errors, calibration, weights, got 'pit'"):
        labelled.plot("pit")
    X, y = stream()
    early = evaluate(StreamingGPRegressor("oebe", **SMALL), X[:30], y[:30], progress=False)
    assert early.to_frame()["mean"].null_count() == 0
    early.plot()
    for kind in ("errors", "calibration", "pit", "weights"):
        with pytest.raises(ValueError, match="plot: expected rows after the warm-up, got none"):
            early.plot(kind)
    assert "Nothing to score yet" in early._repr_html_()
    plt.close("all")


# Pages


def test_a_page_is_written(any_one: Any, tmp_path: Path):
    path = any_one.report(tmp_path / "page.html", title="of <a test>")
    text = path.read_text(encoding="utf-8")
    assert path == tmp_path / "page.html"
    assert "of &lt;a test&gt;" in text
    assert "parquet" not in text
    assert text.count("<svg") >= 8


def test_a_page_needs_a_directory(numbers: Any, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="path: expected a file in a directory that exists, got"):
        numbers.report(tmp_path / "none" / "page.html")
    assert not list(tmp_path.iterdir())


def test_the_page_and_the_frame_are_those_of_the_command(tmp_path: Path):
    from typer.testing import CliRunner

    from streamgp.app.cli import app

    X, y = stream()
    X[:, 0] = np.round(X[:, 0], 6)
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "load": y})
    frame.write_csv(tmp_path / "data.csv")
    words = f"run {tmp_path}/data.csv --target load --model oebe --warmup {WARMUP} --features-per-basis 10"
    result = CliRunner().invoke(app, [*words.split(), "--lags", "none", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    model = StreamingGPRegressor("oebe", **SMALL)
    ours = evaluate(model, frame[["a", "b"]], frame["load"], progress=False)
    theirs = pl.read_parquet(tmp_path / "out" / "predictions.parquet")
    assert_frame_equal(ours.to_frame().fill_null(np.nan), theirs.drop("row").fill_null(np.nan), rel_tol=1e-9)
    pages = [ours.report(tmp_path / "page.html", title="data.csv"), tmp_path / "out" / "report.html"]
    charts = [re.findall(r"<svg.*?</svg>", page.read_text(encoding="utf-8"), re.S) for page in pages]
    assert len(charts[0]) >= 8
    assert charts[0] == charts[1]
    headlines = [re.search(r'<h1 id="headline">(.*?)</h1>', page.read_text(encoding="utf-8")) for page in pages]
    assert headlines[0] is not None and headlines[1] is not None
    assert headlines[0][1] == headlines[1][1]


@pytest.mark.parametrize("labels", [False, True])
def test_an_evaluation_without_weights_has_all_the_rest(labels: bool, tmp_path: Path) -> None:
    X, y = stream()
    target = y > 0.0 if labels else y
    model = StreamingGPClassifier if labels else StreamingGPRegressor
    whole, light = (
        evaluate(model("default" if labels else "e-doebe", **SMALL), X, target, progress=False, weights=each)
        for each in (True, False)
    )
    assert whole.weights.shape[0] == ROWS
    assert not hasattr(light, "weights")
    with pytest.raises(AttributeError, match="got one of weights=False"):
        light.weights  # noqa: B018
    with pytest.raises(ValueError, match="got one of weights=False"):
        light.plot("weights")
    assert_frame_equal(light.to_frame(), whole.to_frame())
    assert light.metrics == whole.metrics
    for name, shares in whole.rules.items():
        np.testing.assert_array_equal(light.rules[name], shares)
    assert "The evaluation kept no weights." in light.report(tmp_path / "light.html").read_text()
    assert "The evaluation kept no weights." not in whole.report(tmp_path / "whole.html").read_text()
    light.plot("errors")
    plt.close("all")


def test_weights_that_are_not_kept_are_dropped_as_rows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be as large in the parts that the result is joined from."""
    kept: list[Any] = []
    monkeypatch.setattr(
        StreamingGPRegressor, "_collected", lambda self, parts, *_: kept.extend(p.weights for p in parts)
    )
    model = StreamingGPRegressor("e-doebe", **SMALL)
    for weights in (True, False):
        evaluate(model, *stream(), progress=False, weights=weights)
        assert any(each is not None for each in kept) == weights
        kept.clear()
