"""The state of every key of a fleet, in arrays with one row a key."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.metrics import many_judgements
from streamgp.fleet.carried import CarriedErrors
from streamgp.fleet.prior import PooledPrior
from streamgp.fleet.scales import KeyMoments
from streamgp.numerics.checkpoint.encoding import register

SPARE = 1.25  # the capacity grows by this factor at least


@register
@dataclass(frozen=True)
class KeyBeliefs:
    """What the experts of some keys believe.

    Attributes
    ----------
    mean, cov
        Of the weights, in units of the key's prior; covariances by their lower triangles, row by row.
    level, run, agreement, last
        The experts' guards, see `streamgp.filters.guard`.
    rate
        The rates of their kinds of noise, see `streamgp.filters.noise`.
    log_weights
        Of all pairs of an expert and a kind of noise.
    prior
        Which of the fleet's priors the key was born with, or went on from last.
    time
        Of the last row learnt, NaN before.
    resets
        How often an expert had to start again.
    """

    mean: Float[np.ndarray, "n e f"]
    cov: Float[np.ndarray, "n e t"]
    level: Float[np.ndarray, "n e"]
    run: Float[np.ndarray, "n e"]
    agreement: Float[np.ndarray, "n e"]
    last: Float[np.ndarray, "n e"]
    rate: Float[np.ndarray, "n e j"]
    log_weights: Float[np.ndarray, "n k"]
    prior: Int[np.ndarray, " n"]
    time: Float[np.ndarray, " n"]
    resets: Int[np.ndarray, " n"]

    @classmethod
    def born(
        cls, which: Int[np.ndarray, " n"], priors: list[PooledPrior], rate: Float[np.ndarray, " j"]
    ) -> "KeyBeliefs":
        """Return the beliefs of new keys, which start from these of the priors."""
        keys, (experts, features) = len(which), priors[0].mean.shape
        some, number = np.unique(which, return_inverse=True)
        weights = [priors[each].log_weights for each in some.tolist()] or [priors[0].log_weights]
        one = np.zeros((keys, experts))
        cov = np.broadcast_to(identity(features), (keys, experts, features * (features + 1) // 2))
        return cls(
            np.zeros((keys, experts, features)),
            cov,
            one + 1.0,
            one,
            one,
            one,
            np.broadcast_to(rate, (keys, experts, len(rate))),
            np.stack(weights)[number],
            which,
            np.full(keys, np.nan),
            np.zeros(keys, np.int64),
        )


def identity(features: int) -> Float[np.ndarray, " t"]:
    """Return the lower triangle of the identity."""
    i, j = np.tril_indices(features)
    return np.where(i == j, 1.0, 0.0)


@register
@dataclass(frozen=True)
class KeyScores:
    """Sums over the rows that the fitted fleet predicted and then saw the targets of.

    Attributes
    ----------
    rows, mean, m2
        Number, mean and squared deviations of the targets.
    squared, log_density, covered
        Squared errors, log densities, and how many targets lay between the quantiles 0.05 and 0.95.
    persistence, running
        Squared errors of the last target, and of the mean of all targets before.
    paired, batches
        Rows of which all three squared errors are known, and their sums over batches of rows: see
        `streamgp.evaluation.metrics.many_judgements`.
    """

    rows: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]
    m2: Float[np.ndarray, " n"]
    squared: Float[np.ndarray, " n"]
    log_density: Float[np.ndarray, " n"]
    covered: Float[np.ndarray, " n"]
    persistence: Float[np.ndarray, " n"]
    running: Float[np.ndarray, " n"]
    paired: Float[np.ndarray, " n"]
    batches: Float[np.ndarray, "n 3 b"]

    @classmethod
    def none(cls, keys: int) -> "KeyScores":
        """Return the sums before any row."""
        sums = {each.name: np.zeros(keys) for each in fields(cls)}
        return cls(**sums | {"batches": np.zeros((keys, 3, many_judgements.BATCHES))})

    def add(
        self,
        y: Float[np.ndarray, " n"],
        error: Float[np.ndarray, " n"],
        log_density: Float[np.ndarray, " n"],
        covered: Float[np.ndarray, " n"],
        last: Float[np.ndarray, " n"],
        running: Float[np.ndarray, " n"],
    ) -> "KeyScores":
        """Return the sums with one more row of each key; of a key's first target the baselines say nothing."""
        rows = self.rows + 1.0
        off = y - self.mean
        squared = np.column_stack([error * error, np.square(y - last), np.square(y - running)])
        batches, paired = many_judgements.with_row(self.batches, self.paired, squared)
        return KeyScores(
            rows,
            self.mean + off / rows,
            self.m2 + off * off * (1.0 - 1.0 / rows),
            self.squared + error * error,
            self.log_density + log_density,
            self.covered + covered,
            self.persistence + np.where(np.isnan(last), 0.0, np.square(y - last)),
            self.running + np.where(np.isnan(running), 0.0, np.square(y - running)),
            paired,
            batches,
        )


@register
@dataclass(frozen=True)
class KeyStates:
    """All that is kept of some keys.

    Attributes
    ----------
    past
        The last targets learnt, the last one last, NaN before the first; far-out ones as far as they were believed.
    moments
        Of the target and the inputs.
    beliefs, carried, scores
        Of the experts.
    last, total
        The last target as it was, and the sum of all.
    learnt, flagged
        Rows learnt, and how many of them were taken for outliers.
    """

    past: Float[np.ndarray, "n w"]
    moments: KeyMoments
    beliefs: KeyBeliefs
    carried: CarriedErrors
    scores: KeyScores
    last: Float[np.ndarray, " n"]
    total: Float[np.ndarray, " n"]
    learnt: Int[np.ndarray, " n"]
    flagged: Int[np.ndarray, " n"]

    @classmethod
    def born(
        cls,
        which: Int[np.ndarray, " n"],
        width: int,
        columns: int,
        priors: list[PooledPrior],
        rate: Float[np.ndarray, " j"],
    ) -> "KeyStates":
        """Return the states of new keys, which start from these of the priors."""
        keys = len(which)
        zeros = np.zeros(keys)
        whole = np.zeros(keys, np.int64)
        return cls(
            np.full((keys, width), np.nan),
            KeyMoments.none(keys, columns),
            KeyBeliefs.born(which, priors, rate),
            CarriedErrors.none(keys, len(priors[0].mean)),
            KeyScores.none(keys),
            np.full(keys, np.nan),
            zeros,
            whole,
            whole,
        )


@runtime_checkable
class OfKeys(Protocol):
    """A dataclass of arrays with one row a key, or of such dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Arrays = TypeVar("Arrays", bound=OfKeys)


def take(arrays: Arrays, at: np.ndarray | slice) -> Arrays:
    """Return some of the keys: a copy, unless they are a slice."""
    return replace(
        arrays,
        **{name: each[at] if isinstance(each, np.ndarray) else take(each, at) for name, each in _parts(arrays)},
    )


def put(arrays: Arrays, at: np.ndarray | slice, new: Arrays) -> None:
    """Overwrite some of the keys, but for what was changed in place."""
    for name, each in _parts(arrays):
        values = getattr(new, name)
        if not isinstance(each, np.ndarray):
            put(each, at, values)
        elif not np.may_share_memory(values, each):
            each[at] = values


def joined(parts: list[Arrays]) -> Arrays:
    """Return the keys of all parts, one after the other."""
    first, several = parts[0], {}
    for name, each in _parts(first):
        values = [getattr(part, name) for part in parts]
        several[name] = np.concatenate(values) if isinstance(each, np.ndarray) else joined(values)
    return replace(first, **several)


def with_room(arrays: Arrays | None, keys: int, like: Arrays) -> Arrays:
    """Return the arrays with room for so many keys; those that are new are not yet written."""
    have = 0 if arrays is None else len(_first(arrays))
    if arrays is not None and keys <= have:
        return arrays
    capacity = max(keys, int(SPARE * have))

    def room(old: np.ndarray | None, like: np.ndarray) -> np.ndarray:
        wide = np.empty((capacity, *like.shape[1:]), like.dtype)
        if old is not None:
            wide[:have] = old
        return wide

    def visit(old: Arrays | None, like: Arrays) -> Arrays:
        new = {}
        for name, each in _parts(like):
            before = None if old is None else getattr(old, name)
            new[name] = room(before, each) if isinstance(each, np.ndarray) else visit(before, each)
        return replace(like, **new)

    return visit(arrays, like)


def _parts(arrays: OfKeys) -> list[tuple[str, Any]]:
    return [(field.name, getattr(arrays, field.name)) for field in fields(arrays)]


def _first(arrays: OfKeys) -> np.ndarray:
    _, each = _parts(arrays)[0]
    return each if isinstance(each, np.ndarray) else _first(each)
