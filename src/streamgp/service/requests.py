"""The requests of clients to a stream, and their form in the log."""

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from streamgp.service.packing import pack
from streamgp.service.payload import Labels, Rows
from streamgp.service.work import Prediction

# The kind of a request that was done before.
AGAIN = "again"
RETURN = "restore"  # the kind of a return to a checkpoint
CHALLENGER = "challenger"  # the kind of what concerns another model on the same rows
EPOCH = "epoch"  # the kind of what a standby writes first when it leads


@dataclass
class Request:
    """Something that a client wants done; it is answered by its future.

    Attributes
    ----------
    kind
        ``predict``, ``learn``, ``step``, ``acknowledge``, ``restore``, ``challenger`` or ``epoch``.
    rows, labels
        Rows with inputs, and labels by id.
    prediction
        What was predicted of the rows, before they are written.
    number
        Of an alarm or an epoch, or the position of a checkpoint that is returned to.
    former
        What that checkpoint knows.
    challenger
        What is to be done (``do``) with which challenger (``name``); see `streamgp.service.challengers`.
    era
        How often the model had been replaced, of a prediction.
    position
        Of its entry in the log, 0 before it has one.
    chain
        The link of the log's chain there.
    repeated
        Ids of rows that were learnt before with the same label.
    places
        Places of the rows that are learnt, where others are repeated.
    packed
        What another log has kept of it, if it is of a leader's.
    """

    kind: str
    rows: Rows | None = None
    labels: Labels | None = None
    prediction: Prediction | None = None
    number: int = 0
    position: int = 0
    chain: bytes = b""
    at: float = 0.0
    repeated: list[str] = field(default_factory=list)
    places: list[int] | None = None
    former: Any = None
    challenger: dict[str, Any] | None = None
    era: int = 0
    packed: bytes | None = None
    future: "Future[Any]" = field(default_factory=lambda: promise())

    @property
    def size(self) -> int:
        """Count its rows."""
        return (0 if self.rows is None else len(self.rows.X)) + (0 if self.labels is None else len(self.labels.ids))

    @property
    def replaces(self) -> bool:
        """Whether another model may answer after it."""
        return self.kind == RETURN or (self.challenger is not None and self.challenger["do"] == "promote")

    def body(self) -> bytes:
        """Return what the log keeps of it."""
        if self.packed is not None:
            return self.packed
        tree: dict[str, Any] = {"number": self.number}
        if self.rows is not None:
            tree["rows"] = dict(self.rows._asdict())
        if self.labels is not None:
            tree["labels"] = {"ids": self.labels.ids, "y": self.labels.y}
        if self.prediction is not None:
            tree["prediction"] = dict(self.prediction._asdict())
        if self.challenger is not None:
            tree["challenger"] = self.challenger
        return pack(tree)


def promise() -> "Future[Any]":
    """Return a future that cannot be cancelled: who waits for it may give up, and it is fulfilled all the same."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def restored(kind: str, position: int, at: float, tree: dict[str, Any]) -> Request:
    """Return a request from what the log kept of it."""
    rows, labels, prediction = tree.get("rows"), tree.get("labels"), tree.get("prediction")
    return Request(
        kind,
        None if rows is None else Rows(**rows),
        None if labels is None else Labels(**labels),
        None if prediction is None else Prediction(**prediction),
        number=tree["number"],
        challenger=tree.get("challenger"),
        position=position,
        at=at,
    )


def until_alone(accepted: Iterable[Request]) -> list[Request]:
    """Return the requests before the first that is done alone, as it may replace the model; it alone if it leads."""
    requests = list(accepted)
    at = next((i for i, request in enumerate(requests) if request.kind in (RETURN, CHALLENGER)), len(requests))
    return requests[: max(at, 1)]
