"""Several sparse Gaussian processes side by side, in arrays with room for a stated number of them."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from streamgp.checkpoint.encoding import register
from streamgp.models.sparse.fitting import first_prior
from streamgp.models.sparse.vfe import Hyper, Posterior, Site, no_site, posterior


@register
class LocalModel(eqx.Module):
    """One sparse Gaussian process and where it stands.

    Attributes
    ----------
    hyper, site, posterior
        What it knows; `posterior` is that of `site`, kept because every prediction needs it.
    centre
        Mean of the inputs that it has learnt.
    rows
        How many these are.
    born
        The row of the stream, from 0, with which it began.
    targets
        Of a model that keeps its rows (they are its inducing inputs then), their targets; else of no meaning.
    """

    hyper: Hyper
    site: Site
    posterior: Posterior
    centre: Float[Array, "*j d"]
    rows: Int[Array, "*j"]
    born: Int[Array, "*j"]
    targets: Float[Array, "*j m e"]

    def after(self, hyper: Hyper, site: Site, centre: Array, rows: Array) -> "LocalModel":
        """The model with a newer site."""
        return LocalModel(hyper, site, _posterior(site), centre, rows, self.born, self.targets)


_posterior = jax.jit(posterior)


@register
class LocalModels(eqx.Module):
    """`LocalModel`s along a leading axis, of which the first `count` are alive."""

    each: LocalModel
    count: Int[Array, ""]

    @property
    def capacity(self) -> int:
        """How many there can be."""
        return len(self.each.rows)

    def __getitem__(self, j: int) -> LocalModel:
        return _take(self.each, jnp.asarray(j))

    def put(self, j: int, model: LocalModel) -> "LocalModels":
        """With `model` in place j, which may be the first free one."""
        return LocalModels(_put(self.each, jnp.asarray(j), model), jnp.maximum(self.count, j + 1))

    def put_all(self, models: Mapping[int, LocalModel]) -> "LocalModels":
        """With each of the models in its place: one copy of the arrays for all of them."""
        places = list(models)

        def changed(all_of_them: Array, *new: Array) -> Array:
            copy = np.array(all_of_them)
            copy[places] = np.stack([np.asarray(one) for one in new])
            return jnp.asarray(copy)

        each = jax.tree.map(changed, self.each, *models.values())
        return LocalModels(each, jnp.maximum(self.count, max(places) + 1))


@jax.jit
def _take(models: LocalModel, j: Int[Array, ""]) -> LocalModel:
    return jax.tree.map(lambda a: a[j], models)


@jax.jit
def _put(models: LocalModel, j: Int[Array, ""], model: LocalModel) -> LocalModel:
    return jax.tree.map(lambda a, b: a.at[j].set(b), models, model)


def blank(num_inducing: int, num_inputs: int, num_outputs: int) -> LocalModel:
    """A model that knows nothing, with hyperparameters of standardised data."""
    site = no_site(jnp.zeros((num_inducing, num_inputs)), num_outputs)
    nothing, none = jnp.zeros((num_inducing, num_outputs)), jnp.zeros((), int)
    return LocalModel(
        first_prior(num_inputs).centre, site, posterior(site), jnp.zeros(num_inputs), none, none, nothing
    )


def empty(capacity: int, num_inducing: int, num_inputs: int, num_outputs: int) -> LocalModels:
    """Room for `capacity` models."""
    one = blank(num_inducing, num_inputs, num_outputs)
    every = jax.tree.map(lambda a: jnp.broadcast_to(a, (capacity, *a.shape)), one)
    return LocalModels(every, jnp.zeros((), int))
