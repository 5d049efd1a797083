"""The families of models there are. A further one is an entry in `FAMILIES`, or comes with an annex."""

from importlib import import_module

from streamgp.models.base import ModelFamily
from streamgp.models.gaussian import family as gaussian
from streamgp.models.generalised import family as generalised
from streamgp.models.presets import ADDED
from streamgp.models.spec import Spec

FAMILIES: tuple[ModelFamily, ...] = (gaussian, generalised)  # type: ignore[assignment]


def family_of(spec: Spec) -> ModelFamily:
    """Return the family that serves a specification; that of an annex is imported by being asked for.

    Raises
    ------
    ValueError
        If none does.
    """
    for family in FAMILIES:
        if family.serves(spec):
            return family
    for declared in ADDED:
        if spec.learner in declared.models:
            return import_module(declared.module)  # type: ignore[return-value]
    raise ValueError(f"model: expected one that some family serves, got {spec.model!r}")


def every_family() -> tuple[ModelFamily, ...]:
    """Return all families, those of annexes imported."""
    return (*FAMILIES, *(import_module(declared.module) for declared in ADDED))  # type: ignore[return-value]
