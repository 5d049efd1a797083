"""The notebooks of the gallery are those of their pages; `test_docs` runs the code."""

import json
from pathlib import Path

import pytest

from benchmarks.common.paths import IMAGES
from benchmarks.pages.gallery import PAGES, cells_of, run

NAMES = sorted(page.stem for page in PAGES.glob("*.md"))


def test_there_are_six():
    assert NAMES == ["counts", "faults", "fleet", "load", "robot", "sensor"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_cells_of_its_page_and_ran(name: str):
    page = PAGES / f"{name}.md"
    notebook = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))
    found = [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]]
    assert found == cells_of(page.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert [output["output_type"] for output in outputs].count("display_data") == 1
    assert any(output["output_type"] == "stream" for output in outputs)
    assert (IMAGES / f"gallery-{name}.png").stat().st_size < 100_000
    assert f"gallery-{name}.png" in page.read_text(encoding="utf-8")


def test_what_a_page_prints_and_draws_is_kept(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Sum\n\n```python\nx = 1\nprint(x + 1)\n```\n\n```python\nimport matplotlib.pyplot as plt\n\n"
        "plt.plot([x, 2])\n```\n\n![Sum](sum.png)\n",
        encoding="utf-8",
    )
    notebook, picture = run(page)
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "code"]
    assert notebook["cells"][1]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    assert picture.startswith(b"\x89PNG")
