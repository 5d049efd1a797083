"""The models and options that each kind of target accepts, in a module that imports nothing heavy."""

from collections.abc import Mapping
from typing import Any

from streamgp.models.option_type import Option, known
from streamgp.models.options import ENSEMBLES, FAMILY_TASKS, OPTIONS
from streamgp.models.presets import ADDED, NUMBERS_ONLY, PRESETS
from streamgp.models.spec import LIKELIHOODS
from streamgp.models.target_options import COMMAND


def family_name(model: str, task: str) -> str:
    """Return the name of the family that a model is of, for the targets of a task."""
    ensembles = "gaussian" if task == "regression" else "generalised"
    return next((each.name for each in ADDED if PRESETS[model] in each.presets), ensembles)


def models_for(task: str) -> list[str]:
    """Return the names of the models that there are for the targets of a task."""
    some = [name for name in PRESETS if task in FAMILY_TASKS[family_name(name, task)]]
    return some if task == "regression" else [name for name in some if name not in NUMBERS_ONLY]


def check_model(model: str, task: str) -> None:
    """Raise ValueError if there is no such model for the targets of a task."""
    known("model", model, PRESETS)
    known("task", task, LIKELIHOODS)
    some = models_for(task)
    if model not in some:
        raise ValueError(
            f"model: expected one of {', '.join(some)} for the task {task!r}, got {model!r}, which is for "
            f"{' or '.join(repr(each) for each in LIKELIHOODS if model in models_for(each))} alone"
        )


def check_option(name: str, value: Any, family: str, model: str, task: str) -> None:
    """Raise ValueError if the models of a family have no such option for the targets of a task."""
    option = OPTIONS[name]
    if option.takes(family, task):
        return
    offered = [each for each in OPTIONS.values() if each.command and each.estimators]
    there_are = ", ".join(each.name for each in offered if each.takes(family, task))
    if task not in option.tasks:
        expected = " or ".join(repr(task) for task in option.tasks)
        raise ValueError(
            f"{name}: expected it with the task {expected} alone, got {value!r} for {task!r}; leave it out: for "
            f"{task!r} there are {there_are}"
        )
    raise ValueError(
        f"{name}: expected it with {_takers(option)}, got {value!r} for the model {model!r}; leave it out: it "
        f"has {there_are}"
    )


def check_accepted(model: str, task: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError if the model, or one of its options, is none for the targets of a task.

    Values that are None, or the command's default, say nothing.
    """
    check_model(model, task)
    for name, value in options.items():
        if not (OPTIONS[name].is_unset(value) or OPTIONS[name].is_unset(value, COMMAND)):
            check_option(name, value, family_name(model, task), model, task)


def _takers(option: Option) -> str:
    """Return which models take an option, in words."""
    if set(option.families) & set(ENSEMBLES):
        return "an ensemble of experts"
    return " or ".join(family.title for family in ADDED if family.name in option.families)
