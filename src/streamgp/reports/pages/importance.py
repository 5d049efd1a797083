"""What a report shows of the inputs: which of them matter."""

from typing import Any

from streamgp.reports.pages.expert_weights import FIRST
from streamgp.reports.wording import NAMELESS


def inputs(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the table of inputs, with the length of each bar in percent; empty where it is not known what matters.

    Of older versions a share may be above 100%: then the largest has the whole length.
    """
    found = metrics["importance"] or []
    whole = max(1.0, *(each["share"] for each in found)) if found else 1.0
    table = [each | {"name": each["name"] or NAMELESS, "bar": 100.0 * each["share"] / whole} for each in found]
    return {"inputs": table[:FIRST], "inputs_folded": table[FIRST:]}
