"""A reader's memory does not grow with its file."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
COLUMNS = 10
# Of the smaller table. Parquet is read in slabs of up to 65,536 rows, of which it must hold more than one.
ROWS = {"csv": 8_000, "jsonl": 8_000, "parquet": 150_000}
WRITERS = {"csv": pl.DataFrame.write_csv, "parquet": pl.DataFrame.write_parquet, "jsonl": pl.DataFrame.write_ndjson}
# The highest resident memory of a process, by Linux' own count: what `getrusage` tells begins with the parent's.
READ = """
import re, sys
from streamgp.table import open_rows
for path in sys.argv[1:]:
    with open_rows(path, target="y") as reader:
        rows = sum(len(chunk.rows) for chunk in reader)
    print(rows, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
@pytest.mark.parametrize("kind", ROWS)
def test_ten_times_the_rows_take_no_more_memory(tmp_path: Path, kind: str) -> None:
    names = [*(f"x{j}" for j in range(COLUMNS - 1)), "y"]
    large = pl.from_numpy(np.random.default_rng(0).normal(size=(10 * ROWS[kind], COLUMNS)), schema=names)
    paths = [tmp_path / f"{name}.{kind}" for name in ("small", "large")]
    for path, rows in zip(paths, (ROWS[kind], 10 * ROWS[kind]), strict=True):
        WRITERS[kind](large.head(rows), path)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", READ, *map(str, paths)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (few, before), (many, after) = (map(int, line.split()) for line in result.stdout.splitlines())
    assert (few, many) == (ROWS[kind], 10 * ROWS[kind])
    # Whoever holds all rows, even as bare numbers, grows by more than nine tenths of this.
    numbers = 10 * ROWS[kind] * COLUMNS * 8
    assert (after - before) * 1024 < numbers / 2
