"""A run says the same of a model beside its baselines on the terminal, on its page, in metrics and notebooks."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from streamgp import StreamingGPRegressor, evaluate
from streamgp.app.cli import app
from streamgp.evaluation.metrics import paired_interval
from streamgp.numerics import formats
from streamgp.reports import verdicts

pytestmark = pytest.mark.slow

ROWS, WARMUP = 600, 100


def run(folder: Path, frame: pl.DataFrame, *words: object) -> tuple[str, str, dict[str, Any]]:
    """Return what the terminal shows, the texts of the page, and the metrics."""
    frame.write_csv(folder / "rows.csv")
    out = folder / "out"
    given = ["run", folder / "rows.csv", "--model", "linear", "--warmup", WARMUP, "--out", out, "--overwrite", *words]
    result = CliRunner().invoke(app, [str(each) for each in given], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    return result.output, page, json.loads((out / "metrics.json").read_text())


def notices(page: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'<p class="notice \w+ baseline">(.*?)</p>', page)]


def agree(output: str, page: str, metrics: dict[str, Any]) -> None:
    """The page has the sentences of the judgement, the terminal the first one, and those that are no praise."""
    expected = verdicts.sentences(metrics)
    assert notices(page) == [each["text"] for each in expected]
    for i, each in enumerate(expected):
        assert (each["text"] in output) == (i == 0 or each["mark"] != "good")
    (tile,) = re.findall(r'<div class="tile" id="skill"><b>(.*?)</b><span>(.*?)</span>', page)
    words = verdicts.tile(metrics)
    assert words is not None and [html.unescape(each) for each in tile] == [words["number"], words["text"]]


@pytest.fixture
def inputs() -> tuple[np.random.Generator, dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    return rng, dict(zip("abc", rng.normal(size=(3, ROWS)), strict=True))


def test_numbers_and_their_log_density_on_one_scale(tmp_path: Path, inputs: Any):
    rng, X = inputs
    frame = pl.DataFrame(X | {"y": 300.0 * (X["a"] + 0.5 * rng.normal(size=ROWS))})
    output, page, metrics = run(tmp_path, frame, "--target", "y", "--features", "a,b,c", "--lags", "none")
    agree(output, page, metrics)
    assert metrics["judgement"]["verdict"] == "better"
    shown = formats.number(metrics["pll"])
    assert shown in output and f"<b>{shown}</b>" in page
    assert formats.number(metrics["pll_standardised"]) not in output
    # The judgement is that of the rows' squared errors.
    table = pl.read_parquet(tmp_path / "out" / "predictions.parquet")[WARMUP:]
    y = table["y"].to_numpy()
    squared = {name: np.square(table[name].to_numpy() - y) for name in ("mean", "persistence_mean", "running_mean")}
    ours, theirs = squared["mean"], squared["running_mean"]
    judgement = metrics["judgement"]
    assert (judgement["baseline"], judgement["rows"]) == ("running_mean", ROWS - WARMUP)
    assert judgement["skill"] == pytest.approx(1.0 - ours.mean() / theirs.mean(), rel=1e-9)
    _, low, high = paired_interval(ours / ours.mean() - theirs / theirs.mean(), np.zeros(len(y)))
    ends = [1.0 - (1.0 - judgement["skill"]) * np.exp(end) for end in (high, low)]
    assert [judgement["low"], judgement["high"]] == pytest.approx(ends, rel=1e-9)


def test_numbers_that_are_noise(tmp_path: Path, inputs: Any):
    rng, X = inputs
    frame = pl.DataFrame(X | {"y": rng.normal(size=ROWS)})
    output, page, metrics = run(tmp_path, frame, "--target", "y")
    agree(output, page, metrics)
    assert metrics["judgement"]["verdict"] == "undecided"
    assert "Cannot be told apart from predicting the mean" in output and "did about as well" not in page
    evaluation = evaluate(
        StreamingGPRegressor("linear", warmup=WARMUP, lags="auto"), frame.drop("y").to_numpy(), frame["y"].to_numpy()
    )
    assert evaluation.metrics["judgement"]["skill"] == pytest.approx(metrics["judgement"]["skill"], rel=1e-9)
    shown = html.unescape(evaluation._repr_html_())
    assert notices(page)[0] in shown
    evaluation.report(tmp_path / "python.html", progress=False)
    assert notices((tmp_path / "python.html").read_text(encoding="utf-8")) == notices(page)


def test_a_last_value_that_is_ahead(tmp_path: Path, inputs: Any):
    rng, X = inputs
    frame = pl.DataFrame(X | {"y": np.cumsum(rng.normal(size=ROWS))})
    output, page, metrics = run(tmp_path, frame, "--target", "y", "--lags", "none")
    agree(output, page, metrics)
    assert re.search(r"Worse than repeating the last value: .* make that an input, with --lags 1\.", output)


def test_classes_whose_likeliest_label_says_little(tmp_path: Path, inputs: Any):
    """The likeliest label is seldom another, while the probabilities tell much: one verdict, by these."""
    rng, X = inputs
    logits = np.stack([1.2 * X["a"], np.full(ROWS, 2.2), -1.2 * X["a"]], axis=1)
    kind = np.array(["u", "v", "w"])[(logits + rng.gumbel(size=logits.shape)).argmax(1)]
    output, page, metrics = run(tmp_path, pl.DataFrame(X | {"kind": kind}), "--target", "kind")
    agree(output, page, metrics)
    assert metrics["judgement"]["score"] == "log_loss" and metrics["judgement"]["verdict"] == "better"
    assert metrics["error_rate"] > 0.9 * metrics["naive"]["frequencies"]["error_rate"]
    assert "carry little information" not in output + page


def test_grades(tmp_path: Path, inputs: Any):
    rng, X = inputs
    grade = np.digitize(X["a"] + rng.logistic(size=ROWS), [-1.0, 1.0]) + 1
    words = ("--target", "grade", "--grades", "1,2,3")
    output, page, metrics = run(tmp_path, pl.DataFrame(X | {"grade": grade}), *words)
    agree(output, page, metrics)
    assert metrics["judgement"]["score"] == "rps" and set(metrics["judgement"]["against"]) == {
        "last_grade",
        "frequencies",
    }


def test_counts_are_advised_lags_which_they_take(tmp_path: Path, inputs: Any):
    rng, X = inputs
    hits = rng.poisson(20.0 * np.exp(np.sin(np.arange(ROWS) / 10.0)))
    frame = pl.DataFrame(X | {"hits": hits})
    output, page, metrics = run(tmp_path, frame, "--target", "hits", "--task", "count", "--lags", "none")
    agree(output, page, metrics)
    assert metrics["judgement"]["verdict"] != "better" and not metrics["lags"]
    assert "make that an input, with --lags 1" in output
    frame.write_csv(tmp_path / "again.csv")
    words = ["run", str(tmp_path / "again.csv"), "--target", "hits", "--task", "count", "--lags", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0  # so it may be advised


def test_rows_that_were_flagged_are_told_apart_everywhere(tmp_path: Path, inputs: Any):
    rng, X = inputs
    y = X["a"] + 0.1 * rng.normal(size=ROWS)
    y[[200, 300, 450, 560]] += (4e3, -6e3, 8e3, 5e3)
    words = ("--target", "y", "--lags", "none", "--dynamics", "static", "--robust", "on")
    output, page, metrics = run(tmp_path, pl.DataFrame(X | {"y": y}), *words)
    agree(output, page, metrics)
    assert metrics["judgement"]["unflagged"]["rows"] == ROWS - WARMUP - 4
    assert metrics["judgement"]["unflagged"]["verdict"] == "better" and metrics["judgement"]["verdict"] != "better"
    (tile,) = re.findall(r'id="skill"><b>.*?</b><span>(.*?)</span>', page)
    for text in (output, tile, notices(page)[0]):
        assert "without the 4 rows flagged as outliers" in text


def test_labels_that_come_late_name_the_value_that_is_known(tmp_path: Path, inputs: Any):
    rng, X = inputs
    frame = pl.DataFrame(X | {"y": np.cumsum(rng.normal(size=ROWS))})
    output, page, metrics = run(tmp_path, frame, "--target", "y", "--lags", "none", "--delay", "5")
    agree(output, page, metrics)
    assert "Worse than repeating the value of 6 rows before: " in output and "--lags" not in " ".join(notices(page))
