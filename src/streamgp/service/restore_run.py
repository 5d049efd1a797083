"""The run of `streamgp restore`: its checks, its progress and its messages."""

import math
from pathlib import Path

import typer

from streamgp.app.lock import locked
from streamgp.app.outputs import RunError
from streamgp.numerics.threads import one_blas_thread
from streamgp.progress import progress_bar
from streamgp.service.backup_run import check_service


def restore_directory(directory: Path, at: str, name: str | None) -> None:
    """Set one stream of a directory back, or all of them, and say where each goes on.

    Raises
    ------
    RunError
        If there is no such stream, or a stream cannot be set back, which is as it was then; or a process has them.
    """
    from streamgp.service.past import Past
    from streamgp.service.payload import in_seconds
    from streamgp.service.problems import Problem
    from streamgp.service.streams import Streams

    check_service(directory)
    position = int(at) if at.isascii() and at.isdigit() else None
    moment = math.nan if position is not None else in_seconds(at)
    if position is None and math.isnan(moment):
        raise RunError(f"--at: expected a position, or a date such as 2026-01-31T12:00:00Z, got {at!r}")
    failed: list[str] = []
    with locked(directory, "DIR"), one_blas_thread(), progress_bar("opening", 1.0, counts_rows=False) as bar:
        streams = Streams(directory)
        streams.start()
        try:
            there = sorted([*(each.config.name for each in streams.all()), *streams.broken])
            if name is not None and name not in there:
                known = ", ".join(there[:10]) + (" ..." if len(there) > 10 else "")
                raise RunError(f"--stream: expected one of {known or 'the streams, of which none is'}, got {name!r}")
            chosen = streams.all() if name is None else [streams.get(name)]
            if name is None:
                failed += [f"{each}: {reason}" for each, reason in streams.broken.items()]
            if position is not None and len(chosen) > 1:
                known = ", ".join(each.config.name for each in chosen)
                raise RunError(f"--at: expected --stream with a position, one of {known}; or a date, for all of them")
            for i, stream in enumerate(chosen):
                bar.at(i / len(chosen), f"restoring {stream.config.name}")
                try:
                    stream.has_begun.wait()
                    to = Past(stream).position_at(moment) if position is None else position
                    found = stream.restore(to).result()
                except Problem as problem:
                    failed.append(f"{stream.config.name}: {problem.detail}")
                    continue
                goes_on = f"it goes on at {stream.last_position:,}"
                typer.echo(f"{stream.config.name}: as it was at {found['restored']:,}; {goes_on}")
        except Problem as problem:
            raise RunError(problem.detail) from problem
        finally:
            streams.stop()
    if failed:
        raise RunError("; ".join(failed))
