"""`streamgp run --alarms`: metrics, terminal and page; a stop in between; what has none."""

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
    x = rng.normal(size=600)
    y = x + np.where(np.arange(600) < 300, 0.1, 0.6) * rng.normal(size=600)
    y[500:] = y[500]
    path = tmp_path_factory.mktemp("data") / "data.csv"
    label = np.where(x > 0, "up", "down")
    times = np.arange(600) * 60.0 + 1.6e9
    pl.DataFrame({"x": x, "y": y, "label": label, "key": ["a"] * 600, "at": times}).write_csv(path)
    return path


def invoke(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def run(table: Path, out: Path, *more: object) -> str:
    words = ("--features", "x", "--target", "y", "--time", "at", "--model", "linear", "--warmup", 100)
    return invoke("run", table, *words, "--noise", "constant", "--lags", "none", "--out", out, *more)


def metrics(out: Path) -> dict:
    return json.loads((out / "metrics.json").read_text())


def test_metrics_terminal_and_page(table: Path, tmp_path: Path):
    said = run(table, tmp_path, "--alarms")
    found = metrics(tmp_path)["alarms"]
    assert [alarm["kind"] for alarm in found] == ["scale", "stuck"]
    assert 300 <= found[0]["row"] < 340
    assert found[1]["since"] == 501
    assert found[1]["time"] == 1.6e9 + 60.0 * found[1]["row"]
    assert "2 alarms:" in said
    page = (tmp_path / "report.html").read_text()
    for alarm in found:
        assert alarm["sentence"] in said
        assert alarm["sentence"][1:] in page
    assert "What changed" in page
    assert "▲" in page


def test_without_alarms_nothing_is_said(table: Path, tmp_path: Path):
    said = run(table, tmp_path)
    assert metrics(tmp_path)["alarms"] is None
    assert "alarm" not in said.replace(str(tmp_path), "").replace("test_without_alarms", "")
    assert "What changed" not in (tmp_path / "report.html").read_text()


def test_no_change_is_said_to_be_none(table: Path, tmp_path: Path):
    said = run(table, tmp_path, "--alarms", "--max-rows", 280)
    assert metrics(tmp_path)["alarms"] == []
    assert "no alarm" in said
    assert "Nothing: the targets" in (tmp_path / "report.html").read_text()


def test_a_run_goes_on_with_alarms_only_if_it_had_them(table: Path, tmp_path: Path):
    run(table, tmp_path, "--max-rows", 200)
    words = ("--features", "x", "--target", "y", "--time", "at", "--model", "linear", "--warmup", 100)
    said = invoke(
        *("run", table, *words, "--noise", "constant", "--lags", "none", "--out", tmp_path, "--resume", "--alarms"),
        code=1,
    )
    assert "alarms" in said


def test_labels_have_none_and_fleets_need_a_directory(table: Path):
    said = invoke("run", table, "--target", "label", "--features", "x", "--alarms", code=1)
    assert "--alarms: expected numbers or counts" in said
    said = invoke("run", table, "--target", "y", "--key", "key", "--time", "at", "--alarms", code=1)
    assert "--alarms with --key needs --out DIR" in said


def test_a_step_that_is_followed_is_told_with_its_size_and_time(tmp_path: Path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=260)
    y = 20.0 + x + 0.1 * rng.normal(size=260) + np.where(np.arange(260) < 220, 0.0, 13.0)
    times = [f"2024-01-{1 + hour // 24:02d} {hour % 24:02d}:00" for hour in range(260)]
    pl.DataFrame({"x": x, "y": y, "at": times}).write_csv(tmp_path / "data.csv")
    said = run(tmp_path / "data.csv", tmp_path / "out", "--alarms")
    (alarm,) = metrics(tmp_path / "out")["alarms"]
    assert (alarm["kind"], alarm["since"]) == ("level", 220)
    assert alarm["row"] <= 230
    assert abs(alarm["size"] - 13.0) < 0.5
    assert alarm["sentence"].startswith(f"the level moved by +{alarm['size']:.2f} ")
    assert "at 2024-01-10 04:00 (row 220)" in alarm["sentence"]
    assert alarm["since_time"] == 1.7040672e9 + 3600.0 * 220
    assert f"row {alarm['row']:,} (2024-01-10 " in said
    assert alarm["sentence"][1:] in (tmp_path / "out" / "report.html").read_text()
