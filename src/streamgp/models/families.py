"""The families of models there are. A further one is a package here, and a line in `FAMILIES`."""

from streamgp.models.base import ModelFamily
from streamgp.models.gaussian import family as gaussian
from streamgp.models.generalised import family as generalised
from streamgp.models.multikernel import family as multikernel
from streamgp.models.sparse import family as sparse
from streamgp.models.spec import Spec

FAMILIES: tuple[ModelFamily, ...] = (gaussian, generalised, multikernel, sparse)


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
