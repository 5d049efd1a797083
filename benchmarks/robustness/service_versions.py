"""A service whose version changes back and forth: the same answers, and the same end, as of one that never changed.

    python -m benchmarks.robustness.service_versions --turns 8 --out benchmarks/results/service_versions.json

The other version is a wheel of a revision of this repository (`--revision`, by default the tree that is checked out)
under another number, built and installed into a directory of its own. Streams of every kind get the requests of
`benchmarks.robustness.service_kills`. After each part of them the service is ended, or killed, the other version runs
`streamgp check` on its directory, and goes on. All answers, and in the end counts, scores, the latest rows and
predictions, must be those of a service that this version ran from begin to end.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx

from benchmarks.common.machine import machine
from benchmarks.common.service_requests import KINDS, Sequence, differences, end_of, sequence
from benchmarks.common.serving import Server
from benchmarks.robustness.service_kills import PATIENCE, send
from streamgp.client import Client
from streamgp.version import __version__

ROOT = Path(__file__).parents[2]
OTHER = "0.1.0.post99"
REQUESTS = 80
COMMAND = "from streamgp.app.cli import app; app()"


class Version(NamedTuple):
    """An installed version."""

    number: str
    path: Path

    def run(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a command of this version."""
        environment = os.environ | {"PYTHONPATH": str(self.path), "STREAMGP_PROGRESS": "off"}
        # In another folder, as the repository itself would come first on the path.
        return subprocess.Popen(
            [sys.executable, "-P", "-c", COMMAND, *words], env=environment, cwd=self.path, text=True, **options
        )


def built(revision: str, folder: Path) -> Version:
    """Build a wheel of a revision under another number, and install it by itself."""
    source, wheels, path = folder / "source", folder / "wheels", folder / "other"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    version = source / "src" / "streamgp" / "version.py"
    version.write_text(f'"""The version of the package."""\n\n__version__ = "{OTHER}"\n', encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(wheels), str(source)], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", str(path), *map(str, wheels.glob("*.whl"))], check=True)
    return Version(OTHER, path)


class Turns:
    """A service over one directory, of which two versions take turns."""

    def __init__(self, directory: Path, versions: tuple[Version, Version], chance: random.Random) -> None:
        self.place = Server(directory, directory.with_name("cache"))
        self.versions, self.chance = versions, chance
        self.turn = 0
        self.said: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    @property
    def version(self) -> Version:
        """The one whose turn it is."""
        return self.versions[self.turn % 2]

    def start(self) -> None:
        """Have the version whose turn it is serve, and wait until it does."""
        log = self.place.log.open("a")
        self.process = self.version.run(
            "serve", str(self.place.directory), "--port", str(self.place.port), stdout=log, stderr=log
        )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.version.number} ended: {self.place.said()}")
            try:
                if httpx.get(f"{self.place.url}/readyz", timeout=5.0).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise TimeoutError(f"{self.version.number} is not ready: {self.place.said()}")

    def end(self, how: signal.Signals) -> None:
        """End the service."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60.0)

    def change(self) -> list[str]:
        """End this version, have the other one check the directory, and go on with it; return what is wrong."""
        self.end(self.chance.choice((signal.SIGTERM, signal.SIGKILL)))
        self.turn += 1
        check = self.version.run(
            *("check", str(self.place.directory), "--with", self.version.number),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = check.communicate(timeout=PATIENCE)
        self.said += [line for line in said.splitlines() if ": " in line][:1]
        self.start()
        return [] if check.returncode == 0 else [f"check by {self.version.number}: {said[-300:]}"]


def unbroken(kind: str, folder: Path, requests: int) -> tuple[Sequence, list[dict[str, Any]], dict[str, Any]]:
    """Return the requests to a stream, its answers, and its end, where one version has it all along."""
    made, server = sequence(kind, requests), Server(folder / f"{kind}, whole", folder / "cache")
    server.start()
    server.wait(PATIENCE)
    answers: list[dict[str, Any]] = []
    with Client(server.url, timeout=PATIENCE) as client:
        client.request("POST", "/v1/streams", made.stream)
        for request in made.requests:
            answers.append(send(client, kind, request, answers))
        end = end_of(client, kind)
    server.stop()
    return made, answers, end


def in_turns(
    kind: str, folder: Path, versions: tuple[Version, Version], number: int, chance: random.Random
) -> dict[str, Any]:
    """Send the requests to versions that take turns; return what is other than where none did."""
    made, expected, whole = unbroken(kind, folder, REQUESTS)
    turns, wrong = Turns(folder / kind, versions, chance), list[str]()
    changes = set(chance.sample(range(1, len(made)), number))
    try:
        turns.start()
        with Client(turns.place.url, timeout=PATIENCE) as client:
            client.request("POST", "/v1/streams", made.stream)
        for i, request in enumerate(made.requests):
            if i in changes:
                wrong += turns.change()
            with Client(turns.place.url, timeout=PATIENCE) as client:
                answer = send(client, kind, request, expected)
            wrong += differences(answer["position"], expected[i]["position"], f"answer {i}")
            wrong += differences(answer.get("rows"), expected[i].get("rows"), f"rows {i}")
        with Client(turns.place.url, timeout=PATIENCE) as client:
            end = end_of(client, kind)
        # Scores are sums over groups of rows, and a restart groups them in another way.
        wrong += differences(end.pop("scores"), whole["scores"], "scores", relative=1e-8)
        wrong += differences(end, {name: whole[name] for name in end})
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    turns.end(signal.SIGTERM)
    return {"turns": turns.turn, "checked": turns.said, "failures": wrong[:5]}


def campaign(turns: int, revision: str, seed: int, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, Any]:
    """Let versions take turns on a stream of every kind; what happened."""
    began, chance = time.monotonic(), random.Random(seed)
    commit = subprocess.run(["git", "rev-parse", "--short=12", revision], cwd=ROOT, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions = Version(__version__, ROOT / "src"), built(revision, folder)
        found = {}
        for kind in kinds:
            found[kind] = in_turns(kind, folder, versions, turns, chance)
            print(f"{kind}: {json.dumps(found[kind])}, {time.monotonic() - began:.0f} s", flush=True)
    return {
        "versions": [each.number for each in versions],
        "other_is": commit.stdout.strip(),
        "turns": sum(each["turns"] for each in found.values()),
        "kinds": found,
        "failures": [f"{kind}: {each}" for kind, part in found.items() for each in part.pop("failures")],
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }


def main() -> None:
    """Run the campaign; fail if anything did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=8, help="of each stream")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of streams")
    parser.add_argument("--revision", default="HEAD", help="of the repository, which the other version is")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = campaign(args.turns, args.revision, args.seed, tuple(args.kinds))
    if args.out is not None:
        args.out.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    if found["failures"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
