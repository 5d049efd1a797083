"""The guards of many filters along one block on an accelerator: all filters go from outlier to outlier at once.

The rows between two outliers of a filter are ordinary, and one product gives the level before each of them. An
outlier changes one entry of the covariance of its block; what that does to the factor and to its inverse is known in
closed form, so that nothing is factorised again.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from streamgp.filters.guard import LEVEL_MEMORY, RUN_MEMORY, Guard, Limits, bounded, learn
from streamgp.numerics.accelerator import Array, jax, jnp


class Factored(NamedTuple):
    """A block's targets: the factor L of their covariance, L^-1, their errors, and z = L^-1 errors."""

    L: Float[Array, "k n n"]
    inverse: Float[Array, "k n n"]
    residual: Float[Array, "k n e"]
    z: Float[Array, "k n e"]


class _Along(NamedTuple):
    """How far each of k filters has come: its next row that is none of the ordinary ones, and what it found before.

    Attributes
    ----------
    row
        Where the next such row is; the length of the block where there is none.
    guard
        What it remembers before that row.
    block
        With the noise raised of the outliers so far.
    is_outlier, expected
        Which rows were outliers, and the variances that had been expected of those.
    """

    row: Int[Array, " k"]
    guard: Guard
    block: Factored
    is_outlier: Bool[Array, "k n"]
    expected: Float[Array, "k n"]


class _Seen(NamedTuple):
    """The rows that are seen, how many come before each and before the end, and what each adds to later levels."""

    mask: Bool[Array, " n"]
    before: Int[Array, " m"]
    weights: Float[Array, "m n"]

    @classmethod
    def of(cls, mask: Bool[Array, " n"]) -> "_Seen":
        before = jnp.concatenate([jnp.zeros(1, int), jnp.cumsum(mask)])
        steps = before[:, None] - 1 - before[None, :-1]
        weights = (1.0 - LEVEL_MEMORY) * LEVEL_MEMORY ** jnp.maximum(steps, 0)
        return cls(mask, before, jnp.where((steps >= 0) & mask, weights, 0.0))


def guarded(
    guard: Guard, block: Factored, mask: Bool[Array, " n"]
) -> tuple[Guard, Factored, Bool[Array, "k n"], Float[Array, "k n"]]:
    """Let k guards learn a block, of which the rows of `mask` are seen, and raise the noise of outliers in it.

    Returns
    -------
    guard, block, is_outlier, variance
        The new memory; the block with the noise raised; which rows are outliers; and the variance of every row before
        its noise was raised.
    """
    k, n, _ = block.z.shape
    seen = _Seen.of(mask)
    row, guard = _to_the_next(jnp.zeros(k, int), guard, block.z, seen)
    start = _Along(row, guard, block, jnp.zeros((k, n), bool), jnp.zeros((k, n)))
    end = jax.lax.while_loop(lambda on: (on.row < n).any(), lambda on: _past_the_row(on, seen), start)
    diagonal = jnp.diagonal(end.block.L, axis1=-2, axis2=-1)
    return end.guard, end.block, end.is_outlier, jnp.where(end.is_outlier, end.expected, diagonal * diagonal)


def _to_the_next(
    at: Int[Array, " k"], guard: Guard, z: Float[Array, "k n e"], seen: _Seen
) -> tuple[Int[Array, " k"], Guard]:
    """Bring each filter from a row to its next one that is an outlier, or follows one; or to the end of the block."""
    n = z.shape[1]
    to_come = (jnp.arange(n) >= at[:, None]) & seen.mask
    passed = jnp.maximum(seen.before - seen.before[at][:, None], 0)
    squares = jnp.where(to_come[..., None], jnp.minimum(z * z, jnp.finfo(z.dtype).max), 0.0)
    levels = seen.weights @ squares + (LEVEL_MEMORY**passed)[..., None] * guard.level[:, None]
    limits = Limits.of(guard.agreement)
    usual = jnp.maximum(levels[:, :-1], limits.floor[:, None, None]) * limits.threshold[:, None, None]
    follows = (guard.last != 0.0).any(-1)[:, None] & (passed[:, :-1] == 0)
    ends = to_come & ((z * z > usual).any(-1) | follows)
    row, each = jnp.where(ends.any(-1), jnp.argmax(ends, axis=-1), n), jnp.arange(len(z))
    return row, guard._replace(level=levels[each, row], run=guard.run * RUN_MEMORY ** passed[each, row])


def _past_the_row(on: _Along, seen: _Seen) -> _Along:
    """Let each filter learn the row that it has come to, and bring it to the next one."""
    z, n, each = on.block.z, on.block.z.shape[1], jnp.arange(len(on.row))
    is_there, row = on.row < n, jnp.minimum(on.row, n - 1)
    learnt, found, raised = learn(on.guard, z[each, row])
    guard = jax.tree.map(
        lambda new, old: jnp.where(is_there.reshape(-1, *(1,) * (new.ndim - 1)), new, old), learnt, on.guard
    )
    found = found & is_there
    variance = on.block.L[each, row, row] ** 2
    is_outlier = on.is_outlier.at[each, row].set(on.is_outlier[each, row] | found)
    expected = on.expected.at[each, row].set(jnp.where(found, variance, on.expected[each, row]))
    raised = jnp.where(found, raised, 1.0)
    block = jax.lax.cond(found.any(), _raised, lambda block, *_: block, on.block, row, raised, found)
    next_row, after = _to_the_next(jnp.minimum(on.row + 1, n), guard, block.z, seen)
    return _Along(next_row, after, block, is_outlier, expected)


def _raised(block: Factored, row: Int[Array, " k"], raised: Float[Array, " k"], found: Bool[Array, " k"]) -> Factored:
    """Raise the noise of one row of each filter that `found` an outlier in it.

    With u the row's column of L^-1, the covariance becomes L (I + d u u') L'. The middle has the factor T, with
    s_i = 1 + d (u_1^2 + ... + u_i^2): T_ii = sqrt(s_i / s_(i-1)) and T_ij = d u_i u_j / sqrt(s_j s_(j-1)) for j < i;
    off the diagonal its inverse is -d u_i u_j / sqrt(s_i s_(i-1)).
    """
    each, n = jnp.arange(len(row)), block.z.shape[1]
    used, shortened = bounded(raised)
    pivot = block.L[each, row, row]
    delta = (used - 1.0) * pivot * pivot
    u = block.inverse[each, :, row]
    grown = delta[:, None] * jnp.cumsum(u * u, axis=1)
    s, s_before = 1.0 + grown, 1.0 + jnp.pad(grown[:, :-1], ((0, 0), (1, 0)))
    outer = delta[:, None, None] * u[:, :, None] * u[:, None]
    root, ratio = jnp.sqrt(s * s_before), jnp.sqrt(s / s_before)
    lower, eye = jnp.tril(outer, -1), jnp.eye(n)
    T = lower / root[:, None] + eye * ratio[:, None]
    T_inverse = eye / ratio[:, None] - lower / root[..., None]
    at_row = (jnp.arange(n) == row[:, None])[:, None]
    # Of the row's own column, products would lose what the factor has gained.
    own = block.L / jnp.sqrt(used)[:, None, None]
    own = jnp.where(jnp.swapaxes(at_row, 1, 2), (pivot * jnp.sqrt(used))[:, None, None], own)
    L = jnp.where(at_row, own, block.L @ T)
    earlier = jnp.where(jnp.arange(n) < row[:, None], block.L[each, row], 0.0)
    kept = (earlier[:, None] @ block.z)[:, 0] + (shortened * pivot)[:, None] * block.z[each, row]
    residual = block.residual.at[each, row].set(kept)
    inverse = T_inverse @ block.inverse
    new = Factored(L, inverse, residual, inverse @ residual)
    return jax.tree.map(lambda a, b: jnp.where(found[:, None, None], a, b), new, block)
