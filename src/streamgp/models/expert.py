"""One expert of an ensemble for numbers."""

import equinox as eqx
from jaxtyping import Array, Float

from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.numerics.checkpoint.encoding import register


@register
class Expert(eqx.Module):
    """One basis with its prior variance v, noise variance s2 and dynamics."""

    basis: Basis
    prior_var: Float[Array, ""]
    noise_var: Float[Array, ""]
    dynamics: Dynamics
    name: str = eqx.field(static=True, default="")
