"""One expert of an ensemble for numbers."""

from jaxtyping import Array, Float

from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module, static_field


@register
class Expert(Module):
    """One basis with its prior variance v, noise variance s2 and dynamics."""

    basis: Basis
    prior_var: Float[Array, ""]
    noise_var: Float[Array, ""]
    dynamics: Dynamics
    name: str = static_field(default="")
