"""Every reproduction by its name."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from streamgp.app.outputs import RunError
from streamgp_papers import classification, doebe, gplvm, iegp, sfg, sparq, wgpr
from streamgp_papers.data_files import is_available
from streamgp_papers.datasets import DATASETS
from streamgp_papers.kinds import Reproduction

REPRODUCTIONS: dict[str, Reproduction] = {
    reproduction.name: reproduction
    for reproduction in (
        doebe.TABLE2,
        doebe.TABLE3,
        doebe.FIG2,
        doebe.FIG4,
        doebe.DELTAS,
        doebe.LARGE,
        doebe.OPTIMISED,
        iegp.REGRESSION,
        iegp.TIMES,
        iegp.REGRET,
        classification.IE_GP,
        classification.DOEBE,
        sfg.TABLES,
        sfg.AS_AUTHORS,
        sfg.REGRET,
        sparq.SYNTHETIC,
        sparq.SENSORS,
        sparq.BEYOND,
        sparq.ELSEWHERE,
        wgpr.TOY,
        wgpr.TABLES,
        wgpr.MODELS,
        gplvm.IE_GPLVM,
    )
}


def find(name: str) -> Reproduction:
    """Find a reproduction by its name.

    Raises
    ------
    RunError
        If there is none of this name; the message lists all names.
    """
    if name in REPRODUCTIONS:
        return REPRODUCTIONS[name]
    near = difflib.get_close_matches(name, REPRODUCTIONS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise RunError(f"NAME: expected one of {', '.join(REPRODUCTIONS)}, got {name!r}{hint}")


def print_list(reproductions: Mapping[str, Reproduction], directory: Path | None, console: Console) -> None:
    """Print the reproductions, and which of their data are available."""
    for name, one in reproductions.items():
        data = dict.fromkeys(each for use in one.uses for each in (use.data, *use.stand_ins))
        marked = [each if is_available(each, directory) else f"({each})" for each in data]
        seeds = "1 trial" if one.trials == 1 else f"{one.trials} trials"
        console.print(f"[bold]{name}[/bold]  {one.source}; {seeds}, the paper {one.paper_trials}", highlight=False)
        console.print(f"  {one.shows}\n  Data: {', '.join(marked)}", highlight=False, markup=False)
    console.print(
        "\nData in brackets are not available. Files for --data DIR, the target in the column y, labels in label:"
    )
    files = [f"{data.file}: {data.title}. {data.origin}" for data in DATASETS.values() if data.file]
    console.print(*files, sep="\n", highlight=False, markup=False)
