"""What `streamgp run` refuses at once: before models are imported, or more of the file is read than tells."""

from functools import partial
from typing import TYPE_CHECKING, Any

from streamgp.app.commands.model_options import parsed
from streamgp.app.console import fail, names
from streamgp.models.accepted import check_accepted
from streamgp.models.option_type import known
from streamgp.models.options import STEPS_TASKS, TASKS

if TYPE_CHECKING:
    from streamgp.table.reading import Reading


def reading_of(decimal: str | None, thousands: str | None, missing_values: str | None) -> "Reading":
    """Return what the options say of the cells of a file; fail if that cannot be."""
    from streamgp.table.reading import Reading

    try:
        return Reading.of(decimal, thousands, missing_values)
    except ValueError as error:
        fail(str(error))


def checked(
    model: str,
    options: dict[str, Any],
    horizon: str | None,
    task: str,
    target: str,
    *,
    exposure: str | None,
    alarms: bool,
    data: str,
    reading: "Reading",
) -> tuple[dict[str, Any], int, list[str]]:
    """Return the options as `make_spec` takes them, how many steps are forecast one by one, and the targets.

    Fail if a model, or an option, is none for what the target is. Where that is for the file to say, its first rows
    are read, but only if something might be refused; standard input is not read twice.
    """
    try:
        direct, steps_ahead = horizons(horizon)
        changes = parsed(options | {"horizon": direct})
        targets = names(target, data) or []
        known("--task", task, ("auto", *TASKS))
        check = partial(_check, model, changes, exposure is not None, alarms, steps_ahead)
        if task != "auto":
            check(task)
            return changes, steps_ahead, targets
        try:
            check("classification")  # the only other task that a file calls for
        except ValueError as error:
            if _task_of(data, targets, reading) == "classification":
                raise ValueError(f"the target is one of classification: {error}") from None
            check("regression")
    except ValueError as error:
        fail(str(error))
    return changes, steps_ahead, targets


def _check(model: str, options: dict[str, Any], is_exposed: bool, alarms: bool, steps_ahead: int, task: str) -> None:
    """Raise ValueError if a model, or an option, is none for a task."""
    check_accepted(model, task, options)
    if is_exposed and task != "count":
        raise ValueError(f"--exposure: expected it with counts, got the task {task!r}; leave it out")
    if alarms and task in ("classification", "ordinal"):
        raise ValueError(f"--alarms: expected numbers or counts, whose errors it tests, got {task}; leave it out")
    if steps_ahead and task not in STEPS_TASKS:
        raise ValueError(
            f"--horizon 1..{steps_ahead}: expected an ensemble for numbers, got the model {model} of {task}; "
            f"leave it out"
        )


def horizons(text: str | None) -> tuple[int | None, int]:
    """Return the horizon of direct forecasts, if there is one, and how many steps are forecast one by one.

    Raises
    ------
    ValueError
        If the text is neither.
    """
    if text is None:
        return None, 0
    first, dots, last = text.partition("..")
    try:
        if dots and int(first) == 1 and int(last) > 1:
            return None, int(last)
        if not dots:
            return int(text), 0
    except ValueError:
        pass
    raise ValueError(
        f"--horizon: expected how many rows ahead, such as 24, or 1..24 for each of so many, got {text!r}"
    )


def _task_of(data: str, targets: list[str], reading: "Reading") -> str | None:
    """Return what the first rows of a file say that the target is; None where they cannot be read."""
    from streamgp.table import DataError, open_rows

    if data == "-" or len(targets) != 1:
        return None
    try:
        given: dict[str, Any] = {"target": targets, "missing": "skip", "task": "auto", "reading": reading}
        with open_rows(data, needs_features=False, **given) as reader:
            return reader.schema.task
    except (DataError, OSError, ValueError):  # the run tells the error when it opens the file
        return None
