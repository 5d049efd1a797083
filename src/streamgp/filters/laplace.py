"""The filter of one expert whose targets are labels, counts or grades: `streamgp.filters.kalman` with Laplace steps.

Expert: C functions share the features of a row, ``f_c = phi(x_t)' theta_c``, and the target follows a likelihood
p(y | f). The weights of all functions are one vector, that of function c and feature j at ``c F + j``, with one
Gaussian belief. Each target moves it by a Laplace step (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4), which
changes whatever is correlated with f by what it changes in f, so that a block of rows is worked through on the
joint covariance of its own C values each, and the weights learn from all of them at once. The numbers are those of
the steps taken one by one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from streamgp.core import AnyArray
from streamgp.filters import kalman
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.kalman import FilterState
from streamgp.likelihoods import Likelihood, laplace_step
from streamgp.numerics.linalg import add_diagonal, nearest_semidefinite, solve_lower, symmetrise


class Latent(NamedTuple):
    """Gaussian belief over the C latent values of each row."""

    loc: Float[AnyArray, "*batch n c"]
    cov: Float[AnyArray, "*batch n c c"]


def prior_state(num_features: int, num_latents: int, prior_var: Float[AnyArray, "*batch"]) -> FilterState:
    """Return the belief before any row, N(0, v I): mean (C F, 1), covariance (C F, C F), of one expert or a stack."""
    return kalman.prior_state(num_latents * num_features, 1, prior_var)


def predict_rows(
    state: FilterState,
    Phi: Float[AnyArray, "n f"],
    tau: Float[AnyArray, " n"],
    offset: Float[AnyArray, " n"],
    dynamics: Dynamics,
    prior_var: Float[AnyArray, ""],
    num_latents: int,
) -> Latent:
    """Predict the latent values of each row, each `tau` after the last row learnt; `offset` is added to them."""
    a, b = dynamics.transition(tau), dynamics.process_variance(tau) * prior_var
    explained = jnp.einsum("icdj,ij->icd", _cross(state, Phi, num_latents), Phi)
    gained = (b * jnp.sum(Phi * Phi, axis=1))[:, None, None] * jnp.eye(num_latents, dtype=Phi.dtype)[None]
    loc = a[:, None] * _at_rows(state, Phi, num_latents) + offset[:, None]
    return Latent(loc, jax.vmap(_possible)((a * a)[:, None, None] * explained + gained))


def update_block(
    state: FilterState,
    Phi: Float[AnyArray, "n f"],
    gram: Float[AnyArray, "n n"],
    y: Float[AnyArray, " n"],
    mask: Bool[AnyArray, " n"],
    tau: Float[AnyArray, " n"],
    offset: Float[AnyArray, " n"],
    likelihood: Likelihood,
    dynamics: Dynamics,
    prior_var: Float[AnyArray, ""],
) -> tuple[FilterState, Latent]:
    """Learn from a block; return the new belief and the one-step-ahead latent values of each row.

    Those of row i are what all rows before it say; they take no part of its own target, not even in their rounding.

    Parameters
    ----------
    Phi, gram
        Features, with the rows that `mask` leaves out set to zero, and ``Phi Phi'``.
    y
        Targets; those left out may be anything.
    tau
        Time from the last row before the block to each row, not decreasing; a row that is left out repeats
        the time before it.
    offset
        Added to every latent value of a row: the log exposure of a count. Those left out may be anything.
    """
    (n, F), C = Phi.shape, likelihood.num_latents
    a, b = dynamics.block(tau)
    b = b * prior_var
    same = jnp.eye(C, dtype=Phi.dtype)
    cross = _cross(state, Phi, C)
    K = (a[:, None] * a[None])[:, None, :, None] * jnp.einsum("icdf,jf->icjd", cross, Phi)
    K = K + (b * gram)[:, None, :, None] * same[None, :, None, :]
    loc = a[:, None] * _at_rows(state, Phi, C) + offset[:, None]
    predicted, shift, shrink, gains = _steps(likelihood, K, loc, jnp.where(mask, y, 0.0), mask)
    # What one step does to the rows after it, it does to the weights at the block's end: their covariances with the
    # rows, G, obey G_i = C_i - sum over j < i of G_j gains_ji, C_i those before any step.
    before = jnp.arange(n)[:, None] < jnp.arange(n)[None]
    gains = jnp.where(before[:, None, :, None], gains, 0.0).reshape(n * C, n * C)
    end = (a[-1] * a)[:, None, None, None] * cross
    end = end + (b[-1][:, None] * Phi)[:, None, None, :] * same[None, :, :, None]
    G = solve_lower(add_diagonal(gains.T, 1.0), end.reshape(n * C, C * F))
    mean = a[-1] * state.mean + G.T @ shift.reshape(n * C, 1)
    shrunk = (shrink @ G.reshape(n, C, C * F)).reshape(n * C, C * F)
    cov = symmetrise(add_diagonal(a[-1] * a[-1] * state.cov - G.T @ shrunk, b[-1, -1]))
    return FilterState(mean, cov), predicted


def update_blocks(
    state: FilterState,
    Phi: Float[AnyArray, "m n f"],
    gram: Float[AnyArray, "m n n"],
    y: Float[AnyArray, "m n"],
    mask: Bool[AnyArray, "m n"],
    tau: Float[AnyArray, "m n"],
    offset: Float[AnyArray, "m n"],
    likelihood: Likelihood,
    dynamics: Dynamics,
    prior_var: Float[AnyArray, ""],
) -> tuple[FilterState, Latent]:
    """Run `update_block` over consecutive blocks; `tau` counts from the end of the block before."""

    def step(state: FilterState, block: tuple) -> tuple:
        Phi, gram, y, mask, tau, offset = block
        return update_block(state, Phi, gram, y, mask, tau, offset, likelihood, dynamics, prior_var)

    return jax.lax.scan(step, state, (Phi, gram, y, mask, tau, offset))


def _cross(state: FilterState, Phi: Float[AnyArray, "n f"], C: int) -> Float[AnyArray, "n {C} {C} f"]:
    """Return the covariance of the C values of each row with all the weights, time standing still."""
    F = Phi.shape[1]
    return jnp.einsum("if,cfdg->icdg", Phi, state.cov.reshape(C, F, C, F))


def _at_rows(state: FilterState, Phi: Float[AnyArray, "n f"], C: int) -> Float[AnyArray, "n {C}"]:
    """Return the mean of the C values of each row, time standing still."""
    return Phi @ state.mean.reshape(C, -1).T


def _steps(
    likelihood: Likelihood,
    K: Float[AnyArray, "n c n c"],
    loc: Float[AnyArray, "n c"],
    y: Float[AnyArray, " n"],
    mask: Bool[AnyArray, " n"],
) -> tuple[Latent, Float[Array, "n c"], Float[Array, "n c c"], Float[Array, "n c n c"]]:
    """Take the Laplace steps of a block, one row after the other, on the joint belief over its latent values.

    Returns what each row's values are before its own step, the step itself (`Step`), and its gains: the step's
    `shrink` times the covariance with all the block's values at that time.
    """

    def step(carry: tuple, row: tuple) -> tuple:
        (loc, K), (i, y, learn) = carry, row
        V = K[i]
        predicted = loc[i], jnp.asarray(_possible(V[:, i]))
        shift, shrink = (jnp.where(learn, part, 0.0) for part in laplace_step(likelihood, y, *predicted))
        gains = jnp.einsum("ce,end->cnd", shrink, V)
        loc = loc + jnp.einsum("c,cnd->nd", shift, V)
        K = K - jnp.einsum("cnd,cme->ndme", V, gains)
        return (loc, K), (*predicted, shift, shrink, gains)

    rows = (jnp.arange(len(y)), y, mask)
    _, (predicted_loc, predicted_cov, shift, shrink, gains) = jax.lax.scan(step, (loc, K), rows)
    return Latent(predicted_loc, predicted_cov), shift, shrink, gains


def _possible(cov: Float[AnyArray, "c c"]) -> Float[AnyArray, "c c"]:
    """Return the closest covariance: eigenvalues that rounding has left a little below zero become zero."""
    return jnp.maximum(cov, 0.0) if cov.shape == (1, 1) else nearest_semidefinite(symmetrise(cov))
