"""The page docs/reference/command.md, from the commands as declared: ``python -m benchmarks.pages.commands``."""

import inspect
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from typer.models import ArgumentInfo, CommandInfo

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS
from streamgp.app.cli import app

PAGE = DOCS / "reference" / "command.md"
TYPES = {str: "text", int: "whole number", float: "number", bool: "switch", Path: "path"}
EMPTY = inspect.Parameter.empty


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"commands": "\n".join(map(_command, app.registered_commands))})}


def _command(info: CommandInfo) -> str:
    call = info.callback
    assert call is not None
    parameters = inspect.signature(call, eval_str=True).parameters
    panels: dict[str, list[str]] = {}
    arguments, lines = [], []
    for parameter in parameters.values():
        kind, declared = get_args(parameter.annotation)
        if isinstance(declared, ArgumentInfo):
            optional = parameter.default is not EMPTY
            arguments.append(f"[{parameter.name.upper()}]" if optional else parameter.name.upper())
            lines.append(f"`{parameter.name.upper()}`: {declared.help}")
        else:
            row = _option(parameter, kind, declared)
            panels.setdefault(declared.rich_help_panel or "Options", []).append(row)
    name = info.name or call.__name__
    usage = " ".join(["streamgp", name, *arguments, "[OPTIONS]"])
    text = [f"## streamgp {name}", "", (inspect.getdoc(call) or "").partition("\n\n")[0], ""]
    text += ["```text", usage, "```", "", *lines, ""]
    for panel, rows in panels.items():
        text += [f"### {name}: {panel[0].lower()}{panel[1:]}", ""]
        text += ["| option | value | what it does |", "|---|---|---|", *rows, ""]
    if info.epilog:
        text += [inspect.cleandoc(info.epilog), ""]
    return "\n".join(text)


def _option(parameter: inspect.Parameter, kind: Any, declared: Any) -> str:
    names: list[str] = list(declared.param_decls or ())
    if isinstance(declared.default, str):  # inside `Annotated` the first name stands where a default would
        names.insert(0, declared.default)
    names = names or [f"--{parameter.name.replace('_', '-')}"]
    text = (declared.help or "").replace("|", "\\|")
    if parameter.default is EMPTY:
        text += " Required."
    elif parameter.default is not None and parameter.default is not False and "Default:" not in text:
        text += f" Default: `{parameter.default}`."
    if declared.envvar:
        text += f" Or in the environment: `{declared.envvar}`."
    return f"| {', '.join(f'`{name}`' for name in names)} | {_kind(kind, declared)} | {text} |"


def _kind(kind: Any, declared: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) is list:
        return f"{TYPES[get_args(kind)[0]]}, several times"
    low = "" if declared.min is None else f", at least {declared.min}"
    return TYPES[kind] + low


if __name__ == "__main__":
    markdown.write(pages())
