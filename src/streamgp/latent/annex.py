"""The declaration of what latent variable models add to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(
    names={"StreamingGPLVM": "streamgp.latent.estimator"},
    loadable=("StreamingGPLVM",),
    commands={"embed": "streamgp.latent.command:embed"},
)
