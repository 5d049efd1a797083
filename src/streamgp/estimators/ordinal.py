"""Grades on a stream."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from streamgp.estimators.access import alone
from streamgp.estimators.docstrings import with_options
from streamgp.estimators.labels import LabelEstimator, Labels, as_labels, missing
from streamgp.estimators.validation import Rows
from streamgp.models.spec import Spec
from streamgp.table.containers import order_of


@with_options
class StreamingGPOrdinal(ClassifierMixin, LabelEstimator):
    """Ordinal regression on a stream: probabilities of grades that have an order but no distances.

    One latent function and thresholds between the grades, a cumulative probit model; the thresholds are learnt in the
    warm-up, and the function is then learnt by a Laplace step per target (Lu et al. 2022, 3.2).

    Parameters
    ----------
    {options}

    Attributes
    ----------
    classes_ : ndarray of shape (J,)
        The grades in ascending order.
    weights_, experts_, rows_, skipped_rows_, imputed_values_, outside_rows_, n_features_in_, feature_names_in_
        As in `StreamingGPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPOrdinal
    >>> X = np.linspace(-3, 3, 300)[np.random.default_rng(0).permutation(300), None]
    >>> y = np.digitize(X[:, 0], [-1.0, 1.0])
    >>> m = StreamingGPOrdinal("linear", warmup=50).partial_fit(X, y, grades=[0, 1, 2])
    >>> m.predict([[-2.0], [0.0], [2.0]]).tolist()
    [0, 1, 2]
    """

    @alone
    def fit(self, X: Any, y: Any, grades: Any = None, times: Any = None) -> Self:
        """Forget everything, then learn all rows in their order: one pass, as `partial_fit` would."""
        return self._fit(self._prepare(X, y, times, reset=True, grades=grades))

    @alone
    def partial_fit(self, X: Any, y: Any, grades: Any = None, times: Any = None) -> Self:
        """Learn from rows of shape (n, D) and grades (n,), in order; call it as often as you like.

        Parameters
        ----------
        grades
            All grades from the lowest to the highest; only the first call looks at it. Without it, they are the
            categories of that call's `y` if these have an order (an ordered Categorical of pandas, an Enum of
            polars), or else its grades in ascending order.
        times
            As in `StreamingGPRegressor.partial_fit`.

        Raises
        ------
        ValueError
            On NaN or infinity under ``missing="raise"``, another number of columns, or a grade that is not
            among those known; the state is then untouched.
        """
        first = not self.__sklearn_is_fitted__()
        return self._partial_fit(self._prepare(X, y, times, reset=first, grades=grades))

    @alone
    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Return the median grade of each row: the lowest that is reached with a probability of one half."""
        reached = np.cumsum(self.predict_proba(X, times), axis=1)
        return self.classes_[np.argmax(reached >= 0.5 - 1e-12, axis=1)]

    @property
    @alone
    def classes_(self) -> np.ndarray:
        """Return the grades."""
        self._check_fitted()
        return self._labels.array

    # Inner works

    def _make_spec(self, **more: Any) -> Spec:
        return super()._make_spec(task="ordinal", **more)

    def _prepare(self, X: Any, y: Any, times: Any, reset: bool, grades: Any = None) -> Rows:
        """Return rows with the numbers of their grades, from 0, for targets."""
        order = order_of(y) if grades is None else None
        y = as_labels(y, self.missing != "raise")
        known = self._labels if not reset else _in_order(y, order if grades is None else grades)
        rows = self._check_learn(X, self._codes(y, known), times, reset)
        self._labels, self._classes_at_start = known, len(known.names)
        return rows

    def _target(self, y: Any) -> np.ndarray:
        return self._codes(as_labels([y], self.missing != "raise"), self._labels)

    def _codes(self, y: np.ndarray, known: Labels) -> np.ndarray:
        """Return the numbers of grades, NaN where a row is to be skipped."""
        codes, everything = known.encode(y)
        others = everything.names[len(known.names) :]
        if others and self.missing != "skip":
            row = int(np.argmax(codes >= len(known.names)))
            raise ValueError(
                f"y: expected one of the grades {', '.join(map(repr, known.names))}, got {others[0]!r} at row {row}; "
                f"name all grades in the first call (grades=), or skip such rows (missing='skip')"
            )
        codes[codes >= len(known.names)] = np.nan
        return codes


def _in_order(y: np.ndarray, grades: Any) -> Labels:
    """Return the grades as the user names them, or those of the targets in ascending order; at least two."""
    if grades is None:
        known = Labels.sorted_from(y[~missing(y)])
    else:
        each = np.asarray(grades)
        known = Labels(tuple(dict.fromkeys(each.tolist())), each.dtype.str)
    if len(known.names) < 2:
        raise ValueError(
            f"y: expected at least two classes of grades, got {list(known.names)}; name all of them in the first "
            f"call (grades=)"
        )
    return known
