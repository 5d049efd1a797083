"""What a release is made of: bounds that are tested, versions that agree, links that lead somewhere from any page."""

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import streamgp

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = ROOT / ".github" / "workflows"
NEWEST_ONLY = {"river", "ray", "bokeh_sampledata"}
TOOLS = {"pytest", "hypothesis", "beartype", "pandas"}  # of the extra dev, those that run the tests


def bounds() -> dict[str, str]:
    """The lower bounds of the core, of the extras that users take, and of what runs the tests."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    lines = project["dependencies"] + [
        line for name in ("gpu", "holidays", "latent", "mqtt", "serve") for line in extras[name]
    ]
    lines += [line for line in extras["dev"] if re.split(r"[\[>]", line)[0] in TOOLS]
    return dict(line.split(">=") for line in lines if not line.startswith("streamgp["))


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_the_lowest_versions_are_those_that_are_tested():
    lines = (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.partition(" #")[0].split("==") for line in lines if not line.startswith("#"))
    assert pinned.pop("jaxlib") == pinned["jax"]
    assert pinned.pop("pyparsing") and pinned.pop("click")  # what matplotlib and typer need
    assert {name: version(pin) for name, pin in pinned.items()} == {
        name: version(bound) for name, bound in bounds().items()
    }
    assert not NEWEST_ONLY & set(pinned)


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {streamgp.__version__}\n" in citation
    assert re.search(r"(?m)^date-released: \d{4}-\d\d-\d\d$", citation)
    notes = ROOT / "docs" / "releases" / f"{streamgp.__version__}.md"
    assert notes.read_text(encoding="utf-8").startswith(f"# streamgp {streamgp.__version__}\n")
    assert re.search(rf"(?m)^## .*{re.escape(streamgp.__version__)}", (ROOT / "CHANGELOG.md").read_text("utf-8"))


def test_every_version_of_python_that_is_claimed_is_tested():
    claimed = [
        found[1]
        for line in PROJECT["project"]["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    tests = (WORKFLOWS / "tests.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"(?m)^ +python: \[(.*)\]$", tests)
    assert re.findall(r"[\d.]+", matrix) == claimed
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"
    for system in ("ubuntu", "macos", "windows"):
        assert f"{system}-latest" in tests


def test_the_types_are_in_the_package():
    assert (ROOT / "src" / "streamgp" / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["project"]["classifiers"]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What hatch_build.py defines; of the build's own package, which need not be installed, a stand-in."""
    for module, name in (
        ("hatchling.metadata.plugin.interface", "MetadataHookInterface"),
        ("hatchling.builders.hooks.plugin.interface", "BuildHookInterface"),
    ):
        parts = module.split(".")
        for i in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(".".join(parts[:i])))
        stand_in = ModuleType(module)
        setattr(stand_in, name, object)
        monkeypatch.setitem(sys.modules, module, stand_in)
    return runpy.run_path(str(ROOT / "hatch_build.py"))


def test_the_package_has_whole_links(hook: dict[str, Any]):
    links = hook["Links"]()
    links.root, links.config = str(ROOT), PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    metadata: dict[str, Any] = {"version": "1.2.3"}
    links.update(metadata)
    address = links.config["repository"]
    text = metadata["readme"]["text"]
    targets = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", text)
    assert len(targets) > 20
    for picture, target in targets:
        kind = "raw" if picture else "blob"
        assert target.startswith(f"{address}/{kind}/v1.2.3/")
        assert (ROOT / target.removeprefix(f"{address}/{kind}/v1.2.3/").partition("#")[0]).exists()
    assert "<this repository>" not in text
    assert set(metadata) - {"version", "readme"} == {"urls"}
    assert all(url.startswith(address) for url in metadata["urls"].values())
    assert {"readme", "urls"} <= set(PROJECT["project"]["dynamic"])


def test_a_compiler_is_asked_for_where_there_is_none(hook: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    for name in ("CC", "STREAMGP_TARGET", "STREAMGP_KERNEL"):
        monkeypatch.delenv(name, raising=False)
    kernel = hook["Kernel"]()
    monkeypatch.setenv("PATH", "")
    assert kernel.dependencies() == ["ziglang"]
    monkeypatch.setenv("CC", "some-compiler -m64")
    assert kernel.dependencies() == []
    monkeypatch.setenv("STREAMGP_TARGET", "aarch64-macos=macosx_11_0_arm64")
    assert kernel.dependencies() == ["ziglang"]
    monkeypatch.setenv("STREAMGP_KERNEL", "off")
    assert kernel.dependencies() == []


def test_links_to_elsewhere_and_to_headings_stay(hook: dict[str, Any]):
    text = "[a](https://x.org) [b](#here) ![c](d.png)"
    assert hook["absolute"](text, "https://y.org/z", "v1") == (
        "[a](https://x.org) [b](#here) ![c](https://y.org/z/raw/v1/d.png)"
    )


def test_the_address_stands_in_one_place():
    address = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    for path in [*ROOT.glob("*.*"), *(ROOT / "docs").rglob("*.md"), *WORKFLOWS.iterdir()]:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert text.count(address) == (path.name == "pyproject.toml"), path
