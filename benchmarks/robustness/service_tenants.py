"""Requests of tenants to each other's streams: nothing is seen or changed that should not be.

    python -m benchmarks.robustness.service_tenants --requests 10000 --out benchmarks/results/service_tenants.json

A service in this process has streams of several tenants, whose targets, inputs, keys and ids are words that nobody
else sends. Requests with all kinds of tokens, right and wrong, go to all routes of all streams, of names that look
like theirs, and of none. Meanwhile tokens are replaced and scopes are taken away. What each request may do is said
here once more (`RIGHTS`, `NEEDS`), apart from the service's own table. Of every request it is checked that

- its status is that of what it may do: 401 without a token that holds, 404 for a stream that is not the tenant's to
  see, 403 for what it may not do there, and none of these for what it may;
- the answer is that to the same request for a stream that does not exist, where the tenant may not see the stream;
- no word of a stream that it may not see is in the answer, nor the name of one that it did not name;
- no stream has changed that it may not change, and none has come or gone;
- the audit log has a line that says whose it was and how it ended, and the log has no token.
"""

import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.testclient import TestClient

from benchmarks.common import campaigns
from streamgp.service.streams import Streams
from streamgp.service.web import tokens
from streamgp.service.web.app import make_app
from streamgp.service.web.audit import Audited, AuditLog

# The role of each tenant on names, or on their beginnings, which end with *.
RIGHTS: dict[str, dict[str, str]] = {
    "operator": {"*": "admin"},
    "a": {"a-*": "admin", "shared": "read"},
    "ab": {"ab*": "admin"},
    "b": {"b-*": "admin", "shared": "write"},
    "c": {"c-*": "read", "c-2": "write"},
}
STREAMS = ("a-1", "a-2", "ab-1", "b-1", "b-2", "c-1", "c-2", "shared")
KEYED = ("b-2", "c-2")
LEVELS = ("none", "read", "write", "admin")
# What the requests to a stream need.
NEEDS = {
    **{("GET", f"/{what}"): "read" for what in ("scores", "recent", "pending", "experts", "alarms", "keys")},
    **{("GET", f"/{what}"): "read" for what in ("events", "checkpoints")},
    ("GET", ""): "read",
    ("POST", "/forecast"): "read",
    **{("POST", f"/{what}"): "write" for what in ("predict", "learn", "step", "alarms/0/acknowledge")},
    ("POST", "/checkpoint"): "admin",
    ("POST", "/restore"): "admin",
    ("DELETE", ""): "admin",
}
ODD_NAMES = (
    "A-1",
    "a-1%00",
    "a-1%0A",
    "%61-1",
    "a-1%2F..%2Fb-1",
    "..",
    "b-1%20",
    "a",
    "*",
    "b-",
    "a-9",
    "c-9",
    "%E5%90%8D",
)
SERVICE = ("/v1/streams", "/metrics", "/readyz", "/openapi.json", "/livez", "/docs", "/redoc", "/", "/v1")
MAX_ROWS = 5  # rows of a request of the tenant a


def role_of(rights: dict[str, str], stream: str) -> str:
    """Return the highest role on a stream."""
    found = "none"
    for pattern, role in rights.items():
        begins = pattern[-1] == "*" and stream[: len(pattern) - 1] == pattern[:-1]
        if (begins or pattern == stream) and LEVELS.index(role) > LEVELS.index(found):
            found = role
    return found


class Tenants:
    """A service in this process, and what came of the requests to it."""

    def __init__(self, folder: Path, start: int) -> None:
        self.random = random.Random(start)
        self.path, self.log = folder / "tokens.toml", folder / "audit.jsonl"
        self.rights = {tenant: dict(rights) for tenant, rights in RIGHTS.items()}
        self.secrets: dict[str, str] = {}
        self.old: list[str] = []
        for tenant, rights in RIGHTS.items():
            self.secrets[tenant] = tokens.add(self.path, tenant, [f"{role}:{name}" for name, role in rights.items()])
        self.expired = tokens.add(self.path, "a", [], "2020-01-01")
        self.path.write_text(self.path.read_text().replace("[a]\n", f"[a]\nmax_rows = {MAX_ROWS}\n"))
        self.streams = Streams(folder / "live")
        app = Audited(make_app(self.streams, tokens.TokenFile(self.path)), AuditLog(self.log))
        self.http = TestClient(
            app, base_url="http://localhost", raise_server_exceptions=False, follow_redirects=False
        )
        self.words: dict[str, str] = {}
        self.answers: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.audited: list[tuple[str | None, int]] = []
        self.failures: dict[str, str] = {}

    def send(self, secret: str | None, method: str, path: str, document: Any = None, who: str | None = None) -> Any:
        """Send a request, and note what the audit log should say of it."""
        headers = {} if secret is None else {"authorization": secret.encode("latin-1")}
        answer = self.http.request(method, path, headers=headers, json=document)
        if path not in ("/", "/docs", "/livez", "/readyz"):
            self.audited.append((who, answer.status_code))
        return answer

    def operate(self, method: str, path: str, document: Any = None) -> Any:
        """Send a request of the operator, who may do all."""
        answer = self.send(f"Bearer {self.secrets['operator']}", method, path, document, "operator")
        assert answer.status_code < 300, answer.text
        return answer

    def repair(self) -> None:
        """Make the streams that are gone, and delete those that have come."""
        there = {each.config.name for each in self.streams.all()}
        for name in sorted(there - set(STREAMS)):
            self.operate("DELETE", f"/v1/streams/{name}")
        for name in sorted(set(STREAMS) - there):
            word = self.words[name] = f"w{self.random.getrandbits(64):016x}"
            more = {"key": f"k{word}"} if name in KEYED else {"model": "linear"}
            config = {"name": name, "target": f"y{word}", "features": [f"x{word}"], "warmup": 14}
            self.operate("POST", "/v1/streams", config | more)
            self.operate("POST", f"/v1/streams/{name}/step", {"rows": [self.row(name, i) for i in range(20)]})

    def row(self, name: str, i: int) -> dict[str, Any]:
        """Return a row of a stream."""
        word = self.words[name]
        key = {"key": f"v{word}"} if name in KEYED else {}
        return {"id": f"i{word}-{i}", "x": {f"x{word}": i % 7 / 3}, "y": i % 5 / 2} | key

    def state(self) -> dict[str, Any]:
        """Return what requests change, by stream."""
        return {
            each.config.name: (
                *(each.config.target, each.last_position, each.model.next_row, each.model.rows),
                *(len(each.model.waiting), each.knowledge.open_alarms, len(each.knowledge.returns)),
            )
            for each in self.streams.all()
        }

    # Requests

    def rotate(self) -> None:
        """Replace the token of a tenant, or take away one of its rights, or give it back, while the service runs."""
        tenant = self.random.choice(sorted(RIGHTS))
        if self.random.random() < 0.5:
            before = self.secrets[tenant]
            self.old.append(before)
            self.secrets[tenant] = tokens.add(self.path, tenant, [])
            self.path.write_text(self.path.read_text().replace(tokens.digest_of(before), f"{len(self.old):064x}"))
        else:
            was = self.rights["b"]["shared"]
            now = self.rights["b"]["shared"] = "read" if was == "write" else "write"
            text = self.path.read_text().replace(f'"admin:b-*", "{was}:shared"', f'"admin:b-*", "{now}:shared"')
            self.path.write_text(text)

    def role(self, who: str | None, stream: str) -> str:
        """Return what a tenant may do on a stream as things are."""
        return "none" if who is None else role_of(self.rights[who], stream)

    def credential(self, tenant: str) -> tuple[str | None, str | None]:
        """Return what is shown, and whose it is: None of nobody."""
        secret, draw = self.secrets[tenant], self.random.random()
        if draw < 0.8:
            return f"Bearer {secret}", tenant
        wrong = (None, "", "Bearer", secret, f"Basic {secret}", f"Bearer {secret[:-1]}", f"Bearer {secret}\xe9")
        more = (f"Bearer {tokens.digest_of(secret)}", f"Bearer {self.expired}", f"Bearer {secret} {secret}")
        old = [f"Bearer {each}" for each in self.old[-3:]]
        return self.random.choice((*wrong, *more, *old)), None

    def document(self, verb: str, name: str) -> Any:
        """Return a body, as it should be for a stream that is there."""
        known = name if name in self.words else "shared"
        count = self.random.choice((1, 1, 2, 8))
        given = [self.row(known, i) for i in self.random.sample(range(200), count)]
        if verb == "/predict":
            return {"rows": [{name: value for name, value in row.items() if name != "y"} for row in given]}
        if verb in ("/learn", "/step"):
            return {"rows": given}
        if verb == "/forecast":
            x = [row["x"] for row in given]
            return {"h": count, "x": x} | ({"key": given[0]["key"]} if known in KEYED else {})
        return {"position": self.random.randrange(3)} if verb == "/restore" else None

    def one(self) -> None:
        """Make a request, and check what comes of it."""
        tenant = self.random.choice(sorted(RIGHTS))
        shown, who = self.credential(tenant)
        kind = self.random.random()
        if kind < 0.8:
            self.of_stream(shown, who)
        elif kind < 0.9:
            self.creation(shown, who)
        else:
            self.of_service(shown, who)

    def of_stream(self, shown: str | None, who: str | None) -> None:
        """Ask for something of a stream, in a way that is known or not."""
        method, verb = self.random.choice(sorted(NEEDS))
        need: str | None = NEEDS[method, verb]
        if self.random.random() < 0.05:
            method, need = self.random.choice(("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE")), None
        own = [name for name in STREAMS if self.role(who, name) != "none"]
        text = self.random.choice(own if own and self.random.random() < 0.4 else (*STREAMS, *STREAMS, *ODD_NAMES))
        name = unquote(text)
        role = self.role(who, name)
        may = need is not None and LEVELS.index(role) >= LEVELS.index(need) and "/" not in name
        if may and verb == "/events":
            return  # which would not end
        document = self.document(verb, name) if method == "POST" else None
        expected = 401 if who is None else 404 if need is None or role == "none" or "/" in name else 403
        too_many = who == "a" and document is not None and len(document.get("rows", ())) > MAX_ROWS
        before = self.state()
        answer = self.send(shown, method, f"/v1/streams/{text}{verb}", document, who)
        shown_as = f"{who}: {method} {text}{verb} {document}: {answer.status_code} {answer.text[:200]}"
        if may and name in STREAMS and not too_many:
            self.done[f"{who} {need}"] += 1
            is_hidden = answer.status_code == 404 and "GET /v1/streams" in answer.text
            self.check(answer.status_code not in (401, 403) and not is_hidden, f"may, and was refused: {shown_as}")
            if (verb, name) == ("/step", name):
                self.check(answer.status_code in (200, 409), f"a good request failed: {shown_as}")
        elif may and too_many and name in STREAMS:
            self.check(answer.status_code == 403, f"too many rows: {shown_as}")
        elif not may:
            self.check(answer.status_code == expected, f"expected {expected}: {shown_as}")
        self.look(answer, who, name, {name} if may else set(), before, shown_as)
        if who is not None and role == "none" and name in STREAMS:
            absent = "z" * len(name)
            other = self.send(shown, method, f"/v1/streams/{absent}{verb}", document, who)
            is_same = answer.status_code == other.status_code and answer.headers == other.headers
            is_same = is_same and answer.text.replace(name, absent) == other.text
            self.check(is_same, f"another answer than where there is none: {shown_as}; {other.text[:200]}")

    def creation(self, shown: str | None, who: str | None) -> None:
        """Make a stream, of any name."""
        name = self.random.choice((*STREAMS, "a-new", "ab-new", "b-new", "c-new", "new"))
        may = self.role(who, name) == "admin"
        before = self.state()
        config = {"name": name, "target": "y", "features": ["u"], "model": "linear", "warmup": 14}
        answer = self.send(shown, "POST", "/v1/streams", config, who)
        said = f"{who}: create {name}: {answer.status_code} {answer.text[:200]}"
        if may:
            self.done[f"{who} create"] += 1
            self.check(answer.status_code == (409 if name in STREAMS else 201), said)
        else:
            self.check(answer.status_code == (401 if who is None else 403), said)
        self.look(answer, who, name, {name} if may else set(), before, said)

    def of_service(self, shown: str | None, who: str | None) -> None:
        """Ask for what concerns all streams."""
        path = self.random.choice(SERVICE)
        before = self.state()
        answer = self.send(shown, "GET", path, None, who)
        said = f"{who}: GET {path}: {answer.status_code} {answer.text[:200]}"
        known = 404 if path in ("/redoc", "/v1") else 200
        is_open = path in ("/readyz", "/livez", "/docs", "/")
        self.check(answer.status_code == (known if who is not None or is_open else 401), said)
        if path == "/v1/streams" and who is not None:
            found = {each["name"] for each in answer.json()["streams"]}
            self.check(found == {name for name in STREAMS if self.role(who, name) != "none"}, said)
        self.look(answer, who, "", set(), before, said)

    # Checks

    def check(self, is_right: bool, said: str) -> None:
        """Keep what is wrong."""
        if not is_right:
            self.failures.setdefault(said[:60], said)

    def look(self, answer: Any, who: str | None, named: str, may_change: set[str], before: Any, said: str) -> None:
        """Check what an answer says, and what the request has left behind."""
        self.answers[str(answer.status_code)] += 1
        self.check(answer.status_code < 500, f"an error of the server: {said}")
        text = answer.text + str(dict(answer.headers))
        for name in STREAMS:
            if self.role(who, name) == "none":
                word = self.words[name]
                sent = answer.request.content.decode("latin-1") if answer.request.content else ""
                self.check(word not in text or word in sent, f"a word of {name} is seen: {said}")
                self.check(f'"{name}"' not in text or name == named, f"the name {name} is seen: {said}")
        after = self.state()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        self.check(changed <= may_change, f"{changed} changed: {said}")
        if any(changed):
            self.done["changes"] += 1
        if before.keys() != after.keys():
            self.repair()


def check_log(work: Tenants) -> None:
    """Check that the audit log has a line for each request, and no token."""
    text = work.log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    found = [(line["who"], line["status"]) for line in lines]
    work.check(found == work.audited, f"the audit log has {len(found)} lines for {len(work.audited)} requests")
    secrets = [*work.secrets.values(), *work.old, work.expired]
    work.check(not any(secret in text for secret in secrets), "a token is in the audit log")


def campaign(requests: int, minutes: float, start: int = 0) -> dict[str, Any]:
    """Send so many requests, or as many as fit into the minutes."""
    began, sent = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        work = Tenants(Path(folder), start)
        with work.http:
            work.repair()
            while sum(work.answers.values()) < requests and time.monotonic() - began < 60 * minutes:
                work.one()
                sent += 1
                if sent % 100 == 0:
                    work.rotate()
        check_log(work)
    return {
        "requests": sum(work.answers.values()),
        "answers": dict(sorted(work.answers.items())),
        "allowed": dict(sorted(work.done.items())),
        "tokens_replaced": len(work.old),
        "audit_lines": len(work.audited),
        "failures": list(work.failures.values()),
        "seed": start,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Run the campaign; fail if anything was seen or changed."""
    campaigns.run(__doc__, "requests", 10_000, campaign)


if __name__ == "__main__":
    main()
