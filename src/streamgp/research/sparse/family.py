"""The family of sparse Gaussian processes, one or several that split."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from streamgp.models.base import FittedModel, WarmupRows
from streamgp.models.changes import with_options
from streamgp.models.spec import Spec
from streamgp.research.annex import SPARSE
from streamgp.research.sparse.warmup import make_sparse

name, tasks = SPARSE.name, SPARSE.tasks
# Whether the warm-up's rows add to the prior log weights of the experts.
weighs_warmup = False


def serves(spec: Spec) -> bool:
    """Return whether a model of this specification is a sparse Gaussian process."""
    return spec.learner in SPARSE.models


def spec(preset: Spec, **options: Any) -> Spec:
    """Return a preset with the user's changes, every one checked; a threshold's range is the model's own."""
    limit = math.inf if preset.learner == "wgpr" else 1.0
    threshold = options.get("threshold")
    if threshold is not None and not (isinstance(threshold, Real) and 0.0 <= float(threshold) <= limit):
        raise ValueError(
            f"threshold: expected a number from 0 to {limit:g} for {preset.learner!r}, got {threshold!r}"
        )
    changed = with_options(preset, name, options)
    if changed.max_models > 1 and preset.learner == "ovfe":
        raise ValueError(
            f"max_models: expected 1 for 'ovfe', which is a single model, got {changed.max_models}; use 'wgpr'"
        )
    return changed


def fit(
    spec: Spec,
    rows: WarmupRows,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None,
    provisional_expert: Any = None,
) -> FittedModel:
    """Build the model for such rows; only hyperparameters that all of its parts share are fitted."""
    return FittedModel(*make_sparse(spec, rows.X, rows.y, seed=seed))
