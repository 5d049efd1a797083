"""What a fleet forecasts of the next rows of its keys, and of their sums, in which the errors of keys go together."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet import outputs, targets
from streamgp.fleet.directory import Directory
from streamgp.fleet.engine import FleetEngine
from streamgp.fleet.forecasts import rows_ahead
from streamgp.fleet.frames import FleetColumns, Key, as_times, new_frame
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.settings import FleetSettings
from streamgp.likelihoods import TargetMap


class Known(NamedTuple):
    """What a fleet that has seen rows goes by."""

    settings: FleetSettings
    columns: FleetColumns
    directory: Directory
    engine: FleetEngine


class NextRows(NamedTuple):
    """What is forecast of the next rows of some keys: their names and numbers, times, and of each row a mixture."""

    keys: list[Key]
    number: Int[np.ndarray, " k"]
    times: Float[np.ndarray, "k h"]
    mixture: Mixture


def next_rows(known: Known, h: int, X_future: Any, keys: Collection[Key] | None) -> NextRows:
    """Forecast the next rows of keys, all if none are given."""
    settings, columns, directory, engine = known
    names, number = directory.chosen(keys)
    times, X = rows_ahead(h, X_future, settings, columns, directory, number, engine.steps)
    return NextRows(names, number, times, engine.forecast(number, times, X))


def rows_frame(known: Known, ahead: NextRows, levels: Sequence[float]) -> Any:
    """Return the frame of the next rows of every key."""
    names = [key for key in ahead.keys for _ in range(ahead.times.shape[1])]
    target = known.settings.target_map
    return _frame(known, {known.settings.id_col: names}, ahead.times.ravel(), ahead.mixture, levels, target)


def totals_frame(known: Known, ahead: NextRows, levels: Sequence[float], by: str | None) -> Any:
    """Return the frame of the sums over all keys, or over those of each group.

    Raises
    ------
    ValueError
        If the keys of a sum do not go on at the same times, or too little is known of how their errors go together.
    """
    groups = known.directory.group[ahead.number] if by is not None else np.zeros(len(ahead.number), np.int64)
    target = known.settings.target_map
    mean, std = (each.reshape(ahead.times.shape) for each in targets.moments(ahead.mixture, target))
    parts, times, names = [], [], list[Key]()
    for group in np.unique(groups).tolist():
        at = np.flatnonzero(groups == group)
        _check_times(known, ahead, at)
        spread = known.engine.common.std_of_sum(std[at], None if by is None else group)
        parts.append(_normal(mean[at].sum(axis=0)[:, None], spread[:, None]))
        times.append(ahead.times[at[0]])
        names += [] if by is None else [known.directory.groups[group]] * ahead.times.shape[1]
    mixture = Mixture(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    named = {} if by is None else {by: names}
    return _frame(known, named, np.concatenate(times), mixture, levels, TargetMap())


def _normal(mean: Float[np.ndarray, "n 1"], std: Float[np.ndarray, "n 1"]) -> Mixture:
    """Return normal distributions, as mixtures of one part."""
    return Mixture(np.zeros_like(mean), mean, np.square(std), np.full_like(mean, np.inf))


def _check_times(known: Known, ahead: NextRows, at: Int[np.ndarray, " m"]) -> None:
    """Raise ValueError if the next rows of these keys do not come at the same times."""
    differs = (ahead.times[at] != ahead.times[at[0]]).any(axis=1)
    if differs.any():
        first, other = int(at[0]), int(at[np.argmax(differs)])
        step = int(np.argmax(ahead.times[first] != ahead.times[other]))
        shown = as_times(known.columns, ahead.times[[first, other], step])
        raise ValueError(
            f"forecast_total: expected keys whose next rows come at the same times, got {shown[0]} for "
            f"{ahead.keys[first]!r} and {shown[1]} for {ahead.keys[other]!r}; learn rows of all keys up to the same "
            f"time, with no target where there is none, or leave keys out (keys=)"
        )


def _frame(
    known: Known,
    names: dict[str, Any],
    times: Float[np.ndarray, " n"],
    mixture: Mixture,
    levels: Sequence[float],
    target: TargetMap,
) -> Any:
    """Return a frame of what mixtures say, by names and times."""
    time_col = known.settings.time_col
    when = {} if time_col is None else {time_col: as_times(known.columns, times)}
    ends = outputs.bands(mixture, levels, target)
    return new_frame(known.columns, names | when | outputs.predictions(mixture, target) | ends)
