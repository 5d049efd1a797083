"""Targets that are absurd by what was expected of them: one alone is a glitch, five in a row are a change.

A glitch enters its batch drawn in towards its expectation, the more the further out it lies (a redescending
influence, Duran-Martin et al. 2024). A batch is learnt when it is full; a change shows by then.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from streamgp.checkpoint.encoding import register

FAR = 5.0  # standard deviations from the mean, stretched by the errors of late, at which a target is drawn in
CHANGE = 5  # rows beyond in a row that are no glitches
_MEMORY = 0.9  # per row, of the size of errors
_MOST = 16.0  # times its usual size as which an error counts in that


@register
class TargetGuard(eqx.Module):
    """How large errors have been of late.

    Attributes
    ----------
    level
        Mean square of the errors of each target in units of their variance; counts as one where it is less.
    run
        How many rows before the pending batch were beyond, without one between them that was not.
    """

    level: Float[Array, " e"]
    run: Int[Array, ""]

    @classmethod
    def empty(cls, num_outputs: int) -> "TargetGuard":
        """Before any row: errors are as expected."""
        return cls(jnp.ones(num_outputs), jnp.zeros((), int))

    def judged(
        self, mean: Float[Array, " e"], var: Float[Array, " e"], y: Float[Array, " e"]
    ) -> tuple["TargetGuard", Float[Array, " e"]]:
        """The guard after a target of which a mean and a variance were expected, and the target drawn in."""
        squares, level = jnp.square(y - mean) / var, jnp.maximum(self.level, 1.0)
        excess = jnp.maximum(jnp.max(squares / level) / FAR**2, 1.0)
        # Of few digits: the same from programs that round differently, since searches would make much of it.
        drawn = (mean + (y - mean) / excess).astype(jnp.float32).astype(y.dtype)
        drawn = jnp.where(excess > 1.0, drawn, y)
        after = _MEMORY * self.level + (1.0 - _MEMORY) * jnp.minimum(squares, _MOST * level)
        return TargetGuard(after, self.run), drawn


@jax.jit
def drawn_in(
    guard: TargetGuard,
    mean: Float[Array, "n e"],
    var: Float[Array, "n e"],
    y: Float[Array, "n e"],
    mask: Bool[Array, " n"],
) -> tuple[TargetGuard, Float[Array, "n e"]]:
    """`TargetGuard.judged` of rows in their order; those with a false `mask` are passed over."""

    def one(guard: TargetGuard, row: tuple[Array, ...]) -> tuple[TargetGuard, Array]:
        *target, keep = row
        after, drawn = guard.judged(*target)
        return jax.tree.map(lambda a, b: jnp.where(keep, a, b), after, guard), drawn

    return jax.lax.scan(one, guard, (mean, var, y, mask))


def without_glitches(guard: TargetGuard, y: np.ndarray, drawn: np.ndarray) -> tuple[TargetGuard, np.ndarray]:
    """The targets of a full batch (n, E), those `drawn` in place of glitches, and the guard for the next one."""
    beyond = (drawn != y).any(axis=1)
    before = int(guard.run)
    # Lengths of the runs that rows are in, with what the batch before ended with.
    starts = np.flatnonzero(np.diff(beyond, prepend=~beyond[:1]))
    lengths = np.diff(starts, append=len(beyond))
    lengths[0] += before if beyond[0] else 0
    glitch = beyond & (np.repeat(lengths, np.diff(starts, append=len(beyond))) < CHANGE)
    run = int(lengths[-1]) if beyond[-1] else 0
    return TargetGuard(guard.level, jnp.asarray(run)), np.where(glitch[:, None], drawn, y)
