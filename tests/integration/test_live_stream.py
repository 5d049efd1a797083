"""A stream of the service: the numbers of a model in process, whatever was asked in what order, after crashes too."""

from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import numpy as np
import polars as pl
import pytest

from live_streams import FEATURES, PATIENCE, copied, data, inputs, known, learn, predict, started, step, working
from live_streams import rows as sent
from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, StreamingGPFleet, StreamingGPRegressor
from streamgp.service.checkpoints import Checkpoints
from streamgp.service.payload import Labels
from streamgp.service.problems import Problem
from streamgp.service.single_model import MAX_SINGLE_ROWS

pytestmark = pytest.mark.slow

X, Y = data()
QUANTILES = [0.05, 0.5, 0.95]


class InProcess:
    """The same model without a service."""

    def __init__(self, task: str, model: str, timed: bool, **options: Any) -> None:
        make = {
            "regression": StreamingGPRegressor,
            "classification": StreamingGPClassifier,
            "count": StreamingGPCountRegressor,
        }
        self.task, self.timed = task, timed
        self.model = make[task](model, warmup=30, **options)
        self.tokens: dict[str, Any] = {}
        # As the service does, it begins before the first row.
        more = {"classes": ["hi", "lo"]} if task == "classification" else {}
        first = ["hi"] if more else [0.0]
        self.model._start(self.model._prepare(X[:1] * 0.0, first, [0.0] if timed else None, True, **more), 30)

    def time(self, i: int) -> dict[str, Any]:
        return {"time": i * 1.5} if self.timed else {}

    def ahead(self, i: int) -> list[float]:
        more = {"times": [i * 1.5]} if self.timed else {}
        if self.task == "classification":
            return self.model.predict_proba(X[i : i + 1], **more)[0].tolist()
        mean, std = self.model.predict(X[i : i + 1], return_std=True, **more)
        return [mean[0], std[0], *np.asarray(self.model.predict_quantiles(X[i : i + 1], QUANTILES, **more))[0]]

    def predict(self, i: int) -> list[float]:
        found = self.ahead(i)
        self.tokens[f"r{i}"] = self.model.predict_later(X[i], **self.time(i))
        return found

    def learn(self, name: str, y: Any) -> None:
        self.model.learn_later(self.tokens[name], y)

    def step(self, i: int, y: Any) -> list[float]:
        found = self.ahead(i)
        self.model.partial_fit(X[i : i + 1], [y], **({"times": [i * 1.5]} if self.timed else {}))
        return found


CASES: dict[str, dict[str, Any]] = {
    "linear": {},
    "ensemble": {"model": "e-doebe"},
    "lags": {"options": {"lags": [1, 2]}},
    "lags chosen": {"options": {"lags": "auto"}},
    "bounded": {"options": {"bounds": [-9, None], "target_transform": "log"}},
    "ensemble's options": {
        "model": "oebe",
        "options": {"bases": ["linear"], "dynamics": ["static", "walk 0.1"], "noise": ["adaptive 0.9"], "rest": True},
    },
    "timed": {"timed": True},
    "classification": {"task": "classification", "classes": ("hi", "lo")},
    "count": {"task": "count"},
}


def targets(case: str) -> list[Any]:
    if case == "classification":
        return ["hi" if y > 0 else "lo" for y in Y]
    return np.floor(np.abs(Y) * 2).tolist() if case == "count" else Y.tolist()


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_in_process(case: str, tmp_path: Path):
    options, y = CASES[case], targets(case)
    more = options.get("options", {})
    model = InProcess(options.get("task", "regression"), options.get("model", "linear"), "timed" in options, **more)
    rng = np.random.default_rng(3)
    found, expected, open_rows = [], [], []
    stream = started(tmp_path / "power", **options)
    for i in range(60 if case == "count" else 100):
        row = {"id": f"r{i}", "x": inputs(X[i]), **model.time(i)}
        if rng.random() < 0.5:
            found += predict(stream, [row])
            expected.append(model.predict(i))
            open_rows.append(i)
        elif "timed" in options and open_rows:
            continue
        else:
            answer = step(stream, [row | {"y": y[i]}])["rows"][0]
            found.append(
                list(answer["probabilities"].values())
                if "probabilities" in answer
                else [answer["mean"], answer["std"], *answer["quantiles"].values()]
            )
            expected.append(model.step(i, y[i]))
        while open_rows and rng.random() < 0.5:  # in any order
            late = open_rows.pop(int(rng.integers(len(open_rows))))
            assert learn(stream, [{"id": f"r{late}", "y": y[late]}])["learned"] == 1
            model.learn(f"r{late}", y[late])
        if i in (20, 50):  # a crash: what is on disk is all there is
            other = copied(stream, tmp_path / f"copy{i}")
            stream.stop()
            stream = started(other, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert len(stream.model.waiting) == len(open_rows)
    stream.stop()


def test_many_rows_at_once_are_the_same_as_one_at_a_time(tmp_path: Path):
    rows = [{"id": f"r{i}", "x": inputs(X[i]), "y": float(Y[i])} for i in range(len(X))]
    with working(tmp_path / "a") as one, working(tmp_path / "b") as many:
        single = [step(one, [row])["rows"][0] for row in rows]
        whole = step(many, rows)["rows"]
        for a, b in zip(single, whole, strict=True):
            np.testing.assert_allclose([a["mean"], a["std"]], [b["mean"], b["std"]], rtol=1e-9)
        first, second = one.settled().scores(), many.settled().scores()
        for name in ("nmse", "pll", "crps"):
            assert first[name] == pytest.approx(second[name], rel=1e-9)
        assert first["coverage"] == second["coverage"]
        assert first["coverage_by"] == second["coverage_by"] and len(first["coverage_by"]) > 2
        assert first["recent"]["pll"] == pytest.approx(second["recent"]["pll"], rel=1e-9)
        assert [a["row"] for a in one.settled().recent(500, -1, None)["rows"]] == list(range(len(X)))


@pytest.mark.parametrize("together", [3, MAX_SINGLE_ROWS - 1, MAX_SINGLE_ROWS + 5])
def test_requests_that_wait_together_give_the_numbers_of_one_at_a_time(
    together: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model, groups = InProcess("regression", "e-doebe", False), []
    options = {"model": "e-doebe"}
    with working(tmp_path / "power", **options) as stream:
        usual = stream.knowledge.apply
        monkeypatch.setattr(stream.knowledge, "apply", lambda each: groups.append(len(each)) or usual(each))
        taken, apply_all = Event(), stream._apply_all
        monkeypatch.setattr(stream, "_apply_all", lambda each: taken.set() or apply_all(each))
        for first, last in ((0, 40), (40, 40 + together), (40 + together, 60 + together)):
            rows = [{"id": f"r{i}", "x": inputs(X[i]), "y": float(Y[i])} for i in range(first, last)]
            with stream._lock:  # so that the first one is being learnt
                taken.clear()
                stream.step(stream_rows(stream, [{"x": inputs(X[first + 80]), "y": float(Y[first + 80])}]))
                assert taken.wait(PATIENCE)
                answers = [stream.step(stream_rows(stream, [row])) for row in rows]
                until = monotonic() + PATIENCE
                while len(stream._accepted) <= len(rows) and monotonic() < until:
                    sleep(0.005)
            model.step(first + 80, Y[first + 80])
            for i, answer in zip(range(first, last), answers, strict=True):
                (row,) = answer.result(PATIENCE)["rows"]
                found = [row["mean"], row["std"], *row["quantiles"].values()]
                np.testing.assert_allclose(found, model.step(i, Y[i]), rtol=1e-9, atol=1e-9)
            assert groups[-1] >= last - first  # they came as one
        left = copied(stream, tmp_path / "left")
        ahead = predict(stream, [{"x": inputs(X[70])}], keep=False)
    with working(left, **options) as again:  # learns its log entry by entry
        np.testing.assert_allclose(predict(again, [{"x": inputs(X[70])}], keep=False), ahead, rtol=1e-9, atol=1e-10)
        assert again.model.next_row == 63 + together


def test_what_is_sent_again_is_done_once(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        row = {"id": "r0", "x": inputs(X[0])}
        first = predict(stream, [row])
        _, future, _ = stream.predict(stream_rows(stream, [row]), True)
        assert future is not None
        again = future.result(60)["rows"][0]
        assert [again["mean"], again["std"]] == first[0][:2]
        assert learn(stream, [{"id": "r0", "y": 1.0}]) | {"position": 0} == {
            "learned": 1,
            "repeated": 0,
            "position": 0,
        }
        assert learn(stream, [{"id": "r0", "y": 1.0}])["repeated"] == 1
        assert stream.status()["learned"] == 1
        new = {"id": "r1", "x": inputs(X[1]), "y": 2.0}
        assert learn(stream, [new])["learned"] == 1
        assert step(stream, [new, {"id": "r2", "x": inputs(X[2]), "y": 0.5}])["rows"][0] == {
            "id": "r1",
            "repeated": True,
        }
        assert stream.status()["learned"] == 3


def stream_rows(stream: Any, rows: list[dict[str, Any]]) -> Any:
    from streamgp.service.payload import rows_with_inputs

    return rows_with_inputs(stream.config, rows, with_target="y" in rows[0])


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        ([{"id": "unknown", "y": 1.0}], 404, "that were predicted, got 'unknown'"),
        ([{"id": "done", "y": 2.0}], 409, "has the label 1.0, got 2.0"),
        ([{"id": "open", "y": 1.0}, {"id": "open", "y": 1.0}], 422, "got 'open' twice"),
        ([{"id": "open", "y": "high"}], 422, "row 0, y: expected a number"),
        ([{"id": "new", "x": {"a": 1.0}, "y": 1.0}], 422, "x.b: expected a number"),
        ([{"id": "new", "x": {"a": 1.0, "b": 1.0, "c": 1.0}, "y": 1.0}], 422, "only the features a, b"),
        ([{"id": "done", "x": {"a": 9.0, "b": 9.0}, "y": 1.0}], 409, "came before with other inputs"),
    ],
)
def test_what_is_refused_changes_nothing(rows: list[dict[str, Any]], status: int, says: str, tmp_path: Path):
    with working(tmp_path / "power") as stream:
        predict(stream, [{"id": "open", "x": inputs(X[0])}, {"id": "done", "x": inputs(X[1])}])
        learn(stream, [{"id": "done", "y": 1.0}])
        probe = [{"x": inputs(X[5])}]

        def known() -> Any:
            return predict(stream, probe, keep=False), stream.durability()["position"], stream.knowledge.pending(9)

        before = known()
        with pytest.raises(Problem, match=says) as caught:
            learn(stream, rows)
        assert caught.value.status == status
        assert known() == before


def test_a_label_that_never_comes_is_not_waited_for(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        predict(stream, [{"id": "open", "x": inputs(X[0])}])
        assert learn(stream, [{"id": "open", "y": None}])["learned"] == 0
        assert stream.knowledge.pending(9)["count"] == 0
        predict(stream, [{"id": f"r{i}", "x": inputs(X[i % len(X)])} for i in range(1100)])
        assert stream.knowledge.pending(0)["count"] == 1000  # of a model's rows so many wait at most
        assert learn(stream, [{"id": "r0", "y": 1.0}]) == {
            "learned": 0,
            "repeated": 0,
            "position": stream.durability()["position"],
            "late": ["r0"],
        }


def test_a_checkpoint_is_that_of_an_estimator(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        step(stream, [{"x": inputs(x), "y": float(y)} for x, y in zip(X, Y, strict=True)])
        position = stream.write_checkpoint().result(60)["position"]
        model = StreamingGPRegressor.load(tmp_path / "power" / "checkpoints" / f"{position:015d}")
        probe = predict(stream, [{"x": inputs(X[7])}], keep=False)[0]
        mean, std = model.predict(pl.DataFrame(X[7:8], schema=list(FEATURES)), return_std=True)
        np.testing.assert_allclose([mean[0], std[0]], probe[:2], rtol=1e-9)


def test_alarms_are_those_of_a_monitor_and_stay_acknowledged(tmp_path: Path):
    from streamgp import Monitor

    rng = np.random.default_rng(1)
    inside = rng.normal(size=(400, 2))
    y = inside[:, 0] + np.where(np.arange(400) < 250, 0.1, 1.0) * rng.normal(size=400)
    model = StreamingGPRegressor("linear", warmup=30)
    model._start(model._prepare(inside[:1] * 0.0, [0.0], None, True), 30)
    monitor = Monitor(model)
    for x, target in zip(inside, y, strict=True):
        monitor.update(x, target)
    with working(tmp_path / "power") as stream:
        for start in (0, 1, 2, 3, 200, 300):  # singly and in blocks
            stop = {0: 1, 1: 2, 2: 3, 3: 200, 200: 300, 300: 400}[start]
            step(stream, [{"x": inputs(inside[i]), "y": float(y[i])} for i in range(start, stop)])
        found = stream.settled().alarms()
        assert [(a["kind"], a["row"], a["sentence"]) for a in found] == [
            (a.kind, a.row, a.sentence) for a in monitor.alarms
        ]
        assert found and found[0]["kind"] == "scale"
        stream.acknowledge(0).result(60)
        other = copied(stream, tmp_path / "copy")
    with working(other) as again:
        assert [a["acknowledged"] for a in again.settled().alarms()] == [True] + [False] * (len(found) - 1)
        assert [a | {"acknowledged": False} for a in again.settled().alarms()] == found


@pytest.mark.parametrize("timed", [False, True])
def test_a_stream_with_keys_is_a_fleet(timed: bool, tmp_path: Path):
    rng = np.random.default_rng(2)
    keys = [f"key {k}" for k in rng.integers(0, 5, 400)]
    x, clock = rng.normal(size=400), np.arange(400.0)
    y = x + np.array([int(key[-1]) for key in keys]) + 0.1 * rng.normal(size=400)
    fleet = StreamingGPFleet("sensor", "ds" if timed else None, "load", warmup=100)
    options = {"features": ("a",), "key": "sensor", "model": "fleet", "warmup": 100, "timed": timed}

    def rows(start: int, stop: int, **more: Any) -> list[dict[str, Any]]:
        of_time = [{"time": clock[i]} if timed else {} for i in range(start, stop)]
        return [
            {"id": f"r{i}", "key": keys[i], "x": {"a": x[i]}, **of_time[i - start]}
            | {name: float(values[i]) for name, values in more.items()}
            for i in range(start, stop)
        ]

    def frame(start: int, stop: int) -> pl.DataFrame:
        times = {"ds": clock[start:stop]} if timed else {}
        return pl.DataFrame({"sensor": keys[start:stop], **times, "a": x[start:stop], "load": y[start:stop]})

    stream = started(tmp_path / "fleet", **options)
    whole = fleet.evaluate(frame(0, 200)).frame
    shown = step(stream, rows(0, 200, y=y))["rows"]
    np.testing.assert_allclose([row["mean"] for row in shown], whole["mean"], rtol=1e-9)
    ahead = predict(stream, rows(200, 300))
    np.testing.assert_allclose([row[0] for row in ahead], fleet.predict(frame(200, 300))["mean"], rtol=1e-9)
    other = copied(stream, tmp_path / "copy")
    stream.stop()
    stream = started(other, **options)
    order = list(range(200, 300))
    assert learn(stream, [{"id": f"r{i}", "y": float(y[i])} for i in order])["learned"] == 100
    fleet.partial_fit(frame(200, 300))
    ahead = predict(stream, rows(300, 400), keep=False)
    np.testing.assert_allclose([row[0] for row in ahead], fleet.predict(frame(300, 400))["mean"], rtol=1e-9)
    assert stream.status()["keys"] == 5
    scores = stream.settled().scores()
    assert scores["scored_rows"] == 300 - fleet.learner.engine.fitted_at  # type: ignore[union-attr]
    assert 0.8 < scores["coverage"]["90"] <= 1.0
    if timed:  # a row behind its key's last one is not learnt
        answer = learn(stream, [{"key": keys[0], "time": -1.0, "x": {"a": 0.0}, "y": 0.0}])
        assert (answer["learned"], answer["skipped"]) == (0, 1)
    stream.stop()


def test_names_of_features_may_be_none_with_lags(tmp_path: Path):
    with working(tmp_path / "power", features=(), options={"lags": [1]}) as stream:
        assert step(stream, [{"x": {}, "y": 1.0}])["learned"] == 1
    assert FEATURES == ("a", "b")


def test_a_label_that_is_late_within_a_group_is_refused_alone(tmp_path: Path):
    from streamgp.service.requests import Request

    with working(tmp_path / "power") as stream:
        rows = [{"id": f"r{i}", "x": inputs(X[i % len(X)])} for i in range(1050)]
        step(stream, [{"x": inputs(x), "y": float(t)} for x, t in zip(X[:60], Y[:60], strict=True)])
        view = stream.view
        given = stream_rows(stream, rows)
        made = Request("predict", given, prediction=view.predict(given), position=5)
        labels = [Request("learn", labels=Labels([name], np.array([1.0])), position=6) for name in ("r0", "r1049")]
        with stream._lock:
            answers = stream.knowledge.apply([made, *labels])  # as if they had come together
        assert [answer.get("late") for answer in answers] == [None, ["r0"], None]
        assert [answer["learned"] for answer in answers[1:]] == [0, 1]


def test_a_stream_may_be_stopped_while_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from threading import Thread
    from time import sleep

    from streamgp.service.config import StreamConfig
    from streamgp.service.live_stream import LiveStream
    from streamgp.service.sequencer import Sequencer

    start = Sequencer.start
    monkeypatch.setattr(Sequencer, "start", lambda self: (sleep(0.1), start(self)))
    stream = LiveStream(tmp_path, StreamConfig("power", "load", FEATURES, model="linear", warmup=30))
    stream.start()
    sleep(0.05)
    stream.stop()
    with working(tmp_path) as again:
        assert step(again, [{"x": inputs(X[0]), "y": 1.0}])["learned"] == 1
    assert Thread.is_alive(stream._thread) is False


@pytest.mark.parametrize(
    ("name", "error", "status"),
    [
        ("write", OSError(28, "No space left on device"), 507),
        ("write", RuntimeError("no such array"), 500),
        ("ask_for", OSError(28, "No space left on device"), 507),
    ],
)
def test_a_checkpoint_that_fails_is_said_to_and_nothing_is_lost(
    name: str, error: Exception, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    events: list[tuple[str, dict[str, Any]]] = []
    with working(tmp_path / "power") as stream:
        stream.checkpointing._notify = lambda event, what: events.append((event, what))
        step(stream, sent(range(40), {}))
        before = known(stream, {})

        def failing(*_: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, name, failing)
            with pytest.raises(Problem, match=f"the checkpoint could not be .*{error.args[-1]}") as said:
                stream.write_checkpoint().result(PATIENCE)
        assert said.value.status == status and stream.failure is None
        if name == "write":
            assert [event for event, _ in events] == ["checkpoint"] and error.args[-1] in events[0][1]["detail"]
            assert stream.is_full == (status == 507) and not stream.checkpoints.positions()
        assert known(stream, {}) == before
        assert stream.write_checkpoint().result(PATIENCE) == {"position": 1}
        assert stream.checkpoints.positions() == [1] and stream.checkpoints.about(1)["asked"]
