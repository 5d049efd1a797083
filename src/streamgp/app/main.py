"""Entry point of the `streamgp` command: it hears Ctrl-C before anything else is imported."""

from streamgp.app.interrupt import end_imports_at_once


def main() -> None:
    """Run the command."""
    end_imports_at_once()
    from streamgp.app import cli

    cli.main()
