"""`streamgp compare`: several runs of the same rows, side by side."""

from pathlib import Path
from typing import Annotated

import typer

from streamgp.app.commands.finish import check_json, write_metrics
from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp compare results/fast results/default results/best` — each beside the first

- `streamgp compare a b --out a-b.html --json -` — where the page goes, and the numbers on standard output
"""


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Output directories of `streamgp run` on the same rows.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("comparison.html"),
    json: Annotated[str | None, typer.Option(help="Write the numbers to this file; - for standard output.")] = None,
) -> None:
    """Compare runs on the rows that all of them scored: a table, and a page with intervals of the differences."""
    with sentences():
        from streamgp.app.outputs import RunError
        from streamgp.app.run_compare import compare_runs
        from streamgp.app.summary import print_comparison
        from streamgp.table.files import write_aside

        check_json(json)
        if out.is_dir() or not out.absolute().parent.is_dir():
            raise RunError(f"--out: expected a file in a directory that exists, got {out}")
        found = compare_runs(runs)
        print_comparison(found.about, to_stderr=json == "-")
        write_metrics(json, found.about)
        try:
            from streamgp.reports.comparison_page import render_comparison

            write_aside(out, render_comparison(*found))
            typer.echo(f"page: {out}", err=json == "-")
        except ImportError as error:
            typer.echo(f"no page: {error}", err=True)
