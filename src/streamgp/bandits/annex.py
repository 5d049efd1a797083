"""What optimisation of what moves adds to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(names={"TimeVaryingOptimizer": "streamgp.bandits.optimizer"})
