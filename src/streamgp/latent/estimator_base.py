"""The base of the latent estimator: its learner behind scikit-learn's conventions, checked input, checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import validate_data

from streamgp.estimators.validation import check_fitted, seed_of
from streamgp.latent.learner import LatentLearner
from streamgp.latent.spec import LatentSpec
from streamgp.numerics import checkpoint
from streamgp.progress import progress_bar
from streamgp.table.cells import LARGEST
from streamgp.table.containers import as_given
from streamgp.table.given import as_numbers

_AS_NUMBERS: Any = {"dtype": "float64", "ensure_all_finite": "allow-nan"}


class LatentEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """An estimator around a `LatentLearner`; its parameters are those of the class derived from it."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    warmup: int | None
    random_state: Any
    _learner: LatentLearner

    # What has been learnt

    @property
    def embedding_(self) -> np.ndarray:
        """Return the coordinates of the rows remembered, as they were learnt, under the expert that leads now."""
        learner = self._ready()
        return learner.neighbours.coordinates[:, learner.leading].copy()

    @property
    def leading_(self) -> int:
        """Return the expert whose coordinates are returned."""
        return self._ready().leading

    @property
    def weights_(self) -> np.ndarray:
        """Return the weights of the experts for the next row."""
        return np.exp(self._ready().log_weights)

    @property
    def experts_(self) -> list[dict[str, float]]:
        """Return one dictionary per expert."""
        return self._ready().experts

    @property
    def rows_(self) -> int:
        """Return the rows so far."""
        check_fitted(self)
        return self._learner.rows

    @property
    def is_warm_(self) -> bool:
        """Return whether the warm-up is over; before, there are no coordinates."""
        return self.__sklearn_is_fitted__() and self._learner.is_warmed_up

    @property
    def glitches_(self) -> np.ndarray:
        """Return how many cells of each column were taken for glitches."""
        return self._ready().glitches.copy()

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write a checkpoint directory (JSON and safetensors); an earlier one there is replaced only at the end.

        It holds the rows that are remembered, in single precision.
        """
        check_fitted(self)
        tree = {
            "params": self.get_params() | {"random_state": self._learner.spec.seed},
            "learner": self._learner.to_tree(),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
        }
        checkpoint.save(path, tree, {"kind": type(self).__name__, "rows": self._learner.rows})

    @classmethod
    def of(cls, learner: LatentLearner, feature_names: Sequence[str] = ()) -> Self:
        """Return the estimator around a learner that has seen rows of these columns."""
        settings: dict[str, Any] = vars(learner.spec) | {"random_state": learner.spec.seed}
        estimator = cls(**{name: settings[name] for name in cls().get_params()})
        estimator._learner = learner
        estimator.n_features_in_ = learner.num_columns
        if feature_names:
            estimator.feature_names_in_ = np.asarray(feature_names, dtype=object)
        return estimator

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a checkpoint; the estimator goes on exactly where it was saved.

        Raises
        ------
        CheckpointError
            If the checkpoint is damaged or not of this kind; the message says what is wrong.
        """
        tree = checkpoint.load_of(path, cls)
        with checkpoint.reading(path):
            estimator = cls.of(LatentLearner.from_tree(tree["learner"]), tree["feature_names"])
            return estimator.set_params(**tree["params"])

    # Inner works

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a row was seen."""
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: missing cells are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._learner.spec.n_components

    def _ready(self) -> LatentLearner:
        """Return the learner, after its warm-up."""
        check_fitted(self)
        if not self._learner.is_warmed_up:
            raise NotFittedError(
                f"This {type(self).__name__} has {self._learner.rows} of the {self._learner.spec.warmup} rows of its "
                f"warm-up: go on with partial_fit, or choose a shorter warmup."
            )
        return self._learner

    def _check_first(self, X: Any) -> np.ndarray:
        """Check rows of any columns; the estimator does not change."""
        return self._check_values(check_array(as_numbers("X", as_given(X)), **_AS_NUMBERS, estimator=self))

    def _check(self, X: Any) -> np.ndarray:
        """Check rows of the columns that were there from the start."""
        X = as_numbers("X", as_given(X))
        return self._check_values(
            validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        )

    def _check_values(self, X: Any) -> np.ndarray:
        empty = np.flatnonzero(np.isnan(X).all(axis=1))
        if len(empty):
            raise ValueError(f"X: expected a number in every row, but row {empty[0]} has none; remove such rows")
        # The comparison is false for NaN.
        if (np.abs(X) > LARGEST).any():
            row, column = np.argwhere(np.abs(X) > LARGEST)[0]
            raise ValueError(
                f"X: expected numbers of at most {LARGEST:g}, got {X[row, column]:g} in row {row}, column {column}; "
                f"remove such rows, or put NaN there"
            )
        return X

    def _new_learner(self, num_columns: int, default_warmup: int) -> LatentLearner:
        settings: dict[str, Any] = {**self.get_params(), "seed": seed_of(self.random_state)}
        del settings["random_state"]
        if self.warmup is None:
            settings["warmup"] = default_warmup
        spec = LatentSpec(**settings)
        return LatentLearner(spec, num_columns)

    def _learn(self, learner: LatentLearner, X: np.ndarray) -> None:
        done = 0
        with progress_bar("rows", len(X)) as bar:
            for embedded in learner.learn(X):
                done += len(embedded.log_weights)
                bar.at(done)
