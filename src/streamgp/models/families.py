"""The families of models there are. A further one is a line in `FAMILIES`, or comes with an annex."""

from importlib import import_module

from streamgp.models.base import ModelFamily
from streamgp.models.gaussian import family as gaussian
from streamgp.models.generalised import family as generalised
from streamgp.models.presets import ADDED
from streamgp.models.spec import Spec

FAMILIES: tuple[ModelFamily, ...] = (gaussian, generalised, *(import_module(each.module) for each in ADDED))  # type: ignore[assignment]


def family_of(spec: Spec) -> ModelFamily:
    """Return the family that serves a specification.

    Raises
    ------
    ValueError
        If none does.
    """
    for family in FAMILIES:
        if family.serves(spec):
            return family
    raise ValueError(f"model: expected one that some family serves, got {spec.model!r}")
