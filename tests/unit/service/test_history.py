"""Scored rows: the latest in memory, all in files."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from streamgp.service import history as module
from streamgp.service.history import History


def block(start: int, stop: int, classes: int = 0) -> dict[str, Any]:
    n = stop - start
    columns: dict[str, Any] = {"row": np.arange(start, stop), "id": [f"r{i}" for i in range(start, stop)]}
    columns |= {"key": ["even" if i % 2 == 0 else None for i in range(start, stop)], "mean": np.linspace(0.0, 1.0, n)}
    return columns | ({"probabilities": np.full((n, classes), 1.0 / classes)} if classes else {})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PART", 10)
    monkeypatch.setattr(module, "LATEST", 12)


def test_the_latest_rows_and_those_after_one_and_of_a_key(tmp_path: Path):
    history = History(tmp_path, 1000)
    for start in range(0, 30, 3):
        history.add(block(start, start + 3))
        history.seal()
    assert history.latest(4)["row"].tolist() == [26, 27, 28, 29]
    assert history.latest(100, after=27)["id"] == ["r28", "r29"]
    assert history.latest(2, key="even")["row"].tolist() == [26, 28]
    assert history.latest(5, after=99) == {}
    assert history.latest(12)["row"].tolist() == list(range(18, 30))  # at least so many


def test_every_row_is_in_one_file(tmp_path: Path):
    history = History(tmp_path, 1000)
    for start in range(0, 44, 4):
        history.add(block(start, start + 4, classes=2 + (start > 20)))
        history.seal()
    files = sorted(tmp_path.glob("*.parquet"))
    assert [path.stem for path in files] == [f"{start:012d}" for start in (0, 10, 20, 30)]
    rows = [row for path in files for row in pl.read_parquet(path)["row"].to_list()]
    assert rows == list(range(40))
    assert pl.read_parquet(files[2])["probabilities"].list.len().to_list() == [3] * 10


def test_a_crash_makes_the_same_files_again(tmp_path: Path):
    history = History(tmp_path / "a", 1000)
    history.add(block(0, 7))
    tree = history.to_tree()
    again = History(tmp_path / "b", 1000)
    again.restore(tree)
    for each in (history, again):
        each.add(block(7, 25))
        each.seal()
    for path in (tmp_path / "a").iterdir():
        assert pl.read_parquet(path).equals(pl.read_parquet(tmp_path / "b" / path.name))
    assert again.rows == 25


def test_the_oldest_files_go(tmp_path: Path):
    history = History(tmp_path, 20)
    for start in range(0, 60, 5):
        history.add(block(start, start + 5))
        history.seal()
    assert [path.stem for path in sorted(tmp_path.glob("*.parquet"))] == [f"{start:012d}" for start in (40, 50)]


def test_what_counts_no_longer_gets_a_directory_of_its_own(tmp_path: Path):
    history = History(tmp_path, 1000)
    history.add(block(0, 13))
    history.seal()
    tree = history.to_tree()
    history.add(block(13, 37))
    history.seal()
    back = History(tmp_path, 1000)
    back.restore(tree)
    back.begin_anew(7, history)
    back.add(block(13, 21))
    unsealed = back.to_tree()
    back.seal()

    def rows(path: Path) -> list[int]:
        return [row for part in sorted(path.glob("*.parquet")) for row in pl.read_parquet(part)["row"].to_list()]

    aside = tmp_path / f"until-{7:015d}"
    assert (rows(tmp_path), rows(aside)) == (list(range(20)), list(range(10, 37)))
    again = History(tmp_path, 1000)  # a crash before the next checkpoint
    again.restore(unsealed)
    again.seal()
    assert (rows(tmp_path), rows(aside)) == (list(range(20)), list(range(10, 37)))
    for position in range(8, 16):
        back.begin_anew(position)
        back.seal()
    assert len(list(tmp_path.glob("until-*"))) == module.PARTED
