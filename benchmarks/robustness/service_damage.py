"""Flip bits, cut and delete files of a stream's directory, and see that no acknowledged row is lost without a word.

    python -m benchmarks.robustness.service_damage --cases 200 --out benchmarks/results/service_damage.json

A stream learns rows that came singly, some with labels that come late, and writes checkpoints, files of scored rows
and a new file of its log. Of its directory, as a kill leaves it and as an orderly end does, one file is damaged at a
time: a bit is flipped at its beginning, its end or anywhere, pages are lost or exchanged, it is cut, or deleted. Then
the stream is opened. Either it knows all that was acknowledged, by its predictions, its counts and the ids that it
takes for repeated; or it is not opened, and says what is missing. With the loss accepted, it must stand where one
stands that was given the rows up to there, and come to the same end with the others.
"""

import json
import logging
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.common import campaigns
from streamgp.service import checkpointing, history
from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import labels_by_id, rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.service.salvage import accept_loss

NAME = "linear"
CONFIG = StreamConfig(NAME, "y", ("a", "b"), model="linear", warmup=30)
ROWS = 200
CHECKPOINTS = (60, 120)  # rows after which one is written
NEW_FILE = 90  # the row after which the log begins a new file
PART = 40  # scored rows of a file
PATIENCE = 60.0
WAYS = ("flip", "flip", "flip", "flip at the start", "flip at the end", "cut", "cut in half", "emptied", "deleted")
UNKNOWN = "which is not known"  # is said of a log whose end is lost, too
PAGE = 1024  # bytes; of the files of SQLite as well
PAGES = ("page of zeros", "page of noise", "page left out", "pages exchanged", "end of zeros", "noise at the end")
Rows = list[dict[str, Any]]


def rows(n: int = ROWS) -> Rows:
    """Return rows with ids and targets."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)
    return [
        {"id": f"s{i}", "x": {"a": float(a), "b": float(b)}, "y": float(t)}
        for i, ((a, b), t) in enumerate(zip(X, y, strict=True))
    ]


@contextmanager
def opened(directory: Path) -> Iterator[LiveStream]:
    """Yield a stream at work, which is stopped in the end."""
    stream = LiveStream(directory, StreamConfig.from_document(json.loads((directory / "stream.json").read_text())))
    stream.start()
    end = time.monotonic() + PATIENCE
    while not stream.is_ready:
        assert time.monotonic() < end, "the stream was not ready in time"
        time.sleep(0.002)
    try:
        yield stream
    finally:
        stream.stop()


def send(stream: LiveStream, row: dict[str, Any], late: bool) -> None:
    """Have a row learnt: in one step, or predicted first and its label sent apart."""
    if late:
        asked = {name: value for name, value in row.items() if name != "y"}
        _, future, _ = stream.predict(rows_with_inputs(stream.config, [asked], with_target=False))
        assert future is not None
        future.result(PATIENCE)
        stream.learn(None, labels_by_id(stream.config, [{"id": row["id"], "y": row["y"]}])).result(PATIENCE)
    else:
        stream.step(rows_with_inputs(stream.config, [row], with_target=True)).result(PATIENCE)


def known(stream: LiveStream) -> list[float]:
    """Return predictions of fixed rows."""
    asked = [{"x": {"a": a, "b": b}} for a, b in ((0.5, -1.0), (2.0, 0.1), (-1.5, 1.5))]
    columns = stream.predict(rows_with_inputs(stream.config, asked, with_target=False), False)[0].columns
    return [*map(float, columns["mean"]), *map(float, columns["std"])]


class Whole:
    """The stream before it is damaged: its directory after a kill and after an end, and what it knew at positions.

    Parameters
    ----------
    folder
        Where the directories are made.
    """

    def __init__(self, folder: Path) -> None:
        checkpointing.SECONDS, history.PART = 1e9, PART
        self.rows = rows()
        # The predictions by position, after whole rows.
        self.known: dict[int, list[float]] = {}
        self.done: dict[int, int] = {}  # rows learnt by then
        directory = folder / "power"
        directory.mkdir(parents=True)
        (directory / "stream.json").write_text(CONFIG.to_json())
        with opened(directory) as stream:
            self._note(stream, 0)
            for i, row in enumerate(self.rows):
                send(stream, row, late=i % 10 == 3)
                self._note(stream, i + 1)
                if i + 1 in CHECKPOINTS:
                    stream.write_checkpoint().result(PATIENCE)
                if i + 1 == NEW_FILE and stream.sequencer is not None:
                    stream.sequencer.call(lambda log: log.renew_if_large(1))
            self.last = stream.last_position
            killed = Path(shutil.copytree(directory, folder / "killed"))
        self.directories = {"killed": killed, "ended": directory}
        self.files = {how: files_of(path) for how, path in self.directories.items()}

    def _note(self, stream: LiveStream, done: int) -> None:
        self.known[stream.last_position], self.done[stream.last_position] = known(stream), done


def files_of(directory: Path) -> dict[str, str]:
    """Return the files below a directory, with digests."""
    return {
        str(path.relative_to(directory)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def damaged(path: Path, way: str, random_: random.Random) -> str:
    """Damage a file; return how, with the place."""
    data = bytearray(path.read_bytes())
    if way == "deleted":
        path.unlink()
        return way
    if way.startswith("flip") and data:
        low, high = {"flip at the start": (0, 64), "flip at the end": (-64, 0)}.get(way, (0, 0))
        at = random_.randrange(max(0, len(data) + low if low < 0 else 0), min(len(data), high or len(data)))
        data[at] ^= 1 << random_.randrange(8)
        path.write_bytes(data)
        return f"bit flipped at {at:,} of {len(data):,}"
    if way in PAGES and data:
        path.write_bytes(_other_pages(data, way, random_))
        return way
    size = {"emptied": 0, "cut in half": len(data) // 2}.get(way, random_.randrange(len(data)) if data else 0)
    path.write_bytes(data[:size])
    return f"cut to {size:,} of {len(data):,}"


def _other_pages(data: bytearray, way: str, random_: random.Random) -> bytes:
    """Return the bytes of a file of which pages were lost, as by a disk that fails."""
    pages = [bytes(data[i : i + PAGE]) for i in range(0, len(data), PAGE)]
    at, other = random_.randrange(len(pages)), random_.randrange(len(pages))
    if way == "page of zeros":
        pages[at] = bytes(len(pages[at]))
    elif way == "page of noise":
        pages[at] = random_.randbytes(len(pages[at]))
    elif way == "page left out":
        del pages[at]
    elif way == "pages exchanged":
        pages[at], pages[other] = pages[other], pages[at]
    elif way == "end of zeros":
        pages[at:] = [bytes(len(page)) for page in pages[at:]]
    else:
        pages.append(random_.randbytes(PAGE))
    return b"".join(pages)


def judged(directory: Path, whole: Whole, file: str) -> tuple[str, str]:
    """Open a damaged stream; return of which class it is, and what was said."""
    try:
        with opened(directory) as stream:
            wrong = _compared(stream, whole, whole.last)
            wrong = wrong or _sent_again(stream, whole)
            said = "; ".join(stream.notices)
        if not wrong and not said and file.startswith("history/"):
            wrong = _other_rows(directory / file, whole.directories["ended"] / file)
        return ("SILENT LOSS", wrong) if wrong else ("recovered, and said" if said else "recovered", said)
    except Problem as problem:
        said = problem.detail
    except (ValueError, TypeError, KeyError, AttributeError, FileNotFoundError) as error:
        # What lists streams says the same of them: stream.json itself cannot be read.
        return ("named: stream.json", repr(error)) if file == "stream.json" else ("SILENT LOSS", repr(error))
    if file == "stream.json":
        return "named: stream.json", said
    try:
        goes_on = accept_loss(directory, CONFIG)
    except Problem as problem:
        return "named: nothing left", f"{said} / {problem.detail}"
    found = re.search(r"goes on at ([0-9,]+)\. Lost: (.*?)[.;]", goes_on)
    assert found is not None, goes_on
    until = int(found[1].replace(",", ""))
    with opened(directory) as stream:
        at = max(position for position in whole.known if position <= until)
        wrong = "" if at < until else _compared(stream, whole, until)
        if until < whole.last and not any(each in found[2] for each in (f"{until + 1:,} to {whole.last:,}", UNKNOWN)):
            wrong = wrong or f"it goes on at {until:,}, and says that lost is {found[2]}"
        begin = whole.done[at]
        if at < until:  # a row was predicted, and its label is lost
            row = whole.rows[begin]
            stream.learn(None, labels_by_id(CONFIG, [{"id": row["id"], "y": row["y"]}])).result(PATIENCE)
            begin += 1
        for i, row in enumerate(whole.rows[begin:], begin):
            send(stream, row, late=i % 10 == 3)
        wrong = wrong or _compared(stream, whole, whole.last, position=stream.last_position)
    return ("SILENT LOSS", f"{wrong}; {said}; {goes_on}") if wrong else ("named, and went on", f"{said} / {goes_on}")


def _compared(stream: LiveStream, whole: Whole, expected: int, position: int | None = None) -> str:
    if stream.failure is not None:
        return f"it learns no longer: {stream.failure}"
    if stream.last_position != (expected if position is None else position):
        return f"it stands at {stream.last_position:,}, expected {expected:,}"
    learned = stream.status()["learned"]
    if learned != whole.done[expected]:
        return f"it has learnt {learned:,} rows, expected {whole.done[expected]:,}"
    if not np.allclose(known(stream), whole.known[expected], rtol=1e-8, atol=1e-10):
        return "its predictions are other ones"
    return ""


def _sent_again(stream: LiveStream, whole: Whole) -> str:
    """Send all rows again: each must be known."""
    answer = stream.step(rows_with_inputs(CONFIG, whole.rows, with_target=True)).result(PATIENCE)
    return "" if answer.get("repeated") == len(whole.rows) else f"of {len(whole.rows)} rows sent again: {answer}"


def _other_rows(path: Path, original: Path) -> str:
    """Return what is wrong with a file of scored rows; one that is written again may have other last digits."""
    found, expected = pl.read_parquet(path), pl.read_parquet(original)
    for name in expected.columns:
        a, b = found[name].to_list(), expected[name].to_list()
        same = np.allclose(a, b, rtol=1e-8) if expected[name].dtype.is_float() else a == b
        if name not in ("at", "experts") and not same:
            return f"a file of scored rows has another {name}"
    return ""


def campaign(cases: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Damage so many files; what happened."""
    logging.getLogger("streamgp.service").setLevel(logging.ERROR)
    began, random_ = time.monotonic(), random.Random(seed)
    classes: Counter[str] = Counter()
    of: dict[str, Counter[str]] = {}
    failures: list[str] = []
    examples: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        whole = Whole(Path(folder))
        every = [(how, file) for how in whole.files for file in whole.files[how]]
        for i in range(cases):
            if time.monotonic() - began > 60 * minutes:
                break
            how, file = every[i % len(every)] if i < len(every) else random_.choice(every)
            directory = Path(shutil.copytree(whole.directories[how], Path(folder) / f"case {i}"))
            what = damaged(directory / file, random_.choice(WAYS + PAGES), random_)
            found, said = judged(directory, whole, file)
            shutil.rmtree(directory)
            kind = re.sub(r"\d{5,}|(?<=arrays-)[0-9a-f]+", "N", file)
            classes[found] += 1
            of.setdefault(kind, Counter())[found] += 1
            examples.setdefault(f"{kind}: {found}", f"{what}: {said.replace(folder, '')}")
            if found == "SILENT LOSS":
                failures.append(f"{i}: {how}, {file}, {what}: {said}")
                print(failures[-1], flush=True)
    return {
        "cases": sum(classes.values()),
        "classes": dict(classes.most_common()),
        "files": {kind: dict(each.most_common()) for kind, each in sorted(of.items())},
        "examples": dict(sorted(examples.items())),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if a loss was silent."""
    campaigns.run(__doc__, "cases", 200, campaign)


if __name__ == "__main__":
    main()
