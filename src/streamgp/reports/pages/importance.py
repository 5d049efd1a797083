"""The importance of each input, as a section of a report."""

from typing import Any

from streamgp.reports.pages.expert_weights import FIRST
from streamgp.reports.wording import NAMELESS


def inputs(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the table of inputs, with the length of each bar in percent; empty where importance is not known."""
    found = metrics["importance"] or []
    table = [each | {"name": each["name"] or NAMELESS, "bar": 100.0 * each["share"]} for each in found]
    return {"inputs": table[:FIRST], "inputs_folded": table[FIRST:]}
