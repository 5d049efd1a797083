"""The command line: what it prints, where, and with which exit code."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import streamgp
import streamgp.app.run_stream
from small_runs import ROWS, WARMUP, contents, predictions, run_linear, same_as_unbroken
from streamgp.app import cli
from streamgp.models import options
from streamgp.models.gaussian.model import Ensemble

pytestmark = pytest.mark.slow

LINEAR = ("--features", "a,b,wind", "--target", "y", "--model", "linear")
OPTIONS = (*LINEAR, "--warmup", str(WARMUP))


def invoke(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(word) for word in words], input=stdin)


def fails(result: Result, message: str, code: int = 1) -> None:
    """One sentence on standard error, a non-zero exit, and no traceback."""
    assert (result.exit_code, type(result.exception)) == (code, SystemExit)
    said = result.stderr.splitlines()
    assert said[-1].startswith("streamgp: ")
    assert message in said[-1]
    assert "Traceback" not in result.output


# A run


def test_a_run_ends_with_a_table_and_the_path_of_its_report(data: Path, tmp_path: Path):
    result = invoke("run", data, *OPTIONS, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "On 300 rows, each predicted before its target was seen, the model explained" in result.stdout
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    line = next(line for line in result.stdout.splitlines() if line.strip().startswith("linear"))
    assert f"{metrics['rmse']:.4f}" in line
    assert f"{100 * metrics['coverage']['95']:.1f}%" in line
    assert result.stdout.splitlines()[-1] == f"report: {tmp_path / 'out' / 'report.html'}"
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert result.stderr == ""  # no progress bar where nobody is looking


def test_the_path_of_a_row_is_short(data: Path, monkeypatch: pytest.MonkeyPatch):
    paths, update = [], Ensemble.update

    def noted(*given: Any) -> Any:
        paths.append([frame.name for frame in traceback.extract_stack() if "streamgp" in frame.filename])
        return update(*given)

    monkeypatch.setattr(Ensemble, "update", noted)
    assert invoke("run", data, *OPTIONS).exit_code == 0
    path = paths[-1]
    assert len(path) - path.index("run") <= 8, path  # from the command to the model, neither counted


def test_json_on_standard_output_is_alone_there(data: Path, tmp_path: Path):
    result = invoke("run", data, *OPTIONS, "--json", "-", "--out", tmp_path / "out")
    assert result.exit_code == 0
    metrics = json.loads(result.stdout)
    assert metrics == json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert "report:" in result.stderr
    assert invoke("run", data, *OPTIONS, "--json", tmp_path / "m.json").exit_code == 0
    assert json.loads((tmp_path / "m.json").read_text())["rmse"] == metrics["rmse"]


def test_an_option_reaches_the_run(data: Path):
    words = ("--dynamics", "walk 0.01,static", "--weights", "switching", "--max-rows", "200", "--chunk", "50")
    metrics = json.loads(invoke("run", data, *OPTIONS, *words, "--json", "-").stdout)
    assert [expert["dynamics"] for expert in metrics["experts"]] == ["walk 0.01", "static"]
    assert metrics["rows"] == 200
    assert metrics["horizon"] is None
    words = ("--lags", "24,1", "--horizon", "3")
    metrics = json.loads(invoke("run", data, *OPTIONS, *words, "--json", "-").stdout)
    assert metrics["lags"] == [1, 24]
    assert metrics["horizon"] == 3
    metrics = json.loads(invoke("run", data, *OPTIONS, "--n-samples", "2", "--json", "-").stdout)
    assert [expert["name"] for expert in metrics["experts"]] == ["linear", "linear sample 2"]


def test_a_run_without_the_packages_of_the_report_says_what_is_missing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "streamgp.reports.templating", raising=False)
    monkeypatch.delattr("streamgp.reports.templating", raising=False)
    result = invoke("run", data, *OPTIONS, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "pip install matplotlib jinja2" in result.stderr
    assert len(predictions(tmp_path / "out")) == ROWS


# What goes wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.csv", "--target", "y"), "nowhere.csv: there is no such file"),
        (("DATA", "--target", "yy"), "there is no column 'yy' (did you mean 'y'?)"),
        (("DATA", "--target", "wind", "--task", "regression"), "target column 'wind': expected numbers, got"),
        (("DATA", "--target", "y", "--task", "sorting"), "--task: expected one of auto, regression, class"),
        (("DATA", "--target", "y", "--grades", "1,1"), "expected two or more different grades"),
        (("DATA", "--target", "wind", "--lags", "1"), "the target is one of classification: lags: expected it with"),
        (("DATA", "--target", ""), "--target: expected the name of a column"),
        (("DATA", "--target", "y", "--features", "a,bb"), "there is no column 'bb'"),
        (("DATA", "--target", "y", "--model", "linaer"), "got 'linaer'; did you mean 'linear'?"),
        (("DATA", "--target", "y", "--bases", "fourrier"), "got 'fourrier'; did you mean 'fourier'?"),
        (("DATA", "--target", "y", "--features-per-basis", "0"), "features_per_basis: expected a whole number >= 1"),
        (("DATA", "--target", "y", "--dynamics", "walk"), "dynamics"),
        (("DATA", "--target", "y", "--json", "nowhere/m.json"), "--json: expected a file in a directory that exists"),
        (("DATA", "--target", "y", "--resume"), "--resume needs --out"),
        (
            ("DATA", "--target", "y", "--lags", "1,a"),
            "--lags: expected whole numbers with commas, such as 1,2,24, or auto or none, got '1,a'",
        ),
        (("DATA", "--target", "y", "--horizon", "0"), "horizon: expected a whole number >= 1, got 0"),
        (("DATA", "--target", "y", "--lags", "0"), "lags: expected a whole number >= 1, got 0"),
        (("DATA", "--target", "y", "--lags", "80"), "lags: expected lags shorter than the warm-up of 80 rows"),
    ],
)
def test_what_cannot_work_is_one_sentence(data: Path, words: tuple[str, ...], message: str):
    fails(invoke("run", *(str(data) if word == "DATA" else word for word in words)), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--warmup", "0"), "--warmup"),
        (("--chunk", "0"), "--chunk"),
        (("--max-rows", "-1"), "--max-rows"),
        (("--modle", "linear"), "No such option"),
        (("--missing", "ignore"), "--missing"),
    ],
)
def test_an_option_that_is_unknown_or_out_of_range_is_a_usage_error(data: Path, words: tuple[str, ...], message: str):
    result = invoke("run", data, "--target", "y", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_run_that_ends_early_fails_after_writing_its_results(data: Path, tmp_path: Path):
    lines = data.read_text().splitlines()
    lines[251] = "1,2,3"
    data.write_text("\n".join(lines))
    result = invoke("run", data, *OPTIONS, "--missing", "raise", "--out", tmp_path / "out")
    fails(result, "data row 251 (line 252): expected 6 cells, got 3")
    assert result.stderr.count(str(data)) == 1
    assert "On 150 rows" in result.stdout
    assert "report: " in result.stdout
    assert len(predictions(tmp_path / "out")) == 250


def test_an_earlier_run_is_left_alone(data: Path, tmp_path: Path):
    assert invoke("run", data, *OPTIONS, "--out", tmp_path / "out").exit_code == 0
    before = contents(tmp_path / "out")
    fails(invoke("run", data, *OPTIONS, "--out", tmp_path / "out"), "already holds a run: add --resume")
    assert contents(tmp_path / "out") == before


def test_the_demo_replaces_no_other_run(tmp_path: Path):
    (tmp_path / "predictions.parquet").touch()
    for _ in range(2):
        fails(invoke("demo", "--out", tmp_path), "holds a run that is not the demo's")
    assert contents(tmp_path) == {"predictions.parquet": b""}


@pytest.mark.parametrize("error", [ValueError("a bug"), TypeError("a bug"), KeyError("bug"), ImportError("a bug")])
def test_a_bug_shows_its_traceback(data: Path, monkeypatch: pytest.MonkeyPatch, error: Exception):
    def broken(options: Any) -> None:
        raise error

    monkeypatch.setattr(streamgp.app.run_stream, "opened_run", broken)
    assert invoke("run", data, *OPTIONS).exception is error


def test_errors_of_the_system_name_the_file(data: Path, monkeypatch: pytest.MonkeyPatch):
    def denied(options: Any) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr(streamgp.app.run_stream, "opened_run", denied)
    fails(invoke("run", data, *OPTIONS), "/some/file: Permission denied")


# The processes


def python(code: str, *words: object, **options: Any) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1]), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, **options)


def test_help_and_version():
    assert "Usage" in invoke().output
    assert "demo" in invoke("--help").stdout
    usual, every = (invoke("run", option).stdout for option in ("--help", "--help-all"))
    assert "--target" in usual and "--warmup" not in usual and "--help-all" in usual
    named = set(re.findall(r"--[a-z-]+", every))
    assert {option.command_name for option in options.OPTIONS.values() if option.command} <= named
    assert invoke("--version").stdout == f"streamgp {streamgp.__version__}\n"


RUN = """
import sys
import streamgp.app.live_run
from streamgp.app.cli import main
streamgp.app.live_run.CHECKPOINT_SECONDS = 0.0
main()
"""


class Live:
    """`streamgp run` on standard input, which is fed by hand."""

    def __init__(self, data: Path, out: Path) -> None:
        self.lines = data.read_text().splitlines(keepends=True)
        self.out = out
        self.fed = 0
        words = ("run", "-", *OPTIONS, "--lags", "none", "--chunk", 10, "--out", out)
        self.process = python(RUN, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def feed(self, rows: int) -> None:
        assert self.process.stdin is not None
        first = 0 if self.fed == 0 else self.fed + 1
        self.process.stdin.write("".join(self.lines[first : rows + 1]))
        self.process.stdin.flush()
        self.fed = rows

    def wait_for(self, rows: int) -> None:
        """Wait until a checkpoint of so many rows is there."""
        path = self.out / "checkpoint" / "checkpoint.json"
        until = time.monotonic() + 60
        while not (path.exists() and json.loads(path.read_text())["meta"]["rows"] >= rows):
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < until, f"no checkpoint of {rows} rows in a minute"
            time.sleep(0.02)


@pytest.fixture
def live(data: Path, tmp_path: Path) -> Iterator[Live]:
    run = Live(data, tmp_path / "out")
    yield run
    run.process.kill()
    run.process.communicate()


def test_ctrl_c_ends_the_process_with_its_results_written(live: Live, data: Path, tmp_path: Path):
    live.feed(205)
    live.wait_for(200)
    live.process.send_signal(signal.SIGINT)
    _, err = live.process.communicate(timeout=120)
    assert live.process.returncode == 130
    assert "Traceback" not in err
    assert len(predictions(live.out)) == 200
    assert err.splitlines()[-1] == "streamgp: interrupted after 200 rows; go on with --resume"
    assert (live.out / "report.html").exists()
    same_as_unbroken(data, tmp_path, run_linear(data, live.out, chunk=10, resume=True), chunk=10)


def test_without_lags_named_the_warm_up_tells_them(tmp_path: Path):
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=200))
    table = tmp_path / "walk.csv"
    table.write_text("y\n" + "\n".join(f"{value:.6f}" for value in y) + "\n")  # a series, and nothing beside it
    words = ("run", table, "--target", "y", "--model", "linear", "--warmup", WARMUP, "--json", "-")
    metrics = json.loads(invoke(*words).stdout)
    assert metrics["lags"] == [1]
    assert metrics["features"] == ["y lag 1"]
    assert any("--lags 1" in note for note in metrics["warnings"])
    assert metrics["rmse"] < 1.2
    fails(invoke(*words, "--lags", "none"), "expected at least one feature column")
