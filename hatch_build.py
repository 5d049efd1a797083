"""What is made when the package is built: its links, and its kernel in C.

Links are the package's own, and the README's, which are relative to the repository. The repository's address stands
in one place, ``[tool.hatch.metadata.hooks.custom]`` of pyproject.toml. A page elsewhere, such as an index's, has no
files beside it: there links need the whole address, at the version's tag.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)\)")


class Links(MetadataHookInterface):
    """Give the metadata its addresses."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the links, and the README with its own made whole."""
        address, tag = self.config["repository"], f"v{metadata['version']}"
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(readme, address, tag)}
        metadata["urls"] = {
            "Homepage": address,
            "Documentation": f"{address}/blob/{tag}/docs/index.md",
            "Source": address,
            "Issues": f"{address}/issues",
            "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        }


def absolute(markdown: str, address: str, tag: str) -> str:
    """Return a text whose relative links name the files of a tag; pictures, the files themselves."""
    linked = LINK.sub(
        lambda found: f"{found[1]}{found[2]}{address}/{'raw' if found[1] else 'blob'}/{tag}/{found[3]})", markdown
    )
    return linked.replace("<this repository>", f"{address}.git")


class Kernel(BuildHookInterface):
    """Compile the kernel: one library beside its source, which Python calls by ctypes.

    By the compiler that CC names or that is found, else by that of the package ``ziglang``, which is then asked for.
    STREAMGP_KERNEL=off leaves it out; then, or where it cannot be compiled, the package works by NumPy alone.
    STREAMGP_TARGET compiles for another system: it has the name that ziglang gives it, and the one of its wheels, as
    in ``x86_64-linux-gnu.2.17=manylinux2014_x86_64``.
    """

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what must be installed to build: a compiler where there is none."""
        if os.environ.get("STREAMGP_KERNEL") == "off":
            return []
        return [] if _compiler() and "STREAMGP_TARGET" not in os.environ else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and let the wheel hold the library, for this platform and any version of Python."""
        if self.target_name != "wheel" or os.environ.get("STREAMGP_KERNEL") == "off":
            return
        folder = Path(self.root) / "src" / "streamgp" / "numerics" / "kernel"
        target, _, platform = os.environ.get("STREAMGP_TARGET", "").partition("=")
        platform = platform or re.sub("[-.]", "_", sysconfig.get_platform())
        library = (
            folder / f"streamgp_kernel{next((s for p, s in _SUFFIXES.items() if platform.startswith(p)), '.so')}"
        )
        compiler = [*_zig(), "-target", target] if target else _compiler() or _zig()
        if not compiler:
            self.app.display_warning("no C compiler: the filters will work by NumPy alone")
            return
        flags = ["-O3", "-std=c11", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-o", str(library)]
        flags += [] if library.suffix == ".dll" else ["-fPIC", "-lm"]
        sources = sorted(str(path) for path in folder.glob("*.c"))
        found = subprocess.run([*compiler, *sources, *flags], capture_output=True, text=True, check=False)
        if found.returncode:
            self.app.display_warning(f"the kernel could not be compiled, NumPy will do its work:\n{found.stderr}")
            return
        build_data["artifacts"].append(library.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


_SUFFIXES = {"win": ".dll", "macosx": ".dylib"}


def _compiler() -> list[str] | None:
    """Return the command of the C compiler that is available."""
    if named := os.environ.get("CC"):
        return shlex.split(named)
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def _zig() -> list[str]:
    """Return the command of the compiler that is a package; nothing where it is not installed."""
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else []
