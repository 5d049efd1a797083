"""Numbers for Prometheus: of each stream, never of a key, and of the requests."""

import re
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.service.challenging import listed
from streamgp.service.standby.standing_by import StandingBy
from streamgp.service.streams import Streams
from streamgp.service.web.tenants import Tenant

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_STATUS = {
    "rows": "Rows that came.",
    "scored_rows": "Rows that were scored.",
    "pending": "Rows that wait for their label.",
    "open_alarms": "Alarms that nobody has acknowledged.",
    "position": "Position of the log.",
}
_DURABILITY = {
    "applied": "Position of the log up to which all is learnt.",
    "checkpoint_position": "Position of the log that the latest checkpoint holds.",
    "log_bytes": "Size of the log.",
    "recovery_seconds": "How long a restart would take at most, about.",
    "disk_full": "Whether the disk refuses to take more.",
}


_ROUTES = (
    (re.compile(r"/v1/streams/[^/]+/alarms/[^/]+/acknowledge"), "/v1/streams/{name}/alarms/{number}/acknowledge"),
    (re.compile(r"/v1/streams/[^/]+/challengers/[^/]+(/promote)?"), "/v1/streams/{name}/challengers/{challenger}"),
    (re.compile(r"/v1/streams/[^/]+(/[a-z]+)?"), "/v1/streams/{name}"),
    (re.compile(r"/v1/standby/streams/.*"), "/v1/standby/streams/{name}"),
    (re.compile(r"/static/.*"), "/static"),
)


def route_of(path: str) -> str:
    """Return the route of a path, of which there are few however many streams there are."""
    for pattern, route in _ROUTES:
        found = pattern.fullmatch(path)
        if found:
            return route + (found[1] or "" if found.re.groups else "")
    return path


class Measures:
    """What the service counts.

    Parameters
    ----------
    streams
        Of the service.
    standing_by
        At work if it is a standby.
    """

    def __init__(self, streams: Streams, standing_by: StandingBy | None = None) -> None:
        self._streams = streams
        self._standing_by = standing_by
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "streamgp_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=self.registry
        )
        self.answers = Counter("streamgp_answers", "Answers by status.", ["route", "status"], registry=self.registry)

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count an answer, and the time until it began."""
        route = "other" if status == 404 else route_of(path)
        self.seconds.labels(route).observe(seconds)
        self.answers.labels(route, str(status)).inc()

    def text(self, tenant: Tenant) -> bytes:
        """Return what a tenant may see in the format of Prometheus: its streams; of all, also the requests."""
        seen = CollectorRegistry()
        seen.register(_OfStreams(self._streams, tenant))
        seen.register(_OfChallengers(self._streams, tenant))
        seen.register(_OfStandby(self._streams, self._standing_by, tenant))
        return generate_latest(seen) + (generate_latest(self.registry) if tenant.sees_all else b"")


class Measured:
    """Counts the answers of an application.

    Starlette's own class for this starts a task for every request, which took a fifth of the time of a small one.

    Parameters
    ----------
    app
        What answers.
    measures
        Where answers are counted.
    """

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self._app = app
        self._measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._measures.count(scope["path"], message["status"], perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)


class _OfStreams(Collector):
    def __init__(self, streams: Streams, tenant: Tenant) -> None:
        self._streams = streams
        self._tenant = tenant

    def collect(self) -> Iterator[Any]:
        """Yield the numbers of every stream that the tenant sees."""
        streams = [each for each in self._streams.all() if self._tenant.sees(each.config.name)]
        status = {stream.config.name: stream.status() for stream in streams}
        disk = {stream.config.name: stream.durability() for stream in streams}
        scores = {stream.config.name: stream.settled().scores()["recent"] for stream in streams}
        for names, values in ((_STATUS, status), (_DURABILITY, disk)):
            for name, text in names.items():
                family = GaugeMetricFamily(f"streamgp_{name}", text, labels=["stream"])
                for stream, found in values.items():
                    family.add_metric([stream], float(found[name]))
                yield family
        failed = GaugeMetricFamily("streamgp_failed", "Whether a stream has ceased to learn.", labels=["stream"])
        recent = GaugeMetricFamily(
            "streamgp_recent", "Scores over the last 1,000 labels at most.", labels=["stream", "score"]
        )
        for stream, found in disk.items():
            failed.add_metric([stream], float(found["failure"] is not None))
        for stream in filter(self._tenant.sees, list(self._streams.broken)):
            # The name of a stream may be any bytes.
            failed.add_metric([stream.encode(errors="backslashreplace").decode()], 1.0)
        for stream, found in scores.items():
            for name, value in [
                *found.items(),
                *((f"coverage_{c}", v) for c, v in found.get("coverage", {}).items()),
            ]:
                if isinstance(value, int | float):
                    recent.add_metric([stream, name], float(value))
        yield from (failed, recent)


_CHALLENGER = {
    "scored_rows": "Rows on which it was compared with the stream's own model.",
    "difference": "Its mean log density of a row less that of the stream's own model.",
    "low": "The lower end of the difference's interval.",
    "high": "The upper end of it.",
    "behind": "Rows that it has still to learn.",
    "failed": "Whether it has ceased to learn.",
}


class _OfChallengers(Collector):
    def __init__(self, streams: Streams, tenant: Tenant) -> None:
        self._streams = streams
        self._tenant = tenant

    def collect(self) -> Iterator[Any]:
        """Yield the numbers that are known of the challengers of every stream that the tenant sees."""
        found = [
            (stream.config.name, each | {"failed": each["failure"] is not None})
            for stream in self._streams.all()
            if self._tenant.sees(stream.config.name)
            for each in listed(stream)["challengers"]
        ]
        for name, text in _CHALLENGER.items():
            family = GaugeMetricFamily(f"streamgp_challenger_{name}", text, labels=["stream", "challenger"])
            for stream, each in found:
                if each[name] is not None:
                    family.add_metric([stream, each["name"]], float(each[name]))
            yield family


_STANDBY = {
    "epoch": "How often a standby has become the leader.",
    "leads": "Whether this service takes rows.",
    "alone": "Whether rows are acknowledged that the standby may not have.",
    "lag_seconds": "Since this standby had all of its leader.",
    "may_lead": "Whether this standby has all that was acknowledged.",
    "lag_positions": "Entries that the standby has not.",
}


class _OfStandby(Collector):
    def __init__(self, streams: Streams, standing_by: StandingBy | None, tenant: Tenant) -> None:
        self._streams = streams
        self._standing_by = standing_by
        self._tenant = tenant

    def collect(self) -> Iterator[Any]:
        """Yield who leads; of a leader with a standby and of a standby, how far that is behind."""
        leadership, standing_by = self._streams.leadership, self._standing_by
        now = leadership.now
        values: dict[str, float] = {"epoch": now.number, "leads": leadership.leads}
        if leadership.leads and now.standby:
            values["alone"] = not leadership.is_in_step
            lags = {
                each.config.name: each.last_position - leadership.confirmed.get(each.token, 0)
                for each in self._streams.all()
            }
        elif standing_by is not None and not leadership.leads:
            found = standing_by.status()
            values |= {name: found[name] for name in ("lag_seconds", "may_lead")}
            lags = standing_by.lags()
        else:
            lags = None
        for name, value in values.items():
            yield GaugeMetricFamily(f"streamgp_{name}", _STANDBY[name], float(value))
        if lags is None:
            return
        behind = GaugeMetricFamily("streamgp_lag_positions", _STANDBY["lag_positions"], labels=["stream"])
        for stream, lag in lags.items():
            if self._tenant.sees(stream):
                behind.add_metric([stream], float(lag))
        yield behind
