"""Latent variable models from the first row on: a warm-up, then batches of rows that are embedded and learnt."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.latent import glitches
from streamgp.latent.initial_fit import fit_ensemble
from streamgp.latent.model import LatentEnsemble, LatentState
from streamgp.latent.neighbours import EmbeddedNeighbours
from streamgp.latent.posterior import EmbeddedRows, LatentPosterior
from streamgp.latent.spec import LatentSpec
from streamgp.numerics.accelerator import jnp
from streamgp.numerics.batching import concatenate
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.numerics.checkpoint.field_types import check_state, check_value
from streamgp.numerics.precision import in_float64
from streamgp.numerics.threads import one_blas_thread

# Rows with gaps get so many times as many starts: their neighbours are found with the mean in place of gaps.
GAP_STARTS = 10
# The variances count as so many errors when they are compared with errors.
PRIOR_ERRORS = 10.0
# Where rows outnumber the cells of a column by more than this factor, gains differ by column.
UNEVEN_COUNTS = 1.05
# A column observed so many times less often than the most frequent one embeds no row.
RARE_COLUMN = 4.0
# A batch has at most one in so many of the rows before it.
BATCH_SHARE = 10
# A robust model averages errors over so many rows.
ERROR_MEMORY = 500.0


class LatentLearner:
    """A learner of rows (n, D) in their order; cells that are NaN are missing.

    The first `warmup` rows are gathered, and embedded by a fit of all of them. Each row after them is embedded at
    once, by what is believed then, starting at the coordinates of its nearest neighbours; a batch that is full is
    learnt. So it does not matter how rows are cut into calls.
    """

    def __init__(self, spec: LatentSpec, num_columns: int) -> None:
        self.spec = spec
        self.num_columns = num_columns
        self.model: LatentEnsemble | None = None
        self.state: LatentState
        self.mean: np.ndarray
        # The standard deviation of each column in the warm-up.
        self.std: np.ndarray
        # The scale of each column; one number for all, unless columns are standardised.
        self.scale: np.ndarray
        shape = len(spec.lengthscales), spec.n_components
        self.neighbours = EmbeddedNeighbours(num_columns, spec.max_neighbours, shape)
        self.warmup_log_joint: np.ndarray  # log joint density of the warm-up under each expert
        # Of the rows after the warm-up, as in `LatentInfo`.
        self.misfit: np.ndarray
        self.scored: np.ndarray
        # Of each column, how many cells were taken for glitches, and in how many rows in a row it has been off.
        self.glitches = np.zeros(num_columns, int)
        self.rows_off = np.zeros(num_columns, int)
        # The glitches that are known to the bands.
        self._glitches_learnt = np.zeros(num_columns, int)
        # Rows of the warm-up, or of a batch that is not full, and that batch's coordinates (n, k, d).
        self._buffer = np.zeros((0, num_columns))
        self._buffer_coordinates = np.zeros((0, *shape))

    @property
    def is_warmed_up(self) -> bool:
        """Return whether rows can be embedded."""
        return self.model is not None

    @property
    def rows(self) -> int:
        """Return the rows so far, those that are not learnt yet among them."""
        return (int(self.state.rows) if self.is_warmed_up else 0) + len(self._buffer)

    @property
    def leading(self) -> int:
        """Return the expert of the greatest weight; while weights are equal, that which explains the warm-up best."""
        weights = self.log_weights
        first = weights >= weights.max() - 1e-9
        return int(np.argmax(np.where(first, self.warmup_log_joint, -np.inf)))

    @property
    @in_float64
    def log_weights(self) -> Float[np.ndarray, " k"]:
        """Return the log weights of the experts for the next row."""
        assert self.model is not None
        return np.asarray(self.model.log_weights(self.state))

    @property
    def experts(self) -> list[dict[str, float]]:
        """Return lengthscale, prior and noise variance and weight of each.

        Variances are in the units of the data, squared, or of standardised columns.
        """
        assert self.model is not None
        experts, weights = self.model.experts, np.exp(self.log_weights)
        unit = 1.0 if self.spec.standardise else self.scale[0] ** 2
        prior, noise = (np.asarray(var) * unit for var in (experts.prior_var, experts.noise_var))
        return [
            {"lengthscale": scale, "prior_var": float(v), "noise_var": float(s2), "weight": float(weight)}
            for scale, v, s2, weight in zip(self.spec.lengthscales, prior, noise, weights, strict=True)
        ]

    def learn(self, Y: Float[np.ndarray, "n e"]) -> Iterator[EmbeddedRows]:
        """Learn rows; yield those that now have coordinates and had none, the warm-up's among them."""
        if not self.is_warmed_up:
            space = self.spec.warmup - len(self._buffer)
            self._buffer, Y = np.concatenate([self._buffer, Y[:space]]), Y[space:]
            if len(self._buffer) == self.spec.warmup:
                yield self.finish_warmup()
        while len(Y):
            space = self._batch - len(self._buffer)
            now, Y = Y[:space], Y[space:]
            yield self._embed_in_order(now)

    @in_float64
    def finish_warmup(self) -> EmbeddedRows:
        """End the warm-up with the rows that there are."""
        Y = self._buffer
        with one_blas_thread():
            fit = fit_ensemble(self.spec, Y)
        self.model, self.state, self.warmup_log_joint = fit.model, fit.state, fit.log_joint
        self.mean, self.std, self.scale = fit.mean, fit.std, fit.scale
        self.glitches = self._glitches_learnt = fit.glitches.sum(axis=0)
        self.misfit, self.scored = np.zeros((fit.model.num_experts, self.num_columns)), np.zeros(self.num_columns)
        self._buffer, self._buffer_coordinates = Y[:0], fit.coordinates[:0]
        self.neighbours.add(fit.rows, fit.coordinates)
        log_joint = np.broadcast_to(fit.log_joint / len(Y), fit.coordinates.shape[:2])
        precision = np.full((*fit.coordinates.shape, self.spec.n_components), np.nan)
        weights = np.broadcast_to(self.log_weights, fit.coordinates.shape[:2])
        posterior = LatentPosterior(fit.coordinates, log_joint, precision)
        return EmbeddedRows(posterior, weights, np.full(len(Y), np.nan), fit.glitches, np.zeros(len(Y)))

    @in_float64
    def flush(self) -> None:
        """Learn the rows of a batch that is not full as well."""
        if self.is_warmed_up and len(self._buffer):
            self._learn_batch()

    @in_float64
    def embed_rows(self, Y: Float[np.ndarray, "n e"]) -> EmbeddedRows:
        """Embed rows without learning them; each is taken to be the next."""
        size = self.spec.batch_size
        return concatenate([self._embed_batch(Y[first : first + size]) for first in range(0, len(Y), size)])

    @in_float64
    def reconstruct(
        self, coordinates: Float[np.ndarray, "n d"], precision: Float[np.ndarray, "n d d"] | None = None
    ) -> tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]:
        """Predict mean and variance of rows at coordinates of the leading expert, in the units of the data.

        With a `precision`, the coordinates are known no better than that. Variances of columns are scaled by how far
        the rows after the warm-up have been off. A column that was never observed has NaN.
        """
        assert self.model is not None
        leading, size = self.leading, self.spec.batch_size
        k, stretch = jnp.asarray(leading), (PRIOR_ERRORS + self.misfit[leading]) / (PRIOR_ERRORS + self.scored)
        parts = []
        for first in range(0, len(coordinates), size):
            rows = slice(first, first + size)
            given = (coordinates[rows],) if precision is None else (coordinates[rows], precision[rows])
            n = len(given[0])
            padded = [np.concatenate([a, np.repeat(a[:1], size - n, axis=0)]) for a in given]
            with one_blas_thread():
                mean, var = map(np.asarray, self.model.reconstruct(self.state, k, *map(jnp.asarray, padded)))
            parts.append((mean[:n], var[:n]))
        mean, var = concatenate(parts)
        return self.mean + self.scale * mean, self.scale**2 * stretch * var

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to pickle or copy it: JAX's arrays would come out in float32 by themselves."""
        return _decode_learner, encode(self.to_tree())

    def to_tree(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs; the neighbours' graph is built again from their rows."""
        tree = {"spec": self.spec, "num_entries": self.num_columns, "waiting": self._buffer, "model": self.model}
        if self.is_warmed_up:
            tree |= {key: getattr(self, name) for key, name in (_STORED | _STORED_COUNTS).items()}
            tree |= {"neighbours": self.neighbours.rows, "places": self.neighbours.coordinates}
        return tree

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "LatentLearner":
        """Return the learner whose `to_tree` gave `tree`; it goes on exactly where that was."""
        learner = cls(tree["spec"], tree["num_entries"])
        learner._buffer, learner.model = tree["waiting"], tree["model"]
        check_value("the model", learner.model, LatentEnsemble | None)
        if learner.model is not None:
            check_state(learner.model, tree["state"])
            for key, name in _STORED.items():
                check_value(f"the {key}", tree[key], Any if key == "state" else np.ndarray)
                setattr(learner, name, tree[key])
            for key, name in _STORED_COUNTS.items():
                setattr(learner, name, tree[key])
            learner.neighbours.add(tree["neighbours"], tree["places"])
        return learner

    # Inner works

    @property
    def _batch(self) -> int:
        """Return how many rows the next batch has: few as long as there is much to learn from each."""
        return min(self.spec.batch_size, max(1, int(self.state.rows) // BATCH_SHARE))

    @property
    def _embedding_columns(self) -> Bool[np.ndarray, " e"]:
        """Mark the columns by which rows are embedded: not those observed too rarely to be known."""
        seen = np.asarray(self.state.seen)
        return seen.max() + 1.0 <= RARE_COLUMN * (seen + 1.0)

    @in_float64
    def _embed_in_order(self, rows: np.ndarray) -> EmbeddedRows:
        """Embed rows of one batch; learn it once it is full."""
        embedded = self._embed_batch(rows, in_order=True)
        self.glitches = self.glitches + embedded.glitches.sum(axis=0)
        self._buffer = np.concatenate([self._buffer, np.where(embedded.glitches, np.nan, rows)])
        self._buffer_coordinates = np.concatenate([self._buffer_coordinates, embedded.posterior.coordinates])
        if len(self._buffer) == self._batch:
            self._learn_batch()
        return embedded

    def _embed_batch(self, rows: np.ndarray, in_order: bool = False) -> EmbeddedRows:
        """Embed at most a batch of rows, each of which may be the next, or which come in this order."""
        posterior, left = self._find_posterior(rows), rows
        absurd, log_absurd = np.zeros(rows.shape, bool), np.zeros(len(rows))
        if self.spec.robust:
            absurd = glitches.find_glitches(
                rows, self._expect_cells(posterior), lambda left: self._expect_cells(self._find_posterior(left))
            )
            if in_order:
                self.rows_off, change = glitches.find_changes(self.rows_off, ~np.isnan(rows), absurd)
            else:
                change = absurd & (self.rows_off + 1 >= glitches.CHANGE_ROWS)
            absurd &= ~change
        odd = np.asarray(absurd.any(axis=1))
        if odd.any():
            left = np.where(absurd, np.nan, rows)
            again = self._find_posterior(left[odd])
            posterior = LatentPosterior(*(_replace_rows(a, odd, b) for a, b in zip(posterior, again, strict=True)))
            log_densities = glitches.compute_errors(rows[odd], *self._expect_cells(again)).log_density
            log_absurd[odd] = np.where(absurd[odd], log_densities, 0.0).sum(axis=1)
        volume = (~np.isnan(left) & self._embedding_columns) @ np.log(self.scale)
        weights = np.broadcast_to(self.log_weights, posterior.log_joint.shape)
        return EmbeddedRows(posterior, weights, volume, absurd, log_absurd)

    def _expect_cells(self, posterior: LatentPosterior) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and variance of every cell of rows of this posterior."""
        return self.reconstruct(posterior.coordinates[:, self.leading], posterior.precision[:, self.leading])

    def _find_posterior(self, rows: np.ndarray) -> LatentPosterior:
        """Find the coordinates of at most a batch of rows, (n, k, d)."""
        gaps = np.isnan(rows).any(axis=1)
        parts = [(kind, self._find_posterior_of_kind(rows[kind])) for kind in (~gaps, gaps) if kind.any()]
        if len(parts) == 1:
            return parts[0][1]
        order = np.argsort(np.concatenate([np.flatnonzero(kind) for kind, _ in parts]))
        return LatentPosterior(*(a[order] for a in concatenate([posterior for _, posterior in parts])))

    def _find_posterior_of_kind(self, rows: np.ndarray) -> LatentPosterior:
        """Find the coordinates of rows that all have gaps, or none."""
        assert self.model is not None
        n = len(rows)
        # Padded to a whole batch, or one row: two programs of each kind.
        missing = 0 if n == 1 else self.spec.batch_size - n
        Y, seen = self._scale_rows(np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]))
        usable = seen & self._embedding_columns
        seen = np.where(usable.any(axis=1, keepdims=True), usable, seen)
        complete = bool(seen.all())
        nearest = self.neighbours.nearest_coordinates(Y, self.spec.n_starts * (1 if complete else GAP_STARTS))
        starts, observed = jnp.asarray(nearest.transpose(2, 0, 1, 3)), None if complete else jnp.asarray(seen)
        with one_blas_thread():
            posterior = self.model.embed(self.state, jnp.asarray(Y), starts, observed)
            return LatentPosterior(*(np.asarray(a).swapaxes(0, 1)[:n] for a in posterior))

    def _scale_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows in standard units with zeros for missing cells, and which cells are observed."""
        Y = (rows - self.mean) / self.scale
        seen = ~np.isnan(Y)
        return np.where(seen, Y, 0.0), seen

    def _learn_batch(self) -> None:
        assert self.model is not None
        n, size = len(self._buffer), self.spec.batch_size
        new = np.isnan(self.mean) & ~np.isnan(self._buffer).all(axis=0)
        # Some columns are observed for the first time.
        if new.any():
            self.mean = np.where(new, np.nanmean(np.where(new, self._buffer, 0.0), axis=0), self.mean)
        Y, seen = self._scale_rows(np.pad(self._buffer, ((0, size - n), (0, 0))))
        coordinates = np.pad(self._buffer_coordinates, ((0, size - n), (0, 0), (0, 0)))
        ratio = (int(self.state.rows) + 1.0) / (np.asarray(self.state.seen).min() + 1.0)
        with one_blas_thread():
            x = jnp.asarray(coordinates.swapaxes(0, 1))
            filled = Y
            # Gaps are filled by the prediction, for the search for neighbours of later rows.
            if not seen.all():
                k = self.leading
                mean, _ = self.model.reconstruct(self.state, jnp.asarray(k), x[k])
                filled = np.where(seen, Y, np.asarray(mean))
            observed = None if seen.all() and ratio < UNEVEN_COUNTS else jnp.asarray(seen)
            level = self._error_level if self.spec.robust else np.ones(self.model.num_experts)
            state, info = self.model.learn(
                self.state, jnp.asarray(Y), x, observed, jnp.arange(size) < n, jnp.asarray(np.maximum(level, 1.0))
            )
            misfit, scored = np.asarray(info.misfit), np.asarray(info.scored)
        self.state = state
        # The size of errors may change. A glitch counts as an error at the limit.
        if self.spec.robust:
            new = self.glitches - self._glitches_learnt
            kept, self._glitches_learnt = np.exp(-n / ERROR_MEMORY), self.glitches
            self.misfit = kept * self.misfit + new * glitches.CELL_LIMIT**2
            self.scored = kept * self.scored + new
        self.misfit, self.scored = self.misfit + misfit, self.scored + scored
        self._buffer, self._buffer_coordinates = self._buffer[:0], self._buffer_coordinates[:0]
        self.neighbours.add(filled[:n], coordinates[:n])

    @property
    def _error_level(self) -> Float[np.ndarray, " k"]:
        """Return the mean squared error of the experts in units of their variances."""
        return np.mean((PRIOR_ERRORS + self.misfit) / (PRIOR_ERRORS + self.scored), axis=1)


# What a checkpoint has after the warm-up, beside the model and the neighbours: its key, and the attribute.
_STORED = {
    "mean": "mean",
    "spread": "std",
    "scale": "scale",
    "fitted": "warmup_log_joint",
    "state": "state",
    "misfit": "misfit",
    "scored": "scored",
    "_waiting_places": "_buffer_coordinates",
}
_STORED_COUNTS = {"glitches": "glitches", "off": "rows_off", "_glitches_learnt": "_glitches_learnt"}


def _replace_rows(array: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a copy with other values in some rows."""
    copy = np.array(array)
    copy[rows] = values
    return copy


def _decode_learner(node: Any, arrays: dict[str, np.ndarray]) -> LatentLearner:
    return LatentLearner.from_tree(decode(node, arrays, {}))
