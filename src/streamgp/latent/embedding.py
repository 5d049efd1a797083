"""Latent coordinates of rows under one expert: the most probable ones, by damped Gauss-Newton steps.

Of a row y with latent coordinates x, log p(y, x) = log N(y; M'phi(x), (phi(x)'S phi(x) + s2) I) + log N(x; 0, I),
where M and S are the belief about the weights (Lu, Karanikolas and Giannakis 2022, Eqs. 49 to 52). Missing cells drop
out. With M y and M M' computed once, a step costs O(F^2) however many columns there are.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.filters.kalman import FilterState
from streamgp.latent.posterior import LatentPosterior
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.linalg import solve_small

# The most steps; most rows need about ten.
MAX_STEPS = 50
# In standard deviations of the prior. A row that is unlike all others would move away without end.
MAX_DISTANCE = 10.0
# In nats. The search for a row ends when it gains less.
_SMALL_GAIN = 1e-6
# The least, the first and the largest damping, as shares of the curvature.
_DAMPING = (1e-6, 1e-2, 1e8)


class ObservedRows(NamedTuple):
    """What the objective needs of rows under one expert.

    Attributes
    ----------
    linear
        M y, over the cells observed.
    squares
        y'y, over the same.
    gram
        M M', of all rows, or of each over its own cells.
    count
        How many cells are observed.
    """

    linear: Float[AnyArray, "n f"]
    squares: Float[Array, " n"]
    gram: Float[AnyArray, "*n f f"]
    count: Float[Array, " n"]


def summarise_complete(belief: FilterState, Y: Float[Array, "n e"]) -> ObservedRows:
    """Summarise rows without missing cells."""
    M = belief.mean
    full = jnp.full(len(Y), Y.shape[1], Y.dtype)
    return ObservedRows(Y @ M.T, jnp.sum(Y * Y, axis=1), M @ M.T, full)


def summarise_gappy(belief: FilterState, Y: Float[Array, "n e"], observed: Bool[Array, "n e"]) -> ObservedRows:
    """Summarise rows with missing cells, whatever values these hold: O(F^2 D) for each row."""
    M, Y = belief.mean, jnp.where(observed, Y, 0.0)
    gram = jax.lax.map(lambda seen: (M * seen[None]) @ M.T, observed)
    return ObservedRows(Y @ M.T, jnp.sum(Y * Y, axis=1), gram, jnp.sum(observed, axis=1).astype(Y.dtype))


class LocalExpansion(NamedTuple):
    """The objective (n,), its gradient (n, d), and the Gauss-Newton approximation of minus its curvature."""

    value: Float[Array, " n"]
    gradient: Float[Array, "n d"]
    curvature: Float[Array, "n d d"]


def expand_log_joint(
    basis: Basis, belief: FilterState, noise_var: Float[Array, ""], rows: ObservedRows, x: Float[Array, "n d"]
) -> LocalExpansion:
    """Compute log p(y, x) of each row at coordinates of its own, with derivatives in closed form."""
    phi = basis(x)
    slopes = jax.vmap(jax.jacfwd(lambda one: basis(one[None])[0]))(x)  # (n, f, d)

    def by_gram(v: AnyArray) -> Array:
        return (
            jnp.einsum("nf,fg->ng", v, rows.gram) if rows.gram.ndim == 2 else jnp.einsum("nf,nfg->ng", v, rows.gram)
        )

    fitted, phi_cov = by_gram(phi), phi @ belief.cov
    misfit = jnp.maximum(rows.squares - 2.0 * jnp.sum(rows.linear * phi, axis=1) + jnp.sum(fitted * phi, axis=1), 0.0)
    var = jnp.sum(phi_cov * phi, axis=1) + noise_var
    value = -0.5 * (
        rows.count * jnp.log(2.0 * jnp.pi * var) + misfit / var + jnp.sum(x * x + jnp.log(2.0 * jnp.pi), 1)
    )
    misfit_slope = 2.0 * jnp.einsum("nf,nfd->nd", fitted - rows.linear, slopes)
    var_slope = 2.0 * jnp.einsum("nf,nfd->nd", phi_cov, slopes)
    gradient = -0.5 * (
        (rows.count / var)[:, None] * var_slope + misfit_slope / var[:, None] - (misfit / var**2)[:, None] * var_slope
    )
    through = jnp.stack([by_gram(slopes[:, :, i]) for i in range(x.shape[1])], axis=2)
    curvature = jnp.einsum("nfc,nfd->ncd", slopes, through) / var[:, None, None]
    curvature += (0.5 * rows.count / var**2)[:, None, None] * var_slope[:, :, None] * var_slope[:, None, :]
    return LocalExpansion(value, gradient - x, curvature + jnp.eye(x.shape[1], dtype=x.dtype)[None])


def embed(
    basis: Basis,
    belief: FilterState,
    noise_var: Float[Array, ""],
    rows: ObservedRows,
    starts: Float[Array, "n s d"],
) -> LatentPosterior:
    """Climb to the most probable coordinates from the best of the starts.

    log p(y, x) is never below that of any start. By Levenberg's rule a step that does not gain is not taken, and the
    next is shorter.
    """
    at_starts = jax.lax.map(
        lambda x: expand_log_joint(basis, belief, noise_var, rows, x).value, starts.swapaxes(0, 1)
    )
    x = starts[jnp.arange(len(starts)), jnp.argmax(at_starts, axis=0)]
    now = expand_log_joint(basis, belief, noise_var, rows, x)
    damping = jnp.full(len(x), _DAMPING[1], x.dtype)

    def unfinished(carry: tuple) -> Array:
        count, *_, moving = carry
        return (count < MAX_STEPS) & jnp.any(moving)

    def step(carry: tuple) -> tuple:
        count, x, now, damping, moving = carry
        diagonal = jnp.einsum("nii->ni", now.curvature)
        damped = now.curvature + jnp.einsum("ni,ij->nij", damping[:, None] * diagonal, jnp.eye(x.shape[1]))
        candidate = jnp.clip(x + solve_small(damped, now.gradient), -MAX_DISTANCE, MAX_DISTANCE)
        then = expand_log_joint(basis, belief, noise_var, rows, candidate)
        gain = then.value - now.value
        # A gain that is NaN is none. No row depends on another.
        better = moving & (gain > 0.0)
        now = LocalExpansion(
            *(jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(then, now, strict=True))
        )
        x = jnp.where(better[:, None], candidate, x)
        damping = jnp.clip(jnp.where(better, damping / 5.0, damping * 10.0), _DAMPING[0], _DAMPING[2])
        # A row that did not gain goes on until its steps are too short to be worth it.
        moving &= jnp.where(better, gain > _SMALL_GAIN, damping < 1e4)
        return count + 1, x, now, damping, moving

    _, x, now, *_ = jax.lax.while_loop(unfinished, step, (0, x, now, damping, jnp.ones(len(x), bool)))
    return LatentPosterior(x, now.value, now.curvature)
