"""Runs for the tests of `streamgp_papers.runner`, in a module of their own for other processes to import."""

import time
from pathlib import Path
from typing import Any


def quick(data: str, seed: int) -> dict[str, Any]:
    return {"data": data, "seed": seed}


def first_quick(data: str, seed: int, folder: Path) -> dict[str, Any]:
    """The first is done once another one is at work, which goes on for long."""
    if seed:
        (folder / "at work").touch()
        time.sleep(600)
    while not (folder / "at work").exists():
        time.sleep(0.02)
    return {"data": data, "seed": seed}
