"""A checkpoint loads as it was saved or says why not, whatever happened to the disk in between."""

import hashlib
import itertools
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from jaxtyping import Array, Float

from failing_disk import Disk
from streamgp.numerics import keys
from streamgp.numerics.checkpoint import CheckpointError, load, register, save
from streamgp.numerics.module import Module, static_field


@register
class Gain(Module):
    value: Float[Array, " n"]
    order: int = static_field()


def tree(seed: int) -> dict[str, Any]:
    mean = jax.random.normal(keys.key(seed), (4,), jnp.float64)
    return {
        "gain": Gain(mean, seed),
        "rows": np.arange(3.0) + seed,
        "key": keys.key(seed),
        "best": -np.inf,
    }


def assert_is(directory: Path, seed: int) -> None:
    loaded, meta = load(directory)
    assert meta == {"position": seed}
    assert repr(eqx.tree_pformat(loaded, short_arrays=False)) == repr(
        eqx.tree_pformat(tree(seed), short_arrays=False)
    )
    assert np.asarray(loaded["gain"].value).tobytes() == np.asarray(tree(seed)["gain"].value).tobytes()


def saved(directory: Path, seed: int = 1) -> Path:
    save(directory, tree(seed), {"position": seed})
    return directory


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def reseal(directory: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit checkpoint.json and give it the checksum that its description asks for."""
    path = directory / "checkpoint.json"
    document = json.loads(path.read_text())
    del document["checksum"]
    edit(document)
    body = json.dumps(document, indent=1) + "\n"
    document["checksum"] = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(json.dumps(document, indent=1) + "\n")


def test_round_trip_and_replacement(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "one"
    for seed in (1, 2, 2):
        assert_is(saved(target, seed), seed)
        assert len(names(target)) == 2


def test_float64_survives_a_caller_without_it(tmp_path: Path) -> None:
    value = jnp.asarray([0.1, 1e300])
    with jax.enable_x64(False):
        save(tmp_path, value, {})
        loaded, _ = load(tmp_path)
    assert loaded.dtype == jnp.float64
    assert np.asarray(loaded).tobytes() == np.asarray(value).tobytes()


def test_the_directory_describes_itself(tmp_path: Path) -> None:
    document = json.loads((saved(tmp_path) / "checkpoint.json").read_text())
    assert document["format"] == "streamgp-checkpoint"
    assert document["format_version"] == 1
    assert document["meta"] == {"position": 1}
    assert document["tree"]["gain"] == {
        "$module": "Gain",
        "fields": {
            "value": {"$array": "/gain/value", "kind": "jax", "dtype": "float64", "shape": [4]},
            "order": 1,
        },
    }
    payload = (tmp_path / document["arrays"]["file"]).read_bytes()
    assert hashlib.sha256(payload).hexdigest() == document["arrays"]["sha256"]
    np.testing.assert_array_equal(safetensors.numpy.load(payload)["/rows"], [1.0, 2.0, 3.0])
    before = (tmp_path / "checkpoint.json").read_bytes()
    reseal(tmp_path, lambda document: None)
    assert (tmp_path / "checkpoint.json").read_bytes() == before


@pytest.mark.parametrize("dead", [False, True], ids=["full once", "power cut"])
@pytest.mark.parametrize("first", [False, True], ids=["over another", "first"])
def test_a_failure_of_any_call_leaves_a_loadable_checkpoint(tmp_path: Path, dead: bool, first: bool) -> None:
    outcomes = []
    for fail_at in itertools.count(1):
        target = tmp_path / str(fail_at)
        if not first:
            saved(target, 1)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, fail_at, dead)
            try:
                saved(target, 2)
                outcome = "saved"
            except CheckpointError as error:
                assert "could not write the checkpoint (No space left on device)" in str(error)
                outcome = "replaced" if "replace" in disk.calls[: fail_at - 1] else "failed"
        if len(disk.calls) < fail_at:
            break
        outcomes.append(outcome)
        if outcome == "failed" and not dead and disk.calls[fail_at - 1] not in ("mkdir", "replace"):
            assert len(names(target)) == (0 if first else 2), "space is given back"
        if dead:
            disk.lose_unsynced()
        if outcome == "saved" or (outcome == "replaced" and not (dead and disk.rename_undone)):
            assert_is(target, 2)
        elif not first:
            assert_is(target, 1)
        else:
            with pytest.raises(CheckpointError, match="expected a checkpoint, found"):
                load(target)
        assert_is(saved(target, 3), 3)
        assert len(names(target)) == 2
    assert outcomes.count("failed") >= 13
    assert outcomes.count("replaced") == 2
    assert outcomes.count("saved") >= 1


def test_a_disk_that_really_refuses(tmp_path: Path) -> None:
    saved(tmp_path)
    before = names(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(CheckpointError, match=r"could not write the checkpoint \(File too large\)"):
            save(tmp_path, np.zeros(50_000), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == before
    assert_is(tmp_path, 1)


def test_an_interrupted_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path)
    before = names(tmp_path)

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupt)
        saved(tmp_path, 2)
    assert names(tmp_path) == before
    assert_is(tmp_path, 1)


def test_saving_touches_no_file_of_others(tmp_path: Path) -> None:
    (tmp_path / "arrays-of-mine.safetensors").write_text("keep")
    saved(saved(tmp_path), 2)
    assert "arrays-of-mine.safetensors" in names(tmp_path)


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x2A, 0x80], ids=["low bit", "case", "white space", "high bit"])
def test_any_flipped_byte_is_noticed(tmp_path: Path, mask: int) -> None:
    for path in saved(tmp_path).iterdir():
        whole = path.read_bytes()
        for i in range(mask % 5, len(whole), 5 if path.suffix == ".json" else 1):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ mask]) + whole[i + 1 :])
            with pytest.raises(CheckpointError):
                load(tmp_path)
        path.write_bytes(whole)
    assert_is(tmp_path, 1)


def test_any_missing_or_added_byte_is_noticed(tmp_path: Path) -> None:
    for path in saved(tmp_path).iterdir():
        whole = path.read_bytes()
        for damaged in (
            *(whole[:i] for i in range(0, len(whole), 7)),
            whole + b"\n",
            whole + b"\0",
            b" " + whole,
        ):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError):
                load(tmp_path)
        path.write_bytes(whole)
    assert_is(tmp_path, 1)


def test_load_says_what_is_wrong_with_the_files(tmp_path: Path) -> None:
    manifest = tmp_path / "checkpoint.json"

    def complaint() -> str:
        with pytest.raises(CheckpointError) as caught:
            load(tmp_path)
        return str(caught.value)

    with pytest.raises(CheckpointError, match=r"nowhere.*no such directory; check the path"):
        load(tmp_path / "nowhere")
    assert "found a directory without it" in complaint()
    manifest.mkdir()
    assert "could not be read (Is a directory)" in complaint()
    manifest.rmdir()
    for text in ("", "nonsense", "[" * 100_000, "é", '{"a": 1'):
        manifest.write_text(text)
        assert "expected JSON, found a damaged or foreign file" in complaint()
    for text in ("[]", "3", "{}", '{"format": "other"}'):
        manifest.write_text(text)
        assert "expected the format 'streamgp-checkpoint'" in complaint()

    def edited(edit: Callable[[dict[str, Any]], Any]) -> str:
        reseal(saved(tmp_path), edit)
        return complaint()

    assert "expected format version 1, found 2; load it with" in edited(lambda d: d.update(format_version=2))
    assert "expected versions, meta, tree and arrays" in edited(lambda d: d.pop("tree"))
    outside = edited(lambda d: d["arrays"].update(file="../../etc/passwd"))
    assert "expected versions, meta, tree and arrays" in outside
    assert "of another" not in edited(lambda d: d["tree"]["rows"].update(dtype="float32"))
    assert "(written by streamgp 0.0.1; this is " in edited(
        lambda d: (d["versions"].update(streamgp="0.0.1"), d["tree"]["gain"]["fields"].update(old=1))
    )
    assert "its Gain has other fields than this version expects (missing: none; unknown: old)" in complaint()

    saved(tmp_path)
    manifest.write_text(manifest.read_text().replace('"position": 1', '"position": 1e999'))
    assert "its checksum does not match, so it is damaged or edited" in complaint()
    arrays = next(path for path in saved(tmp_path).iterdir() if path != manifest)
    size = arrays.stat().st_size
    arrays.write_bytes(arrays.read_bytes()[:-1])
    assert f"expected {size} bytes, found {size - 1}" in complaint()
    arrays.write_bytes(bytes(size))
    assert "its checksum does not match, so it is damaged" in complaint()
    reseal(tmp_path, lambda d: d["arrays"].update(sha256=hashlib.sha256(bytes(size)).hexdigest()))
    assert "expected a safetensors file" in complaint()
    arrays.unlink()
    assert "could not be read (No such file or directory)" in complaint()


def test_functions_are_passed_on(tmp_path: Path) -> None:
    save(tmp_path, [names], {})
    with pytest.raises(CheckpointError, match=r'pass functions={"\w*\.?test_checkpoint:names": f}'):
        load(tmp_path)
    assert load(tmp_path, functions={f"{__name__}:names": saved})[0] == [saved]


@pytest.mark.parametrize("meta", [{"a": float("nan")}, {"a": (1,)}, {"a": {1: 2}}, {"a": np.float32(1)}, {"a": {1}}])
def test_meta_must_be_plain_json(tmp_path: Path, meta: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="meta: expected plain JSON"):
        save(tmp_path / "new", {}, meta)
    assert not (tmp_path / "new").exists()


def test_saving_where_no_directory_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match=r"could not write the checkpoint \(File exists\)"):
        save(tmp_path / "file", {}, {})
    with pytest.raises(CheckpointError, match=r"could not write the checkpoint \(Not a directory\)"):
        save(tmp_path / "file" / "below", {}, {})
    assert (tmp_path / "file").read_text() == "mine"
