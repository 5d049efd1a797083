"""What the commands share: errors as one sentence, and lists with commas."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer


@contextmanager
def sentences() -> Iterator[None]:
    """Turn errors that the user can correct into one sentence and a non-zero exit; those of the program pass."""
    from streamgp.app.outputs import RunError
    from streamgp.numerics.checkpoint import CheckpointError
    from streamgp.table import DataError

    try:
        yield
    except (RunError, DataError, CheckpointError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        fail("stopped at once; what was written before stands", 130)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with a sentence on standard error."""
    typer.echo(f"streamgp: {message}", err=True)
    raise typer.Exit(code)


def names(text: str | None, data: str | None = None) -> list[str] | None:
    """Return the names in a list with commas; of columns of `data`, those that have commas themselves as one."""
    if text is None:
        return None
    from streamgp.table.names import split_names

    columns: list[str] = []
    if data is not None and "," in text and '"' not in text:
        from streamgp.table.sources import peek_columns

        columns = peek_columns(data)
    return split_names(text, columns)
