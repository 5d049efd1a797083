"""A session on a stream: it predicts, scores, tests for changes and learns, and a checkpoint can hold it.

Here is the one loop of test-then-train. Where rows come from, and where their scores go, is not known here.
"""

from streamgp.session.by_task import new_alarms, new_metrics
from streamgp.session.session import Session, SessionOptions

__all__ = ["Session", "SessionOptions", "new_alarms", "new_metrics"]
