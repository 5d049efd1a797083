"""Alarms of the keys of a fleet, limited to those that a false discovery rate allows."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.alarms import Alarm, Alarms
from streamgp.evaluation.change_tests import e_bh
from streamgp.progress import progress_bar

if TYPE_CHECKING:
    from streamgp.fleet.evaluation import FleetEvaluation, TestedRows

# The share of the keys reported that have not changed, at most and in expectation.
RATE = 0.1


class _Scores(NamedTuple):
    y: Float[np.ndarray, "n 1"]
    mean: Float[np.ndarray, "n 1"]
    pit: Float[np.ndarray, "n 1"]
    log_density: Float[np.ndarray, " n"]


def fleet_alarms(found: "FleetEvaluation", rate: float = RATE) -> Any:
    """Tell which keys of a fleet have changed, what changed and since when.

    Every key is tested as `streamgp.Monitor` tests a single stream. Of many keys some seem to change by chance: those
    are left out whose evidence does not stand up to there being so many (e-BH, Wang and Ramdas 2022). What earlier
    frames have shown is not remembered. It takes some 6 ms a key of a hundred rows.

    Parameters
    ----------
    found
        What `StreamingGPFleet.evaluate` returned.
    rate
        The share of the keys returned, at most and in expectation, that have not changed.

    Returns
    -------
    frame
        A row for each alarm: the key; the time at which it was raised, if the fleet has times; kind, one of level,
        scale, dependence, shape, slope, score, stuck and silence; row, the number of the key's row at which it was
        raised, and since, at which the change probably began, both counted from 0 in the frame that was evaluated;
        evidence; and a sentence. See `streamgp.evaluation.Alarm`. A name that is the key's or the time's is preceded
        by ``alarm_``.

    Raises
    ------
    ValueError
        If `rate` is not strictly between 0 and 1.
    """
    # The import is here, so that users without a fleet do not load it.
    from streamgp.fleet.frames import as_times, new_frame

    settings, rows = found.settings, found.rows
    pairs = changed_keys(rows, settings.target_col, rate)
    columns: dict[str, Any] = {
        settings.id_col: _column([key for key, _ in pairs], [key for key in rows.keys if key is not None][:1])
    }
    if settings.time_col is not None:
        times = np.array([alarm.time for _, alarm in pairs], float)
        columns[settings.time_col] = as_times(found.columns, times)
    for name, column in _columns([alarm for _, alarm in pairs]).items():
        columns[f"alarm_{name}" if name in columns else name] = column
    return new_frame(found.columns, columns)


def changed_keys(rows: "TestedRows", target: str, rate: float) -> list[tuple[Any, Alarm]]:
    """Return the alarms of the keys that have changed."""
    # The rate is checked before the work.
    e_bh([], rate)
    # The place of each row of the frame among the rows that were learnt.
    place = np.full(len(rows.keys), -1)
    place[rows.good] = np.arange(len(rows.good))
    by_key: dict[Any, list[int]] = {}
    for row, key in enumerate(rows.keys):
        by_key.setdefault(key, []).append(row)
    tests = {}
    with progress_bar("alarms", len(by_key), counts_rows=False) as bar:
        for done, (key, of) in enumerate(by_key.items(), start=1):
            numbers = np.flatnonzero(place[of] >= 0)
            which = place[of][numbers]
            # Keys without a row that the fitted model predicted are not tested.
            if rows.fitted[which].any():
                tests[key] = _tested(rows, which, numbers, target)
            bar.at(done)
    changed = e_bh(np.array([test.e_value for test in tests.values()]), rate)
    return [
        (key, alarm)
        for (key, test), has_changed in zip(tests.items(), changed, strict=True)
        for alarm in (test.found if has_changed else ())
    ]


def _tested(rows: "TestedRows", which: np.ndarray, numbers: np.ndarray, target: str) -> Alarms:
    """Test those rows of a key that were learnt, which have these numbers among all of it."""
    alarms = Alarms([target])
    # The rows of the fitted fleet come last.
    for fitted in (False, True):
        here = rows.fitted[which] == fitted
        if here.any():
            of = which[here]
            scores: Any = _Scores(rows.y[of, None], rows.mean[of, None], rows.pit[of, None], rows.log_density[of])
            times = None if rows.times is None else rows.times[rows.good[of]]
            alarms.add(scores, numbers[here], times, tested=fitted)
    return alarms


def _columns(alarms: list[Alarm]) -> dict[str, Any]:
    return {
        "kind": _column([alarm.kind for alarm in alarms], [""]),
        "row": np.array([alarm.row for alarm in alarms], np.int64),
        "since": np.array([alarm.since for alarm in alarms], np.int64),
        "evidence": np.array([alarm.evidence for alarm in alarms], float),
        "sentence": _column([alarm.sentence for alarm in alarms], [""]),
    }


def _column(values: list[Any], like: list[Any]) -> Any:
    """Return a column of text or numbers, which has its type where it is empty as well."""
    return values or np.array([], np.asarray(like).dtype)
