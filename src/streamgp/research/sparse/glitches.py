"""A guard against targets far from their prediction: one alone is a glitch, five in a row are a change.

A glitch enters its batch drawn in towards its expectation, the more the further out it lies (a redescending
influence, Duran-Martin et al. 2024). A batch is learnt when it is full; a change shows by then.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics import tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module

# A target further from the mean, in standard deviations scaled by recent errors, is moved towards it.
GLITCH_THRESHOLD = 5.0
# So many consecutive rows beyond the threshold are no glitches.
CHANGE_ROWS = 5
# The discount per row of the size of errors.
_MEMORY = 0.9
# A larger squared error counts as so many times its usual size.
_MAX_ERROR = 16.0


@register
class TargetGuard(Module):
    """The size of recent errors.

    Attributes
    ----------
    level
        Mean square of the errors of each target in units of their variance; values below one count as one.
    run
        Number of consecutive rows beyond the threshold just before the pending batch.
    """

    level: Float[Array, " e"]
    run: Int[Array, ""]

    @classmethod
    def empty(cls, num_outputs: int) -> "TargetGuard":
        """Return the guard before any row: errors are as expected."""
        return cls(jnp.ones(num_outputs), jnp.zeros((), int))

    def draw_in(
        self, mean: Float[Array, " e"], var: Float[Array, " e"], y: Float[Array, " e"]
    ) -> tuple["TargetGuard", Float[Array, " e"]]:
        """Return the guard after a target with its expected mean and variance, and the target drawn in."""
        squares, level = jnp.square(y - mean) / var, jnp.maximum(self.level, 1.0)
        excess = jnp.maximum(jnp.max(squares / level) / GLITCH_THRESHOLD**2, 1.0)
        # Few digits, so that programs that round differently agree: searches would amplify the difference.
        drawn = (mean + (y - mean) / excess).astype(jnp.float32).astype(y.dtype)
        drawn = jnp.where(excess > 1.0, drawn, y)
        after = _MEMORY * self.level + (1.0 - _MEMORY) * jnp.minimum(squares, _MAX_ERROR * level)
        return TargetGuard(after, self.run), drawn


@jax.jit
def draw_in_rows(
    guard: TargetGuard,
    mean: Float[Array, "n e"],
    var: Float[Array, "n e"],
    y: Float[Array, "n e"],
    mask: Bool[Array, " n"],
) -> tuple[TargetGuard, Float[Array, "n e"]]:
    """Apply `TargetGuard.draw_in` to rows in their order; those with a false `mask` are passed over."""

    def step(guard: TargetGuard, row: tuple[Array, ...]) -> tuple[TargetGuard, Array]:
        *target, keep = row
        after, drawn = guard.draw_in(*target)
        return tree.map(lambda a, b: jnp.where(keep, a, b), after, guard), drawn

    return jax.lax.scan(step, guard, (mean, var, y, mask))


def replace_glitches(guard: TargetGuard, y: np.ndarray, drawn: np.ndarray) -> tuple[TargetGuard, np.ndarray]:
    """Return the guard for the next batch, and the targets (n, E) of a full one with `drawn` in place of glitches."""
    beyond = (drawn != y).any(axis=1)
    before = int(guard.run)
    # Lengths of the runs that rows are in, including the run at the end of the batch before.
    starts = np.flatnonzero(np.diff(beyond, prepend=~beyond[:1]))
    lengths = np.diff(starts, append=len(beyond))
    lengths[0] += before if beyond[0] else 0
    glitch = beyond & (np.repeat(lengths, np.diff(starts, append=len(beyond))) < CHANGE_ROWS)
    run = int(lengths[-1]) if beyond[-1] else 0
    return TargetGuard(guard.level, jnp.asarray(run)), np.where(glitch[:, None], drawn, y)
