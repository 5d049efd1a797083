"""What scikit-learn asks of an estimator, without its modules, whose import takes a second: they come on first use.

Parameters, tags, `clone` and pickles are as `sklearn.base.BaseEstimator` and its mixins have them; scikit-learn's own
checks hold these classes to that. It knows estimators by what they can do, not by their class.
"""

import inspect
from typing import Any, Self

import numpy as np


class Parameters:
    """The parameters of an estimator, which are those of its constructor."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep` those of parameters that have some, too, as in scikit-learn."""
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": each for inner, each in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``a__b=1`` sets the parameter b of the parameter a.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        known = self.get_params(deep=True) if params else {}
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, below, inner = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{self._get_param_names()!r}."
                )
            if below:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
                known[name] = value
        for name, inner_params in nested.items():
            known[name].set_params(**inner_params)
        return self

    def __repr__(self) -> str:
        """Return the constructor's call, with the parameters that are not the default ones."""
        default = inspect.signature(type(self).__init__).parameters
        given = self.get_params(deep=False)
        changed = [f"{name}={value!r}" for name, value in given.items() if repr(value) != repr(default[name].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


class Regression:
    """What makes an estimator a regressor; it stands before `Parameters` among the bases of a class."""

    predict: Any

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags, tags.target_tags.required = "regressor", RegressorTags(), True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predicted means; the best is 1."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))


class Classification:
    """What makes an estimator a classifier; it stands before `Parameters` among the bases of a class."""

    predict: Any

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags, tags.target_tags.required = "classifier", ClassifierTags(), True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the labels that `predict` gets right."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))


def not_fitted(message: str) -> ValueError:
    """Return scikit-learn's error of an estimator that has learnt too little for what was asked."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(message)


def checked_inputs(estimator: Any, X: Any, *, reset: bool, least: int) -> np.ndarray:
    """Return a table of inputs, `least` columns wide or wider, as float64.

    What is no plain array goes to `sklearn.utils.validation.validate_data`, whose words of what is wrong users know.
    With `reset` the estimator takes the width, and the names of a frame's columns, as those of its inputs.
    """
    if _plain(X) and X.shape[1] >= max(least, 1) and not hasattr(estimator, "feature_names_in_"):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if X.shape[1] == estimator.n_features_in_:
            return np.asarray(X, dtype=np.float64)
    from sklearn.utils.validation import validate_data

    as_it_is: Any = {"dtype": np.float64, "ensure_all_finite": False, "ensure_min_features": least}
    checked: Any = validate_data(estimator, X, reset=reset, **as_it_is)
    return checked


def checked_rows(estimator: Any, X: Any, y: Any, *, reset: bool, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs as `checked_inputs` does, with as many targets, (n,) or (n, E), as float64."""
    if _plain(X) and type(y) is np.ndarray and y.dtype.kind in "fiub" and y.ndim in (1, 2) and len(y) == len(X):
        return checked_inputs(estimator, X, reset=reset, least=least), np.asarray(y, dtype=np.float64)
    from sklearn.utils import check_consistent_length
    from sklearn.utils.validation import validate_data

    as_it_is: Any = {"dtype": np.float64, "ensure_all_finite": False}
    separately: Any = ({**as_it_is, "ensure_min_features": least}, {**as_it_is, "ensure_2d": False})
    validate: Any = validate_data  # its type for y is that of its default
    X, y = validate(estimator, X, y, reset=reset, validate_separately=separately)
    check_consistent_length(X, y)
    return X, y


def as_column(values: Any) -> np.ndarray:
    """Return labels or counts as an array (n,); a column (n, 1) is told by scikit-learn's warning."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiubUSO":
        return values
    from sklearn.utils import column_or_1d

    return column_or_1d(values, warn=True)


def check_labels(y: np.ndarray) -> None:
    """Raise ValueError for numbers that are no labels, and warn of nearly as many labels as rows, as scikit-learn."""
    whole = y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool((y == np.round(y)).all()))
    if whole and len(np.unique(y)) <= max(2, len(y) // 2):
        return
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(y)


def _plain(X: Any) -> bool:
    """Return whether this is an array of numbers with rows."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "fiub" and len(X) > 0
