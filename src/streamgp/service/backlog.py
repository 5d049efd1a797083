"""The number of rows that have come to a stream and are still to be learnt."""

from threading import Lock

from streamgp.service.problems import Problem
from streamgp.service.requests import Request

MAX_QUEUED_ROWS = 200_000


class Backlog:
    """Counts the rows of requests until these are answered, and refuses more than can wait.

    Parameters
    ----------
    name
        Of the stream.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._rows = 0

    def add(self, request: Request) -> None:
        """Count a request's rows.

        Raises
        ------
        Problem
            If there are too many.
        """
        size = request.size
        with self._lock:
            if self._rows + size > MAX_QUEUED_ROWS:
                raise Problem(
                    429,
                    f"{self._name}: {self._rows:,} rows are waiting to be learnt; send them more slowly",
                    retry_after=5,
                )
            self._rows += size
        request.future.add_done_callback(lambda _: self._remove(size))

    def _remove(self, size: int) -> None:
        with self._lock:
            self._rows -= size
