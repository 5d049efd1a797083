"""Benchmarks: the commands that documents name are there, and pages show what the committed results say."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.robustness.mutants import FAULTS, Fault

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
MODULES = sorted(path for path in BENCHMARKS.glob("*/*.py") if path.name != "__init__.py")
PROGRAMS = {path: code for path in MODULES if "__main__" in (code := path.read_text(encoding="utf-8"))}
TEXTS = (
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted(BENCHMARKS.rglob("*.py")),
    *sorted(BENCHMARKS.glob("results/*.*")),
)
NAMING = [path for path in TEXTS if "benchmarks" in path.read_text(encoding="utf-8")]
COMMAND = re.compile(r"python\s+-m\s+(benchmarks[\w.]*)((?:\s+(?:\[?--?[\w-]+\]?|[\w./]+\]?))*)")
PAGES = [path.stem for path, code in PROGRAMS.items() if path.parent.name == "pages" and "\ndef pages()" in code]


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return the modules that are named as commands, and the options with each."""
    return [(found[1], re.findall(r"--([\w-]+)", found[2])) for found in COMMAND.finditer(text)]


def test_commands_are_found_with_their_options():
    text = "`python -m benchmarks.speed.engine`; ``python -m benchmarks.accuracy.default --data\nDIR [--name x]``"
    assert commands(text) == [("benchmarks.speed.engine", []), ("benchmarks.accuracy.default", ["data", "name"])]
    assert len([each for path in NAMING for each in commands(path.read_text(encoding="utf-8"))]) > 80


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_benchmark_that_is_named_exists(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"python benchmarks/", text), "benchmarks are modules: python -m benchmarks.FOLDER.NAME"
    for module, options in commands(text):
        program = ROOT / (module.replace(".", "/") + ".py")
        assert program in PROGRAMS, f"{module} is no program"
        code = PROGRAMS[program]
        if "campaigns.run(" in code:
            code += (BENCHMARKS / "common" / "campaigns.py").read_text(encoding="utf-8")
        for option in options:
            declared = rf'"--{option}"|"{option}"|\b{option.replace("-", "_")}: Annotated'
            assert re.search(declared, code), f"{module} has no option --{option}"
    for name in re.findall(r"\bbenchmarks/[\w/]+\.\w+", text):
        assert name.endswith("/NAME.json") or (ROOT / name).exists(), f"there is no {name}"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_program_names_its_command(path: Path):
    own = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    said = ast.get_docstring(ast.parse(PROGRAMS[path])) or ""
    assert own in [module for module, _ in commands(said)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_but_pages_imports_from_programs_of_another_folder(path: Path):
    tree, folder = ast.parse(path.read_text(encoding="utf-8")), path.parent.name
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    folders = {name.split(".")[1] for name in names if name.startswith("benchmarks.")} - {"common", folder}
    assert folders <= ({"speed", "accuracy", "robustness"} if folder == "pages" else set())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.text}")
def test_the_text_that_a_fault_replaces_is_in_its_file(fault: Fault):
    code = (ROOT / "src" / "streamgp" / fault.file).read_text(encoding="utf-8")
    assert fault.text in code, f"give the fault in benchmarks/robustness/mutants.py a text that {fault.file} has"


@pytest.mark.parametrize("name", PAGES)
def test_pages_show_the_committed_results(name: str):
    for page, text in import_module(f"benchmarks.pages.{name}").pages().items():
        assert page.read_text(encoding="utf-8") == text, f"python -m benchmarks.pages.{name} would change {page.name}"
