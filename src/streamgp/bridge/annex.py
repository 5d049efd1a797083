"""The declaration of what the bridge adds to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(commands={"bridge": "streamgp.bridge.command:bridge"})
