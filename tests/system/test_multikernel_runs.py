"""`streamgp run` with online learners of many kernels and conformal bands: outputs, the page, a stop in between."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from streamgp.app import cli

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400))
    y = np.sin(a) + np.where(np.arange(400) < 250, 0.1, 1.5) * rng.normal(size=400)
    path = tmp_path_factory.mktemp("data") / "data.csv"
    label = np.where(a > 0, "up", "down")
    pl.DataFrame({"a": a, "b": b, "y": y, "label": label}).write_csv(path)
    return path


def invoke(*words: object) -> str:
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def run(table: Path, out: Path, *more: object) -> str:
    words = ("--features", "a,b", "--target", "y", "--model", "sfg-mkl", "--features-per-basis", 10)
    return invoke("run", table, *words, "--warmup", 60, "--conformal", 0.8, "--out", out, *more)


def test_predictions_metrics_weights_and_page(table: Path, tmp_path: Path):
    said = run(table, tmp_path / "out")
    assert "conformal bands of 80.0% contained" in said
    rows = pl.read_parquet(tmp_path / "out" / "predictions.parquet")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    held = rows[60:].select(pl.col("y").is_between("conformal_low", "conformal_high").mean()).item()
    assert metrics["conformal"]["coverage"] == held
    assert metrics["conformal"]["level"] == 0.8
    weights = pl.read_parquet(tmp_path / "out" / "weights.parquet")
    assert weights.columns == ["row", *(expert["name"] for expert in metrics["experts"])]
    assert len(metrics["experts"]) == 41
    np.testing.assert_allclose(weights.drop("row").to_numpy().sum(1), 1.0, rtol=1e-6)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The conformal band beside the model's own" in page
    assert f"{100 * held:.1f}%" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "label", "--alarms"), "numbers or counts"),
        (("--target", "y", "--conformal", "90"), "between 0 and 1"),
        (("--target", "y", "--model", "raker", "--weights", "bma"), "weights"),
        (("--target", "y", "--model", "raker", "--horizon", "3"), "horizon"),
    ],
)
def test_what_does_not_go_together_is_refused(table: Path, tmp_path: Path, words: tuple[str, ...], message: str):
    result = CliRunner().invoke(cli.app, ["run", str(table), "--out", str(tmp_path / "out"), *words])
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out" / "predictions.parquet").exists()
