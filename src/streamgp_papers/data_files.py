"""Access to the files of the papers' data sets."""

import hashlib
from pathlib import Path

import numpy as np
import polars as pl

from streamgp.app.outputs import RunError
from streamgp_papers.datasets import DATASETS
from streamgp_papers.generated import Stream


def is_available(name: str, directory: Path | None) -> bool:
    """Check whether a data set can be read from the directory, or needs no file."""
    file = DATASETS[name].file
    return not file or (directory is not None and (directory / file).is_file())


def describe_source(name: str) -> str:
    """Describe a data set in one sentence: its file, the contents and the origin."""
    data = DATASETS[name]
    return (
        f"{data.file}: {data.title}, {data.rows:,} rows of {data.inputs} inputs and a target in the column "
        f"{data.target}; from {data.origin}"
    )


def compute_digest(name: str, directory: Path | None) -> str:
    """Compute a digest of the file of a data set, which differs from that of another file of its name."""
    file = DATASETS[name].file
    if not file or directory is None:
        return "generated"
    with (directory / file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:12]


def load(
    name: str, directory: Path | None, rows: int | None = None, seed: int = 0, *, keep_constant: bool = False
) -> Stream:
    """Load inputs (n, D) and target (n,) in the data set's order, without rows with gaps and constant inputs.

    The first `rows` are those of that order; `seed` is that of a shuffle. With `keep_constant` the inputs that never
    change stay: they count where rows are divided by their length.

    Raises
    ------
    RunError
        If the file is missing; the message has its description and its origin. If it is no Parquet file, has no
        target column or columns that are not numeric, or nothing in it changes.
    """
    data = DATASETS[name]
    if data.generate is not None:
        X, y = data.generate(data.rows)
        return X[:rows], y[:rows]
    if directory is None or not is_available(name, directory):
        raise RunError(f"expected a file {describe_source(name)}; put it into the directory that --data names")
    path = directory / data.file
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise RunError(f"{path}: expected a Parquet file, but: {error}") from None
    if data.target not in frame.columns:
        raise RunError(f"{path}: expected a target in the column {data.target}, got {', '.join(frame.columns)}")
    frame = frame.drop(data.drop, strict=False)
    if others := [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]:
        raise RunError(f"{path}: expected numbers in every column, but not so in {', '.join(others)}; leave them out")
    frame = frame.cast(pl.Float64).filter(pl.all_horizontal(pl.all().is_finite()))
    if data.max_label is not None:
        frame = frame.filter(pl.col(data.target) <= data.max_label)
    if data.order == "shuffled":
        frame = frame[np.random.default_rng(seed).permutation(len(frame))]
    elif data.order == "sorted":
        frame = frame.sort(next(name for name in frame.columns if name != data.target), maintain_order=True)
    frame = frame[:rows]
    constant = {name for name in frame.columns if frame[name].n_unique() < 2}
    if data.target in constant or len(constant) == len(frame.columns) - 1:
        raise RunError(
            f"{path}: expected a target and inputs that change, got {len(frame)} rows without gaps in which "
            f"{', '.join(sorted(constant))} {'does' if len(constant) == 1 else 'do'} not"
        )
    inputs = [name for name in frame.columns if name != data.target and (keep_constant or name not in constant)]
    return frame.select(inputs).to_numpy(), frame[data.target].to_numpy()
