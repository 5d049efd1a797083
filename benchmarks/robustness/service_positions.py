"""Set a stream back to random positions, and hold what it knows then against what it knew.

    python -m benchmarks.robustness.service_positions --restores 300 --out benchmarks/results/service_positions.json

A stream learns rows, some with labels that come late; it writes checkpoints, files of scored rows and a new file of
its log, and its log drops what the checkpoints know. What it predicts of fixed rows is noted at every position.
Copies of its directory are set back twice, each time to a position at random, with rows learnt again after it: their
predictions must be those of then, and in the end those of a stream that was never set back.
"""

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import campaigns
from benchmarks.robustness.service_damage import CONFIG, PATIENCE, known, opened, rows
from streamgp.service import checkpointing, history
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import labels_by_id, rows_with_inputs

ROWS = 300
EVERY = 30  # rows, after which there is a checkpoint
PART = 40  # scored rows of a file
TOLERANCE = 1e-9
Entry = tuple[str, dict[str, Any]]


def entries() -> list[Entry]:
    """Return what is sent, each an entry of the log: rows, and every seventh one before its label."""
    found: list[Entry] = []
    for i, row in enumerate(rows(ROWS)):
        if i % 7 == 3:
            found.append(("predict", row))
            found.append(("learn", row))
        else:
            found.append(("step", row))
    return found


def send(stream: LiveStream, entry: Entry) -> None:
    """Send an entry, and wait until it is learnt."""
    kind, row = entry
    if kind == "step":
        stream.step(rows_with_inputs(stream.config, [row], with_target=True)).result(PATIENCE)
    elif kind == "learn":
        stream.learn(None, labels_by_id(stream.config, [{"id": row["id"], "y": row["y"]}])).result(PATIENCE)
    else:
        asked = [{name: value for name, value in row.items() if name != "y"}]
        _, future, _ = stream.predict(rows_with_inputs(stream.config, asked, with_target=False))
        assert future is not None
        future.result(PATIENCE)


def made(directory: Path, sent: list[Entry]) -> list[list[float]]:
    """Make the stream; return what it knew at every position."""
    directory.mkdir(parents=True)
    (directory / "stream.json").write_text(CONFIG.to_json())
    with opened(directory) as stream:
        found = [known(stream)]
        for i, entry in enumerate(sent):
            send(stream, entry)
            found.append(known(stream))
            if i % EVERY == EVERY - 1:
                stream.write_checkpoint().result(PATIENCE)
            if i == len(sent) // 2 and stream.sequencer is not None:
                stream.sequencer.call(lambda log: log.renew_if_large(1))
    return found


def judged(
    directory: Path, sent: list[Entry], expected: list[list[float]], random_: random.Random
) -> tuple[list[str], list[float]]:
    """Set a copy back twice and go on to the end; return what is wrong, and the seconds that each took."""
    wrong, seconds = [], []
    with opened(directory) as stream:
        at = len(sent)
        low, shift = 0, 0  # from which entry on positions are shifted, and by how much
        for _ in range(2):
            to = random_.randrange(at + 1)
            began = time.monotonic()
            stream.restore(to + shift if to >= low else to).result(PATIENCE)
            seconds.append(time.monotonic() - began)
            wrong += _differs(stream, expected[to], f"at {to}")
            low, shift = to, stream.last_position - to
            at = random_.randrange(to, len(sent) + 1)
            for entry in sent[to:at]:
                send(stream, entry)
            wrong += _differs(stream, expected[at], f"at {at}, after the return to {to}")
        for entry in sent[at:]:
            send(stream, entry)
        wrong += _differs(stream, expected[-1], "in the end")
        wrong += stream.notices
    return wrong, seconds


def _differs(stream: LiveStream, expected: list[float], where: str) -> list[str]:
    return [] if np.allclose(known(stream), expected, rtol=TOLERANCE, atol=1e-12) else [f"{where}: other predictions"]


def campaign(restores: int, minutes: float, seed: int = 0) -> dict[str, Any]:
    """Set copies back, two times each; what happened."""
    began, random_ = time.monotonic(), random.Random(seed)
    checkpointing.SECONDS, history.PART = 1e9, PART
    failures: list[str] = []
    took: list[float] = []
    sent = entries()
    with tempfile.TemporaryDirectory() as folder:
        expected = made(Path(folder) / "stream", sent)
        while len(took) < restores and time.monotonic() - began < 60.0 * minutes:
            copy = Path(shutil.copytree(Path(folder) / "stream", Path(folder) / "copy"))
            try:
                wrong, seconds = judged(copy, sent, expected, random_)
            except Exception as error:
                wrong, seconds = [f"{type(error).__name__}: {error}"], [0.0]
            failures += [f"{len(took)}: {each}" for each in wrong]
            took += seconds
            shutil.rmtree(copy)
    return {
        "restores": len(took),
        "entries": len(sent),
        "tolerance": TOLERANCE,
        "seconds": {"median": round(float(np.median(took)), 3), "most": round(max(took), 3)},
        "failures": failures,
    }


if __name__ == "__main__":
    campaigns.run(__doc__, "restores", 300, campaign)
