"""Options of a command from the declaration of the models' options."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Literal

import typer

from streamgp.app.console import names
from streamgp.models.option_type import Option
from streamgp.models.options import OPTIONS
from streamgp.models.target_options import COMMAND

Switch = Literal["on", "off"]
DATA, MODEL, LEARNING, OUTPUT = "Data", "Model", "Learning", "Output"  # the groups of the help
_LISTS = ("names", "terms", "wholes")


def declared(option: Option, more_help: str = "", **more: Any) -> Any:
    """Return what typer needs to know of an option; `more` goes to `typer.Option` as it is."""
    shown = option.kind == "name" and option.choices  # typer shows the choices itself
    parts = (
        option.help,
        more_help,
        "Several with commas." if option.kind in _LISTS else "",
        "" if shown or more.get("min") is not None else option.range,
        option.default_text() if option.default_for(COMMAND) is None else "",
    )
    text = " ".join(part for part in parts if part)
    return typer.Option(option.command_name, help=text, rich_help_panel=option.panel, **more)


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the models; it receives what was written as one dictionary, `options`.

    Options that the command declares itself are its own.
    """
    own = inspect.signature(command, eval_str=True)
    offered = [option for option in OPTIONS.values() if option.command and option.name not in own.parameters]
    parameters = [one for one in own.parameters.values() if one.name != "options"]
    parameters += [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default_for(COMMAND),
            annotation=Annotated[_type(option), declared(option)],
        )
        for option in offered
    ]

    @wraps(command)
    def call(**given: Any) -> None:
        options = {option.name: given.pop(option.name) for option in offered}
        command(**given, options=options)

    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


def parsed(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the models as `make_spec` takes them.

    Raises
    ------
    ValueError
        If there is something else than whole numbers where a list of them must be.
    """
    return {name: _parsed(OPTIONS[name], value) for name, value in options.items()}


def _type(option: Option) -> Any:
    """Return the type of an option's text on the command line."""
    match option.kind:
        case "flag":
            return bool
        case "switch":
            kind: Any = Switch
        case "whole":
            kind = int
        case "number" | "probability":
            kind = float
        case "name":
            kind = Literal[option.choices]
        case _:
            kind = str
    return kind if option.default is not None else kind | None


def _parsed(option: Option, value: Any) -> Any:
    if value is None:
        return None
    match option.kind:
        case "switch":
            return value == "on"
        case "names" | "terms":
            return names(value)
        case "wholes" if value not in option.choices:
            return _whole_numbers(option, value)
        case "range":
            return _range(option, value)
        case _:
            return value


def _range(option: Option, text: str) -> list[float | None]:
    try:
        low, high = (float(end) if end.strip() else None for end in text.split(","))
        return [low, high]
    except ValueError:
        raise ValueError(
            f"{option.command_name}: expected two numbers with a comma, either of which may be left out, such as 0, "
            f"or 0,1, got {text!r}"
        ) from None


def _whole_numbers(option: Option, text: str) -> list[int]:
    try:
        return [int(name) for name in names(text) or []]
    except ValueError:
        words = ", or " + " or ".join(option.choices) if option.choices else ""
        raise ValueError(
            f"{option.command_name}: expected whole numbers with commas, such as 1,2,24{words}, got {text!r}"
        ) from None
