"""Alarms of a model that learns row by row."""

from typing import Any

from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.sessions import EstimatorSession, check_rows_to_score
from streamgp.estimators.single import as_table
from streamgp.evaluation.alarms import RATE, Alarm
from streamgp.models.options import DEFAULT_WARMUP
from streamgp.session import SessionOptions


class Monitor:
    """Tells when a stream has changed, at a rate of false alarms that holds whenever one looks.

    It tests what the model says of each row before its target: the level, scale, dependence and shape of the errors,
    the log score beside naive forecasts, targets that stand still, and targets or rows that do not come. See
    `streamgp.evaluation.Alarms`. The tests belong to the model: `save` keeps them, and a second monitor of the same
    rate, or ``evaluate(alarms=True)``, goes on with them. Rows that the model learns elsewhere are not tested.

    Parameters
    ----------
    model
        An estimator of numbers or counts, new or already at work. In its warm-up there are no alarms.
    rate
        False alarms to be expected in 1,000 rows, at most, if the model is right; above 0 and at most 10.

    Raises
    ------
    ValueError
        If the model is of another kind, or the rate no such number.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import Monitor, StreamingGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = X[:, 0] + np.where(np.arange(400) < 300, 0.1, 0.5) * rng.normal(size=400)
    >>> monitor = Monitor(StreamingGPRegressor("linear", warmup=100))
    >>> alarms = [monitor.update(x, target) for x, target in zip(X, y)]
    >>> [alarm.kind for alarm in alarms if alarm is not None]
    ['scale']
    """

    def __init__(self, model: Any, rate: float = RATE) -> None:
        if not isinstance(model, StreamEstimator):
            raise ValueError(
                f"Monitor: expected an estimator of numbers or counts, such as StreamingGPRegressor, got "
                f"{type(model).__name__}"
            )
        model._tests_for_alarms(1, rate)
        self.model: StreamEstimator = model
        self.rate = rate

    @property
    def alarms(self) -> list[Alarm]:
        """Return the latest alarms, 1,000 at most."""
        return [] if self.model._alarms is None else list(self.model._alarms.found)

    def update(self, x: Any, y: Any, time: Any = None, exposure: Any = None) -> Alarm | None:
        """Predict a row, test it against its target, learn it, and return an alarm if it completes the evidence.

        Parameters
        ----------
        x, y
            Inputs (D,), or a dictionary by the names of the features, and target (a number, or (E,) of several); NaN
            where they are missing.
        time
            The row's time, on a stream that has them.
        exposure
            As in `StreamingGPCountRegressor`.

        Raises
        ------
        ValueError
            As `partial_fit` does; the state is then untouched.
        """
        model = self.model
        with model._access.lock:
            row = as_table(model, x), [y], None if time is None else [time], None if exposure is None else [exposure]
            rows = check_rows_to_score(model, *row)
            tests = model._tests_for_alarms(rows.y.shape[1], self.rate)
            session = EstimatorSession(model, rows, DEFAULT_WARMUP, SessionOptions(alarms=tests))
            for _ in session.feed():
                pass
            found = session.end()
        return found[-1] if found else None
