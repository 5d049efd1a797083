"""The scores of each key, from the sums over its rows."""

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.metrics.many_judgements import skills
from streamgp.fleet.model import FleetModel
from streamgp.fleet.states import KeyStates, take

SKILLS = ("skill", "skill_low", "skill_high")
# The covariances of so many keys are read at a time.
KEYS = 4_096


def key_scores(model: FleetModel, states: KeyStates, keys: int) -> dict[str, np.ndarray]:
    """Return the scores of the first `keys`; NaN where there are none yet."""
    sums = take(states.scores, slice(0, keys))
    with np.errstate(all="ignore"):
        each = np.where(sums.rows > 0, sums.rows, np.nan)
        whole = np.where(sums.m2 > 0, sums.m2, np.nan)
        return {
            "scored_rows": sums.rows.astype(np.int64),
            "nmse": sums.squared / whole,
            "pll": sums.log_density / each,
            "coverage": sums.covered / each,
            "nmse_persistence": sums.persistence / whole,
            "nmse_running_mean": sums.running / whole,
            **dict(zip(SKILLS, skills(sums.batches, sums.paired), strict=True)),
            "flagged": states.flagged[:keys].copy(),
            "resets": states.beliefs.resets[:keys].copy(),
            "borrowed": borrowed(model, states, keys),
        }


def no_scores(keys: int) -> dict[str, np.ndarray]:
    """Return what `key_scores` does of keys that the fitted fleet has not predicted."""
    none, zero = np.full(keys, np.nan), np.zeros(keys, np.int64)
    found = {"scored_rows": zero, "flagged": zero, "resets": zero, "borrowed": np.ones(keys)}
    return found | dict.fromkeys(("nmse", "pll", "coverage", "nmse_persistence", "nmse_running_mean", *SKILLS), none)


def borrowed(model: FleetModel, states: KeyStates, keys: int) -> Float[np.ndarray, " n"]:
    """Return the share of the prior's variance that every key's beliefs still have, by the weights of its experts.

    One for a new key: all that it believes is the fleet's. It falls as its own rows say more.
    """
    features = model.features.num_features
    on = model.priors[0].root.diagonal(axis1=1, axis2=2) > 0.0
    diagonal = np.cumsum(np.arange(1, features + 1)) - 1
    found = np.empty(keys)
    for start in range(0, keys, KEYS):
        beliefs = take(states.beliefs, slice(start, min(start + KEYS, keys)))
        left = np.where(on, beliefs.cov[..., diagonal], 0.0).sum(-1) / on.sum(-1)
        weights = np.exp(beliefs.log_weights).reshape(*left.shape, -1).sum(-1)
        found[start : start + KEYS] = np.vecdot(weights, left) / weights.sum(-1)
    return found
