"""A state machine on ids and order: any mix of predictions, labels, steps, retries and restores, against what is due.

The model of it is a dictionary: of each id its row, and its label once that has come. Requests are right or wrong on
purpose; the wrong ones must be refused with the status that is due, and change nothing. Now and then the service is
stopped and started, or its directory is copied as it is, as after a crash, and the copy is gone on with.
"""

import shutil
import tempfile
from copy import copy
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from starlette.testclient import TestClient

from streamgp.service.streams import Streams
from streamgp.service.web.app import make_app

KNOWN = 14  # rows before the first rule, after which the warm-up is over
STREAMS: tuple[dict[str, Any], ...] = (
    {"model": "linear", "warmup": 12},
    {"model": "linear", "warmup": 12, "task": "classification", "classes": ["low", "high"]},
    {"key": "machine", "warmup": 12},
)
NUMBERS = st.sampled_from((-1.5, -0.25, 0.0, 0.5, 2.0))
COUNTS = st.integers(1, 4)


class Ids(RuleBasedStateMachine):
    """One stream, and what must be known of it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.directory = self.folder / "0"
        # For each id, the values that were sent, without the label.
        self.rows: dict[str, dict[str, Any]] = {}
        # For each id, the prediction.
        self.waiting: dict[str, dict[str, Any]] = {}
        self.labels: dict[str, Any] = {}
        self.count = self.learned = self.made = 0
        self.kept: tuple[int, dict[str, Any]] | None = None  # the last checkpoint, and what was known then
        self.open()

    def open(self) -> None:
        """Start the service over the directory."""
        self.http = TestClient(make_app(Streams(self.directory)), base_url="http://127.0.0.1")
        self.http.__enter__()

    def teardown(self) -> None:
        """End the service."""
        self.http.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Requests

    def send(self, what: str, rows: list[dict[str, Any]], status: int = 200) -> dict[str, Any]:
        """Send rows; the answer must have this status."""
        answer = self.http.post(f"/v1/streams/s/{what}", json={"rows": rows})
        assert answer.status_code == status, f"{what} {rows}: expected {status}, got {answer.text}"
        assert status == 200 or len(answer.json()["detail"].split()) > 2
        return answer.json()

    def new(self, draw: Any) -> dict[str, Any]:
        """Return a row that never came."""
        self.made += 1
        row: dict[str, Any] = {"id": f"r{self.made}", "x": {"a": draw(NUMBERS), "b": draw(st.none() | NUMBERS)}}
        return row | ({"key": draw(st.sampled_from("pq"))} if "key" in self.stream else {})

    def label(self, draw: Any) -> Any:
        """Return a label, null now and then."""
        return draw(st.none() | (st.sampled_from(("low", "high")) if "task" in self.stream else NUMBERS))

    def other(self, label: Any) -> Any:
        """Return another label."""
        return ("high" if label == "low" else "low") if "task" in self.stream else 7.0 if label is None else label + 1

    def note(self, row: dict[str, Any], label: Any) -> None:
        """Note that a row has its label."""
        self.labels[row["id"]] = label
        self.learned += label is not None

    @initialize(stream=st.sampled_from(STREAMS))
    def begin(self, stream: dict[str, Any]) -> None:
        """Create the stream and take it past its warm-up."""
        self.stream = {"name": "s", "target": "y", "features": ["a", "b"]} | stream
        assert self.http.post("/v1/streams", json=self.stream).status_code == 201
        rows = [{"x": {"a": i / 7 - 1, "b": 0.3 * (i % 3)}, "y": i / 5} for i in range(KNOWN)]
        if "task" in stream:
            rows = [row | {"y": ("low", "high")[i % 2]} for i, row in enumerate(rows)]
        if "key" in stream:
            rows = [row | {"key": "pq"[i % 2]} for i, row in enumerate(rows)]
        assert self.send("step", rows)["learned"] == KNOWN
        self.count = self.learned = KNOWN

    @rule(data=st.data(), n=COUNTS)
    def predict(self, data: Any, n: int) -> None:
        """Predict new rows."""
        rows = [self.new(data.draw) for _ in range(n)]
        answer = self.send("predict", rows)
        self.rows |= {row["id"]: row for row in rows}
        self.waiting |= {row["id"]: row for row in answer["rows"]}
        self.count += n

    @rule(data=st.data())
    def predict_without_keeping(self, data: Any) -> None:
        """Predict a row that is not kept."""
        answer = self.http.post("/v1/streams/s/predict", json={"rows": [self.new(data.draw)], "keep": False})
        assert answer.status_code == 200

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def predict_again(self, data: Any) -> None:
        """Send a prediction once more, or half of it: the answer is the one that was given."""
        names = data.draw(st.lists(st.sampled_from(sorted(self.waiting)), min_size=1, max_size=3, unique=True))
        answer = self.send("predict", [self.rows[name] for name in names])
        assert answer["rows"] == [self.waiting[name] for name in names]

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def predict_wrongly(self, data: Any) -> None:
        """Use an id for other inputs, for a row that has its label, beside a new row, or twice."""
        row = self.rows[data.draw(st.sampled_from(sorted(self.rows)))]
        other = row | {"x": {"a": 9.0, "b": 9.0}}
        self.send("predict", [other], 409)
        self.send("predict", [row, self.new(data.draw)], 409)
        self.send("predict", [row, row], 422)
        self.send("step", [other | {"y": self.label(data.draw)}], 409)
        if row["id"] in self.labels:
            self.send("predict", [row], 409)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), with_inputs=st.booleans(), more=st.booleans())
    def learn(self, data: Any, with_inputs: bool, more: bool) -> None:
        """Learn labels of rows that wait, in any order, and of a new row beside them."""
        names = data.draw(st.lists(st.sampled_from(sorted(self.waiting)), min_size=1, max_size=3, unique=True))
        rows = [(self.rows[name] if with_inputs else {"id": name}) | {"y": self.label(data.draw)} for name in names]
        new = [self.new(data.draw) | {"y": self.label(data.draw)}] if more else []
        answer = self.send("learn", data.draw(st.permutations(rows + new)))
        assert answer["repeated"] == 0
        for row in rows:
            del self.waiting[row["id"]]
            self.note(row, row["y"])
        self.came(new)

    def came(self, rows: list[dict[str, Any]]) -> None:
        """Note rows that came with their labels."""
        for row in rows:
            self.rows[row["id"]] = {name: value for name, value in row.items() if name != "y"}
            self.note(row, row["y"])
        self.count += len(rows)

    @rule(data=st.data(), n=COUNTS, what=st.sampled_from(("step", "learn")))
    def step(self, data: Any, n: int, what: str) -> None:
        """Learn new rows, with some among them that were learnt before."""
        rows = [self.new(data.draw) | {"y": self.label(data.draw)} for _ in range(n)]
        names = (
            data.draw(st.lists(st.sampled_from(sorted(self.labels)), max_size=2, unique=True)) if self.labels else []
        )
        before = [self.rows[name] | {"y": self.labels[name]} for name in names]
        mixed = data.draw(st.permutations(rows + before))
        answer = self.send(what, mixed)
        assert answer["repeated"] == len(before)
        if what == "step":
            assert [row["id"] for row in answer["rows"]] == [row["id"] for row in mixed]
            assert [row["id"] for row in answer["rows"] if row.get("repeated")] == [
                row["id"] for row in mixed if row in before
            ]
        self.came(rows)

    @precondition(lambda self: self.labels)
    @rule(data=st.data())
    def learn_again(self, data: Any) -> None:
        """Send labels once more: nothing happens; another label is refused, and so is an unknown id."""
        name = data.draw(st.sampled_from(sorted(self.labels)))
        label = self.labels[name]
        for what, row in (("learn", {"id": name}), ("learn", self.rows[name]), ("step", self.rows[name])):
            answer = self.send(what, [row | {"y": label}])
            assert (answer["learned"], answer["repeated"]) == (0, 1)
        self.send("learn", [{"id": name, "y": self.other(label)}], 409)
        self.send("learn", [{"id": name, "y": label}, {"id": "nobody", "y": label}], 404)
        self.send("learn", [{"id": name, "y": label}, {"id": name, "y": label}], 422)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def step_what_waits(self, data: Any) -> None:
        """Step a row that waits for its label: it is refused, and a new row beside it is not learnt."""
        row = self.rows[data.draw(st.sampled_from(sorted(self.waiting)))]
        self.send("step", [self.new(data.draw) | {"y": None}, row | {"y": self.label(data.draw)}], 409)

    @rule()
    def checkpoint(self) -> None:
        """Have a checkpoint written."""
        answer = self.http.post("/v1/streams/s/checkpoint")
        assert answer.status_code == 200, answer.text
        names = ("rows", "waiting", "labels", "count", "learned", "made")
        self.kept = answer.json()["position"], {name: copy(getattr(self, name)) for name in names}

    @precondition(lambda self: self.kept)
    @rule(times=st.integers(1, 2))
    def restore(self, times: int) -> None:
        """Set the stream back to the checkpoint, once or twice: the ids since are free."""
        assert self.kept is not None
        position, then = self.kept
        document = {"position": position}
        answers = [self.http.post("/v1/streams/s/restore", json=document) for _ in range(times)]
        assert answers[0].status_code == 200, answers[0].text
        assert all(answer.json() == answers[0].json() for answer in answers)
        for name, value in then.items():
            setattr(self, name, copy(value))

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        """End the service and start it again, over a copy of the directory as it was while it ran, or over it."""
        other = self.folder / str(int(self.directory.name) + 1)
        if crash:
            shutil.copytree(self.directory, other)
        self.http.__exit__(None, None, None)
        self.directory = other if crash else self.directory
        self.open()
        while self.http.get("/readyz").status_code == 503:
            continue

    @invariant()
    def knows_what_came(self) -> None:
        """Compare counts and what waits."""
        if not hasattr(self, "stream"):
            return
        status = self.http.get("/v1/streams/s").json()
        assert status["state"] == "ready", status["durability"]["failure"]
        found = (status["rows"], status["learned"], status["pending"])
        assert found == (self.count, self.learned, len(self.waiting)), f"{found} of {self.labels}"
        pending = self.http.get("/v1/streams/s/pending?limit=10000").json()["pending"]
        assert [row["id"] for row in pending] == list(self.waiting)
