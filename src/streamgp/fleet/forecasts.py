"""Several steps ahead of every key: each step's mean is the lag of those after it, and so is its error.

The errors of the steps so far have a covariance, which the derivatives of the next mean by its lags carry on: of a
linear model this is exact, of the Fourier features it is the first order. What a belief does not know of the weights
counts in every step by itself.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.engine import BLOCK, DOF, FleetEngine
from streamgp.fleet.model import FleetModel, Mixture
from streamgp.fleet.states import KeyStates

MAX_STEPS = 10_000


class Forecast(NamedTuple):
    """The steps of every key, those of the first key first."""

    times: Float[np.ndarray, " n"]
    mixture: Mixture


def forecast(
    engine: FleetEngine,
    keys: Int[np.ndarray, " k"],
    h: int,
    seen: Float[np.ndarray, " k"],
    inputs: Float[np.ndarray, "k h d"],
) -> Forecast:
    """Forecast the targets of keys, by their numbers; inputs that are NaN are taken to be ordinary.

    The time of a step is one unit, the median gap between two rows of a key in the warm-up, after the one before.
    """
    times = seen[:, None] + engine.unit * np.arange(1, h + 1)
    parts = []
    for start in range(0, len(keys), BLOCK):
        block = slice(start, start + BLOCK)
        at = keys[block]
        with np.errstate(all="ignore"):
            steps = (
                _persisting(engine, at, h)
                if engine.model is None
                else _stepped(engine, at, times[block], inputs[block])
            )
        parts.append(steps)
    whole = Mixture(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return Forecast(times.ravel(), whole)


def _stepped(
    engine: FleetEngine, at: Int[np.ndarray, " k"], times: Float[np.ndarray, "k h"], X: Float[np.ndarray, "k h d"]
) -> Mixture:
    model, h = engine.model, times.shape[1]
    assert model is not None
    states = engine.states_of(at)
    cov = np.zeros((len(at), h, h))  # of the errors of the steps
    log_weights, means, variances = (np.empty((len(at), h, len(DOF))) for _ in range(3))
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
            carried = np.zeros(len(at))
        log_weights[:, step], means[:, step] = ahead.mixture.log_weights, ahead.mixture.mean
        variances[:, step] = ahead.mixture.var + carried[:, None]
        mean, std = ahead.mixture.moments
        cov[:, step, step] = carried + std * std
        states = replace(states, past=np.concatenate([states.past[:, 1:], mean[:, None]], axis=1))
    return Mixture(*(a.reshape(-1, len(DOF)) for a in (log_weights, means, variances)))


def _slopes(
    model: FleetModel, states: KeyStates, Z: Float[np.ndarray, "k z"], times: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k l"]:
    """Return the derivative of the mixture's mean by every lag."""
    beliefs = states.beliefs
    since = (times - beliefs.time) / model.unit
    shrink = model.experts.decay ** np.where(since > 0.0, since, 0.0)[:, None]
    weights = np.exp(beliefs.log_weights).reshape(*shrink.shape, -1).sum(-1)
    theta = np.empty((len(Z), model.features.num_features))
    for which in np.unique(beliefs.prior).tolist():
        rows, prior = beliefs.prior == which, model.priors[which]
        moved = (prior.root @ (shrink[rows, :, None] * beliefs.mean[rows])[..., None])[..., 0]
        theta[rows] = (weights[rows, :, None] * (prior.mean + moved)).sum(1)
    return model.features.slopes(Z, theta)


def _persisting(engine: FleetEngine, at: Int[np.ndarray, " k"], h: int) -> Mixture:
    """Return what is forecast during the warm-up: a random walk from the last target."""
    mean, var = np.array([engine.provisional.predict(k) for k in at.tolist()]).T
    mean, var = np.repeat(mean, h), (var[:, None] * np.arange(1, h + 1)).ravel()
    shape = (len(mean), len(DOF))
    wide = (np.broadcast_to(a[:, None], shape) for a in (mean, var))
    return Mixture(np.full(shape, -np.log(len(DOF))), *wide)
