"""The run of `streamgp backup`: its checks, its progress and its messages."""

from pathlib import Path

import typer

from streamgp.app.outputs import RunError
from streamgp.progress import progress_bar


def check_service(directory: Path) -> None:
    """Raise `RunError` if a directory is not that of a service."""
    from streamgp.service.backup import STREAMS

    if not (directory / STREAMS).is_dir():
        raise RunError(
            f"DIR: expected the directory of a service, got {directory}, which has no {STREAMS}; check the path"
        )


def back_up_directory(directory: Path, target: Path) -> None:
    """Copy the streams of a service, show how far that is, and say what the copy holds.

    Raises
    ------
    RunError
        If there are no streams or the target is taken; or a stream cannot be copied, which the copy is without then.
    """
    from streamgp.service.backup import back_up

    check_service(directory)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise RunError(f"TARGET: expected a new or an empty directory, got {target}, which is not; name another one")
    if target.resolve().is_relative_to(directory.resolve()):
        raise RunError(f"TARGET: expected a directory outside of {directory}, got {target}; name another one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with progress_bar("copying", 1.0, counts_rows=False) as bar:
        positions, failed = back_up(directory, target, lambda i, n, name: bar.at(i / n, f"copying {name}"))
    held = ", ".join(f"{name} up to {position:,}" for name, position in positions.items())
    typer.echo(f"{target}: {held if positions else 'no streams'}")
    if failed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise RunError(f"{target} is without {', '.join(failed)} ({reasons})")
