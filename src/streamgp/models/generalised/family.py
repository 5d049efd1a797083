"""The family of ensembles for classes, counts and ordinal targets."""

from collections.abc import Callable
from typing import Any

from streamgp.models.base import FittedModel, WarmupRows
from streamgp.models.changes import check_switching, with_options
from streamgp.models.generalised.warmup import fit_generalised
from streamgp.models.options import FAMILY_TASKS
from streamgp.models.spec import Spec

name = "generalised"
tasks = FAMILY_TASKS[name]
# Whether the warm-up's rows add to the prior log weights of the experts.
weighs_warmup = False


def serves(spec: Spec) -> bool:
    """Return whether a model of this specification is an ensemble for labels, counts or grades."""
    return spec.learner is None and spec.likelihood != "gaussian"


def spec(preset: Spec, **options: Any) -> Spec:
    """Return a preset with the user's changes, every one checked."""
    changed = with_options(preset, name, options)
    check_switching(changed)
    if options.get("noise_by_input") and changed.likelihood == "poisson":
        raise ValueError(
            "noise_by_input: expected it with the likelihood negative-binomial, got poisson, whose variance is its "
            "mean; leave one of them out"
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
    """Fit the experts to the rows of the warm-up."""
    made = fit_generalised(
        spec, rows.X, rows.y[:, 0], rows.num_classes, seed=seed, time_unit=rows.time_unit, progress=progress
    )
    return FittedModel(*made)
