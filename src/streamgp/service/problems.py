"""Refusals of requests, as a client gets them."""

from typing import Any


class Problem(Exception):
    """A request that is refused; the state is as it was.

    Parameters
    ----------
    status
        Of HTTP.
    detail
        What was expected, what was given, where, and what to do.
    retry_after
        Seconds after which it may go well.
    more
        Further members of the answer, such as the rows concerned.
    """

    TITLES = {  # noqa: RUF012
        400: "Not understood",
        401: "No valid token",
        403: "Not allowed",
        404: "Not found",
        405: "Not allowed",
        408: "Too slow",
        409: "Conflict",
        413: "Too large",
        415: "Unknown form",
        422: "Not as expected",
        429: "Too many requests",
        431: "Too large",
        500: "Internal error",
        503: "Not ready",
        507: "Out of disk space",
    }

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        self.more = more

    @property
    def document(self) -> dict[str, Any]:
        """Return the body of the answer (RFC 9457)."""
        title = self.TITLES.get(self.status, "Refused")
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail} | self.more


def unforeseen(error: BaseException) -> Problem:
    """Return what is said of an error of the service itself."""
    return Problem(500, f"an error that nobody foresaw ({type(error).__name__}); nothing was acknowledged")
