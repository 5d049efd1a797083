"""`streamgp run --groups`: the same numbers in chunks and resumed, what is shown, and what is refused."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from streamgp.app.cli import app

ROWS = 1_500
OPTIONS = ["--target", "y", "--model", "linear", "--lags", "none", "--warmup", "100"]
GROUPS = ["--conformal", "0.9", "--groups", "cut,b,auto", "--alarms"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1.0, 1.0, (2, ROWS))
    cut = rng.choice(["fair", "good"], ROWS)
    y = a + np.exp(2.0 * b) * np.where(cut == "fair", 0.2, 2.0) * rng.normal(size=ROWS)
    days = np.datetime64("2024-01-01") + np.arange(ROWS)
    path = tmp_path_factory.mktemp("data") / "gems.csv"
    pl.DataFrame({"a": a, "b": b, "cut": cut, "day": days, "y": y}).write_csv(path)
    return path


def run(data: Path, *words: object) -> str:
    result = CliRunner().invoke(app, ["run", str(data), *map(str, words)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_resumed_run_in_chunks_gives_the_same(data: Path, tmp_path: Path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    said = run(data, *OPTIONS, *GROUPS, "--out", whole)
    assert "groups furthest from it" in said
    assert "rows with cut good have been covered" in said
    run(data, *OPTIONS, *GROUPS, "--out", parts, "--chunk", 7, "--max-rows", 700)
    run(data, *OPTIONS, *GROUPS, "--out", parts, "--chunk", 64, "--resume")
    one, other = (json.loads((out / "metrics.json").read_text()) for out in (whole, parts))
    for each, same in zip(one["conformal"]["groups"], other["conformal"]["groups"], strict=True):
        assert each["group"] == same["group"]
        assert each["coverage"] == same["coverage"]
        assert each["e_value"] == pytest.approx(same["e_value"], rel=1e-9)
    named = {each["group"]: each for each in one["conformal"]["groups"]}
    assert {"cut fair", "cut good", "predicted std in its lowest fifth"} <= named.keys()
    assert named["cut good"]["miscovered"]
    told = [[alarm for alarm in found["alarms"] if alarm["kind"] == "coverage"] for found in (one, other)]
    assert [alarm["sentence"] for alarm in told[0]] == [alarm["sentence"] for alarm in told[1]] != []
    bands = [pl.read_parquet(out / "predictions.parquet")["conformal_low"].to_numpy() for out in (whole, parts)]
    np.testing.assert_allclose(*bands, rtol=1e-9)
    assert 'id="groups"' in (whole / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--groups", "cut"], "--groups: expected it with --conformal"),
        (
            ["--groups", "nope", "--conformal", "0.9"],
            "--groups: expected 'auto' or inputs that hold no dates",
        ),
        (["--groups", "day", "--conformal", "0.9"], "got 'day'"),
        (["--groups", "a", "--conformal", "0.9", "--target", "cut"], "--groups: expected numbers or counts"),
        (["--groups", "a", "--key", "cut"], "--groups does not go with --key"),
    ],
)
def test_what_means_nothing_is_refused(data: Path, tmp_path: Path, words: list[str], said: str):
    result = CliRunner().invoke(app, ["run", str(data), "--target", "y", "--out", str(tmp_path / "o"), *words])
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "o" / "metrics.json").exists()
