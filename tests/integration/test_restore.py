"""A stream that returns to a checkpoint: as if what came after it had never come, after a crash at any moment too."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from live_streams import KINDS, PATIENCE, Y, copied, known, learn, predict, rows, same, step, until_kept_up, working
from streamgp.service import history
from streamgp.service.checkpointing import Checkpointing
from streamgp.service.history import History
from streamgp.service.knowledge import Knowledge
from streamgp.service.live_stream import LiveStream
from streamgp.service.log import EventLog
from streamgp.service.log_ids import LogIds
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem

pytestmark = pytest.mark.slow


def begin(stream: LiveStream, options: dict[str, Any]) -> int:
    """Learn rows, leave two that wait, and write a checkpoint; return its position."""
    step(stream, rows(range(45), options))
    predict(stream, rows(range(45, 47), options, targets=False))
    return stream.write_checkpoint().result(PATIENCE)["position"]


def go_wrong(stream: LiveStream, options: dict[str, Any]) -> None:
    """Learn wrong targets, of a row that waited too, and let another row wait."""
    learn(stream, [{"id": "r45", "y": -50.0}])
    step(stream, rows(range(47, 70), options, wrong=True))
    predict(stream, rows(range(70, 71), options, targets=False, wrong=True))
    stream.write_checkpoint().result(PATIENCE)


def go_on(stream: LiveStream, options: dict[str, Any]) -> None:
    """Learn the true targets, by the same ids."""
    assert learn(stream, [{"id": "r45", "y": float(Y[45])}])["learned"] == 1
    assert step(stream, rows(range(44, 60), options)[:1] + rows(range(47, 60), options))["repeated"] == 1
    predict(stream, rows(range(70, 71), options, targets=False))


@pytest.mark.parametrize("kind", KINDS)
def test_what_came_after_the_checkpoint_counts_no_longer(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "PART", 20)
    options = KINDS[kind]
    with working(tmp_path / "never", **options) as never, working(tmp_path / "power", **options) as stream:
        begin(never, options)
        position = begin(stream, options)
        go_wrong(stream, options)
        answer = stream.restore(position).result(PATIENCE)
        assert answer == {"restored": position, "position": stream.last_position}
        same(known(stream, options), known(never, options))
        assert stream.restore(position).result(PATIENCE) == answer  # nothing came since
        crashed = copied(stream, tmp_path / "copy")
        for each in (never, stream):
            go_on(each, options)
        same(known(stream, options), known(never, options))
        assert stream.durability()["failure"] is None
    with working(crashed, **options) as again:
        go_on(again, options)
        with working(tmp_path / "never", **options) as never:
            same(known(again, options), known(never, options))
    files = tmp_path / "power" / "history"
    counted = [row for part in sorted(files.glob("*.parquet")) for row in pl.read_parquet(part)["row"].to_list()]
    assert counted == list(range(40))
    (aside,) = files.glob("until-*")
    wrong = pl.concat([pl.read_parquet(part) for part in sorted(aside.glob("*.parquet"))], how="diagonal_relaxed")
    assert wrong.filter(pl.col("y") == -50.0).height == 24


def test_a_crash_at_any_moment_leaves_the_state_before_or_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "PART", 20)
    copies: list[Path] = []
    with working(tmp_path / "power") as stream:
        position = begin(stream, {})
        before = known(stream, {})
        go_wrong(stream, {})
        wrong = known(stream, {})
        stream.write_checkpoint().result(PATIENCE)  # by then the log has been asked to drop what the last one knows
        until_kept_up(stream)

        def crashing(owner: Any, name: str) -> None:
            usual = getattr(owner, name)

            def copy_and_go_on(*args: Any, **more: Any) -> Any:
                copies.append(Path(shutil.copytree(stream.directory, tmp_path / f"{len(copies)} {name}")))
                return usual(*args, **more)

            monkeypatch.setattr(owner, name, copy_and_go_on)

        for owner, name in (
            (LogIds, "set_back"),
            (EventLog, "commit"),
            (Knowledge, "begin_anew"),
            (History, "_part"),
            (Path, "rename"),
            (Checkpointing, "write"),
            (EventLog, "_drop"),
        ):
            crashing(owner, name)
        stream.restore(position).result(PATIENCE)
    monkeypatch.undo()
    names = [path.name.partition(" ")[2] for path in copies]
    assert names[:3] == ["set_back", "commit", "begin_anew"]
    assert names.count("rename") >= 3 and "write" in names
    for copy in copies:
        with working(copy) as again:
            same(known(again, {}), wrong if copy.name in ("0 set_back", "1 commit") else before)


def test_a_stream_that_has_failed_may_be_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with working(tmp_path / "power") as stream:
        position = begin(stream, {})
        before = known(stream, {})
        with monkeypatch.context() as patched:
            patched.setattr(Knowledge, "_step_together", lambda *_: 1 / 0)
            with pytest.raises(Problem, match="could not be learnt"):
                step(stream, rows(range(47, 50), {}))
        with pytest.raises(Problem, match="learns no longer"):
            step(stream, rows(range(47, 50), {}))
        stream.restore(position).result(PATIENCE)
        same(known(stream, {}), before)
        assert step(stream, rows(range(47, 50), {}))["learned"] == 3


def test_a_prediction_from_before_does_not_wait_afterwards(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        position = begin(stream, {})
        go_wrong(stream, {})
        view, era = stream.view, stream._era
        stream.restore(position).result(PATIENCE)
        stream._view, stream._era = view, era  # as if it had been asked for a moment earlier
        asked = rows_with_inputs(stream.config, rows(range(80, 81), {}, targets=False), with_target=False)
        future = stream.predict(asked)[1]
        assert future is not None
        with pytest.raises(Problem, match="replaced while this was predicted"):
            future.result(PATIENCE)


def test_checkpoints_that_were_left_behind_are_not_offered(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        position = begin(stream, {})
        go_wrong(stream, {})
        left = stream.checkpointing.position
        stream.restore(position).result(PATIENCE)
        assert list(stream.checkpoints.offered(stream.knowledge.returns)) == [position, stream.last_position]
        for wrong, said in ((left, f"{left} was left behind"), (7_777, "expected at most .* got 7,777")):
            with pytest.raises(Problem, match=said) as caught:
                stream.restore(wrong)
            assert caught.value.status == 404
        assert not stream.checkpoints.held
        damaged = stream.checkpoints.path(position) / "checkpoint.json"
        damaged.write_text("{}")
        step(stream, rows(range(47, 50), {}))
        with pytest.raises(Problem, match="cannot be read"):
            stream.restore(position)
        assert not stream.checkpoints.held and stream.status()["rows"] == 50
