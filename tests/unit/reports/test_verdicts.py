"""The verdict on the error bars covers every level; a run of several targets has one for each."""

import json
import math
from pathlib import Path

import pytest
from scipy.stats import norm
from test_report import Page
from typer.testing import CliRunner

from fake_run import fake_run
from small_runs import WARMUP, predictions, run_linear
from streamgp.app.cli import app
from streamgp.app.report import write_report
from streamgp.reports import wording

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("held", "rows", "off"),
    [
        ((0.50, 0.90, 0.95), 10_000, []),
        ((0.548, 0.928, 0.968), 10_000, []),
        ((0.587, 0.91, 0.95), 10_000, [("50", False)]),  # which the report called trustworthy
        ((0.44, 0.91, 0.95), 10_000, [("50", True)]),
        ((0.50, 0.865, 0.925), 10_000, [("90", True), ("95", True)]),
        ((0.587, 0.91, 0.95), 100, []),  # chance alone moves it so far
        ((0.70, 0.91, 0.85), 150, [("50", False), ("95", True)]),
    ],
)
def test_every_level_is_judged(held: tuple[float, ...], rows: int, off: list[tuple[str, bool]]):
    found = wording.miscalibrated_bands(dict(zip(("50", "90", "95"), held, strict=True)), rows)
    assert [(band["level"], band["narrow"]) for band in found] == off


def test_honest_bands_are_doubted_in_about_one_run_of_twenty_at_most():
    """Of few rows the levels are judged by chance alone: three of them, two-sided."""
    assert 3 * 2 * norm.sf(wording._CHANCE) == pytest.approx(0.05, abs=0.002)
    assert math.sqrt(0.25 / 100) * wording._CHANCE == pytest.approx(0.12)


def test_the_report_names_the_level_that_is_off_and_which_way(tmp_path: Path):
    fake_run(tmp_path, rows=6000, sharpness=1.25)  # 50% bands hold 60% and 95% bands 98.6%
    verdict = Page(write_report(tmp_path)).text["bands"]
    assert verdict.startswith("Not quite: the 50% band contained")
    assert "too wide" in verdict and "the 95% band contained 9" in verdict


def test_a_run_of_two_targets_tells_of_both(data: Path, tmp_path: Path):
    words = ("--features", "a,b,wind", "--target", "y,z", "--model", "linear", "--warmup", str(WARMUP))
    result = CliRunner().invoke(app, ["run", str(data), *words, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert list(metrics["by_target"]) == ["y", "z"]
    scored = predictions(tmp_path / "out")[WARMUP:]
    for name, suffix in (("y", ""), ("z", "_z")):
        rmse = ((scored["mean" + suffix] - scored["y" + suffix]) ** 2).mean() ** 0.5
        held = ((scored["pit" + suffix] - 0.5).abs() <= 0.45).mean()
        assert metrics["by_target"][name]["rmse"] == pytest.approx(rmse, rel=1e-9)
        assert metrics["by_target"][name]["coverage"]["90"] == pytest.approx(held, rel=1e-9)
    assert metrics["rmse"] == metrics["by_target"]["y"]["rmse"]  # those of the first stay at the top
    shown = f"{metrics['by_target']['z']['rmse']:.3f}"
    line = next(line for line in result.stdout.splitlines() if line.strip().startswith("target z"))
    assert shown in line
    assert "of z's" in result.stdout
    page = Page(tmp_path / "out" / "report.html")
    assert [row[0] for row in page.rows["targets"][1:]] == ["y", "z"]
    assert shown in page.rows["targets"][2][2]
    assert "z: " in page.html[page.html.index("band-of-target") :]


def test_one_target_is_told_of_in_the_same_way(data: Path):
    metrics = run_linear(data).metrics
    assert metrics["by_target"]["y"]["rmse"] == metrics["rmse"]
