"""What `streamgp run` refuses at once: before models are imported, or more of the file is read than tells."""

from typing import TYPE_CHECKING, Any

from streamgp.models.accepted import check_accepted
from streamgp.models.option_type import known
from streamgp.models.options import STEPS_TASKS, TASKS

if TYPE_CHECKING:
    from streamgp.table.numbers import Decimal


def refuse_early(
    model: str,
    options: dict[str, Any],
    task: str,
    *,
    exposure: str | None,
    alarms: bool,
    steps_ahead: int,
    data: str,
    targets: list[str],
    decimal: "Decimal",
) -> None:
    """Raise ValueError if a model, or an option, is none for what the target is.

    Where that is for the file to say, its first rows are read, but only if something might be refused; standard input
    is not read twice.
    """
    known("--task", task, ("auto", *TASKS))

    def check(what: str) -> None:
        check_accepted(model, what, options)
        if exposure is not None and what != "count":
            raise ValueError(f"--exposure: expected it with counts, got the task {what!r}; leave it out")
        if alarms and what in ("classification", "ordinal"):
            raise ValueError(f"--alarms: expected numbers or counts, whose errors it tests, got {what}; leave it out")
        if steps_ahead and what not in STEPS_TASKS:
            raise ValueError(
                f"--horizon 1..{steps_ahead}: expected an ensemble for numbers, got the model {model} of {what}; "
                f"leave it out"
            )

    if task != "auto":
        check(task)
        return
    try:
        check("classification")  # the only other task that a file calls for
    except ValueError as error:
        if _task_of(data, targets, decimal) == "classification":
            raise ValueError(f"the target is one of classification: {error}") from None
        check("regression")


def _task_of(data: str, targets: list[str], decimal: "Decimal") -> str | None:
    """Return what the first rows of a file say that the target is; None where they cannot be read."""
    from streamgp.table import DataError, open_rows

    if data == "-" or len(targets) != 1:
        return None
    try:
        given: dict[str, Any] = {"target": targets, "missing": "skip", "task": "auto", "decimal": decimal}
        with open_rows(data, needs_features=False, **given) as reader:
            return reader.schema.task
    except (DataError, OSError, ValueError):  # which is told in its place
        return None
