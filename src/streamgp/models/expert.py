"""One expert of an ensemble for numbers."""

from jaxtyping import Float

from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module, static_field


@register
class Expert(Module):
    """One basis with its prior variance v, noise variance s2 and dynamics."""

    basis: Basis
    prior_var: Float[AnyArray, ""]
    noise_var: Float[AnyArray, ""]
    dynamics: Dynamics
    name: str = static_field(default="")
