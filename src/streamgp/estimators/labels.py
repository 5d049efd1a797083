"""Labels and their codes: numbers from 0 in the order in which the labels became known."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamgp.estimators.access import alone
from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.explanations import Explanation, explanation, importance, inputs_of
from streamgp.estimators.late import Later
from streamgp.estimators.result import ClassificationEvaluation, collect_classification
from streamgp.estimators.scikit import as_column
from streamgp.estimators.shown import Given
from streamgp.estimators.single import as_table, in_order
from streamgp.estimators.validation import Rows, check_one
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.precision import float64
from streamgp.stream.tasks import indicators
from streamgp.table.codes import MissingCodes
from streamgp.table.containers import is_missing, to_array, unmasked
from streamgp.table.given import shown

_WHOLE = 1 << 64  # NumPy has no whole numbers from this on


@register
@dataclass(frozen=True)
class Labels:
    """The labels known so far.

    Attributes
    ----------
    names
        The labels by code.
    dtype
        That of the array in which they came.
    """

    names: tuple[Any, ...] = ()
    dtype: str = "float64"

    @classmethod
    def sorted_from(cls, y: np.ndarray) -> "Labels":
        """Return the different labels of an array, in ascending order, without missing ones."""
        present = y[~missing(y)]
        return cls(tuple(np.unique(present).tolist()), _name(y.dtype))

    @property
    def array(self) -> np.ndarray:
        """Return the labels in an array of their type."""
        return np.asarray(self.names, dtype=self.dtype)

    def encode(self, y: np.ndarray) -> tuple[np.ndarray, "Labels"]:
        """Return the code of each label, NaN where it is missing, and the labels with the new ones, as they came."""
        absent = missing(y)
        if self.names and not absent.all() and _is_text(self.array) != _is_text(y):
            old, new = (("numbers", "text"), ("text", "numbers"))[_is_text(self.array)]
            raise ValueError(f"y: expected labels that are {old}, as before, got {new}; turn them into {old}")
        codes = dict(zip(self.names, range(len(self.names)), strict=True))
        found = [
            np.nan if gone else codes.setdefault(label, len(codes))
            for label, gone in zip(y.tolist(), absent, strict=True)
        ]
        # Text keeps the width of its longest label.
        dtype = _name(np.promote_types(self.dtype, y.dtype)) if self.names else _name(y.dtype)
        return np.asarray(found, dtype=np.float64), Labels(tuple(codes), dtype)

    def admit(self, rows: Rows, others: "Labels") -> tuple[Rows, "Labels"]:
        """Return the rows coded anew, and the labels with those of `others` (beginning with these) that they have."""
        present = ~np.isnan(rows.y[:, 0])
        codes = rows.y[present, 0].astype(int)
        new = dict.fromkeys(codes[codes >= len(self.names)].tolist())
        renumbered = dict(zip(new, range(len(self.names), len(self.names) + len(new)), strict=True))
        y = rows.y[:, 0].copy()
        y[present] = [renumbered.get(code, code) for code in codes.tolist()]
        names = (*self.names, *(others.names[code] for code in new))
        return rows._replace(y=y[:, None]), Labels(names, others.dtype)


class LabelEstimator(StreamEstimator):
    """What the estimators of labels and of grades share: their targets are codes of `_labels`."""

    _labels: Labels

    def _as_labels(self, y: Any) -> np.ndarray:
        """Return `as_labels`, of which codes for missing values are missing."""
        return as_labels(MissingCodes.of(self.missing_values).blank(unmasked(y)), self.missing != "raise")

    @alone
    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """Return the probability of every class or grade of `classes_` for each row, (n, K); rows sum to one."""
        predictive = self._predict(X, times)
        with float64():
            return predictive.probabilities()

    @alone
    def predict_proba_one(self, x: Any, time: Any = None) -> dict[Any, float]:
        """Return the probability of every class or grade for one row, (D,) or a dictionary of features."""
        found = self.predict_proba(as_table(self, x), None if time is None else [time])[0]
        return dict(zip(self._labels.array[: len(found)].tolist(), found.tolist(), strict=True))

    @alone
    def predict_one(self, x: Any, time: Any = None) -> Any:
        """Return the label that `predict` gives one row, (D,) or a dictionary by the names of the features."""
        return self.predict(as_table(self, x), times=None if time is None else [time])[0]

    @alone
    def learn_one(self, x: Any, y: Any, time: Any = None) -> Self:
        """Learn from one row: its inputs (D,), or a dictionary by the names of the features, and its label."""
        return self.partial_fit(as_table(self, x), [y], times=None if time is None else [time])

    @alone
    def feature_importance(self) -> dict[str, float]:
        """Return the share of the labels' variance that predictions take from each input, the largest first.

        The variance is that of the labels' indicators, summed up; predictions are the probabilities. Shares are
        between 0 and 1 and sum to at most 1; the rest is chance, as the model has it. For the rest see
        `StreamingGPRegressor.feature_importance`.

        Raises
        ------
        ValueError
            If X has no columns, or fewer than 2 rows were learnt.
        """
        self._check_fitted()
        return importance(self._learner, inputs_of(self))

    @alone
    def explain(self, x: Any, time: Any = None, label: Any = None) -> Explanation:
        """Return what each input of a row contributes to the probability of a label.

        Together with the base the contributions are the probability: see `StreamingGPRegressor.explain`.

        Parameters
        ----------
        x
            The inputs, shape (D,), or a dictionary by the names of the features.
        time
            The row's time stamp, on a stream that has them.
        label
            One of `classes_`; by default what `predict_one` gives the row.

        Raises
        ------
        ValueError
            As `predict_one` does; of a label that is not known; or if X has no columns, or fewer than 2 rows were
            learnt.
        """
        self._check_fitted()
        known = list(self.predict_proba_one(x, time))
        label = self.predict_one(x, time) if label is None else label
        if np.ndim(label) or label not in known:
            raise ValueError(f"label: expected one of {', '.join(map(repr, known))}, got {label!r}")
        at = known.index(label)
        row = check_one(self, in_order(self, x, time), time)

        def of_label(predictive: Any) -> tuple[np.ndarray, np.ndarray]:
            mean, variance = indicators(predictive)
            return mean[:, [at]], variance[:, [at]]

        return explanation(self._learner, row, inputs_of(self), True, of_label)

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Return a label for each row."""
        raise NotImplementedError

    def partial_fit(self, X: Any, y: Any, times: Any = None) -> Self:
        """Learn from rows."""
        raise NotImplementedError

    def _token(self, row: int, predictive: Any) -> Later:
        with float64():
            return Later(row, probabilities=np.asarray(predictive.probabilities()[0]))

    def _names(self) -> list[str]:
        return [str(label) for label in self._labels.names]

    def _collected(self, parts: list[ScoredRows], metrics: dict[str, Any], given: Given) -> ClassificationEvaluation:
        return collect_classification(parts, metrics, self._learner, given, self._labels.array)

    def _more_to_store(self) -> dict[str, Any]:
        return {"labels": self._labels}

    def _restore(self, tree: dict[str, Any]) -> None:
        self._labels = tree["labels"]


def _is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "OUS"


def _name(dtype: np.dtype) -> str:
    return np.dtype(dtype).str


def as_labels(y: Any, skip: bool) -> np.ndarray:
    """Return labels (n,) of one kind, text or numbers; of which some may be missing if rows are to be skipped.

    Raises
    ------
    ValueError
        If there are both, something else, or none where there must be one.
    """
    y = unmasked(y)
    labels = as_column(y)
    if labels.dtype.kind in "US" and isinstance(y, list | tuple):  # NumPy has turned numbers into text
        labels = np.asarray(y, dtype=object).reshape(-1)
    elif labels.dtype.kind == "U" and not isinstance(y, np.ndarray):
        labels = to_array(list(y)).reshape(-1)
    if labels.dtype.kind == "O":
        row = next((i for i, label in enumerate(labels) if np.ndim(label)), None)
        if row is not None:
            raise ValueError(f"y: expected text or a number for a label, got {shown(labels[row])} at row {row}")
    absent = missing(labels)
    if absent.any() and not skip:
        row = int(np.argmax(absent))
        raise ValueError(
            f"y: expected a label in every row, got {labels.tolist()[row]} at row {row}; give it one, or skip such "
            f"rows with missing='skip'"
        )
    if labels.dtype.kind != "O":
        return labels
    first: dict[str, int] = {}
    for row in np.flatnonzero(~absent).tolist():
        first.setdefault(_kind(labels[row]), row)
    if len(first) > 1:
        (one, i), (other, j), *_ = first.items()
        raise ValueError(
            f"y: expected labels of one kind, got {shown(labels[i])} ({one}) at row {i} and {shown(labels[j])} "
            f"({other}) at row {j}; turn all of them into text, or all into numbers"
        )
    if "a number" in first:
        large = [row for row, label in enumerate(labels) if isinstance(label, int) and abs(label) >= _WHOLE]
        if large:
            raise ValueError(
                f"y: expected labels that are text or whole numbers below 2^64, got {shown(labels[large[0]])} at row "
                f"{large[0]}; turn all of them into text"
            )
        return np.asarray([np.nan if gone else label for label, gone in zip(labels.tolist(), absent, strict=True)])
    return labels


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    return "a number" if isinstance(label, bool | int | float | np.bool_ | np.number) else type(label).__name__


def missing(y: np.ndarray) -> np.ndarray:
    """Return True for None and for numbers that are not finite."""
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    if y.dtype.kind == "O":
        return np.asarray([is_missing(label) for label in y.tolist()], dtype=bool)
    return np.zeros(len(y), bool)
