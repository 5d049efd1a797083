"""The run of `streamgp check`: its progress, and a line on each stream."""

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from streamgp.app.outputs import RunError
from streamgp.numerics.threads import one_blas_thread
from streamgp.progress import progress_bar
from streamgp.service.backup_run import check_service
from streamgp.version import __version__


def check_directory(directory: Path, version: str | None) -> None:
    """Check the streams of a directory, and say what came of each.

    Raises
    ------
    RunError
        If predictions differ, a stream cannot be read, or another version is installed than is to be checked.
    """
    from streamgp.service.checking import Checked, check_stream
    from streamgp.service.streams import CONFIG

    check_service(directory)
    if version is not None and version != __version__:
        raise RunError(
            f"--with: expected {__version__}, the version that is installed here, got {version}; run that one by "
            f"itself: uvx --from 'streamgp[serve]=={version}' streamgp check {directory} --with {version}"
        )
    paths = sorted(path for path in (directory / "streams").iterdir() if (path / CONFIG).exists())
    found: dict[str, Checked | str] = {}
    with one_blas_thread(), progress_bar("checking", 1.0, counts_rows=False) as bar:
        for i, path in enumerate(path for path in paths if not path.name.startswith(".")):
            bar.at(i / len(paths), f"checking {path.name}")
            with TemporaryDirectory(prefix="streamgp-check-") as scratch:
                try:
                    found[path.name] = check_stream(path, Path(scratch))
                except Exception as error:
                    # Whatever stops this version on one stream is what was asked for; the others are checked too.
                    found[path.name] = f"{type(error).__name__}: {str(error).replace(scratch, str(directory))}"
    for name, each in found.items():
        typer.echo(f"{name}: {_said(each)}")
    wrong = [name for name, each in found.items() if isinstance(each, str) or each.differ]
    if wrong:
        raise RunError(
            f"streamgp {__version__} does not go on as it was with {', '.join(wrong)}; nothing was changed"
        )
    typer.echo(f"streamgp {__version__} goes on with {len(found)} streams as they were; nothing was changed")


def _said(checked: "Checked | str") -> str:  # noqa: F821
    """Return what came of a stream in a sentence."""
    if isinstance(checked, str):
        return f"cannot be learnt again ({checked})"
    learnt = f"{checked.learnt:,} entries learnt again"
    if not checked.compared:
        return f"{learnt}, no predictions to compare"
    if checked.differ:
        return (
            f"{learnt}, {checked.differ:,} of {checked.compared:,} predictions differ, "
            f"by up to {checked.largest:.2g} standard deviations"
        )
    return f"{learnt}, {checked.compared:,} predictions are the same"
