"""Rows one at a time, for estimators of numbers."""

from typing import Any, Self

from streamgp.estimators.access import alone
from streamgp.estimators.late import LateTargets
from streamgp.estimators.single import as_table, in_order
from streamgp.estimators.times import JumpError, follow_time
from streamgp.estimators.validation import NotFiniteError, check_one


class SingleRowEstimator(LateTargets):
    """What estimators of numbers do with a single row, the faster after the warm-up."""

    predict: Any
    partial_fit: Any

    @alone
    def predict_one(self, x: Any, time: Any = None) -> tuple[Any, Any]:
        """Return mean and standard deviation of the next target for one row: numbers, or arrays of several targets.

        After the warm-up this and `learn_one` take tens of microseconds with one expert, hundreds with a dozen and
        some milliseconds with the default; `predict` and `partial_fit` are made for many rows at once. The numbers
        are the same. With a horizon, and by online learners of many kernels, nothing is gained.

        Parameters
        ----------
        x
            The inputs, shape (D,), or a dictionary by the names of the features.
        time
            The row's time stamp, on a stream that has them.

        Raises
        ------
        ValueError
            On other inputs and, unless ``missing="impute"``, on NaN or infinity.
        """
        self._check_fitted()
        if self._late is not None or not self._learner.is_warmed_up:
            mean, std = self.predict(as_table(self, x), return_std=True, times=None if time is None else [time])
            return mean[0], std[0]
        mean, std = self._learner.predict_one(*check_one(self, in_order(self, x, time), time))
        return (mean[0], std[0]) if self._single else (mean, std)

    @alone
    def learn_one(self, x: Any, y: Any, time: Any = None) -> Self:
        """Learn from one row: its inputs, its target (or targets, shape (E,)) and its time stamp, if any.

        Inputs are of shape (D,), or a dictionary by the names of the features, which the first row decides.

        Raises
        ------
        ValueError
            As `partial_fit` does; the state is then untouched.
        """
        if not self.__sklearn_is_fitted__() or self._late is not None or not self._learner.is_warmed_up:
            return self.partial_fit(as_table(self, x), [y], None if time is None else [time])
        try:
            row, at = check_one(self, in_order(self, x, time), time)
            target = self._target(y)
            if self._learner.timed:
                follow_time(self, time, at)
        except (NotFiniteError, JumpError):
            if self.missing != "skip":
                raise
            self.skipped_rows_ += 1
            return self
        self._learner.learn_one(row, target, at)
        return self
