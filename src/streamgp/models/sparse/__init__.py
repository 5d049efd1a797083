"""Sparse Gaussian processes on a stream, one of them or local ones that split where the data change.

`LocalGPs` makes `ovfe`, `wgpr`, `solar-gp` and `lgpr` online models; the algebra that they share is in
`streamgp.models.sparse.vfe`.
"""

from streamgp.models.sparse.fitting import EXACT_STEPS, exact_hyper
from streamgp.models.sparse.local import LocalModel, LocalModels, blank
from streamgp.models.sparse.model import LocalGPs
from streamgp.models.sparse.splitting import Learning, relative_change
from streamgp.models.sparse.vfe import Batch, Hyper, Posterior, Site, absorb, bound, no_site, posterior

__all__ = [
    "EXACT_STEPS",
    "Batch",
    "Hyper",
    "Learning",
    "LocalGPs",
    "LocalModel",
    "LocalModels",
    "Posterior",
    "Site",
    "absorb",
    "blank",
    "bound",
    "exact_hyper",
    "no_site",
    "posterior",
    "relative_change",
]
