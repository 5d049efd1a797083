"""Regret: the loss of a run beyond the least loss in hindsight, in nats, row by row.

The loss of a prediction is its negative log density at the target. The best in hindsight knows all targets, but is
one function, or a few with given slots, or a sequence of the experts with few switches (Lu, Karanikolas and Giannakis
2022, Sec. 4 and 5.1.1). Theoretical bounds on regret are in `streamgp.research.regret.bounds`. The functions
themselves come from `streamgp.research.regret.hindsight`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.numerics.accelerator import jax, jnp
from streamgp.numerics.precision import in_float64
from streamgp.research.regret.hindsight import Hindsight, as_array, as_rows, as_slots, best_fit, experts_of
from streamgp.weights import BMA, scan_rule


class Losses(NamedTuple):
    """Negative log densities of the targets, predicted one row ahead: of the mixture (n,), of each expert (n, K)."""

    mixture: np.ndarray
    experts: np.ndarray


def static_regret(loss: ArrayLike, fits: Sequence[Hindsight]) -> np.ndarray:
    """Add up, from the first row on, the regret to the single best function (Lu et al. 2022, Eq. 30 and 31).

    The best is that with the smallest penalised objective, `best_fit`. The last entry is the regret of the run. The
    entries before it are not the regrets of shorter runs, for which another function may be the best.

    Parameters
    ----------
    loss
        The losses of the run, shape (n,).
    fits
        Each expert's best function over the same rows, by `best_functions`, `hindsight_basis` or `hindsight_kernel`.

    Raises
    ------
    ValueError
        If the fits are of other rows.
    """
    return _add_up_regret(as_array("loss", loss, 1), fits[best_fit(fits)].loss)


def switching_regret(loss: ArrayLike, fits: Sequence[Hindsight], slots: ArrayLike) -> np.ndarray:
    """Add up the regret to functions fitted in hindsight, each on its own slots (Lu et al. 2022, Eq. 39).

    Parameters
    ----------
    loss
        The losses of the run, shape (n,).
    fits
        Each expert's best function on its own slots, as `best_functions` gives it for the same `slots`.
    slots
        Number of the expert that each row belongs to, shape (n,).

    Raises
    ------
    ValueError
        If a fit has another number of rows than its expert has slots.
    """
    loss = as_array("loss", loss, 1)
    slots = as_slots(slots, len(loss), len(fits))
    reference = np.empty_like(loss)
    for m, fit in enumerate(fits):
        own = slots == m
        if own.sum() != len(fit.loss):
            raise ValueError(f"fits: expected {own.sum()} rows for expert {m}, its slots, got {len(fit.loss)}")
        reference[own] = fit.loss
    return _add_up_regret(loss, reference)


def best_sequence(losses: ArrayLike, switches: int) -> np.ndarray:
    """Find the sequence of experts with the least total loss and at most S switches, by dynamic programming.

    Parameters
    ----------
    losses
        The losses of every expert, shape (n, K).
    switches
        S, the greatest number of changes of expert from one row to the next.

    Returns
    -------
    np.ndarray
        The expert of each row, shape (n,).

    Raises
    ------
    ValueError
        If there is no row, a loss is NaN, or S is negative.
    """
    losses = np.asarray(losses, dtype=float)
    if losses.ndim != 2 or not losses.size or np.isnan(losses).any():
        raise ValueError(f"losses: expected numbers of shape (n, K) without NaN, got shape {losses.shape}")
    if int(switches) != switches or switches < 0:
        raise ValueError(f"switches: expected a whole number of at least 0, got {switches}")
    n, K = losses.shape
    S = min(int(switches), n - 1)
    # Least total up to here of the sequences that end with an expert and may have switched s times, [S + 1, K].
    total = np.tile(losses[0], (S + 1, 1))
    came_from = np.empty((n, S + 1, K), dtype=np.int32)
    stay = np.arange(K)
    for t in range(1, n):
        came_from[t] = stay
        leader = total[:-1].argmin(axis=1)
        least = total[np.arange(S), leader][:, None]
        switch = least < total[1:]
        came_from[t, 1:] = np.where(switch, leader[:, None], stay)
        total[1:] = np.where(switch, least, total[1:])
        total += losses[t]
    path = np.empty(n, dtype=int)
    path[-1], s = total[S].argmin(), S
    for t in range(n - 1, 0, -1):
        path[t - 1] = came_from[t, s, path[t]]
        s -= int(path[t - 1] != path[t])
    return path


def sequence_regret(losses: Losses, switches: int) -> np.ndarray:
    """Add up the regret to the best sequence of the experts as they ran, with at most `switches` switches."""
    path = best_sequence(losses.experts, switches)
    return _add_up_regret(losses.mixture, losses.experts[np.arange(len(path)), path])


@in_float64
def run_losses(model: Ensemble, X: ArrayLike, y: ArrayLike, slots: ArrayLike | None = None) -> Losses:
    """Run an ensemble from its prior over the rows, each predicted before it is learnt.

    With `slots`, expert m learns from the rows with ``slots[t] == m`` only, and predicts all of them. Lemma 3 and
    Theorem 2 of Lu et al. (2022) assume this; a stream cannot know its slots. It takes a pass for every segment of
    equal slots.

    Parameters
    ----------
    model, X, y, slots
        As in `best_functions`.

    Raises
    ------
    ValueError
        As in `best_functions`.
    """
    X, y, slots = as_rows(model, X, y, slots)
    rows, targets = jnp.asarray(X), jnp.asarray(y[:, None])
    if slots is None:
        _, info = model.update(model.init(keys.key(0)), rows, targets)
        mixture = np.asarray(info.predictive.log_density(targets))
        return Losses(-mixture, -np.asarray(info.predictive.component_log_density(targets)))
    density = np.stack([_own_density(e, rows, targets, slots == m) for m, e in enumerate(experts_of(model))], 1)
    return Losses(-_mixed_density(model, density), -density)


def _own_density(expert: Expert, X: jax.Array, y: jax.Array, own: np.ndarray) -> np.ndarray:
    """Compute the log density of all rows by an expert that learns from its own rows alone."""
    model = ensemble([expert], BMA())
    state, density = model.init(keys.key(0)), np.empty(len(own))
    for segment in np.split(np.arange(len(own)), np.flatnonzero(np.diff(own)) + 1):
        if own[segment[0]]:
            # All rows go in, and a mask picks the segment: for arrays of one shape nothing is compiled twice.
            state, info = model.update(state, X, y, jnp.zeros(len(own), bool).at[segment].set(True))
            predictive = info.predictive
        else:
            predictive = model.predict(state, X)
        density[segment] = np.asarray(predictive.log_density(y))[segment]
    return density


def _mixed_density(model: Ensemble, density: np.ndarray) -> np.ndarray:
    """Compute the log density of the mixture, by the model's rule."""
    rows = jnp.asarray(density)
    _, known = scan_rule(model.rule, model.rule.init(model.log_prior), rows)
    return np.asarray(jax.nn.logsumexp(known.log_weights + rows, axis=1))


def _add_up_regret(loss: np.ndarray, reference: np.ndarray) -> np.ndarray:
    if loss.shape != reference.shape:
        raise ValueError(
            f"loss: expected that of the {len(reference)} rows that hindsight was fitted to, got {len(loss)} rows"
        )
    return np.cumsum(loss - reference)
