"""A client of the live service: ``Client("http://127.0.0.1:8765").stream("power").predict({"temp": 21.5})``."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

try:
    import httpx2 as httpx
except ImportError as error:
    raise ImportError("streamgp.client needs httpx2: pip install 'streamgp[serve]'") from error

# What a request ends with that gets no answer.
NoAnswer = httpx.TransportError


class ServiceError(RuntimeError):
    """A request that the service refused.

    Attributes
    ----------
    status
        Of HTTP.
    document
        The answer of the service (RFC 9457).
    """

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(str(document.get("detail", f"the service answered {status}")))
        self.status = status
        self.document = dict(document)


class Client:
    """A connection to a live service.

    Parameters
    ----------
    url
        Such as ``http://127.0.0.1:8765``.
    token
        If the service asks for one.
    timeout
        Seconds that an answer is waited for.
    transport
        Of httpx2, instead of the network.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        token: str | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def streams(self) -> list[dict[str, Any]]:
        """Return what streams there are, and how they are."""
        return self.request("GET", "/v1/streams")["streams"]

    def create(self, name: str, target: str, features: Sequence[str] = (), **options: Any) -> "Stream":
        """Create a stream, unless there is the same one, and return it.

        Parameters
        ----------
        name, target, features
            Of the stream, what it predicts, and from what.
        options
            `key`, `model`, `warmup` and others, and the options of the models; see the service's page.
        """
        self.request("POST", "/v1/streams", {"name": name, "target": target, "features": list(features)} | options)
        return self.stream(name)

    def stream(self, name: str) -> "Stream":
        """Return a stream, whether there is one or not."""
        return Stream(self, name)

    def request(self, method: str, path: str, document: Any = None) -> dict[str, Any]:
        """Send a request and return the answer.

        Parameters
        ----------
        method, path
            Such as ``"GET", "/v1/streams"``.
        document
            A value that JSON can hold, or JSON as bytes, which are sent as they are.

        Raises
        ------
        ServiceError
            If the service refuses it.
        NoAnswer
            If there is no answer.
        """
        sent: dict[str, Any] = {} if document is None else {"json": document}
        if isinstance(document, bytes):
            sent = {"content": document, "headers": {"Content-Type": "application/json"}}
        answer = self._http.request(method, path, **sent)
        if answer.is_success:
            return answer.json()
        try:
            found = answer.json()
        except ValueError:
            found = {}
        raise ServiceError(answer.status_code, found if isinstance(found, dict) else {})


class Stream:
    """A stream of a service."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._path = f"/v1/streams/{name}"

    def predict(self, x: Any, **more: Any) -> Any:
        """Predict one row, given its inputs, or several, given a list of them.

        Parameters
        ----------
        x
            Inputs by name, or a list of such; NaN and None where one is missing.
        more
            `id`, `key` and `time` of the row, or lists of them; ``keep=False``: no label will come.

        Returns
        -------
        dict or list of dict
            id, mean, std and quantiles; of labels, label and probabilities.
        """
        keep = {} if more.pop("keep", True) else {"keep": False}
        return self._send("predict", x, more, keep)

    def learn(self, id: Any = None, y: Any = None, x: Any = None, **more: Any) -> dict[str, Any]:
        """Learn the label of a row that was predicted, by its id, or of one with its inputs; or lists of them."""
        many = isinstance(y, list | tuple | np.ndarray)
        count = len(y) if many else 1
        columns: dict[str, Any] = {"id": id, "y": y, "x": x} | more
        given: dict[str, Any] = {name: value for name, value in columns.items() if value is not None or name == "y"}
        rows = [{name: _plain(value[i] if many else value) for name, value in given.items()} for i in range(count)]
        return self._client.request("POST", f"{self._path}/learn", {"rows": rows})

    def step(self, x: Any, y: Any, **more: Any) -> Any:
        """Predict one row, or several, each before its target is seen, then learn it."""
        return self._send("step", x, {"y": y} | more, {})

    def forecast(self, h: int, **more: Any) -> list[dict[str, Any]]:
        """Forecast the next h rows; `x` are their inputs, `times` their times, `key` the key, `level` the bands."""
        return self._client.request("POST", f"{self._path}/forecast", {"h": h} | _plain(more))["rows"]

    def scores(self) -> dict[str, Any]:
        """Return how good the predictions were."""
        return self._client.request("GET", f"{self._path}/scores")

    def pending(self) -> dict[str, Any]:
        """Return the rows that wait for their labels."""
        return self._client.request("GET", f"{self._path}/pending")

    def alarms(self) -> list[dict[str, Any]]:
        """Return what has changed, and when."""
        return self._client.request("GET", f"{self._path}/alarms")["alarms"]

    def keys(self, **query: Any) -> dict[str, Any]:
        """Return the keys and their scores; `search`, `sort`, `limit` and `offset` choose some."""
        text = str(httpx.QueryParams(query))
        return self._client.request("GET", f"{self._path}/keys?{text}")

    def status(self) -> dict[str, Any]:
        """Return what the stream is and how it is."""
        return self._client.request("GET", self._path)

    def checkpoint(self) -> dict[str, Any]:
        """Have a checkpoint written now."""
        return self._client.request("POST", f"{self._path}/checkpoint")

    def checkpoints(self) -> list[dict[str, Any]]:
        """Return the checkpoints that the stream may be restored to, the latest first: position, time, rows."""
        return self._client.request("GET", f"{self._path}/checkpoints")["checkpoints"]

    def restore(self, to: int | str) -> dict[str, Any]:
        """Set the stream back to what it knew at a position, or at a time, an ISO date; what came since goes."""
        name = "time" if isinstance(to, str) else "position"
        return self._client.request("POST", f"{self._path}/restore", {name: _plain(to)})

    def challenge(self, name: str, **options: Any) -> dict[str, Any]:
        """Begin a challenger, which gets the same rows: a model with these options, and else those of the stream."""
        return self._client.request("POST", f"{self._path}/challengers", {"name": name} | _plain(options))

    def challengers(self) -> list[dict[str, Any]]:
        """Return the challengers, and how each stands beside the stream's own model."""
        return self._client.request("GET", f"{self._path}/challengers")["challengers"]

    def promote(self, name: str, force: bool = False) -> dict[str, Any]:
        """Let a challenger answer from now on; with `force` also one that is in its warm-up."""
        return self._client.request("POST", f"{self._path}/challengers/{name}/promote", {"force": force})

    def end_challenger(self, name: str) -> None:
        """End a challenger."""
        self._client.request("DELETE", f"{self._path}/challengers/{name}")

    def delete(self) -> None:
        """Delete the stream and all that is known of it."""
        self._client.request("DELETE", self._path)

    def _send(self, what: str, x: Any, columns: dict[str, Any], members: dict[str, Any]) -> Any:
        many = isinstance(x, list | tuple)
        rows = [
            {"x": _plain(each)} | {name: _plain(value[i] if many else value) for name, value in columns.items()}
            for i, each in enumerate(x if many else [x])
        ]
        found = self._client.request("POST", f"{self._path}/{what}", {"rows": rows} | members)["rows"]
        return found if many else found[0]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; NaN is null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value
