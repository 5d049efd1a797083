"""Classification on a stream."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from streamgp.estimators.access import alone
from streamgp.estimators.docstrings import with_options
from streamgp.estimators.labels import LabelEstimator, Labels, as_labels, missing
from streamgp.estimators.validation import Rows
from streamgp.models.spec import Spec


@with_options
class StreamingGPClassifier(ClassifierMixin, LabelEstimator):
    """Classification on a stream: class probabilities for every row, learnt row by row, in constant memory.

    An online ensemble of basis expansions with a softmax likelihood; each target is learnt by a Laplace step
    (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4). K classes have K - 1 latent functions, and every expert the
    covariance of all their coefficients: work and memory of a row grow as (K - 1)^2 times the squared features of a
    basis, which are fewer with many classes (together 400 by default).

    Parameters
    ----------
    {options}

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, in the order of the columns of `predict_proba`: sorted, then those that came later as they came.
    weights_, experts_, rows_, skipped_rows_, imputed_values_, outside_rows_, n_features_in_, feature_names_in_
        As in `StreamingGPRegressor`.

    Notes
    -----
    A label that no row had before is admitted as a new class: its latent function starts at the prior, its intercept
    says that it came half a time so far. While a stream has shown a single class, that has probability one.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPClassifier
    >>> X = np.linspace(-3, 3, 200)[::-1, None]
    >>> y = np.where(X[:, 0] > 0.5, "hot", "cold")
    >>> m = StreamingGPClassifier("linear", warmup=20).partial_fit(X, y, classes=["cold", "hot"])
    >>> m.predict([[2.0], [-2.0]]).tolist()
    ['hot', 'cold']
    """

    @alone
    def fit(self, X: Any, y: Any, times: Any = None) -> Self:
        """Forget everything, then learn all rows in their order: one pass, as `partial_fit` would.

        All labels of `y` are known as classes from the first row on.
        """
        return self._fit(self._prepare(X, y, times, reset=True, classes=self._checked(y)))

    @alone
    def partial_fit(self, X: Any, y: Any, classes: Any = None, times: Any = None) -> Self:
        """Learn from rows of shape (n, D) and labels (n,), in order; call it as often as you like.

        Parameters
        ----------
        classes
            Labels that are known before the first row; only the first call looks at it. Others may come all the same.
        times
            As in `StreamingGPRegressor.partial_fit`.

        Raises
        ------
        ValueError
            On NaN or infinity under ``missing="raise"``, another number of columns, or numbers that are no labels;
            the state is then untouched.
        """
        first = not self.__sklearn_is_fitted__()
        return self._partial_fit(self._prepare(X, y, times, reset=first, classes=classes))

    @alone
    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        return self.classes_[np.argmax(self.predict_proba(X, times), axis=1)]

    @property
    @alone
    def classes_(self) -> np.ndarray:
        """Return the labels."""
        self._check_fitted()
        return self._labels.array[: self._learner.num_classes]

    # Inner works

    def _target(self, y: Any) -> np.ndarray:
        codes, self._labels = self._labels.encode(self._checked([y]))
        return codes

    def _make_spec(self, **more: Any) -> Spec:
        return super()._make_spec(task="classification", **more)

    def _prepare(self, X: Any, y: Any, times: Any, reset: bool, classes: Any = None) -> Rows:
        """Return rows with class codes for targets; labels that usable rows have are known from now on."""
        known = Labels.sorted_from(np.asarray([] if classes is None else classes)) if reset else self._labels
        codes, everything = known.encode(self._checked(y))
        rows, labels = known.admit(self._check_learn(X, codes, times, reset), everything)
        if reset:
            self._classes_at_start = len(known.names)
        self._labels = labels
        return rows

    def _checked(self, y: Any) -> np.ndarray:
        """Return labels (n,), of which missing ones are allowed where rows are skipped."""
        y = as_labels(y, self.missing != "raise")
        check_classification_targets(y[~missing(y)])
        return y
