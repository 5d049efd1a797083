"""Several targets of which some are missing in some rows: each has a model of its own, that learns every value.

An ensemble's filters share one covariance of the weights among the targets, which a row either changes for all or for
none. So from the first row of the warm-up on that has some of the targets and not all, each target is learnt by
itself, with the rows that have it, as a stream with that target alone would be; how their errors go together is
learnt beside. Where all targets are there until the warm-up's end, one model learns all of them, and rows with some
of them teach it nothing. Once such rows have become many (see `MANY`), as when a sensor has died, each target goes on
by itself from what was learnt of it; but not with lags, which are those of all targets.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.core import Info, SideBySide, side_by_side
from streamgp.numerics.batching import concatenate
from streamgp.numerics.standardise import Standardiser
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState, mean_of_alike

SCARCE, MANY = 4, 200  # a row with some of the targets counts 4, one with all takes 1 off: 50 in a row are many

Learn = Callable[[StreamSettings, StreamState, RawRows], tuple[StreamState, Info]]


def can_be_taken_apart(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether the next row with some of the targets and not all is to be learnt by a model for each."""
    return _is_of_several(settings, state) and not state.is_warmed_up


def may_come_apart(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether a fitted model of all targets is to be taken apart once many rows lack some of them."""
    splits = state.model.splits_outputs and not state.inputs.lags.lags
    return _is_of_several(settings, state) and state.is_warmed_up and splits


def _is_of_several(settings: StreamSettings, state: StreamState) -> bool:
    return settings.correlates and not settings.horizon and not state.apart


def with_scarce(state: StreamState, *, partial: int = 0, whole: int = 0) -> StreamState:
    """Return the state after so many rows with some of the targets and not all, or so many with all."""
    scarce = max(0, state.scarce + SCARCE * partial - whole)
    return state if scarce == state.scarce else replace(state, scarce=scarce)


def going_on_apart(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state from which on each target of a fitted model is learnt by itself."""
    parts, count = [], np.asarray(state.targets.count)
    for e in range(settings.num_outputs):
        model, model_state = state.model.of_output(state.model_state, e)
        parts.append(
            replace(
                state,
                model=model,
                model_state=model_state,
                targets=Standardiser(count, state.targets.mean[e : e + 1], state.targets.m2[e : e + 1]),
                reservoir=None if state.reservoir is None else state.reservoir.of_target(e),
                sample=None if state.sample is None else state.sample.of_target(e),
                correlation=None,
                target_range=None if state.target_range is None else state.target_range.of_target(e),
                scarce=0,
            )
        )
    return _of_targets(parts, state)


def taken_apart(
    settings: StreamSettings, state: StreamState, known: RawRows, start: StreamState, learn: Learn
) -> StreamState:
    """Return the state after the rows of the warm-up so far, had each target been learnt by itself from the start.

    Parameters
    ----------
    settings, state
        Of all targets.
    known
        The rows so far.
    start
        The state of a stream of one target before any row.
    learn
        Learns some leading rows of a stream of one target.
    """
    parts, one = [], settings.of_one_target
    known = known if settings.timed else known._replace(times=None)
    for e in range(settings.num_outputs):
        part, rows = start, known._replace(y=known.y[:, [e]])
        while len(rows.X):
            part, info = learn(one, part, rows)
            rows = rows.part(slice(len(info.outside), None))
        parts.append(part)
    return _of_targets(parts, state)


def _of_targets(parts: Sequence[StreamState], state: StreamState) -> StreamState:
    assert state.correlation is not None
    return StreamState.of_targets(
        parts,
        rows=state.rows,
        imputed_values=state.imputed_values,
        flagged_rows=state.flagged_rows,
        correlation=state.correlation,
    )


def learn_apart(
    settings: StreamSettings, state: StreamState, rows: RawRows, learn: Learn
) -> tuple[StreamState, Info]:
    """Learn rows, so few that no target's model has a boundary in their midst: each by its own, then how they go."""
    parts, infos, one = [], [], settings.of_one_target
    for e, part in enumerate(state.apart):
        left, found = rows._replace(y=rows.y[:, [e]]), []
        while len(left.X):
            part, info = learn(one, part, left)
            left = left.part(slice(len(info.outside), None))
            found.append(info)
        parts.append(part)
        infos.append(_whole(found))
    assert state.correlation is not None
    predictive = side_by_side([info.predictive for info in infos])
    correlation, matrices = state.correlation.learn(predictive, rows.y)
    flagged = np.any([info.flagged for info in infos], axis=0)
    after = StreamState.of_targets(
        parts,
        rows=state.rows + int((~np.isnan(rows.y)).any(axis=1).sum()),
        imputed_values=state.imputed_values + int(np.isnan(rows.X).sum()),
        flagged_rows=state.flagged_rows + int(flagged.sum()),
        correlation=correlation,
    )
    return after, joined(infos, replace(predictive, correlation=matrices[:-1]))


def predict_apart(
    settings: StreamSettings, state: StreamState, predict: Callable[[StreamSettings, StreamState], Any]
) -> SideBySide:
    """Return the predictions of some rows, each as if it were the next one, by each target's own `predict`."""
    return beside(state, [predict(settings.of_one_target, part) for part in state.apart])


def beside(state: StreamState, parts: Sequence[Any]) -> SideBySide:
    """Join the predictions of the targets of rows that each might be the next one."""
    assert state.correlation is not None
    return state.correlation.of(side_by_side(parts))


def joined(infos: Sequence[Info], predictive: Any) -> Info:
    """Return the reports on every target's model as one, of this prediction: weights are means over the targets."""
    flagged = [np.asarray(info.flagged) for info in infos if info.flagged is not None]
    return Info(
        predictive,
        np.any([info.outside for info in infos], axis=0),
        None
        if any(info.rules is None for info in infos)
        else mean_of_alike([np.asarray(info.rules) for info in infos]),
        mean_of_alike([_weights(info) for info in infos]),
        np.any(flagged, axis=0) if flagged else None,
    )


def _whole(infos: list[Info]) -> Info:
    """Return the reports on consecutive rows, some of which had no target, as one."""
    return Info(
        concatenate([info.predictive for info in infos]),
        np.concatenate([np.asarray(info.outside) for info in infos]),
        None if infos[0].rules is None else np.concatenate([np.asarray(info.rules) for info in infos]),
        np.concatenate([_weights(info) for info in infos]),
        np.concatenate(
            [
                np.zeros(len(info.outside), bool) if info.flagged is None else np.asarray(info.flagged)
                for info in infos
            ]
        ),
    )


def _weights(info: Info) -> np.ndarray:
    return np.asarray(np.exp(info.predictive.log_weights) if info.weights is None else info.weights)
