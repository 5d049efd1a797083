"""A leader and its standby: what was acknowledged is in both, and one of them writes."""

import json
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from live_streams import FEATURES, KINDS, known, rows, same, working
from paired_services import Service, in_step, services, until
from streamgp.service import backup, checkpointing
from streamgp.service.live_stream import LiveStream
from streamgp.service.log_end import link
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.service.standby import shipping
from streamgp.service.standby.shipping import entries_after, packed, unpacked

pytestmark = [pytest.mark.slow, pytest.mark.process]

POWER = {"name": "power", "target": "load", "features": list(FEATURES), "model": "linear", "warmup": 30}
STREAM = "/v1/streams/power"


@pytest.fixture
def begin() -> Iterator[Callable[..., Service]]:
    with services() as made:
        yield made


def sent(of: range, options: dict[str, Any] | None = None, targets: bool = True) -> dict[str, Any]:
    return {"rows": rows(of, options or {}, targets)}


def pair(
    begin: Callable[..., Service], folder: Path, timeout: float = 5.0, **options: Any
) -> tuple[Service, Service]:
    """Return a leader with rows, and its standby, in step."""
    leader = begin(folder / "a", timeout=timeout)
    leader.post("/v1/streams", POWER | options)
    leader.post(f"{STREAM}/step", sent(range(40), options))
    standby = begin(folder / "b", leader, timeout)
    in_step(leader, standby)
    return leader, standby


@pytest.mark.parametrize("kind", KINDS)
def test_a_standby_knows_what_its_leader_knows(
    kind: str, begin: Callable[..., Service], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    options = KINDS[kind].get("options", {}) | {k: v for k, v in KINDS[kind].items() if k != "options"}
    leader, standby = pair(begin, tmp_path, **options)
    leader.post(f"{STREAM}/predict", sent(range(40, 43), options, targets=False))
    position = leader.post(f"{STREAM}/checkpoint", {})["position"]
    labels = [{"id": row["id"], "y": row["y"]} for row in rows(range(40, 42), options)]
    leader.post(f"{STREAM}/learn", {"rows": labels})
    leader.post(f"{STREAM}/step", {"rows": rows(range(43, 50), options, wrong=True)})
    leader.post(f"{STREAM}/restore", {"position": position})
    leader.post(f"{STREAM}/learn", {"rows": labels[:1]})
    leader.post(f"{STREAM}/step", sent(range(43, 60), options))
    in_step(leader, standby)
    same(known(standby.power, options), known(leader.power, options))
    assert standby.power.log.chain == leader.power.log.chain
    expected = known(leader.power, options)
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []
    leader.stop()
    assert standby.post("/v1/standby/promote", {})["epoch"] == 1
    same(known(standby.power, options), expected)
    again = standby.post(f"{STREAM}/learn", {"rows": labels})
    assert (again["learned"], again["repeated"]) == (1, 1)
    assert standby.post(f"{STREAM}/step", sent(range(58, 62), options))["repeated"] == 2
    if options.get("timed"):
        early = rows(range(45, 46), options)[0] | {"id": "early"}
        assert standby.refusal(f"{STREAM}/step", {"rows": [early]})[0] == 422
    entries = [entry.kind for entry in standby.power.log.after(0)]
    assert entries[-3:] == ["epoch", "learn", "step"]


def test_a_standby_answers_who_reads_and_names_the_leader_to_others(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path)
    for path, document in (
        ("/v1/streams", POWER | {"name": "other"}),
        (f"{STREAM}/step", sent(range(60, 61))),
        (f"{STREAM}/predict", sent(range(60, 61), targets=False)),
        (f"{STREAM}/restore", {"position": 0}),
    ):
        status, sentence = standby.refusal(path, document)
        assert (status, sentence) == (
            503,
            f"this is the standby of {leader.url}, and takes no rows: send it there, or promote this service",
        )
    asked = sent(range(60, 61), targets=False) | {"keep": False}
    same(standby.post(f"{STREAM}/predict", asked), leader.post(f"{STREAM}/predict", asked))
    same(standby.client.request("GET", f"{STREAM}/scores"), leader.client.request("GET", f"{STREAM}/scores"))
    ready = standby.client.request("GET", "/readyz")
    assert (ready["status"], ready["role"], ready["lag_positions"], ready["may_lead"]) == (
        "ready",
        "standby",
        0,
        True,
    )
    assert 0.0 <= ready["lag_seconds"] < 5.0
    metrics = standby.client._http.get("/metrics").text
    assert 'streamgp_lag_positions{stream="power"} 0.0' in metrics and "streamgp_may_lead 1.0" in metrics
    assert "streamgp_alone 0.0" in leader.client._http.get("/metrics").text


def test_streams_come_and_go_with_those_of_the_leader(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path)
    leader.post("/v1/streams", POWER | {"name": "other"})
    assert [each.config.name for each in standby.streams.all()] == ["other", "power"]  # before it is acknowledged
    leader.client.request("DELETE", STREAM)
    until(lambda: [each.config.name for each in standby.streams.all()] == ["other"], "a stream to go")
    leader.post("/v1/streams", POWER | {"features": ["a"]})
    assert standby.power.config.features == ("a",)
    answer = leader.post(f"{STREAM}/step", {"rows": [{"x": {"a": 1.0}, "y": 2.0}]})
    assert standby.power.last_position == answer["position"] == 1


@pytest.mark.parametrize("rows_before", [0, 1, 2])
def test_a_stream_that_is_made_anew_is_another_one(rows_before: int, begin: Callable[..., Service], tmp_path: Path):
    leader = begin(tmp_path / "a")
    leader.post("/v1/streams", POWER)
    for i in range(rows_before):
        leader.post(f"{STREAM}/step", sent(range(i, i + 1)))
    standby = begin(tmp_path / "b", leader)
    in_step(leader, standby)
    assert standby.standing_by is not None
    new = POWER if rows_before else POWER | {"warmup": 40}

    def renew() -> dict[str, Any]:
        leader.client.request("DELETE", STREAM)
        leader.post("/v1/streams", new)
        return leader.post(f"{STREAM}/step", sent(range(5, 6)))

    with ThreadPoolExecutor(1) as pool:
        with standby.standing_by._lock:
            renewed = pool.submit(renew)
            sleep(0.5)
            assert not renewed.done()  # not even the stream is acknowledged
        assert renewed.result(30)["position"] == 1
    in_step(leader, standby)
    assert standby.power.config == leader.power.config
    assert standby.power.log.chain == leader.power.log.chain


def test_a_row_is_acknowledged_when_the_standby_has_it(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path, timeout=3.0)
    assert standby.standing_by is not None
    with ThreadPoolExecutor(1) as pool:
        with standby.standing_by._lock:  # it writes nothing meanwhile
            began = monotonic()
            answer = pool.submit(leader.post, f"{STREAM}/step", sent(range(40, 41)))
            until(lambda: leader.power.knowledge.position == 2, "the leader to learn it")
            sleep(0.5)
            assert not answer.done()
        assert answer.result(30)["position"] == 2
        assert monotonic() - began < 3.0
    assert standby.power.last_position == 2


def test_a_leader_goes_on_alone_after_the_timeout_and_its_standby_knows(
    begin: Callable[..., Service], tmp_path: Path
):
    leader, standby = pair(begin, tmp_path, timeout=1.0)
    assert standby.standing_by is not None
    with standby.standing_by._lock:
        began = monotonic()
        answer = leader.post(f"{STREAM}/step", sent(range(40, 41)))
        assert 0.5 < monotonic() - began < 20.0
        assert answer["learned"] == 1
        assert (leader.status()["in_step"], json.loads((tmp_path / "a/epoch.json").read_text())["alone"]) == (
            False,
            True,
        )
        assert "streamgp_alone 1.0" in leader.client._http.get("/metrics").text
        assert not standby.standing_by.may_lead
    in_step(leader, standby)
    assert standby.power.last_position == 2
    standby.standing_by.stop()
    sleep(1.2)
    leader.post(f"{STREAM}/step", sent(range(41, 42)))
    status, sentence = standby.refusal("/v1/standby/promote", {"force": False})
    assert status == 409 and "goes on alone after 1 s" in sentence and "force" in sentence
    with pytest.raises(Problem, match="this is the standby of"):
        standby.streams.leadership.check()
    assert standby.post("/v1/standby/promote", {"force": True})["role"] == "leader"


def test_a_leader_that_is_gone_keeps_the_lease_of_its_standby(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path, timeout=1.5)
    leader.stop()
    sleep(2.5)
    assert standby.status()["may_lead"]
    assert standby.post("/v1/standby/promote", {})["role"] == "leader"


def test_the_former_leader_takes_no_more_rows_once_it_is_back(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path, timeout=4.0)
    leader.stop()
    standby.post("/v1/standby/promote", {})
    standby.post(f"{STREAM}/step", sent(range(40, 42)))
    back = begin(tmp_path / "a", port=leader.port, timeout=4.0)
    # It waits for its standby, which is none any more, and acknowledges nothing.
    status, sentence = back.refusal(f"{STREAM}/step", sent(range(42, 43)))
    assert (status, sentence) == (
        503,
        f"this service was replaced by {standby.url}, which leads in epoch 1: send it there",
    )
    until(lambda: json.loads((tmp_path / "b/epoch.json").read_text())["former"] == "", "the new one to know that")
    lost = back.power.last_position
    back.stop()
    again = begin(tmp_path / "a", port=leader.port)
    assert again.refusal(f"{STREAM}/step", sent(range(42, 43)))[0] == 503  # also after a restart
    again.stop()
    new = begin(tmp_path / "a", standby, port=leader.port)
    in_step(standby, new)
    assert new.power.log.chain == standby.power.log.chain
    # What it had and nobody had acknowledged is not deleted.
    (aside,) = (tmp_path / "a" / "aside").iterdir()
    with working(aside, **{k: v for k, v in POWER.items() if k not in ("name",)}) as left:
        assert left.last_position >= lost - 1
    same(known(new.power, {}), known(standby.power, {}))


def test_a_former_leader_that_stands_by_already_needs_no_word(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path)
    leader.stop()
    standby.post("/v1/standby/promote", {})
    now = standby.streams.leadership.now
    (tmp_path / "a" / "epoch.json").write_text(
        (tmp_path / "a" / "epoch.json").read_text().replace('"role": "leader"', '"role": "standby"')
    )
    back = begin(tmp_path / "a", standby, port=leader.port)
    back.post("/v1/standby/fence", {"service": now.service, "epoch": now.number, "leader": standby.url})
    in_step(standby, back)
    assert back.status()["role"] == "standby"
    standby.stop()
    assert back.post("/v1/standby/promote", {})["epoch"] == 2


def test_what_was_in_flight_when_the_leader_is_replaced_is_refused(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path, timeout=20.0)
    assert standby.standing_by is not None
    with ThreadPoolExecutor(1) as pool:
        with standby.standing_by._lock:
            answer = pool.submit(leader.refusal, f"{STREAM}/step", sent(range(40, 41)))
            until(lambda: leader.power.knowledge.position == 2, "the leader to learn it")
            sleep(0.3)  # the entry has come, and is not written
            standby.standing_by._stopping.set()
        standby.standing_by._thread.join()
        standby.standing_by._stopping.clear()
        standby.post("/v1/standby/promote", {})
        assert answer.result(30) == (
            503,
            f"this service was replaced by {standby.url}, which leads in epoch 1: send it there",
        )
    assert standby.post(f"{STREAM}/step", sent(range(40, 41)))["learned"] == 1


def test_a_new_leader_takes_nothing_from_the_one_before(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path)
    leader.stop()
    standby.post("/v1/standby/promote", {})
    position = standby.post(f"{STREAM}/step", sent(range(40, 42)))["position"]
    standby.stop()
    back = begin(tmp_path / "a")
    mistaken = begin(tmp_path / "b", back)  # told to stand by the one that it has replaced
    until(lambda: "replaced" in str(mistaken.status()["error"]), "it to see that")
    assert mistaken.power.last_position == position
    assert mistaken.standing_by is not None
    with pytest.raises(Problem, match="expected a leader of epoch 1 or later, got one of 0"):
        mistaken.standing_by._check({"epoch": 0, "service": "of an older version that did not see it"})
    assert back.status()["role"] == "fenced"
    assert back.refusal(f"{STREAM}/step", sent(range(42, 43)))[0] == 503


def test_a_standby_of_other_streams_is_refused(begin: Callable[..., Service], tmp_path: Path):
    pair(begin, tmp_path)
    other, standby = pair(begin, tmp_path / "others")
    standby.stop()
    leader = begin(tmp_path / "third")
    leader.post("/v1/streams", POWER)
    mistaken = begin(tmp_path / "others" / "b", leader)
    until(lambda: "got one of others" in str(mistaken.status()["error"]), "it to be refused")
    assert mistaken.power.last_position == 1 and other.status()["role"] == "leader"
    with pytest.raises(Exception, match="got streams of their own"):
        Service(tmp_path / "third", other)


def test_a_leader_has_one_standby(begin: Callable[..., Service], tmp_path: Path):
    leader, _ = pair(begin, tmp_path)
    second = begin(tmp_path / "c", leader)
    until(lambda: "a service has one" in str(second.status()["error"]), "the second to be refused")
    assert second.streams.all() == []


def test_a_standby_that_was_away_goes_on_from_the_archive_or_copies(
    begin: Callable[..., Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    leader, standby = pair(begin, tmp_path, timeout=1.0)
    standby.stop()
    copies: list[str] = []
    taken = shipping.take_copy
    monkeypatch.setattr(
        "streamgp.service.standby.standing_by.take_copy", lambda *given: copies.append(given[1]) or taken(*given)
    )
    for i in range(40, 60):
        leader.post(f"{STREAM}/step", sent(range(i, i + 1)))
    leader.power.sequencer.call(lambda log: log.forget(15))  # type: ignore[union-attr]
    until(lambda: leader.power.log.first == 16, "entries to be dropped")
    standby = begin(tmp_path / "b", leader, timeout=1.0)
    in_step(leader, standby)
    assert not copies
    same(known(standby.power, {}), known(leader.power, {}))
    standby.stop()
    for i in range(60, 65):
        leader.post(f"{STREAM}/step", sent(range(i, i + 1)))
    leader.power.sequencer.call(lambda log: log.forget(24))  # type: ignore[union-attr]
    until(lambda: leader.power.log.first == 25, "entries to be dropped")
    (tmp_path / "a/streams/power/archive.sqlite").unlink()
    standby = begin(tmp_path / "b", leader, timeout=1.0)
    in_step(leader, standby)
    assert copies == ["power"]
    same(known(standby.power, {}), known(leader.power, {}))


def test_a_stream_is_copied_however_long_that_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpointing, "SECONDS", 0.0)
    monkeypatch.setattr(checkpointing, "SHARE", 1.0)
    monkeypatch.setattr(backup, "TRIES", 3)
    copy_log = backup._copy_log

    def slowly(*paths: Path) -> int:
        sleep(0.5)
        return copy_log(*paths)

    monkeypatch.setattr(backup, "_copy_log", slowly)
    with working(tmp_path / "power") as stream, ThreadPoolExecutor(1) as pool:
        (tmp_path / "power" / "stream.json").write_text(stream.config.to_json())
        done = Event()

        def load() -> None:
            for i in range(100_000):
                if done.is_set():
                    return
                stream.step(rows_with_inputs(stream.config, [{"x": {"a": 0.1, "b": i}, "y": 1.0}], True)).result(60)

        loading = pool.submit(load)
        try:
            until(lambda: len(stream.checkpoints.positions()) > 1, "checkpoints")
            copied = b"".join(shipping.archived(stream))
        finally:
            done.set()
        loading.result(60)
        before = stream.checkpointing.position
        _step(stream, 0)
        until(lambda: stream.checkpointing.position > before, "checkpoints to be written again")
    with tarfile.open(fileobj=BytesIO(copied)) as tar:
        tar.extractall(tmp_path / "copy", filter="data")
    with working(tmp_path / "copy" / "stream") as copy:
        assert copy.last_position > 2


def test_entries_go_as_they_are(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        for i in range(5):
            _step(stream, i)
        found = entries_after(stream, 2, stream.log.chain_at(2) or b"")
        assert found is not None and [each[0] for each in found] == [3, 4, 5]
        document, entries = unpacked(packed({"in_step": True}, {"power": found, "empty": []}))
        assert (document, entries) == ({"in_step": True}, {"power": found})
        assert entries_after(stream, 2, b"another") is None
        assert entries_after(stream, 5, stream.log.chain) == []
        assert entries_after(stream, 6, stream.log.chain) is None
        assert found[0][4] == link(stream.log.chain_at(2) or b"", *found[0][:4])


def _step(stream: LiveStream, i: int) -> None:
    stream.step(rows_with_inputs(stream.config, rows(range(i, i + 1), {}), with_target=True)).result(60)


def test_entries_that_do_not_fit_are_not_written(tmp_path: Path):
    with working(tmp_path / "power") as leader, working(tmp_path / "copy") as stream:
        _step(leader, 0)
        _step(leader, 1)
        found = entries_after(leader, 0, b"")
        assert found is not None
        forged = [found[0], (*found[1][:4], b"another link")]
        (written,) = shipping.take_entries(stream, forged)
        with pytest.raises(Problem, match="otherwise than the leader"):
            written.result(60)
        assert (stream.log.position, stream.last_position, list(stream.log.after(0))) == (0, 0, [])
        for each in shipping.take_entries(stream, found):
            each.result(60)
        until(lambda: stream.knowledge.position == 2, "it to be learnt")
        same(known(stream, {}), known(leader, {}))


def test_a_standby_has_the_challengers_too(begin: Callable[..., Service], tmp_path: Path):
    leader, standby = pair(begin, tmp_path)
    leader.post(f"{STREAM}/challengers", {"name": "other", "warmup": 20})
    leader.post(f"{STREAM}/challengers", {"name": "stays", "seed": 1})
    leader.post(f"{STREAM}/step", sent(range(40, 75)))
    in_step(leader, standby)
    assert standby.refusal(f"{STREAM}/challengers", {"name": "new"})[0] == 503

    def standing(service: Service) -> Any:
        until(lambda: not service.power.knowledge.challengers.has_work, "the challengers to catch up")
        return service.client.request("GET", f"{STREAM}/challengers")

    for each in (leader, standby):
        each.power.settled()
    expected = standing(leader)
    assert [each["scored_rows"] for each in expected["challengers"]] == [15, 5]
    same(standing(standby), expected)
    leader.post(f"{STREAM}/challengers/other/promote", {})
    leader.post(f"{STREAM}/step", sent(range(75, 78)))
    in_step(leader, standby)
    same(known(standby.power, {}), known(leader.power, {}))
    standby.post("/v1/standby/promote", {"force": True})
    standby.post(f"{STREAM}/challengers/stays/promote", {"force": True})
