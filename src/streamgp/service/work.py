"""The records that a model at work takes and gives: predictions, rows that wait for labels, results of entries."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.service.predictions import Columns
from streamgp.stream.outlook import StandIn


class Waiting(NamedTuple):
    """A row that waits for its label.

    Attributes
    ----------
    number
        Among the model's rows that waited.
    row, key, time, at
        Its number in the stream, its key, its own time, and when it was predicted.
    held, place
        The prediction, and which of its rows.
    columns
        What was reported to the client of the rows of the prediction.
    x
        The inputs, where the model does not keep them.
    """

    number: int
    row: int
    key: str | None
    time: float
    at: float
    held: Any
    place: int
    columns: Columns
    x: np.ndarray | None = None


class Prediction(NamedTuple):
    """Predictions of the rows of a request, what stands for each while it waits, and what the client sees."""

    held: Any
    standing: Sequence[StandIn]
    columns: Columns


class Applied(NamedTuple):
    """What an entry did.

    Attributes
    ----------
    learned
        Rows whose label was learnt.
    late
        Ids of rows that wait no longer.
    scored
        Columns of rows that were scored.
    shown
        Columns for the client, of rows that were predicted.
    skipped
        Which of the rows, or of the labels, do not come after the last one of their key.
    """

    learned: int
    late: Sequence[str] = ()
    scored: Sequence[Columns] = ()
    shown: Columns | None = None
    skipped: Sequence[int] = ()


def shared_predictions(waiting: Iterable[Waiting]) -> tuple[list[tuple[Any, Columns]], list[int]]:
    """Return the predictions of rows that wait, each once, with their columns, and which of them is each row's."""
    rows = list(waiting)
    held = {id(row.held): (row.held, row.columns) for row in rows}
    place = {key: i for i, key in enumerate(held)}
    return list(held.values()), [place[id(row.held)] for row in rows]
