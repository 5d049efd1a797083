"""`streamgp run --key`, before the annex of keyed streams takes over."""

from importlib import import_module
from typing import Any

from streamgp.annexes import annexes
from streamgp.app.console import fail, names, sentences
from streamgp.models.options import OPTIONS
from streamgp.models.target_options import COMMAND


def keyed_commands(option: str) -> Any:
    """Return the module that runs streams of many keys; fail, naming the option that asks for it, without one."""
    modules = [annex.keyed for annex in annexes() if annex.keyed is not None]
    if not modules:
        fail(f"{option}: expected the package streamgp.fleet to be installed, found none; install streamgp anew")
    return import_module(modules[0])


def run_keyed(
    json: str | None, refused: dict[str, Any], options: dict[str, Any], features: str | None, **settings: Any
) -> None:
    """Run streams of many keys; fail if something that is refused was given, or an option of the models but lags."""
    keyed = keyed_commands("--key")
    keyed.refuse_with_key(refused | _changed(options))
    with sentences():
        keyed.run_keyed(json, lags=options["lags"], features=names(features, settings["data"]), **settings)


def _changed(options: dict[str, Any]) -> dict[str, bool]:
    """Return which options of the models were given, but for the lags, which fleets have too."""
    return {
        OPTIONS[name].command_name: value != OPTIONS[name].default_for(COMMAND)
        for name, value in options.items()
        if name != "lags"
    }
