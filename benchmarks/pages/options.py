"""What is written from the options as declared: ``python -m benchmarks.pages.options``.

The table of docs/reference/options.md, the commands' page, and the constructors of the estimators.
"""

from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS
from benchmarks.pages import commands, constructors
from streamgp.models.option_type import Option
from streamgp.models.options import (
    CALENDAR,
    FAMILIES,
    HOLIDAYS,
    MISSING_CODES,
    MISSING_VALUES,
    MODEL,
    OPTIONS,
    SEED,
    TASKS,
    WARMUP,
)

PAGE = DOCS / "reference" / "options.md"
ALL = (MODEL, WARMUP, *OPTIONS.values(), MISSING_VALUES, MISSING_CODES, CALENDAR, HOLIDAYS, SEED)


def pages() -> dict[Path, str]:
    """Return the pages with their tables renewed, and the modules of the estimators."""
    return {PAGE: markdown.with_tables(PAGE, {"options": table()})} | commands.pages() | constructors.modules()


def table() -> str:
    """Return the table, a row for each option."""
    rows = ["| in Python, command | type | what it does | models | targets |", "|---|---|---|---|---|"]
    return "\n".join(rows + [_row(option) for option in ALL])


def _row(option: Option) -> str:
    text = " ".join(part for part in (option.help, option.range, option.default_text()) if part)
    models = "all" if option.families == FAMILIES else ", ".join(option.families)
    targets = "all" if option.tasks == TASKS else ", ".join(option.tasks)
    python = [f"`{option.name}`"] if option.estimators else []
    command = [f"`{option.command_name}`"] if option.command else []
    return f"| {' '.join(python + command)} | {option.python_type} | {text} | {models} | {targets} |"


if __name__ == "__main__":
    markdown.write(pages())
