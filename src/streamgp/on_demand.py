"""Names of a package that are imported on first use, so that who needs one of them need not wait for the others."""

import gc
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are defined by the modules of `homes`."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(imported(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def imported(name: str) -> ModuleType:
    """Import a module, without looking for garbage meanwhile: what modules define stays, and looking is a tenth."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if collects:
            gc.enable()
