"""Several sparse Gaussian processes side by side, in arrays of a stated capacity."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from streamgp.numerics import tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.research.sparse.fitting import initial_prior
from streamgp.research.sparse.vfe import (
    FunctionPosterior,
    KernelHyperparameters,
    SparsePosterior,
    empty_posterior,
    function_posterior,
)


@register
class LocalModel(Module):
    """One sparse Gaussian process and its position in the stream.

    Attributes
    ----------
    hyperparameters, sparse, posterior
        What it has learnt; `posterior` follows from `sparse`, and is kept because every prediction needs it.
    centre
        Mean of the inputs learnt.
    rows
        Number of rows learnt.
    born
        The row of the stream, from 0, with which it began.
    targets
        Targets of the rows, for a model that keeps them as its inducing inputs; else of no meaning.
    """

    hyperparameters: KernelHyperparameters
    sparse: SparsePosterior
    posterior: FunctionPosterior
    centre: Float[Array, "*j d"]
    rows: Int[Array, "*j"]
    born: Int[Array, "*j"]
    targets: Float[Array, "*j m e"]

    def after(
        self, hyperparameters: KernelHyperparameters, sparse: SparsePosterior, centre: Array, rows: Array
    ) -> "LocalModel":
        """Return the model after a further batch."""
        return LocalModel(hyperparameters, sparse, _posterior(sparse), centre, rows, self.born, self.targets)


_posterior = jax.jit(function_posterior)


@register
class LocalModels(Module):
    """`LocalModel`s along a leading axis, of which the first `count` are alive."""

    each: LocalModel
    count: Int[Array, ""]

    @property
    def capacity(self) -> int:
        """Return the largest number of models."""
        return len(self.each.rows)

    def __getitem__(self, j: int) -> LocalModel:
        return _take(self.each, jnp.asarray(j))

    def put(self, j: int, model: LocalModel) -> "LocalModels":
        """Return the models with `model` at index j, which may be the first free one."""
        return LocalModels(_put(self.each, jnp.asarray(j), model), jnp.maximum(self.count, j + 1))

    def put_all(self, models: Mapping[int, LocalModel]) -> "LocalModels":
        """Return the models with each of `models` at its index: one copy of the arrays for all of them."""
        indices = list(models)

        def change(every: Array, *new: Array) -> Array:
            copy = np.array(every)
            copy[indices] = np.stack([np.asarray(one) for one in new])
            return jnp.asarray(copy)

        each = tree.map(change, self.each, *models.values())
        return LocalModels(each, jnp.maximum(self.count, max(indices) + 1))


@jax.jit
def _take(models: LocalModel, j: Int[Array, ""]) -> LocalModel:
    return tree.map(lambda a: a[j], models)


@jax.jit
def _put(models: LocalModel, j: Int[Array, ""], model: LocalModel) -> LocalModel:
    return tree.map(lambda a, b: a.at[j].set(b), models, model)


def empty_model(num_inducing: int, num_inputs: int, num_outputs: int) -> LocalModel:
    """Return a model before any batch, with hyperparameters of standardised data."""
    sparse = empty_posterior(jnp.zeros((num_inducing, num_inputs)), num_outputs)
    nothing, none = jnp.zeros((num_inducing, num_outputs)), jnp.zeros((), int)
    return LocalModel(
        initial_prior(num_inputs).centre,
        sparse,
        function_posterior(sparse),
        jnp.zeros(num_inputs),
        none,
        none,
        nothing,
    )


def empty_models(capacity: int, num_inducing: int, num_inputs: int, num_outputs: int) -> LocalModels:
    """Return `capacity` models, none of them alive."""
    one = empty_model(num_inducing, num_inputs, num_outputs)
    every = tree.map(lambda a: jnp.broadcast_to(a, (capacity, *a.shape)), one)
    return LocalModels(every, jnp.zeros((), int))
