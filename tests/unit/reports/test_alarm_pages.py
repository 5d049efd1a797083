"""The alarms of a report: how the weights moved around each."""

from typing import Any

import polars as pl
import pytest

from streamgp.reports.pages.alarms import AROUND, SHOWN, changes

EXPERTS = [
    {"name": "a", "dynamics": "static"},
    {"name": "b", "dynamics": "walk 0.01"},
    {"name": "c", "dynamics": "walk 0.01"},
]


def alarm(row: int, since: int, time: float | None = None) -> dict[str, Any]:
    return {"row": row, "since": since, "time": time, "sentence": "the level moved"}


def bins(static: list[float]) -> pl.DataFrame:
    """Return mean weights of bins of ten rows; what static experts do not have, the others share."""
    rows = [10 * i + 5 for i in range(len(static))]
    rest = [(1.0 - weight) / 2.0 for weight in static]
    return pl.DataFrame({"row": rows, "a": static, "b": rest, "c": rest})


def test_the_kind_of_dynamics_that_gained_most_is_named():
    # The bins nearest to the change tell; those further away, and those of the change itself, do not.
    found = bins([0.0] * 5 + [0.9, 0.8, 0.7, 0.0, 0.3, 0.2, 0.1, 1.0, 1.0])
    page = changes(found, {"alarms": [alarm(row=88, since=78)], "experts": EXPERTS})
    assert AROUND == 3
    assert page["changes"][0]["weights"] == "The weight of dynamics walk 0.01 went from 20.0% to 80.0%."
    assert page["changes_left_out"] == 0 and not page["changes_timed"]


@pytest.mark.parametrize(
    ("static", "experts"),
    [
        ([0.5] * 14, EXPERTS),
        ([0.5] * 8 + [0.45] * 6, EXPERTS),
        ([0.9] * 8 + [0.1] * 6, EXPERTS[1:]),
        ([], EXPERTS),
        ([0.9] * 8, EXPERTS),
    ],
    ids=["no move", "a small move", "one kind", "no bins", "nothing after"],
)
def test_nothing_is_said_of_weights_that_tell_nothing(static: list[float], experts: list[dict[str, Any]]):
    page = changes(bins(static), {"alarms": [alarm(row=88, since=78)], "experts": experts})
    assert page["changes"][0]["weights"] == ""


def test_the_first_alarms_are_shown_with_how_many_are_left_out():
    alarms = [alarm(row, row - 1, time=float(row)) for row in range(SHOWN + 4)]
    page = changes(bins([0.5] * 4), {"alarms": alarms, "experts": EXPERTS})
    assert (len(page["changes"]), page["changes_left_out"], page["changes_timed"]) == (SHOWN, 4, True)
