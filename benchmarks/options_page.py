"""The table of docs/options.md, from the declaration of the options: ``python benchmarks/options_page.py``."""

from pathlib import Path

from streamgp.models.option import Option
from streamgp.models.options import FAMILIES, MISSING_VALUES, MODEL, OPTIONS, SEED, TASKS, WARMUP

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
ALL = (MODEL, WARMUP, *OPTIONS.values(), MISSING_VALUES, SEED)


def table() -> str:
    """Return the table, a row for each option."""
    rows = ["| in Python | command | type | what it does | models | targets |", "|---|---|---|---|---|---|"]
    return "\n".join(rows + [_row(option) for option in ALL])


def _row(option: Option) -> str:
    text = " ".join(part for part in (option.help, option.range, option.default_text()) if part)
    models = "all" if option.families == FAMILIES else ", ".join(option.families)
    targets = "all" if option.tasks == TASKS else ", ".join(option.tasks)
    python = f"`{option.name}`" if option.estimators else ""
    command = f"`{option.command_name}`" if option.command else ""
    return f"| {python} | {command} | {option.python_type} | {text} | {models} | {targets} |"


if __name__ == "__main__":
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition("<!-- options -->\n")
    end = rest[rest.index("\n<!-- end of options -->") :]
    PAGE.write_text(before + begin + table() + end, encoding="utf-8")
