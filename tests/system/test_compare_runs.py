"""`streamgp compare`: scores of simulated runs beside their definitions, refusals, the page and the JSON."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fake_labels import fake_counts, fake_labels
from fake_run import fake_run
from streamgp.app.cli import app
from streamgp.app.run_compare import compare_runs
from streamgp.evaluation.metrics import paired_interval

pytestmark = pytest.mark.slow


def compare(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["compare", *map(str, words)])
    return result.exit_code, re.sub(r"\s+", " ", result.output)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, sharpness in (("good", 1.0), ("sure", 0.4)):
        fake_run(folder / name, 3000, 500, sharpness=sharpness)
    path = folder / "sure" / "predictions.parquet"
    frame = pl.read_parquet(path).with_columns(pl.col("mean") + 0.2)
    frame.write_parquet(path)
    return folder


def test_scores_are_those_of_the_runs_and_differences_their_intervals(runs: Path):
    found = compare_runs([runs / "good", runs / "sure"]).about
    metrics = json.loads((runs / "good" / "metrics.json").read_text())
    for name in ("nmse", "mae", "crps", "pll"):
        assert found["runs"][0][name] == pytest.approx(metrics[name], rel=1e-12)
    assert found["rows"] == metrics["scored_rows"]
    frames = [pl.read_parquet(runs / name / "predictions.parquet")[500:] for name in ("good", "sure")]
    crps = [frame["crps"].to_numpy() for frame in frames]
    error = [np.abs((frame["y"] - frame["mean"]).to_numpy()) for frame in frames]
    of = {each["score"]: (each["difference"], each["low"], each["high"]) for each in found["differences"]}
    assert of["crps"] == pytest.approx(paired_interval(crps[1], crps[0]), rel=1e-12)
    assert of["mae"] == pytest.approx(paired_interval(error[1], error[0]), rel=1e-12)
    inside = frames[1].select(pl.col("y").is_between("q05", "q95").mean()).item()
    assert found["runs"][1]["coverage_90"] == pytest.approx(inside)


def test_only_rows_that_all_runs_scored_are_compared(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "good", tmp_path / "short")
    path = tmp_path / "short" / "predictions.parquet"
    frame = pl.read_parquet(path)
    late = pl.col("row") == 700
    frame[:2000].with_columns(y=pl.when(late).then(None).otherwise("y")).write_parquet(path)
    with pytest.raises(Exception, match="that of row 700 is None"):
        compare_runs([runs / "good", tmp_path / "short"])
    frame[:2000].with_columns(crps=pl.when(late).then(float("nan")).otherwise("crps")).write_parquet(path)
    (tmp_path / "short" / "metrics.json").write_text(
        json.dumps(json.loads((runs / "good" / "metrics.json").read_text()) | {"warmup": 600})
    )
    found = compare_runs([runs / "good", tmp_path / "short"])
    assert len(found.rows) == 2000 - 600 - 1 and found.rows[0] == 600 and 700 not in found.rows
    assert len(set(found.about["notes"])) == 2  # each scored a row or more that the other did not
    assert all("not compared" in note for note in found.about["notes"])
    assert [each["difference"] for each in found.about["differences"]] == [0.0] * 4


def test_the_page_and_the_table_say_what_is_shown(runs: Path, tmp_path: Path):
    code, output = compare(runs / "good", runs / "sure", "--out", tmp_path / "c.html")
    assert code == 0, output
    assert f"that both runs scored, {runs / 'good'} has the lowest CRPS" in output
    assert f"{runs / 'sure'} is worse than {runs / 'good'}: CRPS +" in output
    html = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert html.count('<svg role="img"') == 4  # two charts, each for a desktop and a phone
    assert "http" not in html and "<script" not in html
    assert "nan" not in re.sub(r"<style.*?</style>", "", html.lower(), flags=re.S)
    swapped = compare(runs / "sure", runs / "good", "--out", tmp_path / "d.html", "--json", "-")[1]
    assert f"{runs / 'good'} is better than {runs / 'sure'}: CRPS \N{MINUS SIGN}" in swapped


def test_json_has_the_numbers_alone(runs: Path, tmp_path: Path):
    with patch("streamgp.reports.comparison_page.render_comparison", side_effect=ImportError("no matplotlib")):
        words = ["compare", str(runs / "good"), str(runs / "sure"), "--json", "-", "--out", str(tmp_path / "c.html")]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    about: dict[str, Any] = json.loads(result.stdout)
    assert [run["run"] for run in about["runs"]] == [str(runs / "good"), str(runs / "sure")]
    assert "no page: no matplotlib" in result.stderr
    assert not (tmp_path / "c.html").exists()


def test_labels_grades_and_counts(tmp_path: Path):
    made = {
        "classification": lambda out, s: fake_labels(out, "classification", ["a", "b"], sharpness=s),
        "ordinal": lambda out, s: fake_labels(out, "ordinal", ["3", "4", "5"], sharpness=s),
        "count": lambda out, s: fake_counts(out, rows=1500),
    }
    for task, make in made.items():
        both = [tmp_path / f"{task}-{s}" for s in (1.0, 2.0)]
        metrics = [make(out, s) for out, s in zip(both, (1.0, 2.0), strict=True)]
        found = compare_runs(both).about
        for run, scores in zip(found["runs"], metrics, strict=True):
            for name in found["scores"]:
                assert run[name] == pytest.approx(scores[name], rel=1e-9), (task, name)
        assert compare(*both, "--out", tmp_path / f"{task}.html")[0] == 0


def test_runs_of_other_data_are_refused_in_a_sentence(runs: Path, tmp_path: Path):
    good = runs / "good"
    fake_run(tmp_path / "other", 3000, 500, seed=1)
    fake_labels(tmp_path / "labels", "classification", ["a", "b"])
    out = ("--out", tmp_path / "c.html")
    refused = {
        "compare runs of the same data": (good, tmp_path / "other"),
        "expected the task of": (good, tmp_path / "labels"),
        "expected this file of a finished run": (good, tmp_path / "none"),
        "two or more different directories": (good, good),
    }
    for words, both in refused.items():
        code, output = compare(*both, *out)
        assert code == 1 and words in output, output
    assert "two or more different directories" in compare(good, *out)[1]
    assert "expected a file in a directory that exists" in compare(*refused["expected the task of"], "--out", runs)[1]
    assert not (tmp_path / "c.html").exists()


def test_the_headline_calls_no_run_the_best_that_cannot_be_told_apart(runs: Path, tmp_path: Path):
    path = tmp_path / "even" / "predictions.parquet"
    shutil.copytree(runs / "good", path.parent)
    frame = pl.read_parquet(path)
    noise = 1.0 + 0.05 * np.random.default_rng(0).normal(size=len(frame))
    frame.with_columns(crps=pl.col("crps") * pl.Series(noise)).write_parquet(path)
    good, even, sure = runs / "good", path.parent, runs / "sure"
    for first, second in ((good, even), (even, good)):
        about = compare_runs([first, second, sure]).about
        scores = {run["run"]: run["crps"] for run in about["runs"]}
        named, rest = sorted((str(good), str(even)), key=lambda name: scores[name])
        assert about["tied"] == [rest]
        code, output = compare(first, second, sure, "--out", tmp_path / "e.html")
        assert code == 0 and f"{named} has the lowest CRPS, " in output
        assert f", but {rest} cannot be told apart from it." in output
        assert f"{second} cannot be told apart from {first}: CRPS " in output
        assert f"{sure} is worse than {first}" in output
    assert compare_runs([good, sure]).about["tied"] == []
