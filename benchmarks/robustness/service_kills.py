"""Kill `streamgp serve` with -9 at random moments, send what was not answered again, and compare the end.

    python -m benchmarks.robustness.service_kills --kills 300 --out benchmarks/results/service_kills.json

Every process is a real one over a real directory. A client sends a fixed sequence: predictions, labels late and in
any order, steps, retries, returns to a checkpoint, challengers that are begun, promoted and ended; somebody looks at
the stream meanwhile. A third of the kills come from the process itself, at a call of a chosen function: between disk
and model, within a checkpoint, around a rename, in a replay, within a return, before a promotion. At the end all
answers, counts, scores, scored rows, challengers and predictions must be those of a run that nobody killed. Then
directories are copied under load and opened as they are, and a disk is filled and given its space back.
"""

import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import polars as pl

from benchmarks.common import campaigns
from benchmarks.common.service_requests import KINDS, Sequence, differences, end_of, sequence
from benchmarks.common.serving import POINTS, Changes, Server
from benchmarks.robustness.service_disks import backup, full_disk
from streamgp.client import Client, ServiceError

REQUESTS = 80
# A run must come to its end within so many starts.
LIVES = 100
PATIENCE = 600.0  # seconds that an answer is waited for, on a machine that may be busy
SMALL = {
    "streamgp.service.checkpointing:SHARE": 1.0,
    "streamgp.service.history:PART": 40,
    "streamgp.service.web.waiting:PATIENCE": PATIENCE,
}
RENEW_BYTES = 60_000


def changes(random_: random.Random, die_at: tuple[str, int] | None = None) -> Changes:
    """Return what makes rare moments frequent: checkpoints, files of rows and new logs all the time."""
    pause = random_.choice((0.0, 0.0, 0.05, 0.5))
    return Changes(SMALL | {"streamgp.service.checkpointing:SECONDS": pause}, renew_bytes=RENEW_BYTES, die_at=die_at)


def send(
    client: Client, name: str, request: tuple[str, dict[str, Any] | None], answers: list[dict[str, Any]]
) -> dict[str, Any]:
    """Send a request; return the answer, or in place of its position what a refusal says.

    `answers` has those to the requests before it, for a restore to find the position of its checkpoint.
    """
    what, body = request
    path = f"/v1/streams/{name}/{what}"
    if body is None:
        with suppress(ServiceError):  # it is deleted already where the answer to that got lost
            client.request("DELETE", path)
        return {"position": None}
    if what == "restore":
        body = {"position": answers[body["of"]]["position"]}
    try:
        return client.request("POST", path, body)
    except ServiceError as error:
        return {"position": f"{error.status}: {error}"}


class Watcher:
    """Looks at a stream all the time, as a page does."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        with httpx.Client(timeout=5.0) as http:
            while not self._stop.wait(0.02):
                try:
                    answer = http.get(f"{self._url}/v1/streams")
                except httpx.HTTPError:
                    continue
                if answer.status_code != 200:
                    self.wrong.append(f"the list of streams: {answer.status_code} {answer.text[:200]}")

    def stop(self) -> None:
        """Look no longer."""
        self._stop.set()
        self._thread.join()


class Campaign:
    """Runs that are killed again and again, and what came of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.kills = self.runs = 0
        self.failures: list[str] = []
        # The places where processes were killed.
        self.at: Counter[str] = Counter()
        self.of: Counter[str] = Counter()  # kills by kind of stream
        self.whole: dict[str, tuple[Sequence, list[dict[str, Any]], dict[str, Any], float]] = {}

    def unbroken(self, kind: str) -> tuple[Sequence, list[dict[str, Any]], dict[str, Any], float]:
        """Return the requests, the answers of a run that nobody kills, its end, and the seconds that it takes."""
        if kind not in self.whole:
            made = sequence(kind, REQUESTS)
            server = Server(self.folder / f"{kind}, whole", self.folder / "cache")
            server.start(Changes({"streamgp.service.web.waiting:PATIENCE": PATIENCE}))
            assert server.wait(PATIENCE), server.said()
            began = time.monotonic()
            with Client(server.url, timeout=PATIENCE) as client:
                client.request("POST", "/v1/streams", made.stream)
                answers: list[dict[str, Any]] = []
                for request in made.requests:
                    answers.append(send(client, kind, request, answers))
                end = end_of(client, kind)
            self.whole[kind] = made, answers, end, time.monotonic() - began
            server.stop()
        return self.whole[kind]

    def run(self, kind: str, most: int) -> None:
        """Send all requests of a kind of stream; `most` kills at most."""
        made, expected, whole, takes = self.unbroken(kind)
        server = Server(self.folder / f"run {self.runs}", self.folder / "cache")
        watcher = Watcher(server.url)
        self.runs += 1
        killed, at, wrong = 0, -1, []
        try:
            for _ in range(LIVES):
                is_last = killed >= most
                at, where = self.life(server, made, expected, at, takes, is_last, wrong)
                if at == len(made):
                    break
                killed += 1
                self.kills += 1
                self.at[where] += 1
                self.of[kind] += 1
            with Client(server.url, timeout=PATIENCE) as client:
                # Scores are sums over groups of rows, and a kill groups them in another way.
                end = end_of(client, kind)
                wrong += differences(end.pop("scores"), whole["scores"], "scores", relative=1e-8)
                wrong += differences(end, {name: whole[name] for name in end})
            wrong += files_of(server.directory / "streams" / kind)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}; {server.said()[-500:]}")
        watcher.stop()
        server.stop()
        if wrong or watcher.wrong:
            self.failures.append(f"{kind}, run {self.runs}, {killed} kills: {'; '.join((wrong + watcher.wrong)[:5])}")
            print(self.failures[-1], flush=True)

    def life(
        self,
        server: Server,
        made: Sequence,
        expected: list[dict[str, Any]],
        at: int,
        takes: float,
        is_last: bool,
        wrong: list[str],
    ) -> tuple[int, str]:
        """Start the process and send requests from `at` on until it dies; return where that was."""
        how = "never" if is_last else self.random.choices(("itself", "start", "clock"), (0.4, 0.2, 0.4))[0]
        point = (self.random.choice(list(POINTS)), self.random.choice((1, 1, 1, 2, 3, 5)))
        server.start(changes(self.random, point if how == "itself" else None))
        timer = threading.Timer(self.random.uniform(0.0, 1.0 if how == "start" else 0.04), server.process.kill)
        # From this request on the clock runs; also for those that should kill themselves and may never come to it.
        begin = max(at, 0) + self.random.randint(0, 8) + (4 if how == "itself" else 0)
        if how == "start":
            timer.start()
        try:
            if not server.wait(PATIENCE):
                return at, point[0] if how == "itself" else "while it started or replayed"
            name = made.stream["name"]
            with Client(server.url, timeout=PATIENCE) as client:
                if at < 0:
                    client.request("POST", "/v1/streams", made.stream)
                    at = 0
                while at < len(made):
                    if how in ("itself", "clock") and at == begin:
                        timer.start()
                        how = "clock"
                    answer = send(client, name, made.requests[at], expected)
                    wrong += differences(answer["position"], expected[at]["position"], f"answer {at}")
                    if made.requests[at][0] == "predict":
                        wrong += differences(answer.get("rows"), expected[at].get("rows"), f"prediction {at}")
                    at += 1
            if is_last:
                return at, ""
            timer.cancel()
            server.kill()  # all was sent, and nobody has killed it yet: the last request comes again
            return at - 1, "at the end"
        except httpx.TransportError:
            server.process.join(30.0)
            if server.is_alive():
                raise
            asked = "creation" if at < 0 else made.requests[at][0]
            return at, point[0] if how == "itself" else f"by the clock, {asked} unanswered"
        finally:
            timer.cancel()


def files_of(stream: Path) -> list[str]:
    """Return what is wrong with the files of scored rows: some lost or twice, or something left behind."""
    parts = sorted((stream / "history").glob("*.parquet"))
    rows = [row for part in parts for row in pl.read_parquet(part)["row"].to_list()]
    wrong = [] if len(set(rows)) == len(rows) else ["files: rows twice"]
    starts = [int(part.stem) for part in parts]
    return wrong + ([] if starts == list(range(0, 40 * len(parts), 40)) else [f"files: they begin at {starts}"])


def campaign(kills: int, minutes: float, seed: int = 0, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, Any]:
    """Kill until there were so many kills, or so many minutes have passed; what happened."""
    began = time.monotonic()
    disks: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Campaign(Path(folder), seed)
        while work.kills < kills and time.monotonic() - began < 60 * minutes:
            work.run(kinds[work.runs % len(kinds)], min(12, kills - work.kills))
            print(
                f"{work.kills} of {kills} kills, {work.runs} runs, {len(work.failures)} failures, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
        disks["backups"] = [backup(Path(folder) / f"backup {i}", Path(folder) / "cache", 0.4 + i) for i in range(3)]
        disks["full disk"] = full_disk(Path(folder) / "full", Path(folder) / "cache")
    failures = work.failures + [each for found in disks["backups"] for each in found["failures"]]
    failures += disks["full disk"].get("failures", [])
    return {
        "kills": work.kills,
        "runs": work.runs,
        "requests": REQUESTS,
        "killed": dict(work.at.most_common()),
        "kinds": dict(work.of),
        **disks,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    campaigns.run(__doc__, "kills", 300, campaign)


if __name__ == "__main__":
    main()
