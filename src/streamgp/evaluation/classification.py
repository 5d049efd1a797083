"""Scores of predicted class labels: row by row, and summed up over a stream in constant memory."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.metrics.judgement import Judgement, PairedLosses
from streamgp.evaluation.rankings import Rankings
from streamgp.evaluation.running_sums import ScoresInSums
from streamgp.numerics.arrays import AnyArray

ECE_BINS = 15

Codes = Int[np.ndarray, " n"]


@runtime_checkable
class ClassPredictive(Protocol):
    """A prediction of n labels, each the code of one of J classes."""

    def probabilities(self) -> Any:
        """Return the probability of each class, (n, J)."""
        ...

    def log_density(self, y: Any) -> Any:
        """Return the log probability (n,) of the codes `y` (n, 1)."""
        ...


class ClassificationScores(NamedTuple):
    """The scores of every row; a label has the code of its class, and `predicted` is the most probable one.

    A code beyond the columns of `probabilities` is that of a class that no row had before. Such a label counts as an
    error. The Brier score takes its class to have had probability 0, which adds 1. `log_density` takes its
    probability to have been 1 / (n + 2) after n rows, by Laplace's rule of succession for what never came.
    """

    y: Codes
    probabilities: Float[np.ndarray, "n j"]
    predicted: Codes
    log_density: Float[np.ndarray, " n"]
    brier: Float[np.ndarray, " n"]


def score_classification(predictive: ClassPredictive, y: Float[AnyArray, "n 1"], seen: int) -> ClassificationScores:
    """Score predictions of n rows against the codes of their labels; `seen` rows came before the first of them."""
    probabilities = np.asarray(predictive.probabilities())
    codes = as_codes(y)
    known = np.minimum(codes, probabilities.shape[1] - 1)
    log_density = np.asarray(predictive.log_density(known[:, None].astype(np.float64)))
    return _scores(probabilities, log_density, codes, seen)


def as_codes(y: AnyArray) -> Codes:
    """Turn a column of floats into codes."""
    return np.asarray(y).reshape(-1).astype(np.int64)


def _scores(probabilities: np.ndarray, log_density: np.ndarray, codes: Codes, seen: int) -> ClassificationScores:
    own = codes[:, None] == np.arange(probabilities.shape[1])
    new = codes >= probabilities.shape[1]
    succession = -np.log(seen + 2.0 + np.arange(len(codes)))
    return ClassificationScores(
        codes,
        probabilities,
        probabilities.argmax(axis=1),
        np.where(new, succession, log_density),
        np.square(probabilities - own).sum(axis=1) + new,
    )


class ClassCounts:
    """The number of rows of each class, and the last label: all that the naive baselines use.

    With a horizon h the baselines, like the model, know the labels only up to the row h before.
    """

    def __init__(self, classes: int, horizon: int = 0) -> None:
        self.late = max(horizon, 1) - 1  # labels that have come and are not known yet
        self.counts = np.zeros(classes, np.int64)
        self.last = -1
        self.pending = np.zeros(0, np.int64)

    def add(self, y: Codes, classes: int) -> tuple[Codes, Float[np.ndarray, "n j"]]:
        """Count the next labels; return the baselines' predictions of each, made before it came.

        These are the last label (-1 where there was none), and the probabilities of the first `classes` classes by
        their frequencies, (count + 1) / (n + classes): Laplace's rule.
        """
        joined = np.concatenate([self.pending, y])
        unknown = min(self.late, len(self.pending) + len(y))
        # The number of rows of `joined` whose label is known before each row.
        known = np.maximum(np.arange(len(y)) + len(self.pending) - self.late, 0)
        lasts = np.concatenate([[self.last], joined])
        ones = (joined[:, None] == np.arange(classes)).astype(np.int64)
        base = np.zeros(classes, np.int64)
        held = min(classes, len(self.counts))
        base[:held] = self.counts[:held]
        so_far = base + np.concatenate([np.zeros((1, classes), np.int64), ones.cumsum(axis=0)])[known]
        rows = int(self.counts.sum()) + known
        counted = joined[: len(joined) - unknown]
        self.counts = grown(self.counts, 1 + int(counted.max(initial=-1)))
        self.counts += np.bincount(counted, minlength=len(self.counts))
        self.last = int(lasts[len(counted)])
        self.pending = joined[len(counted) :]
        return lasts[known], (so_far + 1.0) / (rows + classes)[:, None]

    def predict(self, rows: int, classes: int) -> tuple[Codes, Float[np.ndarray, "n j"]]:
        """Repeat, for each of `rows` rows, the predictions that `add` would return for the next label."""
        last, frequencies = ClassCounts.from_tree(self.to_tree()).add(np.zeros(1, np.int64), classes)
        return np.repeat(last, rows), np.repeat(frequencies, rows, axis=0)

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {**vars(self), "counts": self.counts.copy(), "pending": self.pending.copy()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "ClassCounts":
        """Restore the counts that `to_tree` stored."""
        counts = cls(0)
        vars(counts).update(tree)
        counts.counts, counts.pending = tree["counts"].copy(), tree["pending"].copy()
        return counts


class Repeats:
    """How often the label has repeated the last one that was known: that baseline's chance of being right.

    Without a probability it could be compared by no proper score. The other classes share what is left by their
    frequencies.

    Parameters
    ----------
    horizon
        As of `ClassCounts`.
    """

    def __init__(self, horizon: int = 0) -> None:
        # The numbers of rows that do not repeat the last label, and of those that do.
        self._counts = ClassCounts(2, horizon)

    def add(self, y: Codes, last: Codes, frequencies: Float[np.ndarray, "n j"]) -> Float[np.ndarray, "n j"]:
        """Count the next labels; return the probabilities of each, made before it came, NaN where none was known."""
        known = last >= 0
        _, shares = self._counts.add((y == last)[known].astype(np.int64), 2)
        own = np.arange(frequencies.shape[1]) == last[known, None]
        others = np.where(own, 0.0, frequencies[known])
        left = others.sum(axis=1, keepdims=True)
        chance = np.where(left > 0.0, shares[:, 1:], 1.0)
        found = np.full(frequencies.shape, np.nan)
        found[known] = np.where(own, chance, (1.0 - chance) * others / np.where(left > 0.0, left, 1.0))
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return self._counts.to_tree()

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "Repeats":
        """Restore what `to_tree` returned."""
        found = cls()
        found._counts = ClassCounts.from_tree(tree)
        return found


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """Pad an array with zeros to at least `size` entries on every axis."""
    return np.pad(array, [(0, max(0, size - length)) for length in array.shape])


class LabelScores(ScoresInSums):
    """What scores of labels and of grades have in common: the naive baselines, and the judgement beside them.

    Class attributes
    ----------------
    judged
        The score by which the model is judged.
    """

    judged: ClassVar[str]

    def __init__(self, names: Sequence[str], warmup: int, horizon: int, last: str) -> None:
        super().__init__(warmup)
        self._known = ClassCounts(len(names), horizon)
        self._confusion = np.zeros((len(names),) * 2, np.int64)
        # The rows that have a last label.
        self._repeatable = 0
        self._repeats = Repeats(horizon)
        self._paired = PairedLosses((last, "frequencies"))

    def judgements(self) -> list[Judgement]:
        """Return how the model stands beside the baselines."""
        return [self._paired.judgement(self.judged)]

    def to_tree(self) -> dict[str, Any]:
        """Return the running sums for a checkpoint."""
        return super().to_tree() | {name: getattr(self, name).to_tree() for name in ("_repeats", "_paired", "_known")}

    def _restored(self, tree: Mapping[str, Any]) -> Self:
        """Take over the fields of a checkpoint, and return this."""
        self._known = ClassCounts.from_tree(tree["_known"])
        self._repeats = Repeats.from_tree(tree["_repeats"])
        self._paired = PairedLosses.from_tree(tree["_paired"])
        return super()._restored(tree)


class ClassificationMetrics(LabelScores):
    """Scores over the rows after the warm-up, in constant memory.

    error_rate
        Share of rows whose most probable class was not theirs.
    log_loss
        Mean of minus the log probability of the label, in nats.
    brier
        Mean squared distance between the probabilities and the label as a vector of 0 and 1, summed over the classes:
        from 0 to 2 (Brier 1950).
    ece
        Expected calibration error (Guo et al. 2017, Eq. 3): rows in 15 equal bins by the probability of the predicted
        class, its mean in a bin against the share of rows that had that class, weighted by the rows. With two classes
        too it is of the predicted class, not of class 1.
    balanced_error
        One minus the mean, over the classes that occurred, of the recall: the share of a class's rows predicted so.
    roc_auc, average_precision
        Of each class, how well its probability ranks rows: see `Rankings`; and `rarest_class`, which of them had the
        fewest rows.

    Two naive baselines are scored on the same rows: the last label again (which has no probabilities), and the class
    frequencies so far by Laplace's rule (see `ClassCounts`). `judgement` compares log losses, of the last label with
    the share of repeats so far as its probability (see `Repeats`).

    Parameters
    ----------
    classes
        The names of the classes in the order of their codes; append to it when one is new.
    warmup, horizon
        Rows that are not scored; rows ahead of the forecasts.
    """

    judged = "log_loss"
    plain = ("new_class_rows", "_repeated", "_repeatable")
    copied = ("classes", "_confusion", "_sums", "_frequency_sums", "_bins")

    def __init__(self, classes: Sequence[str], warmup: int, horizon: int = 0) -> None:
        super().__init__(classes, warmup, horizon, "last_label")
        self.classes = list(classes)
        # The number of scored rows with a new class.
        self.new_class_rows = 0
        # The sums of minus the log probability, and of the Brier score.
        self._sums = np.zeros(2)
        # For the frequency baseline: the sums of errors, of minus the log probability, and of the Brier score.
        self._frequency_sums = np.zeros(3)
        self._bins = np.zeros((ECE_BINS, 3))  # rows, their confidence, and how many were right
        # The errors of the last label.
        self._repeated = 0
        self._rankings = Rankings(len(self.classes))

    def score(self, predictive: ClassPredictive, y: Float[AnyArray, "n 1"]) -> ClassificationScores:
        """Score the next rows without counting them."""
        return score_classification(predictive, y, self.labelled_rows)

    def add(self, scores: ClassificationScores) -> tuple[Codes, Float[np.ndarray, "n j"]]:
        """Count the next rows; return the last label before each (-1: none) and the probabilities by frequency."""
        y, columns = scores.y, scores.probabilities.shape[1]
        last, frequencies = self._known.add(y, columns)
        with_own = np.take_along_axis(frequencies, np.minimum(y, columns - 1)[:, None], axis=1)[:, 0]
        baseline = _scores(frequencies, np.log(with_own), y, self.labelled_rows)
        repeating = self._repeats.add(y, last, frequencies)
        of_last = np.take_along_axis(repeating, np.minimum(y, columns - 1)[:, None], axis=1)[:, 0]
        again = _scores(repeating, np.log(of_last), y, self.labelled_rows)
        score = slice(max(0, self.warmup - self.labelled_rows), None)
        self._paired.add(-np.stack([each.log_density[score] for each in (scores, again, baseline)], axis=1))
        self.rows += len(y)
        y, predicted, last_scored = y[score], scores.predicted[score], last[score]
        self.new_class_rows += int(np.sum(y >= columns))
        self._rankings.add(scores.probabilities[score], y)
        self._confusion = grown(self._confusion, max(columns, 1 + int(y.max(initial=-1))))
        np.add.at(self._confusion, (y, predicted), 1)
        self._sums += [-scores.log_density[score].sum(), scores.brier[score].sum()]
        wrong = baseline.predicted[score] != y
        self._frequency_sums += [wrong.sum(), -baseline.log_density[score].sum(), baseline.brier[score].sum()]
        self._repeatable += int(np.sum(last_scored >= 0))
        self._repeated += int(np.sum((last_scored >= 0) & (last_scored != y)))
        confidence = scores.probabilities[score].max(axis=1)
        bins = np.clip(np.ceil(confidence * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
        np.add.at(self._bins, bins, np.stack([np.ones(len(y)), confidence, predicted == y], axis=1))
        return last, frequencies

    def add_unlabelled(self, scores: ClassificationScores) -> tuple[Codes, Float[np.ndarray, "n j"]]:
        """Count rows whose target is missing, which are not scored; return the baselines' predictions of them."""
        self.pass_over(len(scores.y))
        return self._known.predict(len(scores.y), len(self.classes))

    def result(self) -> dict[str, Any]:
        """Return all scores, and the confusion counts: a row for each true class, a column for each predicted one."""
        n = self.scored_rows
        _, confidence, right = self._bins.T
        size = max(len(self.classes), len(self._confusion))
        confusion = grown(self._confusion, size)
        names = [*self.classes, *map(str, range(len(self.classes), size))]
        counts, hits = confusion.sum(axis=1), confusion.diagonal()
        recall = np.divide(hits, counts, out=np.full(size, np.nan), where=counts > 0)
        ranked = dict(zip(names, self._rankings.result(), strict=False))  # a class may have come with the last row
        occurred = [i for i in np.argsort(counts, kind="stable").tolist() if counts[i]]
        return {
            **self.counts(),
            "error_rate": 1.0 - int(hits.sum()) / n if n else None,
            "log_loss": float(self._sums[0]) / n if n else None,
            "brier": float(self._sums[1]) / n if n else None,
            "ece": float(np.abs(confidence - right).sum()) / n if n else None,
            "balanced_error": 1.0 - float(np.nanmean(recall)) if n else None,
            "classes": names,
            "recall": {name: None if np.isnan(r) else float(r) for name, r in zip(names, recall, strict=True)},
            "roc_auc": {name: ranked.get(name, (None, None))[0] for name in names},
            "average_precision": {name: ranked.get(name, (None, None))[1] for name in names},
            "rarest_class": names[occurred[0]] if len(occurred) > 1 else None,
            "confusion": confusion.tolist(),
            "new_class_rows": self.new_class_rows,
            "naive": {
                "last_label": {"error_rate": self._repeated / self._repeatable if self._repeatable else None},
                "frequencies": {
                    name: float(total) / n if n else None
                    for name, total in zip(("error_rate", "log_loss", "brier"), self._frequency_sums, strict=True)
                },
            },
        }

    def to_tree(self) -> dict[str, Any]:
        """Return the running sums for a checkpoint."""
        return super().to_tree() | {"_rankings": self._rankings.to_tree()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "ClassificationMetrics":
        """Restore the metrics that `to_tree` stored."""
        metrics = cls(tree["classes"], tree["warmup"])._restored(tree)
        metrics._rankings = Rankings.from_tree(tree["_rankings"])
        return metrics
