"""The family of online learners of many kernels."""

from collections.abc import Callable
from typing import Any

from streamgp.models.base import FittedModel, WarmupRows
from streamgp.models.changes import with_options
from streamgp.models.spec import Spec
from streamgp.research.annex import MULTIKERNEL
from streamgp.research.multikernel.warmup import make_multikernel

name, tasks = MULTIKERNEL.name, MULTIKERNEL.tasks
# Whether the warm-up's rows add to the prior log weights of the experts.
weighs_warmup = False


def serves(spec: Spec) -> bool:
    """Return whether a model of this specification learns many kernels."""
    return spec.learner in MULTIKERNEL.models


def spec(preset: Spec, **options: Any) -> Spec:
    """Return a preset with the user's changes, every one checked."""
    return with_options(preset, name, options)


def fit(
    spec: Spec,
    rows: WarmupRows,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None,
    provisional_expert: Any = None,
) -> FittedModel:
    """Build the learner for such rows; only the scale of the inputs is fitted."""
    return FittedModel(*make_multikernel(spec, rows.X, rows.y, rows.num_classes, seed=seed))
