"""Every Python block in the documents runs, and the commands of tutorials and how-tos: a file is one script.

Its `test_*` functions are called. Pages for users run with small models in place of the three that need no choosing:
what is tested is what a page says of names, columns and files.
"""

import runpy
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest

from streamgp.bases import BASES
from streamgp.models import families
from streamgp.models.presets import PRESETS
from tests.documents import script, small_models, streamgp_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = ("docs", "tutorials", "how-to", "explanation")


def test_script_takes_python_blocks_alone():
    markdown = "text\n```python\nx = 1\n```\n```python no-run\nx = 2\n```\n```bash\nls\n```\n"
    assert script(markdown).strip() == "x = 1"
    assert script(markdown).splitlines()[2] == "x = 1"


def test_script_takes_commands_where_they_are_asked_for():
    markdown = (
        "```bash\nls\nstreamgp run a.csv \\\n  --target y  # so\nstreamgp serve live\n```\n    ```python\n    x = 1"
    )
    assert script(markdown, shell=True).split("\n")[3] == "streamgp_command('streamgp run a.csv   --target y  # so')"
    assert script(markdown, shell=True).count("streamgp_command") == 1
    assert script(markdown, shell=True).splitlines()[-1] == "x = 1"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    guide = document.parent.name in GUIDES
    code = script(document.read_text(encoding="utf-8"), shell=guide)
    if not code.strip():
        pytest.skip("no Python in it")
    file = tmp_path / document.with_suffix(".py").name
    file.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(families, "FAMILIES", families.FAMILIES)  # what is registered there ends with the test
    for_users = guide or document.name == "README.md"
    with patch.dict(BASES), patch.dict(PRESETS), small_models() if for_users else nullcontext():
        names = runpy.run_path(str(file), init_globals={"streamgp_command": streamgp_command})
        for name, value in names.items():
            if name.startswith("test_"):
                value()
