"""The family of ensembles for numbers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streamgp.likelihoods import TargetMap
from streamgp.models.base import FittedModel, WarmupRows
from streamgp.models.changes import KEEPS_NO_LOGS, check_switching, renewal_hindrance, with_options
from streamgp.models.gaussian.paths import Paths
from streamgp.models.gaussian.renewal import conditioned_apart, renew
from streamgp.models.gaussian.warmup import fit_ensemble
from streamgp.models.options import FAMILY_TASKS
from streamgp.models.spec import Spec

__all__ = ["conditioned_apart", "fit", "name", "paths", "renew", "serves", "spec", "tasks", "weighs_warmup"]

name = "gaussian"
tasks = FAMILY_TASKS[name]
# Whether the warm-up's rows add to the prior log weights of the experts.
weighs_warmup = True
paths = Paths


def serves(spec: Spec) -> bool:
    """Return whether a model of this specification is an ensemble for numbers."""
    return spec.learner is None and spec.likelihood == "gaussian"


def spec(preset: Spec, **options: Any) -> Spec:
    """Return a preset with the user's changes, every one checked."""
    changed = with_options(preset, name, options)
    check_switching(changed)
    TargetMap.of(changed.target_transform, changed.bounds)  # which checks that the two go together
    if changed.rest and changed.rule == KEEPS_NO_LOGS:
        if options.get("rest"):
            raise ValueError(f"rest: expected weights by a rule that lets experts rest, got {KEEPS_NO_LOGS!r}")
        changed = replace(changed, rest=False)  # it was the preset's
    hindrance = renewal_hindrance(changed) if changed.renew else None
    if hindrance and options.get("renew"):
        raise ValueError(hindrance)
    return changed if hindrance is None else replace(changed, renew=False, searched_every=3)  # it was the preset's


def fit(
    spec: Spec,
    rows: WarmupRows,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None,
    provisional_expert: Any = None,
) -> FittedModel:
    """Fit the experts to the rows of the warm-up; `provisional_expert` joins them."""
    return FittedModel(
        *fit_ensemble(
            spec,
            rows.X,
            rows.y,
            seed=seed,
            time_unit=rows.time_unit,
            progress=progress,
            provisional_expert=provisional_expert,
        )
    )
