"""Which local model a batch belongs to, or whether it begins a new one: four answers.

- `one_model`: always the same (streaming variational free energy, Bui, Nguyen and Turner 2017).
- `wasserstein`: the model whose beliefs the batch changes least, unless it changes all too much (Kepler, Koppel, Bedi
  and Stilwell 2021, Algorithm 1).
- `by_distance`: the model with the nearest centre, unless it is too far (Wilcox and Yip 2020).
- `row_by_row`: the same, of each row alone, with models that keep their rows (Nguyen-Tuong, Seeger and Peters 2009).

Batches of the first three update sparse models. Candidates are taken one after the other: in one batched program
XLA's factorisations on a CPU take several times as long, and can stall it.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from streamgp.checkpoint.encoding import register
from streamgp.models.sparse.fitting import (
    Prior,
    better_start,
    first_hyper,
    first_prior,
    improved,
    next_prior,
    starting_inputs,
)
from streamgp.models.sparse.local import LocalModel, LocalModels, blank
from streamgp.models.sparse.vfe import Batch, Hyper, Site, absorb, no_site
from streamgp.numerics.linalg import bures_wasserstein

NEAREST_CANDIDATES = 5  # J-hat of the paper


@register
@dataclass(frozen=True)
class Learning:
    """How a sparse model learns a batch.

    Parameters
    ----------
    steps
        Steps of the optimiser for each batch; 0 leaves hyperparameters and kept inducing inputs where they are.
    alpha
        0 for variational free energy, up to 1 for power expectation propagation.
    """

    steps: int = 30
    alpha: float = 0.0

    def begin(self, key: Key[Array, ""], batch: Batch, like: LocalModel, row: int) -> LocalModel | None:
        """A new model that knows nothing but the batch; None where that breaks down numerically."""
        num_inducing, d = like.site.inducing.shape
        start = blank(num_inducing, d, batch.y.shape[1])
        hyper = first_hyper(np.asarray(batch.X), np.asarray(batch.y))
        Z = starting_inputs(key, np.asarray(batch.X), hyper, num_inducing)
        return self._learnt(first_prior(d), replace(start, hyper=hyper, born=jnp.asarray(row)), Z, batch)

    def learn(self, key: Key[Array, ""], model: LocalModel, batch: Batch) -> LocalModel | None:
        """The model after a batch, or None as above."""
        Z = better_start(key, model.hyper, batch, model.site, self.alpha)
        return self._learnt(next_prior(model.hyper), model, Z, batch)

    def _learnt(
        self, prior: Prior, model: LocalModel, Z: Float[np.ndarray, "m d"], batch: Batch
    ) -> LocalModel | None:
        hyper, inducing = model.hyper, jnp.asarray(Z)
        if self.steps:
            hyper, inducing = improved(prior, hyper, Z, batch, model.site, self.steps, self.alpha)
        rows = model.rows + len(batch.X)
        centre = model.centre + (batch.X.mean(axis=0) - model.centre) * (len(batch.X) / rows)
        new = model.after(hyper, _absorb(hyper, inducing, batch, model.site, self.alpha), centre, rows)
        return new if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(new)) else None


_absorb = jax.jit(absorb, static_argnums=4)


def one_model(models: LocalModels, batch: Batch, key: Key[Array, ""], row: int, learning: Learning) -> LocalModels:
    """Everything into the first model; a batch that breaks it numerically is passed over."""
    alive = int(models.count)
    model = learning.learn(key, models[0], batch) if alive else learning.begin(key, batch, models[0], row)
    return models if model is None else models.put(0, model)


def wasserstein(
    models: LocalModels, batch: Batch, key: Key[Array, ""], row: int, learning: Learning, threshold: float
) -> LocalModels:
    """WGPR: update the candidate that changes least, or keep the new model where all change by more than `threshold`.

    Change is the squared Wasserstein distance between a model's beliefs at its inducing inputs before and after the
    batch, plus that at the batch between the candidate and a model of the batch alone (Kepler et al., Eqs. 6 to 8),
    of values without noise. The paper compares the sum with a threshold in the units of the data. Here it is divided
    by the sum of the variances believed in, those of the old model at its inducing inputs and of the new one at the
    batch, so that the threshold has no units: where all is as the model believes, a mean moves by about its own
    standard deviation, and the ratio is about one.
    """
    new = learning.begin(key, batch, models[0], row)
    alive = int(models.count)
    if not alive:
        return models if new is None else models.put(0, new)
    middles = np.asarray(models.each.site.inducing)[:alive].mean(axis=1)
    nearest = np.argsort(np.square(middles - np.asarray(batch.X).mean(axis=0)).sum(axis=1), kind="stable")
    best, least = None, np.inf
    for j in nearest[:NEAREST_CANDIDATES].tolist():
        candidate = learning.learn(jax.random.fold_in(key, j), models[j], batch)
        if candidate is None:
            continue
        change = float(relative_change(models[j], candidate, new or candidate, batch.X))
        if change < least:
            best, least = (j, candidate), change
    full = alive == models.capacity
    if best is not None and (least <= threshold or new is None or full):
        return models.put(*best)
    return models if new is None or full else models.put(alive, new)


@jax.jit
def relative_change(
    old: LocalModel, updated: LocalModel, new: LocalModel, X: Float[Array, "n d"]
) -> Float[Array, ""]:
    """How much an update changed a model at its inducing inputs and differs from a new one at the batch; no units."""
    Z = old.site.inducing
    outputs = old.targets.shape[1]
    before, after = _beliefs(old, Z), _beliefs(updated, Z)
    alone, together = _beliefs(new, X), _beliefs(updated, X)
    moved = _squared_distance(before, after) + _squared_distance(alone, together)
    return moved / (outputs * (jnp.trace(before[1]) + jnp.trace(alone[1])))


def _beliefs(model: LocalModel, X: Float[Array, "n d"]) -> tuple[Float[Array, "n e"], Float[Array, "n n"]]:
    return model.posterior.mean(model.hyper, X), model.posterior.covariance(model.hyper, X)


def _squared_distance(one: tuple[Array, Array], other: tuple[Array, Array]) -> Float[Array, ""]:
    """Squared Wasserstein distance, summed over outputs that share a covariance."""
    outputs = one[0].shape[1]
    return jnp.sum(jnp.square(one[0] - other[0])) + outputs * bures_wasserstein(one[1], other[1])


def by_distance(
    models: LocalModels, batch: Batch, key: Key[Array, ""], row: int, learning: Learning, threshold: float
) -> LocalModels:
    """SOLAR-GP: the model whose centre is nearest to the batch's mean by its kernel, unless below `threshold`."""
    alive = int(models.count)
    full = alive == models.capacity
    if alive:
        similarity = np.asarray(_similarity(models, batch.X.mean(axis=0)))[:alive]
        j = int(np.argmax(similarity))
        if similarity[j] >= threshold or full:
            model = learning.learn(key, models[j], batch)
            if model is not None:
                return models.put(j, model)
    new = None if full else learning.begin(key, batch, models[0], row)
    return models if new is None else models.put(alive, new)


@jax.jit
def _similarity(models: LocalModels, x: Float[Array, " d"]) -> Float[Array, " j"]:
    scaled = (x[None] - models.each.centre) / models.each.hyper.lengthscales
    return jnp.exp(-0.5 * jnp.sum(jnp.square(scaled), axis=1))


def row_by_row(models: LocalModels, batch: Batch, row: int, hyper: Hyper, threshold: float) -> LocalModels:
    """LGPR: every row to the model with the nearest centre by the kernel, unless that is below `threshold`.

    Models are exact Gaussian processes with the hyperparameters `hyper` of all. One that is full lets its oldest row
    go (the paper: the one that tells least).
    """
    centres, counts = np.array(models.each.centre), np.array(models.each.rows)
    inputs, targets, born = (np.array(a) for a in (models.each.site.inducing, models.each.targets, models.each.born))
    alive, capacity, room = int(models.count), models.capacity, inputs.shape[1]
    touched = set()
    for i, (x, y) in enumerate(zip(np.asarray(batch.X), np.asarray(batch.y), strict=True)):
        scaled = (x - centres[:alive]) / np.asarray(hyper.lengthscales)
        similarity = np.exp(-0.5 * np.square(scaled).sum(axis=1))
        j = int(np.argmax(similarity)) if alive else 0
        if not alive or (similarity[j] < threshold and alive < capacity):
            j, born[alive], alive = alive, row + i, alive + 1
        inputs[j, counts[j] % room], targets[j, counts[j] % room] = x, y
        counts[j] += 1
        centres[j] = inputs[j, : min(counts[j], room)].mean(axis=0)
        touched.add(j)
    changed = {}
    for j in sorted(touched):
        site = _exact(hyper, jnp.asarray(inputs[j]), jnp.asarray(targets[j]), jnp.asarray(counts[j]))
        model = models[j].after(hyper, site, jnp.asarray(centres[j]), jnp.asarray(counts[j]))
        changed[j] = replace(model, born=jnp.asarray(born[j]), targets=jnp.asarray(targets[j]))
    return models.put_all(changed)


@jax.jit
def _exact(hyper: Hyper, X: Float[Array, "m d"], y: Float[Array, "m e"], count: Int[Array, ""]) -> Site:
    """An exact Gaussian process of the first `count` rows: a sparse one whose inducing inputs are the rows."""
    kept = jnp.arange(len(X)) < count
    # Where there is no row yet, somewhere that no other point knows of.
    elsewhere = 1e4 * hyper.lengthscales[None] * (1.0 + jnp.arange(len(X)))[:, None]
    Z = jnp.where(kept[:, None], X, elsewhere)
    return absorb(hyper, Z, Batch(Z, y, kept), no_site(Z, y.shape[1]))
