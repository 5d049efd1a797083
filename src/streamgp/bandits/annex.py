"""The declaration of what the optimisation of functions that change with time adds to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(names={"TimeVaryingOptimizer": "streamgp.bandits.optimizer"})
