"""The code of documents as scripts: blocks of Python, and the cheap commands among those of the shell."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from streamgp.app.cli import app
from streamgp.bases import BASES
from streamgp.models import families, registry
from streamgp.models.presets import PRESETS

CHEAP = ("streamgp run ", "streamgp embed ", "streamgp compare ")


def script(markdown: str, shell: bool = False) -> str:
    """The lines inside ```python blocks; all others blank, so that line numbers in a traceback stay true.

    With `shell` the commands of ```bash blocks are calls of `streamgp_command`, in their places.
    """
    kind, indent, lines, begun = "", "", [], ""
    for line in markdown.splitlines():
        fence = re.match(r"(\s*)```(.*)", line)
        lines.append("")
        if fence:
            kind, indent = fence[2].strip(), fence[1]
        elif kind == "python":
            lines[-1] = line.removeprefix(indent)
        elif kind == "bash" and shell:
            begun += line.removeprefix(indent)
            if begun.endswith("\\"):
                begun = begun[:-1]
            else:
                if begun.startswith(CHEAP):
                    lines[-1] = f"streamgp_command({begun!r})"
                begun = ""
    return "\n".join(lines)


def streamgp_command(line: str) -> None:
    """Run a line of the shell in this process; the page of a run is not drawn."""
    words = shlex.split(line, comments=True)[1:]
    with patch("streamgp.app.report.write_report"):
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{line}: {result.output} {result.exception!r}"


@contextmanager
def small_models() -> Iterator[None]:
    """Give the models that need no choosing two bases and two dynamics, so that pages which take them run at once.

    What is registered meanwhile ends with it.
    """
    small: dict[str, Any] = {
        "bases": ("linear", "hilbert"),
        "dynamics": ("static", "walk 0.001"),
        "noise": ("constant", "adaptive 0.8"),
        "rule": "bma",
        "renew": False,
    }
    presets = {name: replace(PRESETS[name], **small) for name in ("default", "fast", "best")}
    generalised = {
        name: replace(spec, bases=("linear", "fourier"), features_per_basis=20)
        for name, spec in registry.GENERALISED.items()
    }
    with (
        patch.dict(BASES),
        patch.dict(PRESETS, presets),
        patch.dict(registry.GENERALISED, generalised),
        patch.object(families, "FAMILIES", families.FAMILIES),
    ):
        yield
