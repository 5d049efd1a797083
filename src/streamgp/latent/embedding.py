"""Where a row lies in the latent space of one expert: the most probable place, by damped Gauss-Newton steps.

Of a row y with latent place x, log p(y, x) = log N(y; M'phi(x), (phi(x)'S phi(x) + s2) I) + log N(x; 0, I), M and S
the belief about the weights (Lu, Karanikolas and Giannakis 2022, Eqs. 49 to 52). Entries that are missing drop out.
With M y and M M' at hand, a step costs O(F^2) however many entries a row has.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from streamgp.bases.base import Basis
from streamgp.core import AnyArray
from streamgp.filters.kalman import FilterState
from streamgp.numerics.linalg import solve_small

STEPS = 50  # at most; most rows need some ten
FARTHEST = 10.0  # standard deviations of the prior; a row that is unlike everything would go on for ever
_SMALL_GAIN = 1e-6  # nats by which no row gains any more
_DAMPING = (1e-6, 1e-2, 1e8)  # least, first, most: of the curvature


class Rows(NamedTuple):
    """What the objective needs of rows under one expert.

    Attributes
    ----------
    linear
        M y, over the entries observed.
    squares
        y'y, over the same.
    gram
        M M', of all rows, or of each over its own entries.
    count
        How many entries are observed.
    """

    linear: Float[AnyArray, "n f"]
    squares: Float[Array, " n"]
    gram: Float[AnyArray, "*n f f"]
    count: Float[Array, " n"]


def complete_rows(belief: FilterState, Y: Float[Array, "n e"]) -> Rows:
    """Of rows without missing entries."""
    M = belief.mean
    full = jnp.full(len(Y), Y.shape[1], Y.dtype)
    return Rows(Y @ M.T, jnp.sum(Y * Y, axis=1), M @ M.T, full)


def observed_rows(belief: FilterState, Y: Float[Array, "n e"], observed: Bool[Array, "n e"]) -> Rows:
    """Of rows with missing entries, whatever stands in their place: O(F^2 D) for each row."""
    M, Y = belief.mean, jnp.where(observed, Y, 0.0)
    gram = jax.lax.map(lambda seen: (M * seen[None]) @ M.T, observed)
    return Rows(Y @ M.T, jnp.sum(Y * Y, axis=1), gram, jnp.sum(observed, axis=1).astype(Y.dtype))


class Ascent(NamedTuple):
    """The objective (n,), its gradient (n, d), and the Gauss-Newton approximation of minus its curvature."""

    value: Float[Array, " n"]
    gradient: Float[Array, "n d"]
    curvature: Float[Array, "n d d"]


class Found(NamedTuple):
    """Of rows, their most probable places, log p(y, x) there, and the precision of the place given the row.

    The precision is the Gauss-Newton curvature. Shapes (..., d), (...) and (..., d, d); where there are experts, they
    come before the rows, or behind them where that is said.
    """

    places: Any
    log_joint: Any
    precision: Any

    @property
    def log_density(self) -> np.ndarray:
        """Laplace's approximation of log p(y)."""
        d = self.places.shape[-1]
        return np.asarray(self.log_joint) + 0.5 * (d * np.log(2 * np.pi) - np.linalg.slogdet(self.precision)[1])


def log_joint(
    basis: Basis, belief: FilterState, noise_var: Float[Array, ""], rows: Rows, x: Float[Array, "n d"]
) -> Ascent:
    """log p(y, x) of each row at a place of its own, with derivatives in closed form."""
    phi = basis(x)
    slopes = jax.vmap(jax.jacfwd(lambda one: basis(one[None])[0]))(x)  # (n, f, d)

    def by_gram(v: AnyArray) -> Array:
        return (
            jnp.einsum("nf,fg->ng", v, rows.gram) if rows.gram.ndim == 2 else jnp.einsum("nf,nfg->ng", v, rows.gram)
        )

    fitted, spread = by_gram(phi), phi @ belief.cov
    misfit = jnp.maximum(rows.squares - 2.0 * jnp.sum(rows.linear * phi, axis=1) + jnp.sum(fitted * phi, axis=1), 0.0)
    var = jnp.sum(spread * phi, axis=1) + noise_var
    value = -0.5 * (
        rows.count * jnp.log(2.0 * jnp.pi * var) + misfit / var + jnp.sum(x * x + jnp.log(2.0 * jnp.pi), 1)
    )
    misfit_slope = 2.0 * jnp.einsum("nf,nfd->nd", fitted - rows.linear, slopes)
    var_slope = 2.0 * jnp.einsum("nf,nfd->nd", spread, slopes)
    gradient = -0.5 * (
        (rows.count / var)[:, None] * var_slope + misfit_slope / var[:, None] - (misfit / var**2)[:, None] * var_slope
    )
    through = jnp.stack([by_gram(slopes[:, :, i]) for i in range(x.shape[1])], axis=2)
    curvature = jnp.einsum("nfc,nfd->ncd", slopes, through) / var[:, None, None]
    curvature += (0.5 * rows.count / var**2)[:, None, None] * var_slope[:, :, None] * var_slope[:, None, :]
    return Ascent(value, gradient - x, curvature + jnp.eye(x.shape[1], dtype=x.dtype)[None])


def embed(
    basis: Basis,
    belief: FilterState,
    noise_var: Float[Array, ""],
    rows: Rows,
    starts: Float[Array, "n s d"],
) -> Found:
    """The place reached from the best of the starts, where log p(y, x) is never below any start's.

    Levenberg's steps: one that does not gain is not taken, and the next is shorter.
    """
    at_starts = jax.lax.map(lambda x: log_joint(basis, belief, noise_var, rows, x).value, starts.swapaxes(0, 1))
    x = starts[jnp.arange(len(starts)), jnp.argmax(at_starts, axis=0)]
    now = log_joint(basis, belief, noise_var, rows, x)
    damping = jnp.full(len(x), _DAMPING[1], x.dtype)

    def unfinished(carry: tuple) -> Array:
        count, *_, moving = carry
        return (count < STEPS) & jnp.any(moving)

    def step(carry: tuple) -> tuple:
        count, x, now, damping, moving = carry
        diagonal = jnp.einsum("nii->ni", now.curvature)
        damped = now.curvature + jnp.einsum("ni,ij->nij", damping[:, None] * diagonal, jnp.eye(x.shape[1]))
        candidate = jnp.clip(x + solve_small(damped, now.gradient), -FARTHEST, FARTHEST)
        then = log_joint(basis, belief, noise_var, rows, candidate)
        gain = then.value - now.value
        # Not where it is not a number; and where a row has ended hangs on no other row.
        better = moving & (gain > 0.0)
        now = Ascent(
            *(jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(then, now, strict=True))
        )
        x = jnp.where(better[:, None], candidate, x)
        damping = jnp.clip(jnp.where(better, damping / 5.0, damping * 10.0), _DAMPING[0], _DAMPING[2])
        # A row that did not gain goes on until its steps are too short to be worth it.
        moving &= jnp.where(better, gain > _SMALL_GAIN, damping < 1e4)
        return count + 1, x, now, damping, moving

    _, x, now, *_ = jax.lax.while_loop(unfinished, step, (0, x, now, damping, jnp.ones(len(x), bool)))
    return Found(x, now.value, now.curvature)
