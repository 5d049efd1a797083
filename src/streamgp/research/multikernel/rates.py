"""Learning rates and rates of exploration: constants, or falling with the rows, so that no horizon is needed."""

from jaxtyping import Float, Int

from streamgp.numerics.accelerator import Array, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module, static_field


@register
class Rate(Module):
    """scale * t^-power at row t = 1, 2, ..., at most `most` and at least `least`.

    A constant has power 0; for a stream of T rows papers take the constant 1 / sqrt(T). A power of 1/2 does without
    T, at the price of a constant factor in the regret.
    """

    scale: float = static_field()
    power: float = static_field(default=0.0)
    most: float = static_field(default=1.0)
    least: float = static_field(default=0.0)

    def __call__(self, t: Int[Array, ""]) -> Float[Array, ""]:
        """Compute the rate at row t, counted from one."""
        return jnp.clip(self.scale * t.astype(jnp.result_type(float)) ** -self.power, self.least, self.most)


def constant(value: float) -> Rate:
    """Return a rate that is the same at every row."""
    return Rate(float(value), most=float("inf"))


def falling(scale: float = 1.0, power: float = 0.5, most: float = 1.0, least: float = 0.0) -> Rate:
    """Return the rate scale * t^-power, within bounds."""
    return Rate(float(scale), power, most, least)
