"""The family of sparse Gaussian processes, one or several that split."""

from collections.abc import Callable
from typing import Any

from streamgp.models.base import FittedModel, WarmupRows
from streamgp.models.sparse.model import METHODS
from streamgp.models.sparse.warmup import make_sparse
from streamgp.models.spec import Spec

# Whether the warm-up's rows add to the prior log weights of the experts.
weighs_warmup = False


def serves(spec: Spec) -> bool:
    """Return whether a model of this specification is a sparse Gaussian process."""
    return spec.learner in METHODS


def fit(
    spec: Spec,
    rows: WarmupRows,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None,
    provisional_expert: Any = None,
) -> FittedModel:
    """Build the model for such rows; nothing is fitted but what all of its parts share, if anything."""
    return FittedModel(*make_sparse(spec, rows.X, rows.y, seed=seed))
