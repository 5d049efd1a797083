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
from streamgp.stream.state import StreamState

SCARCE, MANY = 4, 200  # a row with some of the targets counts 4, one with all takes 1 off: 50 in a row are many

Learn = Callable[[StreamSettings, StreamState, RawRows], tuple[StreamState, Info]]


def can_be_taken_apart(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether the next row with some of the targets and not all is to be learnt by a model for each."""
    return settings.correlates and not settings.horizon and not state.is_warmed_up and not state.apart


def may_come_apart(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether a fitted model of all targets is to be taken apart once many rows lack some of them."""
    if not settings.correlates or settings.horizon or state.apart or not state.is_warmed_up:
        return False
    return not state.inputs.lags.lags and state.model.of_output(state.model_state, 0) is not None


def with_scarce(state: StreamState, rows: int, partial: int) -> StreamState:
    """Return the state after so many rows, of which so many, or none, had some of the targets and not all."""
    scarce = state.scarce + SCARCE * partial if partial else max(0, state.scarce - rows)
    return state if scarce == state.scarce else replace(state, scarce=scarce)


def going_on_apart(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state from which on each target of a fitted model is learnt by itself."""
    parts, count = [], np.asarray(state.targets.count)
    for e in range(settings.num_outputs):
        found = state.model.of_output(state.model_state, e)
        assert found is not None
        model, model_state = found
        parts.append(
            replace(
                state,
                model=model,
                model_state=model_state,
                targets=Standardiser(count, state.targets.mean[e : e + 1], state.targets.m2[e : e + 1]),
                reservoir=None if state.reservoir is None else state.reservoir.of_target(e),
                correlation=None,
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
    there = np.eye(settings.num_outputs)[None].repeat(len(rows.X), axis=0)
    predictive = side_by_side([info.predictive for info in infos], there)
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
    parts = [predict(settings.of_one_target, part) for part in state.apart]
    n, e = len(parts[0].log_weights), len(parts)
    assert state.correlation is not None
    return state.correlation.of(side_by_side(parts, np.eye(e)[None].repeat(n, axis=0)))


def joined(infos: Sequence[Info], predictive: Any) -> Info:
    """Return the reports on every target's model as one, of this prediction: weights are means over the targets."""
    flagged = [np.asarray(info.flagged) for info in infos if info.flagged is not None]
    return Info(
        predictive,
        np.any([info.outside for info in infos], axis=0),
        _mean([info.rules for info in infos]),
        _mean([_weights(info) for info in infos]),
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


def _mean(each: Sequence[Any]) -> Any:
    """Return the mean of what every target has; of the first one where another has none, or other ones."""
    if any(a is None for a in each):
        return None
    return np.mean(each, axis=0) if len({np.shape(a) for a in each}) == 1 else each[0]
