"""The options, checks and messages of `streamgp run --key`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from streamgp.app.commands.finish import check_json, command_line, fail_if_stopped, write_metrics
from streamgp.app.commands.model_options import parsed
from streamgp.app.console import fail

if TYPE_CHECKING:
    from streamgp.fleet.run_settings import FleetRunSettings


_ITS_OWN = "the bands of a fleet are those of its keys' models"
_IN_TIME = "a fleet learns each target with its row"
# Why an option does not go with `--key`, where it is not that a fleet has one model for numbers.
_WHY = {
    "--horizon": "a fleet forecasts each of the next rows, 1..24 for so many",
    "--conformal": _ITS_OWN,
    "--groups": f"{_ITS_OWN}, and --group names the groups of keys",
    "--delay": _IN_TIME,
    "--arrives": _IN_TIME,
    "--baselines": "a fleet stands beside the last target and the mean of all before",
}


def refuse_with_key(options: dict[str, Any]) -> None:
    """Fail if one of these options was given, which fleets do not have."""
    for option, is_given in options.items():
        if is_given not in (None, False):
            why = _WHY.get(option.partition(" ")[0], "a fleet has one model for numbers")
            fail(f"{option} does not go with --key: {why}; leave it out")


def run_keyed(json: str | None, options: dict[str, Any], **given: Any) -> None:
    """Run a fleet as the command line asks."""
    from streamgp.app.outputs import RunError
    from streamgp.fleet.run_settings import FleetRunSettings

    check_json(json)
    try:
        options = parsed(options)
    except ValueError as error:
        raise RunError(str(error)) from error
    run_and_report_fleet(FleetRunSettings(options=options, command=command_line(), **given), json)


def run_and_report_fleet(settings: "FleetRunSettings", json: str | None) -> None:
    """Run a fleet, then the table, the metrics as JSON and the report."""
    from streamgp.fleet.report import print_fleet
    from streamgp.fleet.run import run_fleet

    outcome = run_fleet(settings)
    print_fleet(outcome.metrics, to_stderr=json == "-")
    write_metrics(json, outcome.metrics)
    if settings.out is not None:
        try:
            from streamgp.fleet.report import write_fleet_report

            typer.echo(f"report: {write_fleet_report(settings.out)}", err=json == "-")
        except ImportError as error:
            typer.echo(f"no report: {error}", err=True)
    fail_if_stopped(outcome.stopped, outcome.interrupted)


def demo(out: Path) -> None:
    """Run a fleet on data that come with an installed package."""
    from streamgp.app.commands.demo import written
    from streamgp.fleet.demo_data import write_fleet_demo_csv
    from streamgp.fleet.run_settings import FleetRunSettings

    table = out / "fleet-demo.csv"
    keyed = written(out, table, write_fleet_demo_csv)
    options = {"target": keyed.target, "key": keyed.key, "time": keyed.time, "group": keyed.group}
    said = [word for name, value in options.items() for word in (f"--{name}", value)]
    command = shlex.join(["streamgp", "run", str(table), *said])
    run_and_report_fleet(FleetRunSettings(str(table), **options, out=out, overwrite=True, command=command), None)
