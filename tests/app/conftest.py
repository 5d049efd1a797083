"""What the tests of the command share."""

from pathlib import Path

import pytest
from streams import table


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small CSV file of the test's own."""
    path = tmp_path / "data.csv"
    table().write_csv(path)
    return path
