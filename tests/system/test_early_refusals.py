"""`streamgp run` says at once which model or option the target does not have, in a sentence with what there is."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from streamgp.app.cli import app

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of labels, counts and numbers."""
    path, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    a = rng.normal(size=(60, 2))
    for name, targets in (
        ("labels", np.where(a[:, 0] > 0.0, "yes", "no")),
        ("counts", rng.poisson(3.0, size=60)),
        ("numbers", a.sum(1)),
    ):
        lines = [f"{x:.3f},{z:.3f},{y}" for (x, z), y in zip(a, targets, strict=True)]
        (path / f"{name}.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("file", "given", "says"),
    [
        ("labels", ["--model", "best"], "the target is one of classification: model: expected one of default, "),
        ("labels", ["--task", "classification", "--model", "best"], "model: expected one of default, "),
        (
            "labels",
            ["--lags", "1,2"],
            "classification: lags: expected it with the task 'regression' or 'count' alone",
        ),
        ("labels", ["--target-transform", "log"], "target_transform: expected it with the task 'regression' alone"),
        ("labels", ["--renew", "on"], "renew: expected it with the task 'regression' alone"),
        ("labels", ["--horizon", "1..4"], "--horizon 1..4: expected an ensemble for numbers"),
        ("labels", ["--alarms"], "--alarms: expected numbers or counts, whose errors it tests"),
        ("counts", ["--task", "count", "--model", "best"], "model: expected one of default, "),
        ("counts", ["--task", "count", "--horizon", "3"], "horizon: expected it with the task 'regression' alone"),
        ("counts", ["--exposure", "a", "--model", "raker"], "model: expected one of default, "),
        ("counts", ["--task", "ordinal", "--bounds", "0,"], "bounds: expected it with the task 'regression' alone"),
        ("counts", ["--grades", "0,1,2", "--alarms"], "--alarms: expected numbers or counts"),
        ("numbers", ["--task", "nothing"], "--task: expected one of auto, regression"),
        ("numbers", ["--model", "fats"], "did you mean 'fast'?"),
        ("numbers", ["--task", "regression", "--exposure", "a"], "--exposure: expected it with counts"),
        ("numbers", ["--key", "a", "--horizon", "3"], "--horizon 3 does not go with --key"),
    ],
)
def test_what_the_target_refuses_is_said_before_any_work(
    files: Path, given: list[str], file: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for module in ("streamgp.models.registry", "streamgp.app.run_stream", "streamgp.fleet.run"):
        monkeypatch.setitem(sys.modules, module, None)  # importing it is an error now
    out = tmp_path / "out"
    command = ["run", str(files / f"{file}.csv"), "--target", "y", "--out", str(out), *given]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 1, found.output
    assert says in found.stderr and found.stderr.count("\n") == 1
    assert not out.exists()


def test_what_the_target_has_is_taken(files: Path):
    for file, given in (("labels", ["--model", "linear"]), ("counts", ["--task", "count", "--model", "linear"])):
        command = ["run", str(files / f"{file}.csv"), "--target", "y", "--warmup", "20", *given]
        assert CliRunner().invoke(app, command).exit_code == 0
