"""The command `streamgp reproduce`; slow modules are imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgp.app.console import names, sentences

if TYPE_CHECKING:
    from streamgp_papers.found import ReproductionResult


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A table or figure; --list has their names.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="What can be reproduced, and from which data.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="STREAMGP_DATA", help="Directory of Parquet files; docs/research/reproduction.md says which."
        ),
    ] = None,
    sets: Annotated[str | None, typer.Option(help="Only these data sets, with commas.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Seeds of each data set. Default: see --list.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=2, help="Only so many rows of each data set, for a quick look.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes side by side. Default: half as many as there are cores.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="JSON file of the runs, or a folder for it; charts beside it. Default: reproductions."),
    ] = None,
) -> None:
    """Run a table or figure of a paper again, and print the paper's figures beside ours."""
    with sentences():
        from rich.console import Console

        from streamgp.app.outputs import RunError
        from streamgp.numerics.compiled_programs import keep_compiled_programs
        from streamgp_papers.catalogue import REPRODUCTIONS, find, print_list
        from streamgp_papers.data_files import describe_source
        from streamgp_papers.found import ReproductionResult
        from streamgp_papers.kinds import choose_data, plan_trials
        from streamgp_papers.runner import ResultsFile, available_cores, run_all
        from streamgp_papers.tables import print_result

        console = Console()
        if not console.is_terminal:
            console.width = 160  # wide enough for the tables
        if show_list or name is None:
            print_list(REPRODUCTIONS, data, console)
            return
        if data is not None and not data.is_dir():
            raise RunError(f"--data: expected a directory of Parquet files, got {data}")
        reproduction = find(name)
        shown, missing = choose_data(reproduction, data, names(sets))
        if not shown:
            files = "; ".join(describe_source(one) for one in missing)
            raise RunError(
                f"{name}: expected in the directory of --data at least one of these files, found none: {files}"
            )
        trials = trials or reproduction.trials
        path = out or Path("reproductions")
        if out is None or out.is_dir() or not out.suffix:
            path = path / f"{name}.json"
        results = ResultsFile(path, {"reproduction": name, "rows": rows})
        keep_compiled_programs()
        run_all(
            plan_trials(reproduction, shown, data, trials, rows), results, jobs or max(1, len(available_cores()) // 2)
        )
        result = ReproductionResult(reproduction, shown, missing, results.runs, trials, rows)
        print_result(result, console)
        typer.echo(f"runs: {path}")
        _draw(result, path)


def _draw(result: "ReproductionResult", path: Path) -> None:
    try:
        from streamgp_papers.charts import draw
    except ImportError:
        typer.echo("no charts: they need matplotlib, which `pip install matplotlib` brings", err=True)
        return
    for file in draw(result, path.with_suffix("")):
        typer.echo(f"chart: {file}")
