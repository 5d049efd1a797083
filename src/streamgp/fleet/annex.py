"""The declaration of what fleets add to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(
    names={"StreamingGPFleet": "streamgp.fleet.fleet"},
    loadable=("StreamingGPFleet",),
    keyed="streamgp.fleet.command",
)
