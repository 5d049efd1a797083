"""The examples run, on a few steps."""

import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_motor_is_tuned_and_drawn(tmp_path: Path, monkeypatch, capsys):
    picture = tmp_path / "motor.png"
    monkeypatch.setattr(sys, "argv", ["drifting_motor.py", "--runs", "12", "--out", str(picture)])
    runpy.run_path(str(EXAMPLES / "drifting_motor.py"), run_name="__main__")
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "in the second half: " in printed
    assert str(picture) in printed
