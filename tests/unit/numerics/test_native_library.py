"""Tests of how the kernel in C is found."""

import ctypes
import re
import shutil
import subprocess
import zlib
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


@pytest.mark.parametrize(
    ("source", "is_loaded"),
    [
        ("int learn_experts(void) { return 0; }", False),
        (f"long long kernel_interface(void) {{ return {native.INTERFACE - 1}; }}", False),
        (f"long long kernel_interface(void) {{ return {native.INTERFACE}; }}", True),
    ],
)
def test_one_of_other_sources_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, is_loaded: bool
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "other.c").write_text(source)
    library = tmp_path / "streamgp_kernel.so"
    subprocess.run([compiler, "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", library], check=True)
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    assert (native.library() is not None) == is_loaded
    native.library.cache_clear()


def test_both_sides_state_the_checksum_of_what_they_exchange() -> None:
    """After a change of a declaration in C write the new checksum into kernel.h and native.py."""
    declarations = []
    for path in sorted(native.FOLDER.glob("*.[ch]")):
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        code = re.sub(r"^#.*$", "", code, flags=re.MULTILINE)
        found = re.findall(r"typedef[^;{]*(?:\{[^}]*\})?[^;]*;|EXPORT[^;{]*|enum\s*\{[^}]*\}", code)
        declarations += [" ".join(each.split()) for each in found]
    checksum = zlib.crc32("\n".join(declarations).encode())
    stated = re.search(r"#define INTERFACE (\w+)", (native.FOLDER / "kernel.h").read_text(encoding="utf-8"))
    assert stated is not None
    assert {int(stated[1], 16), native.INTERFACE} == {checksum}, f"the checksum is 0x{checksum:08x}"
