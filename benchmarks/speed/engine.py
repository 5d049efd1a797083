"""The speed of the filters and its limits: ratios and shares, each taken within one process.

``python -m benchmarks.speed.engine`` measures every part below, prints tables, and writes the figures with the
machine's description to ``results/engine.json``; it takes some ten minutes. ``python -m benchmarks.pages.engine``
plots them. ``--only NAME`` measures a part anew, and keeps the others. Medians of `--runs` runs after one that is
thrown away, with the least and the largest. Baselines need ``pip install 'streamgp[benchmarks]'``; each part is also
a script of its own.
"""

import json
from collections.abc import Callable
from typing import Annotated, Any

import jax
import typer
from rich.console import Console

from benchmarks.common.machine import machine
from benchmarks.common.measure import RUNS
from benchmarks.common.paths import RESULTS_DIR
from benchmarks.speed.engine_tables import tables
from benchmarks.speed.ensembles import whole_ensemble
from benchmarks.speed.files import large_file, shares
from benchmarks.speed.filters import against_rows, block_lengths
from benchmarks.speed.growth import growth, memory_per_expert
from benchmarks.speed.latency import latency

PARTS: dict[str, Callable[[int], Any]] = {
    "ensemble": whole_ensemble,
    "filters": against_rows,
    "block_lengths": block_lengths,
    "growth": growth,
    "memory": memory_per_expert,
    "latency": latency,  # late: it loads other packages' threads into the process
    "files": shares,
    "large_file": large_file,
}


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Measure only this part: {', '.join(PARTS)}.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Timed runs of each kind.")] = RUNS,
) -> None:
    """Measure, keep and print."""
    unknown = [name for name in only or [] if name not in PARTS]
    if unknown:
        raise typer.BadParameter(f"--only: expected some of {', '.join(PARTS)}, got {', '.join(unknown)}")
    backend = jax.default_backend()
    results = RESULTS_DIR / ("engine.json" if backend == "cpu" else f"engine_{backend}.json")
    about = machine()
    found: dict[str, Any] = {"machine": about, "runs": {}}
    if only and results.exists():
        found = json.loads(results.read_text())
        if found["machine"] != about:
            raise SystemExit(
                f"{results.name}: expected figures of this machine and these versions; run without --only"
            )
    console = Console()
    for name, measure in PARTS.items():
        if only and name not in only:
            continue
        console.print(f"measuring {name} ...", style="dim")
        with jax.enable_x64(True):
            measured = measure(runs)
        found |= json.loads(json.dumps({name: measured}))  # keys become text, as in the file
        found["runs"][name] = runs
        results.write_text(json.dumps(found, indent=1) + "\n")
    for table in tables(found):
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
