"""Tables of the cost of a row through the estimator: ``python -m benchmarks.pages.front_door``."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR

RESULTS = RESULTS_DIR / "front_door.json"
PAGE = DOCS / "research" / "performance.md"
Read = Callable[[dict[str, Any]], float]


def pages() -> dict[Path, str]:
    """Return the page with its table renewed."""
    return {PAGE: markdown.with_tables(PAGE, {"front door": table(json.loads(RESULTS.read_text()))})}


def table(found: dict[str, Any]) -> str:
    """Render medians with their least and greatest as Markdown."""
    versions = [name for name in ("before", "now") if name in found]
    lines = ["| | " + " | ".join(versions) + " |", "|---" * (1 + len(versions)) + "|"]
    for name, read in _rows(found["now"][0]):
        lines.append(f"| {name} | " + " | ".join(_spread(found[version], read) for version in versions) + " |")
    return "\n".join(lines)


def _rows(one: dict[str, Any]) -> Iterator[tuple[str, Read]]:
    """Yield what each row shows, and how it is read from the figures of a process."""
    yield "product of matrices, GFLOP/s", lambda of: of["machine"]["gflops"]
    yield "copy of an array, GB/s", lambda of: of["machine"]["gb_a_second"]
    yield "import of an estimator, s of the processor", lambda of: of["import"]
    yield "default, warm-up and 100 rows, nothing compiled, s", lambda of: of["first rows"]["clock"]
    yield "the same, s of the processor", lambda of: of["first rows"]["processor"]
    yield "one compiled scan, F = 100, us a row and expert", lambda of: of["scan, 100 features"]
    for name in one["blocks"]:
        yield f"{name}, chunks, us a row", lambda of, name=name: of["blocks"][name]["us"]
        yield "its filters' operations at the rate of products, us", lambda of, name=name: _operations(of, name)
    for name in one["singles"]:
        yield f"{name}, one row, p50, us", lambda of, name=name: of["singles"][name]["p50"]
        if "bytes" in one["singles"][name]:
            yield "its covariances' bytes at the rate of copies, us", lambda of, name=name: _bytes(of, name)
        yield f"{name}, one row, p99, us", lambda of, name=name: of["singles"][name]["p99"]


def _operations(one: dict[str, Any], name: str) -> float:
    return one["blocks"][name]["operations"] / one["machine"]["gflops"] / 1e3


def _bytes(one: dict[str, Any], name: str) -> float:
    return one["singles"][name]["bytes"] / one["machine"]["gb_a_second"] / 1e3


def _spread(processes: list[dict[str, Any]], read: Read) -> str:
    try:
        each = [read(one) for one in processes]
    except KeyError:  # a preset that the version does not have
        return "-"
    digits = 1 if median(each) < 100 else 0
    return f"{median(each):,.{digits}f} ({min(each):,.{digits}f} to {max(each):,.{digits}f})"


def main() -> None:
    """Renew the table."""
    markdown.write(pages())


if __name__ == "__main__":
    main()
