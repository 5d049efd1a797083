"""Local Gaussian processes on the command line: what is kept of where they are, and the report's map of it."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from streamgp.app.cli import app

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    east = np.linspace(-4.0, 4.0, 500) + 0.1 * rng.normal(size=500)
    north = rng.uniform(-1.0, 1.0, 500)
    y = np.where(east < 0.0, 0.2 * north, 8.0 * np.sin(3.0 * north)) + 0.05 * rng.normal(size=500)
    pl.DataFrame({"east": east, "north": north, "y": y}).write_csv(home / "in.csv")
    words = ["run", str(home / "in.csv"), "--target", "y", "--model", "wgpr", "--features-per-basis", "12"]
    result = CliRunner().invoke(app, [*words, "--warmup", "100", "--out", str(home / "out")])
    assert result.exit_code == 0, result.output
    return home / "out"


def test_models_are_among_the_metrics(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    assert metrics["model"] == "wgpr"
    models = metrics["models"]
    assert len(models) >= 2
    assert [one["born"] for one in models] == sorted(one["born"] for one in models)
    assert sum(one["rows"] for one in models) == 500
    assert len(metrics["experts"]) == len(models)
    weights = pl.read_parquet(finished / "weights.parquet")
    assert weights.select(pl.sum_horizontal(pl.col("^model .*$"))).to_series().is_close(1.0).all()


def test_the_report_has_a_map_of_two_inputs(finished):
    page = (finished / "report.html").read_text()
    assert "Where they are" in page
    assert page.count("<td>") > 0
    models = json.loads((finished / "metrics.json").read_text())["models"]
    assert f"The stream made {len(models)} models" in page
    assert page.count('aria-label="Where the local models are"') == 2
