"""The notebooks of the gallery, run from their pages: ``python -m benchmarks.pages.gallery`` (a minute).

Each page of docs/tutorials/gallery becomes a notebook beside it, with what its blocks print and draw; the last
picture goes to docs/images as well.
"""

import base64
import contextlib
import io
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.common.paths import DOCS, IMAGES

PAGES = DOCS / "tutorials" / "gallery"
DPI = 90


def cells_of(markdown: str) -> list[tuple[str, str]]:
    """Return the page in order as ``markdown`` and ``code``, without its picture and the link to its notebook."""
    found = []
    for i, part in enumerate(re.split(r"```python\n(.*?)```", markdown, flags=re.DOTALL)):
        text = part if i % 2 else re.sub(r"!\[[^\]]*\]\([^)]*\)|\[The notebook\]\([^)]*\), as it ran\.", "", part)
        if text.strip():
            found.append(("code" if i % 2 else "markdown", text.strip()))
    return found


def run(page: Path) -> tuple[dict[str, Any], bytes]:
    """Run the code of a page; return its notebook, and the last picture as PNG."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")  # what others have drawn is not the page's
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, picture = [], b""
    for number, (kind, text) in enumerate(cells_of(page.read_text(encoding="utf-8"))):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
        if kind == "code":
            printed, outputs = io.StringIO(), []
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(text, str(page), "exec"), names)
            if printed.getvalue():
                outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
            for figure in map(plt.figure, plt.get_fignums()):
                drawn = io.BytesIO()
                figure.savefig(drawn, format="png", dpi=DPI)
                picture = drawn.getvalue()
                data = {"image/png": base64.b64encode(picture).decode()}
                outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
            plt.close("all")
            cell |= {"execution_count": sum(each["cell_type"] == "code" for each in cells) + 1, "outputs": outputs}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}, picture


def main() -> None:
    """Write the notebooks and the pictures; those named alone, if some are."""
    for page in sorted(PAGES.glob("*.md")):
        if sys.argv[1:] and page.stem not in sys.argv[1:]:
            continue
        notebook, picture = run(page)
        page.with_suffix(".ipynb").write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
        (IMAGES / f"gallery-{page.stem}.png").write_bytes(picture)
        print(page.stem, f"{len(picture) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
