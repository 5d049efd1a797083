"""`make_spec`: a model by name, with the user's changes."""

from dataclasses import replace
from typing import Any

from streamgp.models.accepted import check_model
from streamgp.models.families import family_of
from streamgp.models.options import OPTIONS
from streamgp.models.presets import GENERALISED, PRESETS
from streamgp.models.spec import LIKELIHOODS, Spec
from streamgp.models.target_options import COMMAND


def make_spec(model: str, *, task: str = "regression", exposure: bool = False, **options: Any) -> Spec:
    """Return a preset by name with the user's changes, every one checked.

    Parameters
    ----------
    model
        A name in `streamgp.models.presets.PRESETS`.
    task
        What the targets are: ``regression``, ``classification``, ``count`` or ``ordinal``.
    exposure
        Whether the last input is the log of what a count grows with.
    options
        By the names in `streamgp.models.options.OPTIONS`; None leaves the preset's.

    Raises
    ------
    ValueError
        If a name is unknown, a number out of range, or the model takes no such option; the message says what is
        accepted.
    TypeError
        If there is no option of a name.
    """
    check_model(model, task)
    preset = PRESETS[model] if task == "regression" else GENERALISED.get(model, PRESETS[model])
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise TypeError(f"make_spec: expected options among {', '.join(OPTIONS)}, got {unknown[0]!r}")
    if exposure and task != "count":
        raise ValueError(f"exposure: expected it with counts, got the task {task!r}")
    spec = replace(preset, likelihood=LIKELIHOODS[task][0], exposure=exposure)
    family = family_of(spec)
    # The command's own default says nothing where the option does not belong.
    kept = {
        name: value
        for name, value in options.items()
        if OPTIONS[name].takes(family.name, task) or not OPTIONS[name].is_unset(value, COMMAND)
    }
    return family.spec(spec, **kept)
