"""How often each client may ask."""

import math
from time import monotonic

from streamgp.service.problems import Problem

# Requests that were not made are saved up for so many seconds.
_SAVED = 10.0
# So many clients are remembered, those asked last.
_CLIENTS = 10_000


class Rates:
    """Counts requests by client."""

    def __init__(self) -> None:
        # For each client: the requests left, and the time of that count.
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, client: str, rate: float | None) -> None:
        """Count a request.

        Parameters
        ----------
        client
            Who asks.
        rate
            Its requests in a second, on average; None: any number.

        Raises
        ------
        Problem
            If it has to wait (429).
        """
        if rate is None:
            return
        most, now = max(_SAVED * rate, 1.0), monotonic()
        left, then = self._left.pop(client, (most, now))
        left = min(most, left + (now - then) * rate)
        is_allowed = left >= 1.0
        # The client that asked last is at the end.
        self._left[client] = (left - is_allowed, now)
        while len(self._left) > _CLIENTS:
            del self._left[next(iter(self._left))]
        if not is_allowed:
            advice = "got more; send rows together"
            wait = math.ceil((1.0 - left) / rate)
            raise Problem(429, f"expected at most {rate:g} requests a second, {advice}", retry_after=wait)
