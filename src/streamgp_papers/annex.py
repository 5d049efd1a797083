"""The declaration of what the papers' tables add to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(commands={"reproduce": "streamgp_papers.command:reproduce"})
