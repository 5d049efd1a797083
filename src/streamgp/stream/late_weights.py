"""Weights of the experts in rows that are predicted while others wait: learnt from the predictions made then.

The weights of a run in time say who predicts a row best once those right before it are known. While these wait that
may be another expert: one that forgets within a few rows then knows nothing. So the weights for such rows are learnt
apart, when a label comes, from what every expert predicted of its row when that came: by Soft-Bayes, which blends
experts. They are averaged with those in time, each by how well it has predicted such rows. A row before which no
label is missing keeps the weights in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.likelihoods import NumericPredictive, Predictive, SideBySide
from streamgp.numerics import tree
from streamgp.numerics.arrays import logsumexp
from streamgp.numerics.batching import concatenate
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.precision import in_float64
from streamgp.stream.state import StreamState
from streamgp.weights import SoftBayes
from streamgp.weights.base import OUTLIER_LOG_DENSITY, fresh_start, posterior, present

RULE = SoftBayes(0.1)
SWITCH = 0.01  # chance per row that the other weights are the better ones
GLITCHES = 0.01  # share of the labels that may come from anywhere: an absurd one tells nothing of an expert


@register
class Made(NamedTuple):
    """What a model predicted of a row that waits.

    Attributes
    ----------
    predictive
        The mixture (of one row) with its weights in time, on the scale that is learnt.
    since
        After how many rows each expert was fitted anew, by which it is distinguished from a later one in its place.
    """

    predictive: Predictive
    since: Int[np.ndarray, " k"]


@register
@dataclass(frozen=True)
class LateWeights:
    """The weights of one model's experts in rows that are predicted while others wait.

    Attributes
    ----------
    experts
        Log weights that were learnt late.
    rules
        Log weights of those in time, and of these.
    since
        As in `Made`.
    """

    experts: Float[np.ndarray, " k"]
    rules: Float[np.ndarray, " 2"]
    since: Int[np.ndarray, " k"]

    @classmethod
    def start(cls, since: Int[np.ndarray, " k"]) -> "LateWeights":
        """Return equal weights."""
        return cls(np.full(len(since), -np.log(len(since))), np.log([0.5, 0.5]), since)

    def of_experts(self, since: Int[np.ndarray, " k"]) -> "LateWeights":
        """Return the weights of a model's experts, of which those that were fitted anew start with an equal share."""
        if len(since) != len(self.since):
            return LateWeights.start(since)
        if np.array_equal(since, self.since):
            return self
        fresh = np.where(since != self.since, -np.log(len(since)), self.experts)
        return replace(self, experts=fresh - np.logaddexp.reduce(fresh), since=since)

    def averaged(self, own: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """Return the log weights in rows whose experts have these in time; of those with none it stays so."""
        late = np.asarray(present(np.broadcast_to(self.experts, own.shape), own == -np.inf))
        return np.logaddexp(self.rules[0] + own, self.rules[1] + late)

    @in_float64
    def learn(self, made: Made, y: Float[np.ndarray, " e"], scale: Float[np.ndarray, " e"]) -> "LateWeights":
        """Learn a row's target, on the same scale as its prediction; of experts that came later it tells nothing."""
        own = np.asarray(made.predictive.log_weights)[0]
        with np.errstate(over="ignore"):  # of an absurd target
            density = np.asarray(made.predictive.component_log_density(y[None]))[0]
        anywhere = np.log(GLITCHES) + len(scale) * OUTLIER_LOG_DENSITY - np.log(scale).sum()
        absent = (own == -np.inf) | (made.since != self.since)
        if absent.all():
            return self
        experts, rules = _learnt(self.experts, self.rules, own, np.logaddexp(density, anywhere), absent)
        return replace(self, experts=np.asarray(experts), rules=np.asarray(rules))


def _learnt(
    experts: Float[np.ndarray, " k"],
    rules: Float[np.ndarray, " 2"],
    own: Float[np.ndarray, " k"],
    density: Float[np.ndarray, " k"],
    absent: Bool[np.ndarray, " k"],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " 2"]]:
    """Learn from each expert's log density of a target; the absent count as what the others predict together."""
    together = logsumexp(np.where(absent, -np.inf, present(experts, absent) + density))
    evidence = np.stack([logsumexp(own + density), together])
    experts = RULE.update(experts, np.where(absent, together, density))
    return experts, fresh_start(posterior(rules, evidence), SWITCH)


def weighed(
    weights: Sequence[LateWeights], state: StreamState, predictive: NumericPredictive, late: Bool[np.ndarray, " n"]
) -> NumericPredictive:
    """Return a prediction with the weights of rows that are predicted `late`.

    There is a `LateWeights` for the model of all targets, or for each target's own; none before the first label.
    """
    parts = _parts(predictive)
    if len(weights) != len(parts):
        return predictive
    parts = tuple(
        replace(part, log_weights=np.where(late[:, None], now.averaged(part.log_weights), part.log_weights))
        for now, part in zip(_up_to_date(weights, state, parts), parts, strict=True)
    )
    return replace(predictive, parts=parts) if isinstance(predictive, SideBySide) else parts[0]


def made_of(
    state: StreamState, predictive: NumericPredictive, late: Bool[np.ndarray, " n"]
) -> list[tuple[Made, ...]]:
    """Return what is to be kept of a prediction with the weights in time, of each row that is predicted `late`."""
    parts = _parts(predictive)
    since = [since_of(own, part) for own, part in zip(state.models, parts, strict=True)]
    return [
        tuple(Made(_row(part, i), each) for part, each in zip(parts, since, strict=True)) if is_late else ()
        for i, is_late in enumerate(late)
    ]


def _parts(predictive: NumericPredictive) -> tuple[Any, ...]:
    return predictive.parts if isinstance(predictive, SideBySide) else (predictive,)


def _up_to_date(weights: Sequence[LateWeights], state: StreamState, parts: Sequence[Any]) -> list[LateWeights]:
    """Return the weights of the experts that there are now, of which each part is a mixture."""
    return [now.of_experts(since_of(own, part)) for now, own, part in zip(weights, state.models, parts, strict=True)]


def learnt(
    weights: tuple[LateWeights, ...], state: StreamState, made: Sequence[Made], y: Float[np.ndarray, " e"]
) -> tuple[LateWeights, ...]:
    """Return the weights after a row's target, of which `made` was predicted."""
    states = state.models
    if len(made) != len(states):  # each target has a model of its own by now
        return weights
    mixtures = [each.predictive for each in made]
    if len(weights) != len(made):
        weights = tuple(LateWeights.start(since_of(own, part)) for own, part in zip(states, mixtures, strict=True))
    return tuple(
        now.learn(each, target, np.asarray(own.targets.scale))
        for now, each, target, own in zip(
            _up_to_date(weights, state, mixtures), made, np.split(y, len(states)), states, strict=True
        )
    )


def since_of(state: StreamState, predictive: Predictive) -> Int[np.ndarray, " k"]:
    """Return after how many rows each component of a mixture was fitted anew; zero where there is no such table."""
    k = predictive.log_weights.shape[1]
    return np.array([each.since for each in state.experts] if len(state.experts) == k else [0] * k)


def made_to_tree(made: Sequence[tuple[Made, ...]]) -> list[dict[str, Any]]:
    """Return what a checkpoint needs of rows: of those that are alike, the arrays as one."""
    groups: dict[Any, list[int]] = {}
    for row, parts in enumerate(made):
        if parts:
            groups.setdefault(tuple(map(_kind, parts)), []).append(row)
    return [
        {
            "rows": np.array(rows),
            "parts": [
                [concatenate([each.predictive for each in column]), column[0].since]
                for column in zip(*(made[row] for row in rows), strict=True)
            ],
        }
        for rows in groups.values()
    ]


def made_from_tree(tree: Sequence[dict[str, Any]], n: int) -> list[tuple[Made, ...]]:
    """Return what `made_to_tree` was given, of n rows."""
    made: list[tuple[Made, ...]] = [()] * n
    for group in tree:
        for i, row in enumerate(group["rows"]):
            made[row] = tuple(Made(_row(predictive, i), since) for predictive, since in group["parts"])
    return made


def _kind(made: Made) -> tuple[Any, ...]:
    shapes = tuple(np.shape(a) for a in tree.leaves(made.predictive))
    return tree.form(made.predictive), shapes, made.since.tobytes()


def _row(p: Predictive, i: int) -> Predictive:
    """Return the components of a row."""
    log_weights, loc, var = (np.asarray(a)[i : i + 1] for a in (p.log_weights, p.loc, p.var))
    return Predictive(log_weights, loc, var, None if p.dof is None else np.asarray(p.dof)[i : i + 1])
