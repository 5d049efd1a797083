"""`streamgp check` learns the latest rows again in a copy: equal predictions pass, others do not."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from live_streams import KINDS, PATIENCE, copied, learn, predict, rows, step, working
from streamgp.app.cli import app
from streamgp.service import challenging
from streamgp.service.keyed_model import KeyedModel
from streamgp.service.single_model import SingleModel
from streamgp.version import __version__

pytestmark = pytest.mark.slow


def served(directory: Path, options: dict[str, Any], again: bool = True) -> Path:
    """Return a service's directory with a stream that has seen most of what a stream can see."""
    path = directory / "streams" / "power"
    with working(path, **options) as stream:
        (path / "stream.json").write_text(stream.config.to_json())
        step(stream, rows(range(20), options))
        challenging.begin(stream, {"name": "other", "warmup": 20, "seed": 1}).result(PATIENCE)
        step(stream, rows(range(20, 40), options))
        position = stream.write_checkpoint().result(PATIENCE)["position"]
        step(stream, rows(range(40, 44), options, wrong=True))
        stream.restore(position).result(PATIENCE)
        for i in range(40, 50):
            step(stream, rows(range(i, i + 1), options))
        predict(stream, rows(range(50, 53), options, targets=False))
        learn(stream, [{"id": "r51", "y": 0.5}])
        challenging.promote(stream, "other", force=True).result(PATIENCE)
        step(stream, rows(range(53, 60), options))
    return directory


def files_of(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
    }


def checked(directory: Path, *more: str) -> tuple[int, str]:
    before = files_of(directory)
    result = CliRunner().invoke(app, ["check", str(directory), *more])
    assert files_of(directory) == before, "the directory was changed"
    return result.exit_code, result.output


@pytest.mark.parametrize("kind", KINDS)
def test_the_version_that_wrote_a_directory_goes_on_with_it(kind: str, tmp_path: Path):
    served(tmp_path, KINDS[kind])
    code, said = checked(tmp_path, "--with", __version__)
    assert code == 0, said
    assert "20 predictions are the same" in said and "goes on with 1 streams" in said


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_predicts_otherwise_does_not(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    served(tmp_path, KINDS[kind])
    model = KeyedModel if kind == "keys" else SingleModel
    usual = model.stepped

    def otherwise(self: Any, rows: Any) -> Any:
        return usual(self, rows._replace(X=rows.X + 1e-3))

    monkeypatch.setattr(model, "stepped", otherwise)
    monkeypatch.setattr(SingleModel, "steps_singly", lambda *_: False)
    code, said = checked(tmp_path)
    assert code == 1 and "predictions differ" in said and "does not go on as it was with power" in said


def test_a_directory_that_was_copied_from_a_service_at_work_is_checked_too(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        step(stream, rows(range(50), {}))
        predict(stream, rows(range(50, 53), {}, targets=False))
        (stream.directory / "stream.json").write_text(stream.config.to_json())
        (tmp_path / "live" / "streams").mkdir(parents=True)
        copied(stream, tmp_path / "live" / "streams" / "power")
    code, said = checked(tmp_path / "live")
    assert code == 0 and "entries learnt again" in said


def test_what_cannot_be_read_is_said_and_the_others_are_checked(tmp_path: Path):
    served(tmp_path, {})
    broken = tmp_path / "streams" / "broken"
    broken.mkdir()
    (broken / "stream.json").write_text(json.dumps({"name": "broken", "target": "y", "model": "new in 0.9"}))
    code, said = checked(tmp_path)
    assert code == 1 and "broken: cannot be learnt again" in said and "power: " in said
    assert "does not go on as it was with broken;" in said


def test_another_version_is_to_be_run_by_itself(tmp_path: Path):
    served(tmp_path, {})
    code, said = checked(tmp_path, "--with", "99.1")
    assert code == 1 and "uvx --from" in said and "streamgp[serve]==99.1" in said
