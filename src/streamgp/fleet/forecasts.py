"""Forecasts several steps ahead for every key, in which the mean of a step is a lag of later steps.

The errors of the steps so far have a covariance, which the derivatives of the next mean by its lags carry on: of a
linear model this is exact, of the Fourier features it is the first order. What a belief does not know of the weights
counts in every step by itself. So does an input that is not known: it is taken to be ordinary for its key, and as
uncertain as the key's scale.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.metrics.shares import percents
from streamgp.fleet.directory import NEW, Directory
from streamgp.fleet.frames import FleetColumns, Table, listed, name_rows, read
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.model import FleetModel
from streamgp.fleet.provisional import Provisional
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.states import KeyStates
from streamgp.fleet.steps import Steps
from streamgp.fleet.warmup import DOF, rounds
from streamgp.table import DataError

MAX_STEPS = 10_000
# A Student's t of d degrees of freedom has an excess kurtosis of 6 / (d - 4).
KURTOSIS_DOF = 4.0


def checked(h: int, level: float | Sequence[float]) -> Sequence[float]:
    """Return the levels of a forecast.

    Raises
    ------
    ValueError
        If one of them is out of range, or the number of steps.
    """
    if isinstance(h, bool) or not isinstance(h, int) or not 1 <= h <= MAX_STEPS:
        raise ValueError(f"h: expected a whole number from 1 to {MAX_STEPS}, got {h!r}")
    return percents("level", level)


def stepped(
    model: FleetModel, states: KeyStates, times: Float[np.ndarray, "k h"], X: Float[np.ndarray, "k h d"]
) -> Mixture:
    """Forecast the targets of keys, the steps of the first key first."""
    h = times.shape[1]
    # The covariance of the errors of the steps.
    cov = np.zeros((len(times), h, h))
    log_weights, means, variances, dof = (np.empty((len(times), h, len(DOF))) for _ in Mixture._fields)
    for step in range(h):
        ahead = model.predict(states, X[:, step], times[:, step])
        slopes = _slopes(model, states, ahead.Z, times[:, step])
        # The lags that lie within the steps before this one; those further back are known.
        within = [(j, step - lag) for j, lag in enumerate(model.features.lags) if lag <= step]
        if within:
            columns, steps = (list(each) for each in zip(*within, strict=True))
            toward = slopes[:, columns]
            shared = (toward[:, None, :] @ cov[:, steps, :])[:, 0]
            carried = np.vecdot(shared[:, steps], toward)
            cov[:, step, :], cov[:, :, step] = shared, shared
        else:
            carried = np.zeros(len(times))
        # The inputs stand last, in units of their scales.
        by_input = slopes[:, slopes.shape[1] - X.shape[2] :] * ahead.scale[:, :1]
        unknown = np.square(np.where(np.isnan(X[:, step]), by_input, 0.0)).sum(axis=1)
        log_weights[:, step], means[:, step] = ahead.mixture.log_weights, ahead.mixture.mean
        variances[:, step] = ahead.mixture.var + (carried + unknown)[:, None]
        # Of what inputs add, which is nearly normal, the excess kurtosis of the sum is matched.
        swell = np.square(1.0 + unknown[:, None] / ahead.mixture.var)
        dof[:, step] = KURTOSIS_DOF + (ahead.mixture.dof - KURTOSIS_DOF) * swell
        std = ahead.mixture.moments[1]
        cov[:, step, step] = carried + unknown + std * std
        states = model.going_on(states, ahead)
    return Mixture(*(a.reshape(-1, len(DOF)) for a in (log_weights, means, variances, dof)))


def rows_ahead(
    h: int,
    X_future: Any,
    settings: FleetSettings,
    columns: FleetColumns,
    directory: Directory,
    number: Int[np.ndarray, " k"],
    steps: Steps,
) -> tuple[Float[np.ndarray, "k h"], Float[np.ndarray, "k h d"]]:
    """Return times and inputs of the next rows of these keys from a frame; without, the usual times and no inputs.

    Raises
    ------
    ValueError
        If the frame does not have them: nothing that the model goes by is made up.
    """
    seen = directory.seen if settings.time_col else directory.rows.astype(float) - 1.0
    times = steps.after(seen, h, columns.zone)
    X = np.empty((len(directory), h, len(columns.inputs)))
    if X_future is None:
        if columns.inputs:
            needed = [name for name in (settings.id_col, settings.time_col, *columns.inputs) if name is not None]
            raise ValueError(
                f"X_future: expected a frame with the inputs of the next {h} rows of every key, the columns "
                f"{listed(needed)}, as this fleet has inputs, got None; give them, or start a fleet without inputs "
                f"that are not known ahead"
            )
        return times[number], X[number]
    given, key = _given(X_future, settings, columns, directory)
    # Other keys may have any rows.
    wanted = np.isin(key, number)
    count = np.bincount(key, minlength=len(directory))[number]
    if (count < h).any():
        odd = int(np.argmax(count < h))
        name = directory.keys.names()[number[odd]]
        raise ValueError(
            f"X_future: expected {h} row{'s' * (h > 1)} of each key or more, got {count[odd]} of {name!r}; give as "
            f"many as there are steps, or say which keys are wanted (keys=)"
        )
    for step, at in enumerate(rounds(key[wanted])[:h]):
        at = np.flatnonzero(wanted)[at]
        X[key[at], step] = given.X[at]
        if given.times is not None:
            times[key[at], step] = given.times[at]
    return times[number], X[number]


def _given(
    X_future: Any, settings: FleetSettings, columns: FleetColumns, directory: Directory
) -> tuple[Table, Int[np.ndarray, " n"]]:
    """Return rows to come, by time, and the numbers of their keys, checked; their times may be left out."""
    try:
        frame = nw.from_native(X_future, eager_only=True)
        if settings.group_col in frame.columns:
            frame = frame.drop(settings.group_col)
        settings = replace(settings, group_col=None)
        if settings.time_col not in frame.columns:
            settings, columns = replace(settings, time_col=None), replace(columns, time=None)
        given = read(frame, settings, columns, with_target=False)
    except DataError as error:
        raise DataError(f"X_future: {error}") from error
    except TypeError as error:
        got = type(X_future).__name__
        raise TypeError(f"X_future: expected a data frame of pandas, polars or Arrow, got {got}") from error
    key = directory.find(given.keys)

    def complain(expected: str, got: str, which: np.ndarray, advice: str) -> None:
        if which.any():
            where = name_rows(settings, given, which)
            raise DataError(f"X_future: expected {expected}, got {got} in {where}; {advice}.")

    complain("keys that have come", "others", key == NEW, "leave them out, or learn a row of each first")
    # The order of rows says nothing where they have times; a row without one comes last.
    order = np.arange(len(key)) if given.times is None else np.argsort(given.times, kind="stable")
    bad, slow = np.zeros(len(key), bool), np.zeros(len(key), bool)
    if given.times is not None:
        found = directory.check(key[order], given.times[order], directory.group[key][order])
        bad[order] = found.any
        slow[order[~found.any]] = directory.leaves_gap(key[order][~found.any], given.times[order][~found.any])
    expected = "times after the last one of their key, each once"
    complain(expected, "others", bad, "correct them, or leave out what the fleet has learnt")
    complain(
        "times that go on with gaps as those of all rows so far",
        "a longer one before",
        slow,
        "give the rows between as well, or learn those that have passed, with no target where it is not known",
    )
    for name, column in zip(columns.inputs, given.X.T, strict=True):
        advice = "fill them in, or start a fleet without this input"
        complain(f"numbers in '{name}', which the steps are forecast from", "none", np.isnan(column), advice)
    ordered = given._replace(times=None if given.times is None else given.times[order], X=given.X[order])
    return ordered, key[order]


def _slopes(
    model: FleetModel, states: KeyStates, Z: Float[np.ndarray, "k z"], times: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k z"]:
    """Return the derivative of the mixture's mean by every standardised input, in units of the key's scale."""
    beliefs = states.beliefs
    since = (times - beliefs.time) / model.unit
    shrink = model.experts.decay ** np.where(since > 0.0, since, 0.0)[:, None]
    weights = np.exp(beliefs.log_weights).reshape(*shrink.shape, -1).sum(-1)
    theta = np.empty((len(Z), model.features.num_features))
    for which in np.unique(beliefs.prior).tolist():
        rows, prior = beliefs.prior == which, model.priors[which]
        moved = (prior.root @ (shrink[rows, :, None] * beliefs.mean[rows])[..., None])[..., 0]
        theta[rows] = (weights[rows, :, None] * (prior.mean + moved)).sum(1)
    # Where errors are carried on, the first lag is one.
    if model.features.short:
        theta[:, 1] += (weights * model.share(states)).sum(1)
    return model.features.slopes(Z, theta)


def persisting(provisional: Provisional, at: Int[np.ndarray, " k"], h: int) -> Mixture:
    """Return what is forecast during the warm-up: a random walk from the last target."""
    mean, var = np.array([provisional.predict(k) for k in at.tolist()]).T
    mean, var = np.repeat(mean, h), (var[:, None] * np.arange(1, h + 1)).ravel()
    shape = (len(mean), len(DOF))
    wide = (np.broadcast_to(a, shape) for a in (mean[:, None], var[:, None], DOF))
    return Mixture(np.full(shape, -np.log(len(DOF))), *wide)
