"""What the tests of the command share."""

from pathlib import Path

import pytest
from streams import table

from streamgp.app import compilation


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small CSV file of the test's own."""
    path = tmp_path / "data.csv"
    table().write_csv(path)
    return path


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets up its process's cache of compiled programs; that of the tests is none of its business."""
    monkeypatch.setattr(compilation, "keep_compiled_programs", lambda: None)
