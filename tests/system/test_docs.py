"""Every Python block in the documents runs: a file is one script, and its `test_*` functions are called."""

import re
import runpy
from pathlib import Path
from unittest.mock import patch

import pytest

from streamgp.bases import BASES
from streamgp.models import families
from streamgp.models.presets import PRESETS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def script(markdown: str) -> str:
    """The lines inside ```python blocks; all others blank, so that line numbers in a traceback stay true."""
    running = False
    lines = []
    for line in markdown.splitlines():
        fence = re.match(r"\s*```(.*)", line)
        if fence:
            running = fence[1].strip() == "python"
        lines.append("" if fence or not running else line)
    return "\n".join(lines)


def test_script_takes_python_blocks_alone():
    markdown = "text\n```python\nx = 1\n```\n```python no-run\nx = 2\n```\n```bash\nls\n```\n"
    assert script(markdown).strip() == "x = 1"
    assert script(markdown).splitlines()[2] == "x = 1"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = script(document.read_text(encoding="utf-8"))
    if not code.strip():
        pytest.skip("no Python in it")
    file = tmp_path / document.with_suffix(".py").name
    file.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(families, "FAMILIES", families.FAMILIES)  # what is registered there ends with the test
    with patch.dict(BASES), patch.dict(PRESETS):
        names = runpy.run_path(str(file))
        for name, value in names.items():
            if name.startswith("test_"):
                value()
