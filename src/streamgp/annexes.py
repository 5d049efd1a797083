"""What plugs into the core: packages that say in a module `annex` what they add.

The core names none of them. A package of `streamgp` with a module ``annex`` is one, and so is a package of its own
whose name begins with ``streamgp_``. The module holds an `Annex`, ``ANNEX``, and imports nothing heavy: what it adds
is named there and imported when it is used.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Annex:
    """What a package adds to the core.

    Attributes
    ----------
    names
        What `streamgp` exports of it, and the modules that define it.
    loadable
        Those of the names that are estimators whose checkpoints `streamgp.load` reads.
    commands
        Commands of ``streamgp``, each as ``module:function``. The module may hold ``EXAMPLES`` for its help.
    families
        Families of models: `streamgp.models.declared.DeclaredFamily`.
    keyed
        The module that runs streams of many keys for ``streamgp run --key``, see `streamgp.fleet.command`.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    loadable: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    families: tuple[Any, ...] = ()
    keyed: str | None = None


@cache
def annexes() -> tuple[Annex, ...]:
    """Return what the packages that are there add, those within `streamgp` first, each by its name."""
    within = Path(__file__).parent.glob("*/annex.py")
    beside = (path for place in sys.path for path in Path(place).glob("streamgp_*/annex.py"))
    names = sorted(f"streamgp.{path.parent.name}" for path in within) + sorted({path.parent.name for path in beside})
    return tuple(import_module(f"{name}.annex").ANNEX for name in names)


def home_of(name: str) -> str | None:
    """Return the module that defines a name that `streamgp` exports of an annex; None where there is none."""
    return next((annex.names[name] for annex in annexes() if name in annex.names), None)
