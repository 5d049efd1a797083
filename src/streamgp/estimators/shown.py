"""Progress of what an estimator learns: its rows, and the fits at the end of its warm-up."""

from collections.abc import Iterator
from contextlib import contextmanager

from streamgp.progress import Bar, progress_bar
from streamgp.stream.learner import StreamLearner


@contextmanager
def shown(learner: StreamLearner, description: str, rows: int, enabled: bool = True) -> Iterator[Bar]:
    """Show how many of the rows a learner has learnt, and its fits, during the body of a ``with`` statement."""
    with progress_bar(description, rows, enabled) as bar:
        learner.progress = lambda done, todo: bar.fits("fitting experts", done, todo)
        try:
            yield bar
        finally:
            learner.progress = None
