"""The user's changes of a preset, checked by the declaration of the options."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp import weights as rules
from streamgp.bases import BASES
from streamgp.filters.dynamics import parse as parse_dynamics
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.accepted import check_option
from streamgp.models.option_type import Option
from streamgp.models.options import OPTIONS
from streamgp.models.presets import PRINTED
from streamgp.models.spec import Spec
from streamgp.models.target_options import AUTO, NONE
from streamgp.numerics.precision import in_float64

# This rule keeps more than log weights, so that no expert may join or be absent.
KEEPS_NO_LOGS = "stacking-newton"


def with_options(preset: Spec, family: str, options: Mapping[str, Any]) -> Spec:
    """Return a preset with the changes of a user.

    Parameters
    ----------
    preset
        For the targets' task.
    family
        The name of the preset's family.
    options
        Values by the names of options; those that are None, or the default, change nothing.

    Raises
    ------
    ValueError
        If the family, or the task, does not have an option, or a value is not accepted.
    """
    changes: dict[str, Any] = {}
    if options.get("paper"):
        check_option("paper", True, family, preset.model, preset.task)
        changes = _as_printed(preset)
    for name, value in options.items():
        option = OPTIONS[name]
        if option.is_unset(value) or name == "paper":
            continue
        check_option(name, value, family, preset.model, preset.task)
        changes |= _change(option, value)
    return replace(preset, **changes)


def check_switching(spec: Spec) -> None:
    """Raise ValueError if the copies of a basis would switch more often than always, under ``e-doebe``."""
    copies = len(spec.dynamics) * len(spec.noise)
    if spec.rule == "e-doebe" and spec.delta * copies > 1.0:
        raise ValueError(
            f"delta: expected at most 1/{copies}, since every basis has {copies} copies, got {spec.delta}"
        )


def renewal_hindrance(spec: Spec) -> str | None:
    """Return why no experts of a specification can be renewed, in words; None where some can."""
    if not {*spec.bases, *spec.learners} & {*spec.renewable}:
        return (
            f"renew: expected one of the bases {', '.join(spec.renewable)}, which can be renewed, got "
            f"{', '.join(spec.bases)}; add one, or choose the model best"
        )
    if spec.rule == KEEPS_NO_LOGS:
        return f"renew: expected weights by a rule that lets experts join, got {KEEPS_NO_LOGS!r}"
    return None


def _as_printed(preset: Spec) -> dict[str, Any]:
    """Return what makes a paper's preset its model as it is printed."""
    if preset.model not in PRINTED:
        raise ValueError(
            f"paper: expected the model of a paper, {', '.join(PRINTED)}, got {preset.model!r}; choose one of these, "
            f"or leave it out"
        )
    rule = "bma-shutdown" if preset.rule == "bma" else preset.rule
    return {"q_absolute": True, "warmup_posterior": "prior", "share": 0.0, "rule": rule}


def _change(option: Option, value: Any) -> dict[str, Any]:
    """Return the fields of a specification that a value sets."""
    match option.name:
        case "bases":
            return {"bases": option.check(value, BASES)}
        case "dynamics":
            return {"dynamics": _dynamics(value)}
        case "noise":
            return {"noise": parse_noise(_several(value)).names}
        case "weights" if not isinstance(value, str):
            return _matrix(option, value)
        case "weights":
            return {"rule": option.check(value)}
        case "lags" if isinstance(value, str):
            chosen = option.check(value)
            return {"lags": {AUTO: (1,), NONE: ()}[chosen], "chooses_lags": chosen == AUTO}
        case "renew":
            return {"renew": option.check(value), "searched_every": 3}
        case _:
            return {option.spec_field: option.check(value)}


def _several(value: Any) -> list[Any]:
    """Return one term, or several, as a list; text may hold several, with commas, as for the command."""
    if isinstance(value, str):
        return [term.strip() for term in value.split(",")]
    return [value] if isinstance(value, float | int) else list(value)


# In float64 names keep all digits.
@in_float64
def _dynamics(value: Any) -> tuple[str, ...]:
    """Return the names of the dynamics."""
    given = _several(value)
    if not given:
        raise ValueError("dynamics: expected at least one of 'static', 'walk Q', 'revert LAMBDA', got none")
    return tuple(dict.fromkeys(parse_dynamics(each).name for each in given))


def _matrix(option: Option, Q: Any) -> dict[str, Any]:
    """Return the fields for weights that follow a transition matrix of the user's."""
    try:
        rules.markov(Q)
    except (TypeError, ValueError) as error:
        accepted = ", ".join(option.choices)
        raise ValueError(f"weights: expected one of {accepted}, or a matrix Q ({error})") from None
    return {"rule": "Q", "transition": tuple(tuple(map(float, row)) for row in np.asarray(Q))}
