"""Progress of what an estimator learns: its rows, and the fits at the end of its warm-up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamgp.progress import progress_bar
from streamgp.stream.learner import StreamLearner


@contextmanager
def learning_progress(
    learner: StreamLearner, description: str, rows: int, enabled: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show progress during the body of a ``with`` statement, which calls what it is given with the rows done."""
    with progress_bar("warm-up", rows, enabled) as bar:
        learner.progress = lambda done, todo: bar.fits("fitting experts", done, todo)
        try:
            yield lambda done: bar.at(done, description if learner.is_warmed_up else "warm-up")
        finally:
            learner.progress = None
