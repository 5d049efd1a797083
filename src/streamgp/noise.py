"""Noise whose level adapts: every filter serves several experts that differ only in what they make of its errors.

A filter's recursion does not depend on the unit of its variances. With a normal-inverse-gamma prior it runs in units
of the unknown noise variance, and all that learns the unit is two numbers: a (the shape) and, for each output, b
(the rate), with a <- d a + 1/2 and b <- d b + e^2 / (2 r) after a row with error e and variance r. For d = 1 this is
exact Bayesian inference of a constant noise variance (Bernardo and Smith 2000, Appendix A); a discount d < 1
forgets, with a memory of 1 / (1 - d) rows (West and Harrison 1997, section 10.8). The prediction is Student's t with
2a degrees of freedom and squared scale r b / a.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from streamgp.arrays import AnyArray, namespace
from streamgp.serialise import register
from streamgp.student_t import LEAST_DOF

CONSTANT = "constant"
# Where nothing is forgotten the prior counts as much as this many rows: enough for the t to have a variance.
PRIOR_ROWS = 10.0


@register
class NoiseState(NamedTuple):
    """Shape a of each kind of noise, and rate b of each filter, kind and output; those of constant noise stay."""

    shape: Float[AnyArray, " j"]
    rate: Float[AnyArray, "k j e"]


@register
class NoiseKinds(eqx.Module):
    """The kinds of noise that every filter is paired with.

    Parameters
    ----------
    discounts
        Of each kind; None: the noise is constant, with the variance that the filter was given, and Gaussian.
    """

    discounts: tuple[float | None, ...] = eqx.field(static=True)

    @property
    def adapt(self) -> bool:
        """Whether any of them does."""
        return any(d is not None for d in self.discounts)

    @property
    def names(self) -> tuple[str, ...]:
        """What `parse` reads back."""
        return tuple(CONSTANT if d is None else f"adaptive {d!r}" for d in self.discounts)

    def init(self, num_filters: int, num_outputs: int) -> NoiseState:
        """The filter's own variance, as if from the rows that the memory holds (`PRIOR_ROWS` where it is endless)."""
        rows = [PRIOR_ROWS if d in (None, 1.0) else 1.0 / (1.0 - d) for d in self.discounts]
        shape = 0.5 * np.asarray(rows)
        return NoiseState(shape, np.tile(shape[None, :, None], (num_filters, 1, num_outputs)))

    def ahead(
        self, states: NoiseState, var: Float[AnyArray, "n k e"]
    ) -> tuple[Float[AnyArray, "n kinds e"], Float[AnyArray, "n kinds"]]:
        """Variance and degrees of freedom of all experts' predictions, from the variances of the filters.

        `states` are those before each row, or a single one for all, with a leading axis.
        """
        xp, constant = namespace(states.shape, states.rate, var), np.asarray([d is None for d in self.discounts])
        factor = states.rate / (states.shape[:, None, :, None] - 1.0)
        scaled = var[:, :, None] * xp.where(constant[None, None, :, None], 1.0, factor)
        dof = xp.where(constant[None], xp.inf, 2.0 * states.shape)
        n, k, j, e = scaled.shape
        return scaled.reshape(n, k * j, e), xp.broadcast_to(dof[:, None], (n, k, j)).reshape(n, k * j)

    def update(self, state: NoiseState, squares: Float[AnyArray, "k e"]) -> NoiseState:
        """Learn from a row's squared errors over the variances that the filters gave them."""
        discount = np.asarray([1.0 if d is None else d for d in self.discounts])
        half = np.asarray([0.0 if d is None else 0.5 for d in self.discounts])
        rate = discount[None, :, None] * state.rate + half[None, :, None] * squares[:, None]
        return NoiseState(discount * state.shape + half, rate)

    def update_rows(
        self, state: NoiseState, squares: Float[AnyArray, "n k e"], mask: Bool[AnyArray, " n"]
    ) -> tuple[NoiseState, NoiseState]:
        """Learn from consecutive rows; return the new state, and the state before each row, stacked."""

        def step(state: NoiseState, row: tuple) -> tuple[NoiseState, NoiseState]:
            squares, keep = row
            new = self.update(state, squares)
            return jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, state), state

        return jax.lax.scan(step, jax.tree.map(jnp.asarray, state), (squares, mask))


CONSTANT_NOISE = NoiseKinds((None,))


def parse(names: Sequence[str | float]) -> NoiseKinds:
    """Kinds of noise from their names: ``constant``, or ``adaptive D`` (or D alone) with a discount D.

    Raises
    ------
    ValueError
        If a name is unknown or a discount out of range: its predictions need a variance, hence a memory of some rows.
    """
    least = 1.0 - 1.0 / LEAST_DOF
    discounts: list[float | None] = []
    for name in names:
        words = str(name).split()
        number = words[1:] if words[:1] == ["adaptive"] else words
        try:
            discount = None if words == [CONSTANT] else float(*number)
        except (TypeError, ValueError):
            raise ValueError(f"noise: expected 'constant' or 'adaptive D' with a number D, got {name!r}") from None
        if discount is not None and not (math.isfinite(discount) and least <= discount <= 1.0):
            raise ValueError(f"noise: expected a discount between {least:g} and 1, got {name!r}")
        discounts.append(discount)
    if not discounts:
        raise ValueError("noise: expected at least one of 'constant', 'adaptive D', got none")
    return NoiseKinds(tuple(dict.fromkeys(discounts)))
