"""Tests of how the kernel in C is found."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from streamgp.numerics import native


@pytest.fixture(autouse=True)
def fresh() -> None:
    native.library.cache_clear()


def test_where_nothing_was_built_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    assert native.library() is None
    native.library.cache_clear()


def test_one_of_another_system_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "streamgp_kernel.so").write_bytes(b"of another system")
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    assert native.library() is None
    native.library.cache_clear()


def test_sources_stand_beside_it() -> None:
    assert {path.name for path in native.FOLDER.glob("*.[ch]")} >= {"kernel.h", "blocks.c", "guard.c"}
    assert isinstance(native.library(), ctypes.CDLL | None)


def test_one_of_older_sources_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "old.c"
    source.write_text("int learn_experts(void) { return 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", tmp_path / "streamgp_kernel.so"], check=True)
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    native.library.cache_clear()
    assert native.library() is None
    native.library.cache_clear()
