"""Latent variable models from the first row on: a warm-up, then blocks of rows that are placed and learnt."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from streamgp.checkpoint.encoding import decode, encode, register
from streamgp.filters.dynamics import parse
from streamgp.latent import glitches
from streamgp.latent.embedding import Found
from streamgp.latent.model import LatentEnsemble, LatentState
from streamgp.latent.neighbours import Neighbours
from streamgp.latent.warmup import LENGTHSCALES, filled_in, fit_places, principal_places
from streamgp.numerics.batching import concatenate
from streamgp.numerics.threads import one_blas_thread
from streamgp.weights import BMA, fixed_share

MORE_STARTS = 10  # times, for rows with gaps: their neighbours are found as if the mean stood there
DOUBT = 10.0  # errors as which the variances count that are believed in, when they are compared with errors
UNEVEN = 1.05  # so much more often than some entry was there rows may have come before gains differ by entry
SELDOM = 4.0  # times as often as some entry the most frequent one was there, where that one places no row
SHARE = 10  # a batch is at most one in so many of the rows before it
MEMORY = 500.0  # rows over which errors are averaged, where the model is robust


@register
@dataclass(frozen=True)
class LatentSpec:
    """What a latent learner is made of; see `streamgp.StreamingGPLVM` for what the settings mean.

    Raises
    ------
    ValueError
        If a setting is out of its range.
    """

    n_components: int = 2
    warmup: int = 500
    standardise: bool = False
    lengthscales: tuple[float, ...] = LENGTHSCALES
    n_features: int = 100
    dynamics: str = "static"
    switch: float = 0.0
    batch_size: int = 64
    n_starts: int = 5
    max_neighbours: int = 100_000
    seed: int = 0
    robust: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.seed, Integral) or not 0 <= self.seed < 2**63:
            raise ValueError(f"seed: expected a whole number from 0 to 2^63 - 1, got {self.seed!r}")
        for name in ("n_components", "warmup", "n_features", "batch_size", "n_starts", "max_neighbours"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}: expected a whole number >= 1, got {value!r}")
        parse(self.dynamics)
        if not 0.0 <= self.switch < 1.0:
            raise ValueError(f"switch: expected a probability below 1, got {self.switch!r}")
        least = 2 * max(self.warmup, self.batch_size)
        if self.max_neighbours < least:
            raise ValueError(
                f"max_neighbours: expected at least {least}, twice the warm-up and twice a batch, got "
                f"{self.max_neighbours}"
            )


class Placed(NamedTuple):
    """Of rows that are learnt, what was known before their batch.

    Attributes
    ----------
    found
        Where they are under each expert (n, k, d). Rows of the warm-up are placed together: each has the mean of
        their log joint densities, and NaN for the precision.
    log_weights
        Of the experts (n, k).
    log_volume
        What is to be taken from log densities, which are of rows in standard units, for those of the data (n,).
    glitches
        Cells that are taken to be missing because they are absurd.
    log_glitches
        Their log density at the place of the row (n,).
    """

    found: Found
    log_weights: Float[np.ndarray, "n k"]
    log_volume: Float[np.ndarray, " n"]
    glitches: Bool[np.ndarray, "n e"]
    log_glitches: Float[np.ndarray, " n"]

    @property
    def log_density(self) -> Float[np.ndarray, " n"]:
        """Of rows in the units of the data, mixed over the experts; NaN in the warm-up."""
        with np.errstate(invalid="ignore"):
            mixed = np.asarray(logsumexp(self.found.log_density + self.log_weights, axis=1))
            return mixed - self.log_volume + self.log_glitches


class LatentLearner:
    """Learns rows (n, D) in their order; entries that are NaN are missing.

    The first `warmup` rows are gathered, and placed by a fit of all of them. Each row after them is placed at once,
    by what is believed then, starting at the places of its nearest neighbours; a batch that is full is learnt. So
    it does not matter how rows are cut into calls.
    """

    def __init__(self, spec: LatentSpec, num_entries: int) -> None:
        self.spec = spec
        self.num_entries = num_entries
        self.model: LatentEnsemble | None = None
        self.state: LatentState
        self.mean: np.ndarray
        self.spread: np.ndarray  # standard deviation of each entry in the warm-up
        self.scale: np.ndarray  # of each entry; the same number for all, unless they are standardised
        self.neighbours = Neighbours(num_entries, spec.max_neighbours)
        self.fitted: np.ndarray  # log joint density of the warm-up under each expert
        # Of the rows after the warm-up, as in `Learnt`.
        self.misfit: np.ndarray
        self.scored: np.ndarray
        # Of each entry, how many cells were taken for glitches, and how many rows in a row it has been off.
        self.glitches = np.zeros(num_entries, int)
        self.off = np.zeros(num_entries, int)
        self._glitches_learnt = np.zeros(num_entries, int)  # those that bands know of
        # Of the warm-up, or of a batch that is not full, and that batch's places (n, k, d).
        self._waiting = np.zeros((0, num_entries))
        self._waiting_places: np.ndarray
        self._places: np.ndarray  # of the neighbours, (n, k, d), with room for more

    @property
    def warmed_up(self) -> bool:
        """Whether rows can be placed."""
        return self.model is not None

    @property
    def rows(self) -> int:
        """Rows so far, those that are not learnt yet among them."""
        return (int(self.state.rows) if self.warmed_up else 0) + len(self._waiting)

    @property
    def leading(self) -> int:
        """The expert with the greatest weight; as long as weights are equal, that which explains the warm-up best."""
        weights = self.log_weights
        first = weights >= weights.max() - 1e-9
        return int(np.argmax(np.where(first, self.fitted, -np.inf)))

    @property
    def log_weights(self) -> Float[np.ndarray, " k"]:
        """Of the experts, for the next row."""
        assert self.model is not None
        with jax.enable_x64(True):
            return np.asarray(self.model.log_weights(self.state))

    @property
    def experts(self) -> list[dict[str, float]]:
        """Lengthscale, prior and noise variance and weight of each.

        Variances are in the units of the data, squared, or of standardised entries.
        """
        assert self.model is not None
        experts, weights = self.model.experts, np.exp(self.log_weights)
        unit = 1.0 if self.spec.standardise else self.scale[0] ** 2
        prior, noise = (np.asarray(var) * unit for var in (experts.prior_var, experts.noise_var))
        return [
            {"lengthscale": scale, "prior_var": float(v), "noise_var": float(s2), "weight": float(weight)}
            for scale, v, s2, weight in zip(self.spec.lengthscales, prior, noise, weights, strict=True)
        ]

    @property
    def _placing(self) -> Bool[np.ndarray, " e"]:
        """Which entries rows are placed by: not those that were there too seldom to know what they say of a place."""
        seen = np.asarray(self.state.seen)
        return seen.max() + 1.0 <= SELDOM * (seen + 1.0)

    @property
    def neighbours_places(self) -> Float[np.ndarray, "n k d"]:
        """Of the rows that later ones start from, in their order."""
        return self._places[: len(self.neighbours)]

    def learn(self, Y: Float[np.ndarray, "n e"]) -> Iterator[Placed]:
        """Learn rows; give the places of those that have one now and had none, the warm-up's among them."""
        if not self.warmed_up:
            room = self.spec.warmup - len(self._waiting)
            self._waiting, Y = np.concatenate([self._waiting, Y[:room]]), Y[room:]
            if len(self._waiting) == self.spec.warmup:
                yield self.begin()
        while len(Y):
            room = self._batch - len(self._waiting)
            now, Y = Y[:room], Y[room:]
            yield self._take(now)

    def begin(self) -> Placed:
        """End the warm-up with the rows that there are."""
        with one_blas_thread():
            return self._begin()

    def _begin(self) -> Placed:
        spec, Y = self.spec, self._waiting
        absurd = glitches.off_in_the_warm_up(Y) if spec.robust else np.zeros(Y.shape, bool)
        self.glitches = self._glitches_learnt = absurd.sum(axis=0)
        seen = ~np.isnan(Y) & ~absurd
        with np.errstate(invalid="ignore"):  # of an entry that was never there the mean is not known: NaN
            self.mean = np.where(seen, Y, 0.0).sum(axis=0) / seen.sum(axis=0)
        centred = np.where(seen, Y - self.mean, 0.0)  # what is missing is taken to be the mean
        self.spread = np.sqrt(np.square(centred).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
        # An entry that stood still may move later; what rounding has left of it is no measure.
        still = self.spread <= len(Y) * np.finfo(float).eps * np.abs(np.nan_to_num(self.mean))
        typical = np.sqrt(np.square(centred[:, ~still]).sum() / max(seen.sum(), 1)) or 1.0
        self.scale = np.full(self.num_entries, typical)
        if spec.standardise:
            self.scale = np.where(still, self.scale, self.spread)
        scaled = filled_in(centred / self.scale, seen, spec.n_components)
        with jax.enable_x64(True):
            start, key = principal_places(scaled, spec.n_components), jax.random.key(spec.seed)
            dynamics = parse(spec.dynamics)
            fits = [
                fit_places(
                    scale,
                    scaled,
                    start,
                    dynamics,
                    jax.random.fold_in(key, i),
                    spec.n_features,
                    there=float(seen.sum(axis=1).mean()),
                )
                for i, scale in enumerate(spec.lengthscales)
            ]
            experts: Any = jax.tree.map(lambda *a: jnp.stack(a), *[fit.expert for fit in fits])
            rule = fixed_share(len(fits), spec.switch) if spec.switch else BMA()
            self.model = LatentEnsemble(experts, rule, self.num_entries)
            places = np.stack([np.asarray(fit.places) for fit in fits], axis=1)
            start = self.model.init()
            observed = None if seen.all() else jnp.asarray(seen)
            learnt, _ = self.model.learn(start, jnp.asarray(scaled), jnp.asarray(places.swapaxes(0, 1)), observed)
        # Places were fitted with all rows in sight: what these say of the experts is not a prediction.
        self.state = LatentState(learnt.belief, start.rule, learnt.rows, learnt.seen)
        self.fitted = np.array([fit.log_joint for fit in fits])
        self.misfit, self.scored = np.zeros((len(fits), self.num_entries)), np.zeros(self.num_entries)
        self._waiting, self._waiting_places = self._waiting[:0], places[:0]
        self._places = np.zeros((0, *places.shape[1:]))
        self._remember(scaled, places)
        log_joint = np.broadcast_to(self.fitted / len(Y), places.shape[:2])
        found = Found(places, log_joint, np.full((*places.shape, spec.n_components), np.nan))
        weights = np.broadcast_to(self.log_weights, places.shape[:2])
        return Placed(found, weights, np.full(len(Y), np.nan), absurd, np.zeros(len(Y)))

    def settle(self) -> None:
        """Learn the rows of a batch that is not full as well."""
        if self.warmed_up and len(self._waiting):
            self._learn_batch()

    def place(self, Y: Float[np.ndarray, "n e"]) -> Placed:
        """Where rows are, without learning them; each is taken to be the next."""
        size = self.spec.batch_size
        return concatenate([self._placed(Y[first : first + size]) for first in range(0, len(Y), size)])

    def reconstruct(
        self, places: Float[np.ndarray, "n d"], precision: Float[np.ndarray, "n d d"] | None = None
    ) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]:
        """Mean and variance of rows at places of the leading expert, in the units of the data.

        With a `precision`, of rows whose places are no better known than that. Variances of entries are stretched by
        how far those of the rows after the warm-up have been off. Of an entry that was never there nothing is known:
        NaN.
        """
        assert self.model is not None
        leading, size = self.leading, self.spec.batch_size
        k, stretch = jnp.asarray(leading), (DOUBT + self.misfit[leading]) / (DOUBT + self.scored)
        parts = []
        for first in range(0, len(places), size):
            rows = slice(first, first + size)
            given = (places[rows],) if precision is None else (places[rows], precision[rows])
            n = len(given[0])
            filled = [np.concatenate([a, np.repeat(a[:1], size - n, axis=0)]) for a in given]
            with jax.enable_x64(True), one_blas_thread():
                mean, var = self.model.reconstruct(self.state, k, *map(jnp.asarray, filled))
            parts.append((np.asarray(mean)[:n], np.asarray(var)[:n]))
        mean, var = concatenate(parts)
        return self.mean + self.scale * mean, self.scale**2 * stretch * var

    def __reduce__(self) -> tuple[Any, ...]:
        # Left to themselves, JAX's arrays would come out of a pickle or a copy in float32.
        return _put_together, encode(self.to_tree())

    def to_tree(self) -> dict[str, Any]:
        """Everything that a checkpoint needs; the graph of the neighbours is built again from their rows."""
        tree = {"spec": self.spec, "num_entries": self.num_entries, "waiting": self._waiting, "model": self.model}
        if self.warmed_up:
            tree |= {name: getattr(self, name) for name in (*_KEPT, *_COUNTED)}
            tree |= {"neighbours": self.neighbours.rows, "places": self.neighbours_places}
        return tree

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "LatentLearner":
        """The learner whose `to_tree` gave `tree`; it goes on as if nothing had happened."""
        learner = cls(tree["spec"], tree["num_entries"])
        learner._waiting, learner.model = tree["waiting"], tree["model"]
        if learner.warmed_up:
            for name in _KEPT:
                setattr(learner, name, tree[name])
            for name in _COUNTED:  # checkpoints of earlier versions have none
                setattr(learner, name, tree.get(name, getattr(learner, name)))
            learner._places = tree["places"][:0]
            learner._remember(tree["neighbours"], tree["places"])
        return learner

    # Inner works

    @property
    def _batch(self) -> int:
        """Rows of the next batch: few as long as there is much to learn from each."""
        return min(self.spec.batch_size, max(1, int(self.state.rows) // SHARE))

    def _take(self, rows: np.ndarray) -> Placed:
        """Place rows of one batch; learn it once it is full."""
        placed = self._placed(rows, in_order=True)
        self.glitches = self.glitches + placed.glitches.sum(axis=0)
        self._waiting = np.concatenate([self._waiting, np.where(placed.glitches, np.nan, rows)])
        self._waiting_places = np.concatenate([self._waiting_places, placed.found.places])
        if len(self._waiting) == self._batch:
            self._learn_batch()
        return placed

    def _placed(self, rows: np.ndarray, in_order: bool = False) -> Placed:
        """Places of at most a batch of rows, each of which may be the next, or which come in this order."""
        found, left = self._find(rows), rows
        absurd, log_absurd = np.zeros(rows.shape, bool), np.zeros(len(rows))
        if self.spec.robust:
            absurd = glitches.off(rows, self._expected(found), lambda left: self._expected(self._find(left)))
            there = ~np.isnan(rows)
            if in_order:
                self.off, change = glitches.changed(self.off, there, absurd)
            else:
                change = absurd & (self.off + 1 >= glitches.CHANGE)
            absurd &= ~change
        odd = np.asarray(absurd.any(axis=1))
        if odd.any():
            left = np.where(absurd, np.nan, rows)
            again = self._find(left[odd])
            found = Found(*(_put(a, odd, b) for a, b in zip(found, again, strict=True)))
            log_densities = glitches.errors(rows[odd], *self._expected(again)).log_density
            log_absurd[odd] = np.where(absurd[odd], log_densities, 0.0).sum(axis=1)
        volume = (~np.isnan(left) & self._placing) @ np.log(self.scale)
        weights = np.broadcast_to(self.log_weights, found.log_joint.shape)
        return Placed(found, weights, volume, absurd, log_absurd)

    def _expected(self, found: Found) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every cell of rows that were found there."""
        return self.reconstruct(found.places[:, self.leading], found.precision[:, self.leading])

    def _find(self, rows: np.ndarray) -> Found:
        """Where at most a batch of rows is, (n, k, d)."""
        gaps = np.isnan(rows).any(axis=1)
        parts = [(kind, self._find_alike(rows[kind])) for kind in (~gaps, gaps) if kind.any()]
        if len(parts) == 1:
            return parts[0][1]
        order = np.argsort(np.concatenate([np.flatnonzero(kind) for kind, _ in parts]))
        return Found(*(a[order] for a in concatenate([found for _, found in parts])))

    def _find_alike(self, rows: np.ndarray) -> Found:
        """Of rows that all have gaps, or none."""
        assert self.model is not None
        n = len(rows)
        # Filled up to a whole batch, or one row: two programs of each kind.
        missing = 0 if n == 1 else self.spec.batch_size - n
        Y, seen = self._scaled(np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]))
        told = seen & self._placing
        seen = np.where(told.any(axis=1, keepdims=True), told, seen)
        complete = bool(seen.all())
        nearest = self.neighbours.search(Y, self.spec.n_starts * (1 if complete else MORE_STARTS))
        starts = self._places[nearest].transpose(2, 0, 1, 3)
        with jax.enable_x64(True), one_blas_thread():
            found = self.model.embed(
                self.state, jnp.asarray(Y), jnp.asarray(starts), None if complete else jnp.asarray(seen)
            )
        return Found(*(np.asarray(a).swapaxes(0, 1)[:n] for a in found))

    def _scaled(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows in standard units with zeros for what is missing, and which entries are there."""
        Y = (rows - self.mean) / self.scale
        seen = ~np.isnan(Y)
        return np.where(seen, Y, 0.0), seen

    def _learn_batch(self) -> None:
        assert self.model is not None
        n, size = len(self._waiting), self.spec.batch_size
        new = np.isnan(self.mean) & ~np.isnan(self._waiting).all(axis=0)
        if new.any():  # entries that come for the first time
            self.mean = np.where(new, np.nanmean(np.where(new, self._waiting, 0.0), axis=0), self.mean)
        Y, seen = self._scaled(np.pad(self._waiting, ((0, size - n), (0, 0))))
        places = np.pad(self._waiting_places, ((0, size - n), (0, 0), (0, 0)))
        most = (int(self.state.rows) + 1.0) / (np.asarray(self.state.seen).min() + 1.0)
        with jax.enable_x64(True), one_blas_thread():
            x = jnp.asarray(places.swapaxes(0, 1))
            filled = Y
            if not seen.all():  # the neighbours of later rows are found by what was likely here
                k = self.leading
                mean, _ = self.model.reconstruct(self.state, jnp.asarray(k), x[k])
                filled = np.where(seen, Y, np.asarray(mean))
            observed = None if seen.all() and most < UNEVEN else jnp.asarray(seen)
            level = self._level if self.spec.robust else np.ones(self.model.num_experts)
            state, learnt = self.model.learn(
                self.state, jnp.asarray(Y), x, observed, jnp.arange(size) < n, jnp.asarray(np.maximum(level, 1.0))
            )
        self.state = state
        misfit, scored = np.asarray(learnt.misfit), np.asarray(learnt.scored)
        if self.spec.robust:  # sizes of errors may change; and a glitch counts as an error that is just none
            new = self.glitches - self._glitches_learnt
            kept, self._glitches_learnt = np.exp(-n / MEMORY), self.glitches
            self.misfit, self.scored = kept * self.misfit + new * glitches.FAR**2, kept * self.scored + new
        self.misfit, self.scored = self.misfit + misfit, self.scored + scored
        self._waiting, self._waiting_places = self._waiting[:0], self._waiting_places[:0]
        self._remember(filled[:n], places[:n])

    @property
    def _level(self) -> Float[np.ndarray, " k"]:
        """Mean squared error of the experts in units of their variances."""
        return np.mean((DOUBT + self.misfit) / (DOUBT + self.scored), axis=1)

    def _remember(self, Y: np.ndarray, places: np.ndarray) -> None:
        count = len(self.neighbours)
        dropped = self.neighbours.add(Y)
        if dropped:
            self._places[: count - dropped] = self._places[dropped:count]
            count -= dropped
        if count + len(places) > len(self._places):  # twice the room: a row costs the same however many there are
            more = np.zeros((count + 2 * len(places), *self._places.shape[1:]))
            self._places = np.concatenate([self._places[:count], more])
        self._places[count : count + len(places)] = places


# What a learner has after its warm-up, beside its model and its neighbours.
_KEPT = ("mean", "spread", "scale", "fitted", "state", "misfit", "scored", "_waiting_places")
_COUNTED = ("glitches", "off", "_glitches_learnt")


def _put(array: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A copy with other values in some rows."""
    copy = np.array(array)
    copy[rows] = values
    return copy


def _put_together(node: Any, arrays: dict[str, np.ndarray]) -> LatentLearner:
    return LatentLearner.from_tree(decode(node, arrays, {}))
