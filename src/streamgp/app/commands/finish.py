"""What the commands that learn a file end with: metrics as JSON, and a non-zero exit where they ended early."""

import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from streamgp.app.console import fail


def command_line() -> str:
    """Return the command as it was written, for the metrics."""
    return shlex.join(["streamgp", *sys.argv[1:]])


def check_json(json: str | None) -> None:
    """Raise RunError if the metrics cannot be written where they should go."""
    from streamgp.app.outputs import RunError

    if json is not None and json != "-" and (Path(json).is_dir() or not Path(json).parent.is_dir()):
        raise RunError(f"--json: expected a file in a directory that exists, or -, got {json}")


def write_metrics(json: str | None, metrics: dict[str, Any]) -> None:
    """Write the metrics to a file, or to standard output for ``-``."""
    from streamgp.app.outputs import encode_json, write_json

    if json == "-":
        typer.echo(encode_json(metrics), nl=False)
    elif json is not None:
        write_json(Path(json), metrics)


def fail_if_stopped(stopped: str | None, interrupted: bool) -> None:
    """Fail where the command ended early."""
    if stopped is not None:
        fail(stopped, 130 if interrupted else 1)
