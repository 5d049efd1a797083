"""What all estimators share: a learner behind scikit-learn's conventions, checked input, checkpoints."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from streamgp.estimators.access import Access, access_to, alone
from streamgp.estimators.columns import Columns
from streamgp.estimators.early import warn_if_early, warn_of_codes
from streamgp.estimators.late import LateTargets
from streamgp.estimators.prediction import Prediction
from streamgp.estimators.result import collect
from streamgp.estimators.scikit import Parameters
from streamgp.estimators.shown import Given
from streamgp.estimators.validation import Rows, check_fitted, check_inputs, check_rows, column_names, seed_of
from streamgp.evaluation.alarms import RATE, Alarm, Alarms
from streamgp.evaluation.description import expert_table
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.models.option_type import whole_number
from streamgp.models.options import DEFAULT_WARMUP, MIN_WARMUP, OPTIONS
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.numerics import checkpoint
from streamgp.session import new_alarms
from streamgp.stream.apart import learner_from_tree, new_learner
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.settings import StreamSettings
from streamgp.table.clock import Pace
from streamgp.table.codes import MissingCodes
from streamgp.table.containers import unmasked

SHORT_WARMUP = 50  # below it a fifth of a short data set teaches too little


class StreamEstimator(LateTargets, Parameters):
    """An estimator that learns a stream in its order; its parameters are those of the classes derived from it.

    Several threads may call it: calls take place one after the other, in some order.
    """

    # Parameters of all derived classes, whose constructors are generated.
    model: str
    warmup: int | None
    missing: str
    missing_values: Any
    random_state: Any

    n_features_in_: int
    feature_names_in_: np.ndarray
    _classes_at_start = 0  # classes or grades that are known before the first row
    _alarms: Alarms | None = None
    _columns = Columns()  # of the rows so far
    _pace = Pace()

    # What has been learnt

    @property
    def _access(self) -> Access:
        return access_to(self)

    @property
    @alone
    def weights_(self) -> np.ndarray:
        """Return the experts' weights for the next row."""
        self._check_fitted()
        return self._learner.weights

    @property
    @alone
    def experts_(self) -> list[dict[str, Any]]:
        """Return one dictionary per expert, weight included."""
        self._check_fitted()
        return expert_table(self._learner)

    @property
    @alone
    def rows_(self) -> int:
        """Return rows learnt so far."""
        self._check_fitted()
        return self._learner.rows

    @property
    @alone
    def is_warm_(self) -> bool:
        """Return whether the warm-up is over, so that the fitted model predicts; before the first row it is not."""
        if not self.__sklearn_is_fitted__():
            return False
        self._check_fitted()
        return self._learner.is_warmed_up

    @property
    @alone
    def imputed_values_(self) -> int:
        """Return inputs that were missing in the rows so far, and filled."""
        self._check_fitted()
        return self._learner.state.imputed_values

    @property
    @alone
    def outside_rows_(self) -> int:
        """Return rows after the warm-up that lay outside some basis' box and were moved to its edge there."""
        self._check_fitted()
        return self._learner.state.outside_rows

    @property
    @alone
    def alarms_(self) -> list[Alarm]:
        """Return the latest changes of the stream, 1,000 at most, that a `Monitor` or `evaluate` found."""
        self._check_fitted()
        if self._alarms is None:
            raise AttributeError("alarms_: expected rows that were monitored; use Monitor or evaluate(alarms=True)")
        return list(self._alarms.found)

    # Keeping

    @alone
    def save(self, path: str | Path) -> None:
        """Write a checkpoint directory (JSON and safetensors); an earlier one there is replaced only at the end."""
        self.save_with(path, {})

    @alone
    def save_with(self, path: str | Path, more: dict[str, Any]) -> None:
        """Write the estimator as `save` does, and in the same step what a program around it knows besides."""
        self._check_fitted()
        meta = {"kind": type(self).__name__, "rows": self._learner.rows}
        tree = more | {
            "params": self._stored_params(),
            "learner": self._learner.to_tree(),
            "single": self._single,
            "skipped_rows": self.skipped_rows_,
            "late": None if self._late is None else self._late.to_tree(),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "num_features": self.n_features_in_,
            "columns": self._columns,
            "pace": self._pace.to_tree(),
            "alarms": None if self._alarms is None else self._alarms.to_tree(),
        }
        checkpoint.save(path, tree | self._more_to_store(), meta)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a checkpoint; the estimator goes on exactly where it was saved.

        Raises
        ------
        CheckpointError
            If the checkpoint is damaged or not of this kind; the message says what is wrong.
        """
        return cls.load_with(path)[0]

    @classmethod
    def load_with(cls, path: str | Path) -> tuple[Self, dict[str, Any]]:
        """Read a checkpoint as `load` does, and in the same step what `save_with` was given besides."""
        tree = checkpoint.load_of(path, cls)
        with checkpoint.reading(path):
            estimator = cls(**tree["params"])
            estimator._learner = learner_from_tree(tree["learner"])
            estimator._single = tree["single"]
            if tree["late"] is not None:
                estimator._late = LateLabels.from_tree(estimator._learner, tree["late"])
            estimator.skipped_rows_ = tree["skipped_rows"]
            estimator.n_features_in_ = tree["num_features"]
            estimator._columns = tree["columns"]
            if tree["pace"] is not None:
                estimator._pace = Pace.from_tree(tree["pace"])
            if tree["feature_names"]:
                estimator.feature_names_in_ = np.asarray(tree["feature_names"], dtype=object)
            if tree["alarms"] is not None:
                estimator._alarms = Alarms.from_tree(tree["alarms"])
            estimator._restore(tree)
            return estimator, tree

    def _stored_params(self) -> dict[str, Any]:
        return portable_params(self)

    def _more_to_store(self) -> dict[str, Any]:
        """Return what a checkpoint holds beyond what every estimator's does."""
        return {}

    def _restore(self, tree: dict[str, Any]) -> None:
        """Take back what `_more_to_store` gave."""

    # Inner works

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "impute"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def _check_fitted(self) -> None:
        check_fitted(self)
        if self._late is not None:
            self._late.refresh()

    def _make_spec(self, **more: Any) -> Spec:
        """Return the model that the parameters describe; derived classes add what theirs has `more`."""
        parameters = self.get_params(deep=False)
        options = {name: value for name, value in parameters.items() if name in OPTIONS}
        return make_spec(self.model, **(options | more))

    def _check_learn(self, X: Any, y: Any, times: Any, reset: bool) -> Rows:
        """Check the rows to learn from; nothing but the names of the features changes."""
        return check_rows(self, X, y, times, learner=None if reset else self._learner)

    def _prepare(self, X: Any, y: Any, times: Any, reset: bool) -> Rows:
        """Return rows with targets as the learner takes them; with `reset`, of a stream that begins."""
        return self._check_learn(X, MissingCodes.of(self.missing_values).blank(unmasked(y)), times, reset)

    def _names(self) -> list[str]:
        """Return names of the targets; of labels and grades, of each of these."""
        return [f"y{e}" for e in range(self._learner.num_outputs)]

    def _tests_for_alarms(self, outputs: int, rate: float = RATE) -> Alarms:
        """Return the tests for changes that go on, or new ones of this rate for so many targets."""
        if self._alarms is not None and self.__sklearn_is_fitted__() and self._alarms.rate == rate:
            return self._alarms
        spec = self._make_spec()
        return new_alarms(spec.task, [f"y{e}" for e in range(outputs)], spec.horizon, rate)

    def _collected(self, parts: list[ScoredRows], metrics: dict[str, Any], given: Given) -> Any:
        """Return the result of `evaluate`."""
        return collect(parts, metrics, self._learner, given, self._single)

    def _fit(self, rows: Rows) -> Self:
        """Forget everything, and learn."""
        self._start(rows, warmup_for(rows))
        self._learn(rows)
        return self

    def _partial_fit(self, rows: Rows) -> Self:
        """Begin, if nothing was learnt yet, and learn."""
        if not self.__sklearn_is_fitted__():
            self._start(rows, DEFAULT_WARMUP)
        self._learn(rows)
        return self

    def _start(self, rows: Rows, default_warmup: int, delay: int = 0) -> None:
        spec = self._make_spec()
        least = MIN_WARMUP + rows.X.shape[1] + spec.num_past(rows.y.shape[1])
        settings = StreamSettings(
            spec,
            num_inputs=rows.X.shape[1],
            num_outputs=rows.y.shape[1],
            warmup=max(default_warmup, least) if self.warmup is None else _checked_warmup(self.warmup, least),
            seed=seed_of(self.random_state),
            timed=rows.times is not None,
            delay=delay,
            categories=rows.columns.unknown(rows.X.shape[1] - spec.exposure),
        )
        self._learner = new_learner(settings, self._classes_at_start)
        self._columns, self._pace = rows.columns, rows.pace
        self._single, self._late, self._alarms = rows.single, None, None
        self._access.warned_of_warmup = False
        self.skipped_rows_ = 0

    def _learn(self, rows: Rows) -> None:
        was_warm = self._learner.is_warmed_up
        self._learn_rows(rows)
        if not was_warm and self._learner.is_warmed_up:
            warn_of_codes(self._learner, column_names(self), self._names())
        self.skipped_rows_ += rows.skipped

    def _predict(self, X: Any, times: Any) -> Any:
        self._check_fitted()
        X, times = check_inputs(self, X, times, self._learner)
        self._warn_if_early(len(X))
        return self._predict_next(X, times)

    def _warn_if_early(self, rows: int) -> None:
        """Warn of predictions, of so many rows, that may not be what was wanted."""
        warn_if_early(self._learner, self._access, rows)

    def _prediction(self, predictive: Any) -> Prediction:
        """Return what users ask about."""
        return Prediction(predictive, self._single, (self._learner.settings.seed, self._learner.rows))


def portable_params(estimator: "StreamEstimator") -> dict[str, Any]:
    """Return the parameters of an estimator that hold on any machine."""
    return {name: value for name, value in estimator.get_params().items() if name != "device"}


def _checked_warmup(warmup: Any, least: int) -> int:
    if whole_number("warmup", warmup) < least:
        raise ValueError(
            f"warmup: expected at least {least} rows, {MIN_WARMUP} and one for each input, got {warmup}: bands "
            f"from fewer would mean nothing; leave warmup out for a length that suits the data"
        )
    return int(warmup)


def default_warmup(rows: int) -> int:
    """Return 1,000 rows, or of a data set shorter than 5,000 a fifth, but then 50 rows where there are so many."""
    return min(DEFAULT_WARMUP, max(rows // 5, min(SHORT_WARMUP, rows), 1))


def warmup_for(rows: Rows) -> int:
    """Return `default_warmup` of the rows that can be learnt, of which there must be one."""
    labelled = int(np.isfinite(rows.y).all(axis=1).sum())
    if not len(rows.X):
        why = "" if rows.fault is None else f"; {rows.fault}"
        raise ValueError(f"X, y: expected a row without NaN or infinity, but all {rows.given} have some{why}")
    if not labelled:
        raise ValueError(f"y: expected a row with a finite target, but all {rows.given} are without")
    return default_warmup(labelled)
