"""A stream under way: rows are predicted, scored, tested for changes and learnt, and all of it can be kept.

Here is the one loop of test-then-train. Where rows come from, and where their scores go, is not known here.
"""

from streamgp.session.by_task import new_alarms, new_metrics
from streamgp.session.session import Session

__all__ = ["Session", "new_alarms", "new_metrics"]
