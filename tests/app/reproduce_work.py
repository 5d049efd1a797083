"""Runs for the tests of `streamgp.app.reproduce.runner`, in a module of their own for other processes to import."""

import time
from typing import Any


def quick(data: str, seed: int) -> dict[str, Any]:
    return {"data": data, "seed": seed}


def first_quick(data: str, seed: int) -> dict[str, Any]:
    """Long enough for the first to be there while the others are at work."""
    if seed:
        time.sleep(600)
    return {"data": data, "seed": seed}
