"""Runs over labels: from a file to predictions, scores, a page, and on from a checkpoint."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from small_runs import predictions, run_stream, same_as_unbroken
from streamgp.app.cli import app
from streamgp.app.runner import Outcome
from streamgp.app.settings import RunSettings
from streamgp.models.registry import make_spec

pytestmark = pytest.mark.slow

ROWS, WARMUP, NEW = 260, 60, 150


def stream(path: Path, new: bool = True) -> Path:
    """Two kinds by a line that turns, and a third that comes later."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, ROWS))
    kind = np.where(a + b * np.cos(np.arange(ROWS) / 60) + 0.3 * rng.logistic(size=ROWS) > 0, "hot", "cold")
    if new:
        late = (np.arange(ROWS) >= NEW) & (np.abs(a) > 1.3)
        kind = np.where(late, "odd", kind)
    pl.DataFrame({"a": a, "b": b, "kind": kind}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stream(tmp_path_factory.mktemp("data") / "kinds.csv")


def run_classification(data: Path, out: Path | None = None, **changes) -> Outcome:
    options = {"targets": ["kind"], "warmup": WARMUP, "chunk": 50, "conformal": 0.8} | changes
    return run_stream(RunSettings(str(data), spec=make_spec("linear"), out=out, **options))


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A run by the command, which finds by itself that the target holds labels."""
    out = tmp_path_factory.mktemp("out")
    words = ["run", data, "--target", "kind", "--model", "linear", "--warmup", WARMUP, "--out", out]
    words += ["--conformal", 0.8]
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "predicted the right one of 3 classes" in result.output
    assert "frequencies so far" in result.output
    assert "conformal sets of 80.0% contained" in result.output
    return out, json.loads((out / "metrics.json").read_text())


def test_predictions_and_scores(data: Path, finished: tuple[Path, dict]) -> None:
    out, metrics = finished
    frame, kinds = predictions(out), pl.read_csv(data)["kind"]
    assert frame["y"].to_list() == kinds.to_list()
    first = kinds.to_list().index("odd")
    assert frame["p_odd"].is_null().to_list() == [True] * (first + 1) + [False] * (ROWS - first - 1)
    names = ["cold", "hot", "odd"]
    p = frame.select([f"p_{name}" for name in names]).fill_null(0.0).to_numpy()
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-9)
    assert frame["predicted"].to_list() == [names[k] for k in p.argmax(1)]
    assert frame["last_label"].to_list() == [None, *kinds[:-1]]
    scored = frame[WARMUP:]
    assert metrics["classes"] == names
    assert metrics["new_class_rows"] == 1
    assert metrics["error_rate"] == pytest.approx((scored["y"] != scored["predicted"]).mean())
    assert metrics["log_loss"] == pytest.approx(-scored["log_density"].to_numpy().mean())
    old = frame[WARMUP:first]
    told = log_loss(old["y"], old.select("p_cold", "p_hot").to_numpy())
    assert -old["log_density"].to_numpy().mean() == pytest.approx(told, rel=1e-9)
    assert frame["log_density"][first] == pytest.approx(-np.log(first + 2))
    assert metrics["error_rate"] < metrics["naive"]["frequencies"]["error_rate"]
    assert any("taken as labels" in warning for warning in metrics["warnings"])
    assert any("learnt from their first row on: 'odd'" in warning for warning in metrics["warnings"])
    assert "predicted the right one of 3 classes" in (out / "report.html").read_text()


def test_conformal_sets(finished: tuple[Path, dict]) -> None:
    out, metrics = finished
    rows = predictions(out)[WARMUP:]
    held = rows.select(pl.col("y").is_in(pl.col("conformal_set"))).to_series()
    assert metrics["conformal"]["coverage"] == pytest.approx(held.mean())
    assert metrics["conformal"]["size"] == pytest.approx(rows["conformal_set"].list.len().mean())
    assert rows.select(pl.col("predicted").is_in(pl.col("conformal_set"))).to_series().all()
    assert "Conformal sets beside the model's own" in (out / "report.html").read_text()


def test_a_resumed_run_is_that_which_goes_through(data: Path, tmp_path: Path) -> None:
    run_classification(data, tmp_path / "out", max_rows=WARMUP + 150)
    resumed = run_classification(data, tmp_path / "out", resume=True)
    same_as_unbroken(data, tmp_path, resumed, run_classification)


def test_another_task_cannot_go_on(data: Path, tmp_path: Path) -> None:
    run_classification(data, tmp_path / "out", max_rows=100)
    with pytest.raises(ValueError, match="the stored schema has task classification, got count"):
        run_classification(data, tmp_path / "out", resume=True, task="count")
