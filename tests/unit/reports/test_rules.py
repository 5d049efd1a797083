"""The weights of several weight rules, from the command's options to the tables and the report."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fake_run import fake_run
from small_runs import SMALL, WARMUP, close, results, run_spec, table
from streamgp import StreamingGPRegressor, evaluate
from streamgp.app.report import write_report
from streamgp.models.registry import make_spec

pytestmark = pytest.mark.slow

NAMES = [
    "BMA",
    "fixed share 0.001",
    "fixed share 0.01",
    "switching within a basis 0.05",
    "Soft-Bayes 0.1",
]
COLUMNS = [f"rule: {name}" for name in NAMES]
AUTO = make_spec("e-doebe", weights="auto", **SMALL | {"bases": ["linear"]})


def test_a_run_with_auto_writes_how_much_each_rule_counted(tmp_path: Path):
    data = tmp_path / "data.parquet"
    table().write_parquet(data)
    run_spec(data, tmp_path / "run", AUTO)
    weights = results(tmp_path / "run")[1]
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    experts = [expert["name"] for expert in metrics["experts"]]
    assert weights.columns == ["row", *experts, *COLUMNS]
    np.testing.assert_allclose(weights[COLUMNS].row(0), 0.2, rtol=1e-6)
    np.testing.assert_allclose(weights[COLUMNS].sum_horizontal(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(weights[experts].sum_horizontal(), 1.0, rtol=1e-6)
    assert weights[COLUMNS].n_unique() == len(weights) - 1  # on the first row all rules agree, and none gains
    assert [rule["name"] for rule in metrics["rules"]] == NAMES
    # What is stored is the weight before each row, in the metrics that after the last one.
    assert sum(rule["weight"] for rule in metrics["rules"]) == pytest.approx(1.0, rel=1e-12)
    run_spec(data, tmp_path / "half", AUTO, max_rows=250, chunk=40)
    run_spec(data, tmp_path / "half", AUTO, chunk=40, resume=True)
    close(results(tmp_path / "half")[1], weights)


def test_evaluate_gives_the_same():
    rows = table()
    X, y = rows.select("a", "b").to_numpy(), rows["y"].to_numpy()
    options = {"bases": ["linear"], "dynamics": ["static", "walk 0.001"], "warmup": WARMUP, "random_state": 0}
    r = evaluate(StreamingGPRegressor("e-doebe", weights="auto", **options), X, y)
    assert list(r.rules) == NAMES
    found = np.stack(list(r.rules.values()), axis=1)
    assert np.isnan(found[:WARMUP]).all()
    np.testing.assert_allclose(found[WARMUP], 0.2, rtol=1e-12)
    np.testing.assert_allclose(found[WARMUP:].sum(1), 1.0, rtol=1e-12)
    assert evaluate(StreamingGPRegressor("e-doebe", **options), X, y).rules == {}


def test_the_report_shows_the_rules_where_there_are_several(tmp_path: Path):
    rules = [{"name": "slow", "weight": 0.25}, {"name": "quick", "weight": 0.75}]
    fake_run(tmp_path, rows=3000, rules=rules)
    path = tmp_path / "weights.parquet"
    weights = pl.read_parquet(path)
    slow = np.linspace(1.0, 0.25, len(weights))
    weights = weights.with_columns(**{"rule: slow": slow, "rule: quick": 1.0 - slow})
    weights.write_parquet(path)
    html = write_report(tmp_path).read_text()
    assert "slow: 62.5% on average, 25.0% at the end" in html
    assert "quick: 37.5% on average, 75.0% at the end" in html
    assert html.count('aria-label="Weights of the rules along the stream"') == 2
    fake_run(tmp_path, rows=400, warmup=50)
    assert "Weights of the rules" not in write_report(tmp_path).read_text()
