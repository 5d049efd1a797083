"""The command line of long campaigns: their number of cases, time, seed and output."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run(
    doc: str | None, what: str, number: int, campaign: Callable[[int, float, int], dict[str, Any]]
) -> dict[str, Any]:
    """Run a campaign of so many of `what`, as the command line asks; print what it found and return it.

    The process ends with 1 if `failures` were found.

    Parameters
    ----------
    doc
        What the campaign does.
    what, number
        What it counts, and how many of them it makes if nothing is said.
    campaign
        Takes the number, the minutes after which to stop, and the seed.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{what}", type=int, default=number, dest="number")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help=f"stop after these, with the {what} so far")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = campaign(args.number, args.minutes, args.seed)
    if args.out is not None:
        from benchmarks.common.machine import machine

        args.out.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    if found.get("failures"):
        sys.exit(1)
    return found
