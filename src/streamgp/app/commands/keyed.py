"""`streamgp run --key`, before the annex of keyed streams takes over."""

from importlib import import_module
from typing import Any

from streamgp.annexes import annexes
from streamgp.app.commands.early import horizons
from streamgp.app.console import fail, names, sentences
from streamgp.models.options import OPTIONS
from streamgp.models.target_options import COMMAND, FLEET


def keyed_commands(option: str) -> Any:
    """Return the module that runs streams of many keys; fail, naming the option that asks for it, without one."""
    modules = [annex.keyed for annex in annexes() if annex.keyed is not None]
    if not modules:
        fail(f"{option}: expected the package streamgp.fleet to be installed, found none; install streamgp anew")
    return import_module(modules[0])


def run_keyed(
    json: str | None,
    refused: dict[str, Any],
    options: dict[str, Any],
    features: str | None,
    horizon: str | None,
    **settings: Any,
) -> None:
    """Run streams of many keys; fail if something that is refused was given, or an option that fleets do not have."""
    keyed = keyed_commands("--key")
    own = {name: value for name, value in options.items() if FLEET in OPTIONS[name].own_defaults}
    others = [(OPTIONS[name], value) for name, value in options.items() if name not in own]
    given = {option.command_name: not option.is_unset(value, COMMAND) for option, value in others}
    try:
        direct, settings["steps_ahead"] = horizons(horizon)
    except ValueError as error:
        fail(str(error))
    keyed.refuse_with_key(refused | given | {f"--horizon {direct}": direct})
    with sentences():
        keyed.run_keyed(json, options=own, features=names(features, settings["data"]), **settings)
