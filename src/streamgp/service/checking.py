"""Whether this version of the library predicts what was predicted: the latest entries are learnt again in a copy.

The rows since an earlier checkpoint are learnt again, as after a crash, and what is predicted of them is held against
what the last checkpoint has of the same rows. What was predicted of rows that then waited for their labels stands in
the log. Nothing in the directory is opened but to be copied.
"""

import json
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.service.archive import first_kept, kept_entries
from streamgp.service.challengers import MOST_BEHIND
from streamgp.service.checkpoints import Checkpoints, Return
from streamgp.service.config import StreamConfig
from streamgp.service.history import LATEST
from streamgp.service.knowledge import Knowledge
from streamgp.service.log_end import NAME, EndFile
from streamgp.service.log_files import damage_of
from streamgp.service.packing import unpack
from streamgp.service.predictions import NUMBERS, Columns
from streamgp.service.problems import Problem
from streamgp.service.requests import RETURN, restored
from streamgp.service.restoring import read_former

# Predictions differ if they do by more than this part of their size, or of the standard deviation.
TOLERANCE = 1e-6
# A client may have been answered by what was known so many entries before its own.
_VIEWS = 16


class Checked(NamedTuple):
    """What came of a stream.

    Attributes
    ----------
    learnt, compared
        Entries that were learnt again, and rows of which there are predictions of both.
    differ
        The rows whose predictions differ.
    largest
        The largest difference, as a part of a standard deviation or a probability.
    """

    learnt: int
    compared: int
    differ: int
    largest: float


def check_stream(directory: Path, scratch: Path) -> Checked:
    """Return how predictions compare with those that were kept.

    Parameters
    ----------
    directory
        Of the stream; a service may have it, but what is copied may then not fit together.
    scratch
        An empty directory for the copy.

    Raises
    ------
    Problem, CheckpointError, OSError
        If what there is cannot be read or learnt again.
    """
    copy = scratch / directory.name
    shutil.copytree(directory, copy)
    config = StreamConfig.from_document(json.loads((copy / "stream.json").read_text(encoding="utf-8")))
    wrong = damage_of(copy / "log")
    if wrong is not None:
        raise wrong.problem
    checkpoints = Checkpoints(copy / "checkpoints", config.archive_days)
    positions, end = checkpoints.positions(), EndFile(copy / "log" / NAME).end
    if not positions or end is None:
        return Checked(0, 0, 0, 0.0)
    kept = Knowledge(config, scratch / "kept", _silent, Knowledge.read(config, checkpoints.path(positions[-1])))
    known, base = _earlier(config, checkpoints, copy, kept.model.next_row - LATEST, scratch)
    since = known.model.next_row
    gaps: dict[int, float] = {}
    views: deque[Any] = deque([known.model.view()], maxlen=_VIEWS)
    for number, kind, at, body, chain in kept_entries(copy, base, end.position):
        if kind == RETURN:
            to = unpack(body)["number"]
            known = Knowledge(config, scratch / "again", _silent, read_former(config, checkpoints, to).loaded)
            known.begin_anew(Return(number, to, at), chain)
            gaps, since = {}, known.model.next_row
        else:
            request = restored(kind, number, at, unpack(body))
            request.chain = chain
            if request.rows is not None and request.prediction is not None:
                first = known.model.next_row
                found = [_gaps(view.predict(request.rows).columns, request.prediction.columns) for view in views]
                least = np.min(found, axis=0)
                gaps |= dict(zip(range(first, first + len(least)), least.tolist(), strict=True))
            known.apply([request])
            known.settle()
            known.challengers.catch_up(MOST_BEHIND)
        views.append(known.model.view())
    known.score_singly()
    gaps |= dict(_of_scored(known, kept, since, set(gaps)))
    values = np.array(list(gaps.values()))
    largest = float(values.max()) if len(values) else 0.0
    return Checked(end.position - base, len(values), int((values > TOLERANCE).sum()), largest)


def _earlier(
    config: StreamConfig, checkpoints: Checkpoints, copy: Path, rows: int, scratch: Path
) -> tuple[Knowledge, int]:
    """Return what was known before the last checkpoint, after so many rows or a few more, and at which position."""
    first = first_kept(copy)
    start = 0 if first is None else first[0] - 1
    positions = [each for each in checkpoints.positions() if each >= start]
    late = [each for each in positions[:-1] if checkpoints.about(each).get("rows", 0) >= rows]
    if start == 0 and rows <= 0:
        return Knowledge(config, scratch / "again", _silent), 0
    if not positions:
        raise Problem(500, f"{copy.name}: the log begins at {start + 1:,}, after the last checkpoint; use a backup")
    base = (late or positions[-2:])[0]
    return Knowledge(config, scratch / "again", _silent, Knowledge.read(config, checkpoints.path(base))), base


def _of_scored(known: Knowledge, kept: Knowledge, since: int, others: set[int]) -> Iterator[tuple[int, float]]:
    """Yield the numbers, from `since` on, of scored rows that both have, and how far apart their predictions are.

    Those in `others` are left out.
    """
    ours, theirs = known.history.latest(LATEST), kept.history.latest(LATEST)
    place = {row: i for i, row in enumerate(np.asarray(theirs.get("row", ())).tolist())}
    at = [
        (i, place[row])
        for i, row in enumerate(np.asarray(ours.get("row", ())).tolist())
        if row in place and row >= since and row not in others
    ]
    if not at:
        return
    a, b = (np.array(each) for each in zip(*at, strict=True))
    gaps = _gaps({name: ours[name][a] for name in _shown(ours)}, {name: theirs[name][b] for name in _shown(theirs)})
    yield from zip(np.asarray(ours["row"])[a].tolist(), gaps.tolist(), strict=True)


def _shown(columns: Columns) -> list[str]:
    return [name for name in (*NUMBERS, "probabilities") if name in columns]


def _gaps(ours: Columns, theirs: Columns) -> np.ndarray:
    """Return the largest difference of each row's predictions: of numbers in standard deviations."""
    if "probabilities" in theirs:
        a, b = np.asarray(ours["probabilities"]), np.asarray(theirs["probabilities"])
        return np.abs(a - b).max(axis=1) if a.shape == b.shape else np.full(len(b), np.inf)
    a, b = (np.column_stack([np.asarray(each[name], dtype=float) for name in NUMBERS]) for each in (ours, theirs))
    scale = np.maximum(np.abs(np.asarray(theirs["std"], dtype=float)), np.finfo(float).tiny)[:, None]
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.nan_to_num(np.where(same, 0.0, np.abs(a - b) / scale), nan=np.inf).max(axis=1)


def _silent(*_: object) -> None:
    """Tell nobody of an alarm that was told of before."""
