"""Streams whose directory was damaged, or copied while it was written: nothing is lost without a word."""

import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from live_streams import PATIENCE, copied, data, inputs, predict, step, working
from streamgp.app.cli import app
from streamgp.service.backup import back_up
from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.problems import Problem
from streamgp.service.salvage import accept_loss

pytestmark = pytest.mark.slow

X, Y = data(200)
CONFIG = StreamConfig(name="power", target="load", features=("a", "b"), model="linear", warmup=30)


def rows(of: range) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "x": inputs(X[i]), "y": float(Y[i])} for i in of]


def singly(stream: LiveStream, of: range) -> None:
    for row in rows(of):
        assert step(stream, [row])["position"] == stream.last_position


def checkpoint(stream: LiveStream) -> None:
    stream.write_checkpoint().result(PATIENCE)


def ahead(stream: LiveStream) -> list[list[float]]:
    return predict(stream, [{"x": inputs(x)} for x in X[190:193]], keep=False)


def after(tmp_path: Path, n: int) -> list[list[float]]:
    """Return what a stream predicts that was given so many rows and nothing else."""
    with working(tmp_path / f"after {n}") as stream:
        singly(stream, range(n))
        return ahead(stream)


def close(found: list[list[float]], expected: list[list[float]]) -> bool:
    return all(a == pytest.approx(b, rel=1e-9) for a, b in zip(found, expected, strict=True))


def test_a_copy_whose_log_is_older_than_its_checkpoint(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        singly(stream, range(90))
        checkpoint(stream)
        singly(stream, range(90, 100))
        shutil.copytree(stream.directory / "log", tmp_path / "copy" / "log")
        singly(stream, range(100, 150))
        checkpoint(stream)
        shutil.copytree(stream.directory / "checkpoints", tmp_path / "copy" / "checkpoints")
    with pytest.raises(
        Problem, match=r"ends at 100, and there is a checkpoint of 150: entries 101 to 150 .*--accept-loss"
    ):
        LiveStream(tmp_path / "copy", CONFIG)
    assert "goes on at 150" in accept_loss(tmp_path / "copy", CONFIG)
    with working(tmp_path / "copy") as stream:
        singly(stream, range(150, 190))
        crashed = copied(stream, tmp_path / "crashed")
    with working(crashed) as again:
        assert again.last_position == again.status()["learned"] == 190
        assert step(again, rows(range(150, 190)))["repeated"] == 40
        assert close(ahead(again), after(tmp_path, 190))
    with pytest.raises(Problem, match="has lost nothing"):
        accept_loss(tmp_path / "copy", CONFIG)


def test_a_checkpoint_that_is_not_of_this_log_is_never_read(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        singly(stream, range(40))
        checkpoint(stream)
        singly(stream, range(40, 60))
        other = copied(stream, tmp_path / "copy")
        singly(stream, range(60, 80))
        checkpoint(stream)
        singly(stream, range(80, 90))
    with working(other) as stream:  # goes its own way, and is killed
        singly(stream, range(100, 160))
        mixed = copied(stream, tmp_path / "mixed")
        expected = ahead(stream)
    foreign = f"{80:015d}"
    shutil.copytree(tmp_path / "power" / "checkpoints" / foreign, mixed / "checkpoints" / foreign)
    with working(mixed) as stream:
        assert f"{80} cannot be used" in stream.notices[0] and "in another log" in stream.notices[0]
        assert stream.durability()["notices"] == stream.notices
        assert close(ahead(stream), expected)
        assert (mixed / "aside" / f"checkpoint-{foreign}").exists()
        assert 80 not in stream.checkpoints.positions()


def flipped(wal: Path) -> None:
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 16
    wal.write_bytes(bytes(data))


def halved(wal: Path) -> None:
    os.truncate(wal, wal.stat().st_size // 2)


@pytest.mark.parametrize("damage", [flipped, halved])
def test_damage_in_the_log_says_which_rows_are_missing(damage: Callable[[Path], None], tmp_path: Path):
    with working(tmp_path / "power") as stream:
        singly(stream, range(40))
        checkpoint(stream)
        singly(stream, range(40, 150))
        crashed = copied(stream, tmp_path / "crashed")
        expected = ahead(stream)
    damage(crashed / "log" / "log-00000001.sqlite-wal")
    with pytest.raises(
        Problem, match=r"and entries up to 150 were acknowledged: entries \d+ to 150 are missing"
    ) as said:
        LiveStream(crashed, CONFIG)
    first = int(said.value.detail.split("entries ")[2].split(" ")[0])
    with pytest.raises(Problem):  # it stays so until somebody decides
        LiveStream(crashed, CONFIG)
    assert 40 < first < 150
    assert f"goes on at {first - 1}. Lost: entries {first} to 150." in accept_loss(crashed, CONFIG)
    with working(crashed) as stream:
        assert stream.last_position == stream.status()["learned"] == first - 1
        assert step(stream, rows(range(30, first - 1)))["repeated"] == first - 31
        singly(stream, range(first - 1, 150))
        assert close(ahead(stream), expected)


def test_a_description_that_changed_is_not_taken_for_the_stream(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        singly(stream, range(5))
    with pytest.raises(Problem, match=r"stream.json has lags \[3\] where it was None"):
        LiveStream(tmp_path / "power", StreamConfig(**{**CONFIG.__dict__, "options": {"lags": [3]}}))
    with working(tmp_path / "power") as stream:
        assert stream.last_position == 5


def test_all_checkpoints_may_be_lost_while_the_log_has_everything(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        singly(stream, range(40))
        checkpoint(stream)
        singly(stream, range(40, 50))
        crashed = copied(stream, tmp_path / "crashed")
        expected = ahead(stream)
    (crashed / "checkpoints" / f"{40:015d}" / "checkpoint.json").write_text("{}")
    with working(crashed) as stream:
        assert "learnt again from the log" in stream.notices[0]
        assert close(ahead(stream), expected)


@pytest.fixture(scope="module")
def damage_campaign(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from benchmarks.robustness import service_damage
    from streamgp.service import checkpointing, history

    before = checkpointing.SECONDS, history.PART
    yield service_damage, service_damage.Whole(tmp_path_factory.mktemp("whole"))
    checkpointing.SECONDS, history.PART = before


def test_no_damage_of_any_file_is_a_silent_loss(damage_campaign: Any, tmp_path: Path):
    campaign, whole = damage_campaign
    random_ = random.Random(0)
    for i, file in enumerate(whole.files["killed"]):
        directory = Path(shutil.copytree(whole.directories["killed"], tmp_path / str(i)))
        what = campaign.damaged(directory / file, random_.choice(campaign.WAYS), random_)
        found, said = campaign.judged(directory, whole, file)
        assert found != "SILENT LOSS", f"{file}, {what}: {said}"


@pytest.mark.parametrize("how", ["killed", "ended"])
def test_a_log_whose_pages_are_lost_goes_on_from_what_is_left(how: str, damage_campaign: Any, tmp_path: Path):
    campaign, whole = damage_campaign
    random_ = random.Random(0)
    for way in campaign.PAGES:
        directory = Path(shutil.copytree(whole.directories[how], tmp_path / way))
        file = max(each for each in whole.files[how] if each.startswith("log/log") and not each.endswith("-shm"))
        campaign.damaged(directory / file, way, random_)
        found, said = campaign.judged(directory, whole, file)
        assert found != "SILENT LOSS", f"{file}, {way}: {said}"


def test_a_log_whose_pages_are_exchanged_is_salvaged_or_refused(damage_campaign: Any, tmp_path: Path):
    """In some of these a scan finds entries that a look-up does not."""
    campaign, whole = damage_campaign
    file = max(each for each in whole.files["ended"] if each.startswith("log/log"))
    for seed in range(60, 120):
        directory = Path(shutil.copytree(whole.directories["ended"], tmp_path / str(seed)))
        campaign.damaged(directory / file, "pages exchanged", random.Random(seed))
        with suppress(Problem):
            assert "goes on at" in accept_loss(directory, campaign.CONFIG)


def test_a_log_that_is_gone_with_its_end_leaves_it_open_what_came_last(damage_campaign: Any, tmp_path: Path):
    campaign, whole = damage_campaign
    directory = Path(shutil.copytree(whole.directories["killed"], tmp_path / "power"))
    shutil.rmtree(directory / "log")
    newest = max(int(path.name) for path in (directory / "checkpoints").iterdir())
    with pytest.raises(Problem, match=f"entries 1 to {newest} at least are missing"):
        LiveStream(directory, campaign.CONFIG)
    said = accept_loss(directory, campaign.CONFIG)
    assert f"goes on at {newest}. Lost: what was acknowledged after {newest}, if anything was, which is not" in said


@pytest.mark.parametrize("how", ["killed", "ended"])
def test_a_directory_in_the_place_of_scored_rows_stops_no_stream(how: str, damage_campaign: Any, tmp_path: Path):
    campaign, whole = damage_campaign
    directory = Path(shutil.copytree(whole.directories[how], tmp_path / "power"))
    path = directory / min(file for file in whole.files[how] if file.startswith("history/"))
    path.unlink()
    path.mkdir()
    with campaign.opened(directory) as stream:
        assert stream.last_position == whole.last
        assert any(f"{path}: is not as it was written" in each for each in stream.notices)


def directory_of(stream: LiveStream, tmp_path: Path) -> Path:
    """Return the directory of a service that has a stream."""
    (stream.directory / "stream.json").write_text(stream.config.to_json())
    return tmp_path / "live"


def test_a_copy_made_while_rows_come(tmp_path: Path):
    with working(tmp_path / "live" / "streams" / "power") as stream:
        live = directory_of(stream, tmp_path)
        (live / "tokens.json").write_text("{}")
        copies = []
        for i in range(6):
            singly(stream, range(20 * i, 20 * i + 15))
            checkpoint(stream)
            singly(stream, range(20 * i + 15, 20 * i + 20))
            assert stream.sequencer is not None
            stream.sequencer.call(lambda log: log.renew_if_large(1))
            target = tmp_path / f"copy {i}"
            assert back_up(live, target, lambda *_: None) == ({"power": 20 * i + 20}, {})
            copies.append((target, ahead(stream)))
    for i, (target, expected) in enumerate(copies):
        assert sorted(path.name for path in target.iterdir()) == ["streams", "tokens.json"]
        for _ in range(2):
            with working(target / "streams" / "power") as copy:
                assert (copy.last_position, copy.notices) == (20 * i + 20, [])
                assert close(ahead(copy), expected)
    result = CliRunner().invoke(app, ["backup", str(live), str(tmp_path / "stopped")])
    assert result.exit_code == 0 and "power up to 120" in result.output
    with working(tmp_path / "stopped" / "streams" / "power") as copy:
        assert close(ahead(copy), copies[-1][1])


@pytest.mark.parametrize("whole", [True, False])
def test_a_checkpoint_that_is_deleted_while_it_is_copied(
    whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The copy begins anew, or does without it, and has all that was acknowledged."""
    with working(tmp_path / "live" / "streams" / "power") as stream:
        live = directory_of(stream, tmp_path)
        singly(stream, range(20))
        checkpoint(stream)
        singly(stream, range(20, 40))
        checkpoint(stream)
        older, *_ = sorted((stream.directory / "checkpoints").iterdir())
        copy, left = shutil.copy2, [older]

        def interrupted(source: Any, target: Any) -> Any:
            found = copy(source, target)
            if Path(source).parent == older and left:
                shutil.rmtree(left.pop()) if whole else (older / "about.json").unlink(missing_ok=True)
            return found

        monkeypatch.setattr(shutil, "copy2", interrupted)
        assert back_up(live, tmp_path / "copy", lambda *_: None) == ({"power": 40}, {})
        expected = ahead(stream)
    assert not whole or not left
    monkeypatch.undo()
    with working(tmp_path / "copy" / "streams" / "power") as again:
        assert again.last_position == 40 and close(ahead(again), expected)


def test_a_copy_is_refused_where_it_would_do_harm_or_hide_a_loss(tmp_path: Path):
    def said(*words: Any) -> str:
        result = CliRunner().invoke(app, ["backup", *map(str, words)])
        assert result.exit_code == 1, result.output
        return " ".join(result.output.split())

    with working(tmp_path / "live" / "streams" / "power") as stream:
        live = directory_of(stream, tmp_path)
        singly(stream, range(10))
        other = shutil.copytree(stream.directory, tmp_path / "live" / "streams" / "other")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    assert "expected a new or an empty directory" in said(live, tmp_path / "full")
    assert "expected the directory of a service" in said(tmp_path / "full", tmp_path / "copy")
    assert "outside of" in said(live, live / "streams" / "copy")
    halved(other / "log" / "log-00000001.sqlite-wal")
    assert "is without other" in (found := said(live, tmp_path / "copy")) and "to 10 are missing" in found
    assert [path.name for path in (tmp_path / "copy" / "streams").iterdir()] == ["power"]
    assert not list(tmp_path.glob(".*.part"))
    assert json.loads((tmp_path / "copy" / "streams" / "power" / "stream.json").read_text())["target"] == "load"
