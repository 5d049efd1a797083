"""Rules that combine local models into one predictive distribution of a row.

``nearest``: the model that has the inducing input nearest to the row (Kepler et al. 2021). ``precision``: a
generalised product of experts, each weighed by how much its data have reduced its entropy (Cao and Fleet 2014).
``stream``: a mixture, weighed by what each model has predicted of the stream. ``distance``: a mixture of the five
nearest models, weighed by the kernel between the row and each one's centre (Nguyen-Tuong, Seeger and Peters 2009;
Wilcox and Yip 2020).
"""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float

from streamgp.likelihoods import Predictive
from streamgp.numerics import tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import logsumexp
from streamgp.numerics.student_t import log_density
from streamgp.research.sparse.glitches import TargetGuard
from streamgp.research.sparse.local import LocalModel, LocalModels
from streamgp.weights import fixed_share

# ``distance`` mixes so many models. Models further away have no data near the row, and there are many.
NEIGHBOURS = 5
# The probability per row, under ``stream``, of a switch from a model to any other.
SWITCH = 1e-3


class Combined(NamedTuple):
    """A predictive distribution, and the weight of each model in it: rows sum to one."""

    predictive: Predictive
    weights: Float[Array, "n j"]


class _Each(NamedTuple):
    """Mean and variance, noise included, of every model; of no meaning where none is alive."""

    mean: Float[Array, "n j e"]
    var: Float[Array, "n j"]
    alive: Bool[Array, " j"]


def _predicted(model: LocalModel, X: Float[Array, "n d"]) -> tuple[Float[Array, "n e"], Float[Array, " n"]]:
    hyperparameters, posterior = model.hyperparameters, model.posterior
    return posterior.mean(hyperparameters, X), posterior.variance(hyperparameters, X) + hyperparameters.noise_var


def _each(models: LocalModels, X: Float[Array, "n d"]) -> _Each:
    alive = jnp.arange(models.capacity) < models.count
    n, e = len(X), models.each.targets.shape[-1]

    def one(args: tuple[LocalModel, Array]) -> tuple[Array, Array]:
        model, live = args
        nothing = jnp.zeros((n, e), X.dtype), jnp.ones(n, X.dtype)
        return jax.lax.cond(live, lambda: _predicted(model, X), lambda: nothing)

    mean, var = jax.lax.map(one, (models.each, alive))
    return _Each(mean.transpose(1, 0, 2), var.T, alive)


def combine_nearest(models: LocalModels, X: Float[Array, "n d"]) -> Combined:
    """Return the Gaussian of the model with the nearest inducing input, in Euclidean distance."""
    alive = jnp.arange(models.capacity) < models.count
    squared = jax.lax.map(lambda Z: jnp.min(_squared_distances(X, Z), axis=1), models.each.sparse.inducing).T
    owner = jnp.argmin(jnp.where(alive[None], squared, jnp.inf), axis=1)

    def one(j: Array, x: Float[Array, " d"]) -> tuple[Array, Array]:
        mean, var = _predicted(tree.map(lambda a: a[j], models.each), x[None])
        return mean[0], var[0]

    mean, var = jax.vmap(one)(owner, X)
    return Combined(_gaussian(mean, var), jax.nn.one_hot(owner, models.capacity, dtype=X.dtype))


def _squared_distances(X: Float[Array, "n d"], Z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    return jnp.sum(X * X, axis=1)[:, None] - 2.0 * X @ Z.T + jnp.sum(Z * Z, axis=1)[None, :]


def combine_by_precision(models: LocalModels, X: Float[Array, "n d"]) -> Combined:
    """Return a Gaussian whose precision is the weighted mean of the models' precisions.

    Weights are in proportion to how many nats the data have taken off a model's entropy at the row, prior to
    posterior; equal where no model has any data.
    """
    mean, var, alive = _each(models, X)
    prior = models.each.hyperparameters.variance + models.each.hyperparameters.noise_var
    nats = jnp.where(alive[None], jnp.maximum(0.5 * jnp.log(prior[None] / var), 0.0) + 1e-12, 0.0)
    strength = nats / jnp.sum(nats, axis=1, keepdims=True)
    each = strength / var
    total = jnp.sum(each, axis=1)
    share = each / total[:, None]
    return Combined(_gaussian(jnp.einsum("nj,nje->ne", share, mean), 1.0 / total), share)


def combine_by_distance(models: LocalModels, X: Float[Array, "n d"]) -> Combined:
    """Mix the models whose centres are nearest by the kernel, weighed by it."""
    each = _each(models, X)
    similarity = -0.5 * jnp.sum(
        jnp.square((X[:, None, :] - models.each.centre[None]) / models.each.hyperparameters.lengthscales[None]),
        axis=2,
    )
    similarity = jnp.where(each.alive[None], similarity, -jnp.inf)
    last = jax.lax.top_k(similarity, min(NEIGHBOURS, models.capacity))[0][:, -1:]
    similarity = jnp.where(similarity >= last, similarity, -jnp.inf)
    log_weights = similarity - logsumexp(similarity, axis=1, keepdims=True)
    return _mixture(each, log_weights)


def combine_by_stream(models: LocalModels, X: Float[Array, "n d"], log_weights: Float[Array, " j"]) -> Combined:
    """Mix the models with the current weights (see `learn_weights`)."""
    return _mixture(
        _each(models, X), jnp.broadcast_to(normalise_alive(models, log_weights), (len(X), models.capacity))
    )


def learn_weights(
    models: LocalModels,
    X: Float[Array, "n d"],
    y: Float[Array, "n e"],
    mask: Bool[Array, " n"],
    log_weights: Float[Array, " j"],
    guard: TargetGuard | None = None,
) -> tuple[Float[Array, " j"], TargetGuard | None, Combined, Float[Array, "n e"]]:
    """Update the weights of ``stream`` by each row's target.

    They follow fixed share among all `capacity` models. Those that do not exist yet are taken to predict what the
    mixture does, so that they neither gain nor lose (the sleeping experts of Freund, Schapire, Singer and Warmuth
    1997). With a `guard`, weights learn from targets as it draws them in.

    Returns
    -------
    log_weights, guard
        Both after the rows.
    combined
        The prediction of each row, made before its target was seen.
    targets
        As the weights learnt from them.
    """
    each = _each(models, X)
    rule = fixed_share(models.capacity, SWITCH if models.capacity > 1 else 0.0)

    def learn(state: tuple[Array, TargetGuard | None], row: tuple[Array, ...]) -> tuple[Any, tuple[Array, Array]]:
        (log_weights, guard), (mean, var, y, keep) = state, row
        before = normalise_alive(models, rule.predict(log_weights))
        used, after = y, guard
        if guard is not None:
            mixed = _mixture(_Each(mean[None], var[None], each.alive), before[None]).predictive
            after, used = guard.draw_in(mixed.mean[0], mixed.variance[0], y)
        densities = log_density(used[None] - mean, var[:, None], None).sum(-1)
        mixture = logsumexp(jnp.where(each.alive, before + densities, -jnp.inf))
        new = rule.update(log_weights, jnp.where(each.alive, densities, mixture)), after
        return tree.map(lambda a, b: jnp.where(keep, a, b), new, state), (before, used)

    (log_weights, guard), (before, targets) = jax.lax.scan(
        learn, (log_weights, guard), (each.mean, each.var, y, mask)
    )
    return log_weights, guard, _mixture(each, before), targets


def initial_weights(capacity: int) -> Float[Array, " j"]:
    """Return the log weights of ``stream`` before any row."""
    return jnp.full(capacity, -jnp.log(capacity))


def normalise_alive(models: LocalModels, log_weights: Float[Array, " j"]) -> Float[Array, " j"]:
    """Normalise the log weights over the models that are alive."""
    live = jnp.where(jnp.arange(models.capacity) < models.count, log_weights, -jnp.inf)
    return live - logsumexp(live)


def _gaussian(mean: Float[Array, "n e"], var: Float[Array, " n"]) -> Predictive:
    log_weights = jnp.zeros((len(mean), 1), mean.dtype)
    return Predictive(
        log_weights, mean[:, None, :], jnp.broadcast_to(var[:, None, None], (len(mean), 1, mean.shape[1]))
    )


def _mixture(each: _Each, log_weights: Float[Array, "n j"]) -> Combined:
    var = jnp.broadcast_to(each.var[:, :, None], each.mean.shape)
    return Combined(Predictive(log_weights, each.mean, var), jnp.exp(log_weights))
