"""The run of `streamgp promote`: the request, and what came of it."""

import json

import typer

from streamgp.app.outputs import RunError


def promote_standby(url: str, force: bool, token: str | None) -> None:
    """Have a standby lead, and say so.

    Raises
    ------
    RunError
        If it does not.
    """
    from streamgp.service.problems import Problem
    from streamgp.service.standby.link import ERRORS, Link

    try:
        link = Link(url, token)
    except ValueError as error:
        raise RunError(f"URL: {error}") from error
    try:
        found = json.loads(link.post("/v1/standby/promote", {"force": force}, patience=60.0))
    except Problem as problem:
        raise RunError(problem.detail.replace("with force", "with --force")) from problem
    except ERRORS as error:
        raise RunError(f"{url} gives no answer ({error}): expected a standby there; check the address") from error
    finally:
        link.close()
    typer.echo(f"{url} leads, in epoch {found['epoch']}")
