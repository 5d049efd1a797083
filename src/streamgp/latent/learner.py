"""Latent variable models from the first row on: a warm-up, then blocks of rows that are placed and learnt."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from streamgp.data.pieces import joined
from streamgp.dynamics import parse
from streamgp.latent.model import LatentEnsemble, LatentState
from streamgp.latent.neighbours import Neighbours
from streamgp.latent.warmup import LENGTHSCALES, fit_places, principal_places
from streamgp.serialise import register
from streamgp.weights import BMA, fixed_share


@register
@dataclass(frozen=True)
class LatentSpec:
    """What a latent learner is made of; see `streamgp.StreamingGPLVM` for what the settings mean."""

    num_latents: int = 2
    warmup: int = 500
    lengthscales: tuple[float, ...] = LENGTHSCALES
    num_features: int = 100
    dynamics: str = "static"
    switch: float = 0.0
    batch_size: int = 64
    num_starts: int = 5
    capacity: int = 100_000
    seed: int = 0


class Placed(NamedTuple):
    """Of rows, what was known before they were learnt.

    Attributes
    ----------
    places
        Under each expert.
    log_joint
        Of row and place together, under each.
    log_weights
        Of the experts.
    """

    places: Float[np.ndarray, "n k d"]
    log_joint: Float[np.ndarray, "n k"]
    log_weights: Float[np.ndarray, "n k"]


class LatentLearner:
    """Learns rows (n, D) in their order; entries that are NaN are missing.

    The first `warmup` rows are gathered, and placed by a fit of all of them. Each row after them is placed by the
    belief of before its block, starting at the places of its nearest neighbours; then the block is learnt.
    """

    def __init__(self, spec: LatentSpec, num_entries: int) -> None:
        self.spec = spec
        self.num_entries = num_entries
        self.waiting = np.zeros((0, num_entries))
        self.model: LatentEnsemble | None = None
        self.state: LatentState
        self.mean: np.ndarray
        self.scale: float
        self.neighbours: Neighbours
        self._places: np.ndarray  # of the neighbours, (n, k, d), with room for more

    @property
    def warmed_up(self) -> bool:
        """Whether rows can be placed."""
        return self.model is not None

    @property
    def rows(self) -> int:
        """Rows learnt so far, or waiting for the end of the warm-up."""
        return int(self.state.rows) if self.warmed_up else len(self.waiting)

    @property
    def leading(self) -> int:
        """The expert with the greatest weight."""
        return int(np.argmax(self.log_weights))

    @property
    def log_weights(self) -> Float[np.ndarray, " k"]:
        """Of the experts, for the next row."""
        assert self.model is not None
        return np.asarray(self.model.log_weights(self.state))

    @property
    def neighbours_places(self) -> Float[np.ndarray, "n k d"]:
        """Of the rows that later ones start from, in their order."""
        return self._places[: len(self.neighbours)]

    def learn(self, Y: Float[np.ndarray, "n e"]) -> Placed | None:
        """Learn rows; return the places of all that have one now and had none, those of the warm-up among them."""
        parts = []
        if not self.warmed_up:
            room = self.spec.warmup - len(self.waiting)
            self.waiting, Y = np.concatenate([self.waiting, Y[:room]]), Y[room:]
            if len(self.waiting) == self.spec.warmup:
                parts.append(self.begin())
        size = self.spec.batch_size
        for first in range(0, len(Y), size):
            parts.append(self._learn(Y[first : first + size]))
        return joined(parts) if parts else None

    def begin(self) -> Placed:
        """End the warm-up with the rows that there are."""
        spec, Y = self.spec, self.waiting
        seen = ~np.isnan(Y)
        self.mean = np.where(seen, Y, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        centred = np.where(seen, Y - self.mean, 0.0)  # what is missing is taken to be the mean
        self.scale = float(np.sqrt(np.square(centred).sum() / max(seen.sum(), 1))) or 1.0
        scaled = centred / self.scale
        start, key = principal_places(scaled, spec.num_latents), jax.random.key(spec.seed)
        dynamics = parse(spec.dynamics)
        fits = [
            fit_places(scale, scaled, start, dynamics, jax.random.fold_in(key, i), spec.num_features)
            for i, scale in enumerate(spec.lengthscales)
        ]
        experts: Any = jax.tree.map(lambda *a: jnp.stack(a), *[fit.expert for fit in fits])
        rule = fixed_share(len(fits), spec.switch) if spec.switch else BMA()
        self.model = LatentEnsemble(experts, rule, self.num_entries)
        places = np.stack([np.asarray(fit.places) for fit in fits], axis=1)
        log_joint = np.broadcast_to([fit.log_joint / len(Y) for fit in fits], places.shape[:2])
        self.state = self.model.init()
        learnt, _ = self.model.learn(self.state, jnp.asarray(scaled), jnp.asarray(places.swapaxes(0, 1)))
        # Places were fitted with all rows in sight: what these say of the experts is not a prediction.
        self.state = LatentState(learnt.belief, self.state.rule, learnt.rows)
        self.waiting = self.waiting[:0]
        self.neighbours = Neighbours(self.num_entries, spec.capacity)
        self._places = np.zeros((0, *places.shape[1:]))
        self._remember(scaled, places)
        return Placed(places, log_joint, np.broadcast_to(self.log_weights, places.shape[:2]))

    def place(self, Y: Float[np.ndarray, "n e"]) -> Placed:
        """Where rows are, without learning them."""
        size = self.spec.batch_size
        blocks = [self._find(self._block(Y[i : i + size])) for i in range(0, len(Y), size)]
        places = np.concatenate([found.places for found in blocks])
        log_joint = np.concatenate([found.log_joint for found in blocks])
        return Placed(places, log_joint, np.broadcast_to(self.log_weights, log_joint.shape))

    def reconstruct(self, places: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n, D) and variance (n,) of rows at places of the leading expert, in the units of the data."""
        assert self.model is not None
        at = np.broadcast_to(places, (len(self.spec.lengthscales), *places.shape))
        mean, var = self.model.reconstruct(self.state, jnp.asarray(at))
        k = self.leading
        return self.mean + self.scale * np.asarray(mean[k]), self.scale**2 * np.asarray(var[k])

    # Inner works

    def _block(self, rows: np.ndarray) -> "_Block":
        """Rows scaled, and filled up to a whole block or one row: two programs in all."""
        n = len(rows)
        Y = np.zeros((1 if n == 1 else self.spec.batch_size, self.num_entries))
        Y[:n] = (rows - self.mean) / self.scale
        seen = ~np.isnan(Y)
        return _Block(np.where(seen, Y, 0.0), None if seen.all() else seen, n)

    def _find(self, block: "_Block") -> "_Found":
        """Place the rows of a block."""
        assert self.model is not None
        nearest = self.neighbours.search(block.Y, self.spec.num_starts)
        starts = jnp.asarray(self._places[nearest].transpose(2, 0, 1, 3))
        x, log_joint = self.model.embed(self.state, jnp.asarray(block.Y), starts, block.observed)
        n = block.count
        return _Found(x, np.asarray(x).swapaxes(0, 1)[:n], np.asarray(log_joint).T[:n])

    def _learn(self, rows: np.ndarray) -> Placed:
        """Place the rows of a block, then learn them."""
        assert self.model is not None
        block = self._block(rows)
        found, Y, n = self._find(block), block.Y, block.count
        if block.seen is not None:  # the neighbours of later rows are found by what was likely here
            mean, _ = self.model.reconstruct(self.state, found.x)
            Y = np.where(block.seen, Y, np.asarray(mean[self.leading]))
        mask = jnp.asarray(np.arange(len(Y)) < n)
        self.state, info = self.model.learn(self.state, jnp.asarray(Y), found.x, block.observed, mask)
        self._remember(Y[:n], found.places)
        return Placed(found.places, found.log_joint, np.asarray(info.log_weights)[:n])

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


class _Block(NamedTuple):
    """Rows in standard units with zeros for what is missing, which entries are there (None: all), how many rows."""

    Y: np.ndarray
    seen: np.ndarray | None
    count: int

    @property
    def observed(self) -> Any:
        return None if self.seen is None else jnp.asarray(self.seen)


class _Found(NamedTuple):
    """Places (k, n, d) of all rows of a block; of its own rows, those and their log densities."""

    x: Any
    places: np.ndarray
    log_joint: np.ndarray
