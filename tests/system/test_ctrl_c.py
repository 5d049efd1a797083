"""Ctrl-C while the packages are imported, and a disk that is full: a sentence with the place, and no traceback."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import streamgp
from streamgp.app.cli import app
from streamgp.table.files import write_aside

pytestmark = pytest.mark.process

# A package that is interrupted as it is imported, and makes nothing of it, as compiled ones do.
SLOW = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
except BaseException:
    pass
"""
ENTRY = "import sys; sys.argv[1:] = ['run', '-', '--target', 'y']; from streamgp.app.main import main; main()"


@pytest.mark.parametrize("package", ["typer", "scipy", "polars"])
def test_ctrl_c_during_an_import_ends_the_command_with_a_sentence(tmp_path: Path, package: str):
    (tmp_path / f"{package}.py").write_text(SLOW)
    paths = f"{tmp_path}{os.pathsep}{Path(streamgp.__file__).parents[1]}"
    done = subprocess.run(
        [sys.executable, "-c", ENTRY],
        env=os.environ | {"PYTHONPATH": paths},
        input=b"x,y\n",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 130
    assert done.stderr == b"streamgp: stopped before anything was done\n"


def test_elsewhere_ctrl_c_is_what_it_was():
    code = "from streamgp.app.interrupt import *; end_imports_at_once(); import os, signal; os.kill(os.getpid(), 2)"
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=60)
    assert done.stderr.endswith(b"KeyboardInterrupt\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_with_the_path(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = ["run", str(data), "--features", "a,b", "--target", "y", "--model", "linear", "--max-rows", "40"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        result = CliRunner().invoke(app, [*words, "--json", str(tmp_path / "m.json")])
        with pytest.raises(OSError, match="No space left") as caught:
            write_aside(tmp_path / "report.html", b"")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"streamgp: {tmp_path / 'm.json'}: No space left on device"
    assert caught.value.filename == str(tmp_path / "report.html")
