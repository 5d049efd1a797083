"""The shape of the package: which module may import which, and what importing it does to a process."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True))"


def run_python(code: str, cwd: Path, source: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(source)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_the_contracts_are_kept():
    result = run_python(LINT, ROOT, ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("filters/noise", "import streamgp.models", "Dependencies point one way"),
        ("models/gaussian/family", "import streamgp.models.generalised", "A family of models knows no other"),
        ("research/sparse/model", "import streamgp.research.multikernel", "A method of the papers knows no other"),
        ("estimators/evaluate", "import streamgp.fleet.fleet", "Dependencies point one way"),
        ("latent/model", "import streamgp.bandits.space", "Dependencies point one way"),
        ("app/run_stream", "import streamgp.adapters.series", "Dependencies point one way"),
        ("fleet/model", "import streamgp.adapters.series", "Dependencies point one way"),
        ("estimators/forecasts", "import statsforecast", "Optional packages stay where they serve"),
        ("estimators/forecasts", "import sktime", "Optional packages stay where they serve"),
        ("app/run_stream", "import streamgp_papers", "The library never imports the papers' tables"),
        (
            "models/contract",
            "import matplotlib",
            "Optional packages stay where they serve",
        ),
        ("numerics/linalg", "import pickle", "No pickle is ever read or written"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(tmp_path: Path, module: str, line: str, contract: str):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    with (tmp_path / "src" / "streamgp" / f"{module}.py").open("a") as file:
        file.write(f"\n{line}\n")
    result = run_python(LINT, tmp_path, tmp_path / "src")
    assert result.returncode != 0
    broken = [row for row in result.stdout.splitlines() if " BROKEN" in row]
    assert len(broken) == 1, result.stdout
    assert broken[0].startswith(contract)


def circle(sources: Path) -> list[str]:
    """Return modules that import each other in a circle, by whatever imports; none if there is no circle."""
    code = "import grimp, json; graph = grimp.build_graph('streamgp', 'streamgp_papers', cache_dir=None);"
    code += "print(json.dumps({m: sorted(graph.find_modules_directly_imported_by(m)) for m in graph.modules}))"
    result = run_python(code, sources, sources)
    assert result.returncode == 0, result.stderr
    try:
        TopologicalSorter(json.loads(result.stdout)).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.process
def test_no_modules_import_each_other_in_a_circle():
    assert circle(ROOT / "src") == [], "put what both need into a module below them; a late import is one, too"


@pytest.mark.process
@pytest.mark.parametrize("late", ["def late():\n    ", "if TYPE_CHECKING:\n    "], ids=["late", "types"])
def test_a_circle_is_found(tmp_path: Path, late: str):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "src/streamgp/weights/row.py").open("a") as file:
        file.write(f"\n{late}from streamgp.weights.scan import scan_rule\n")
    assert {"streamgp.weights.row", "streamgp.weights.scan"} <= set(circle(tmp_path / "src"))


SOURCE = ROOT / "src" / "streamgp"
# What words a kind of target, or reads it from a file, and the estimator of each kind.
NAMES_TASKS = ("stream/tasks.py", "models/", "table/", "app/", "reports/", "estimators/classifier.py")
NAMES_TASKS += ("estimators/counts.py", "estimators/ordinal.py", "likelihoods/from_targets.py")
NAMES_TASKS += ("service/config.py", "service/single_model.py", "session/by_task.py")
NAMES_TASKS += ("research/annex.py", "research/multikernel/warmup.py")
# Optimisation and regret are of ensembles, which they build themselves.
BUILDS_ENSEMBLES = ("bandits/", "research/regret/")


def lines_with(pattern: str, *but: str) -> list[str]:
    """Return the lines of the package that hold a pattern, outside the paths that begin with one of `but`."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(but):
            rows = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            found += [f"{name}:{i}: {row.strip()}" for i, row in rows if re.search(pattern, row)]
    return found


def test_no_family_is_named_outside_its_package():
    families = "gaussian|generalised"
    advice = "ask `streamgp.models.registry` for the family of a specification; these lines name one"
    imported = lines_with(rf"streamgp\.models\.({families})", "models/", "stream/tasks.py", *BUILDS_ENSEMBLES)
    assert not imported, advice
    assert not lines_with(rf"[\"']({families})[\"']", "models/"), advice


def test_no_task_is_named_outside_what_words_it():
    advice = "put what depends on the kind of target into `streamgp.stream.tasks`; these lines name one"
    assert not lines_with(r"[\"'](regression|classification|ordinal)[\"']", *NAMES_TASKS), advice
    assert not lines_with(r"task\b.*[\"']count[\"']", *NAMES_TASKS), advice


def test_float64_has_one_door():
    found = lines_with(r"enable_x64|jax_enable_x64", "numerics/precision.py")
    assert not found, "use `streamgp.numerics.precision` in place of these lines"


METHODS, LINES = 25, 60  # of a class and of a function, fewer
# Classes that are still larger, with their methods; one that is mended leaves this table.
LARGE = {"StreamLearner": 46, "StreamEstimator": 31, "LiveStream": 30}


def methods(node: ast.ClassDef) -> int:
    return sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)


def own_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function's body without its docstring and the functions within."""
    body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    inner = [each for each in ast.walk(node) if each is not node and isinstance(each, kinds)]
    within = sum((each.end_lineno or 0) - each.lineno + 1 for each in inner)
    return (node.end_lineno or 0) - body[0].lineno + 1 - within


def test_classes_and_functions_are_short():
    long, large = {}, {}
    # One tree at a time: all of them at once take four times as long.
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and methods(node) >= METHODS:
                large[node.name] = methods(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and own_lines(node) >= LINES:
                long[f"{path.relative_to(ROOT).as_posix()}, {node.name}"] = own_lines(node)
    assert not long, f"cut these functions into some of less than {LINES} lines each"
    assert large == LARGE, f"a class has less than {METHODS} methods: divide a larger one, or correct LARGE"


def test_the_root_has_few_modules():
    assert len(list(SOURCE.glob("*.py"))) <= 7, "put a new module into a package, or make one of it"


def test_no_two_modules_of_tests_have_one_name():
    # They are imported by their names alone: two of one name end the whole suite, and no part of it.
    names = [path.name for path in (ROOT / "tests").rglob("*.py")]
    assert {name for name in names if names.count(name) > 1} <= {"__init__.py"}, "rename all but one of each"
