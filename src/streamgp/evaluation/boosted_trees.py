"""LightGBM along the stream, with error bars by its own last errors: a baseline for those who ask for it.

It is what many would use instead of a model that learns on: boosted trees, fitted anew to the last rows every 500,
with the same inputs and past targets, and of times all cycles of the calendar. Its bands are split-conformal ones
(`streamgp.evaluation.baseline_bands`): the errors behind them are of rows that the trees had not seen when they
predicted them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.evaluation.baseline_bands import BaselineBands
from streamgp.evaluation.metrics.judgement import Judgement, PairedLosses
from streamgp.evaluation.running_sums import Moments, PointErrors
from streamgp.stream.categories import Categories
from streamgp.table.calendar import CYCLES, calendar_columns

NAME = "lightgbm"
EVERY, KEPT = 500, 10_000  # rows after which trees are fitted anew, and to how many of the last
_SETTINGS = {"num_threads": 1, "seed": 0, "deterministic": True, "verbosity": -1}
_TREES = 100


def with_clock(X: Float[np.ndarray, "n d"], categories: Categories) -> Float[np.ndarray, "n w"]:
    """Return rows with the calendar of their times beside them: trees cannot tell the hour from seconds."""
    entries = [*CYCLES, *(entry for entry in categories.entries if entry not in CYCLES)]
    return np.concatenate([X, *(calendar_columns(X[:, i], entries) for i in categories.dates)], axis=1)


def lightgbm_package() -> Any:
    """Return the package, or raise ValueError where it is not installed."""
    try:
        import lightgbm
    except ImportError as error:
        raise ValueError(
            "baselines: expected LightGBM to be installed, found none: pip install 'streamgp[lightgbm]'"
        ) from error
    return lightgbm


class BoostedTrees:
    """LightGBM refitted to the last rows, its errors and its bands, in constant memory.

    The first trees are of the first half of the warm-up, so that the other half gives errors for bands; then they are
    fitted anew at its end and every `EVERY` rows.

    Parameters
    ----------
    targets
        How many there are; each has trees of its own.
    warmup
        So many rows with a target come first and are not scored.
    known
        How many rows after its prediction a target is known.
    """

    def __init__(self, targets: int, warmup: int, known: int) -> None:
        self._warmup, self._known = warmup, max(known, 1)
        self._rows = 0
        self._X: np.ndarray | None = None  # the inputs of the last rows
        self._y = np.full((0, targets), np.nan)
        self._boosters: list[Any] = [None] * targets
        self._backs: list[int] = []  # after how many rows targets are inputs of the trees
        self._came = np.zeros(targets, np.int64)
        self._scored = [Moments() for _ in range(targets)]
        self._errors = [PointErrors() for _ in range(targets)]
        self._bands = [BaselineBands(self._known - 1) for _ in range(targets)]
        self._paired = [PairedLosses((NAME,)) for _ in range(targets)]

    def add(
        self,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n e"],
        ours: Float[np.ndarray, "n e"],
        lags: Sequence[int],
        flagged: Bool[np.ndarray, " n"] | None = None,
    ) -> None:
        """Predict the next rows, score that, and learn them; targets may be missing.

        Parameters
        ----------
        X, y
            The rows.
        ours
            The model's predictions of them, to which those of the trees are compared.
        lags
            The past targets that the model has as inputs since the end of its warm-up; none before.
        flagged
            Which rows the model set aside as outliers.
        """
        at, backs = 0, [lag if lag >= self._known else lag + self._known - 1 for lag in lags]
        keep = -KEPT - max(backs, default=0) - self._known
        while at < len(X):
            part = slice(at, min(len(X), at + self._until_fit()))
            mean = self._predict(X[part], y[part])
            self._score(y[part], mean, ours[part], None if flagged is None else flagged[part])
            self._X = (X[part] if self._X is None else np.concatenate([self._X, X[part]]))[keep:]
            self._y = np.concatenate([self._y, y[part]])[keep:]
            self._rows += part.stop - at
            at = part.stop
            since = self._rows - self._warmup
            if since >= 0 and since % EVERY == 0:
                self._fit(backs)
            elif self._rows == self._warmup // 2:  # lags are chosen at the end of the warm-up
                self._fit([])

    def _until_fit(self) -> int:
        """Return after how many rows trees are fitted next."""
        if self._rows < self._warmup // 2:
            return self._warmup // 2 - self._rows
        if self._rows < self._warmup:
            return self._warmup - self._rows
        return EVERY - (self._rows - self._warmup) % EVERY

    def _predict(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return what the trees say of the next rows; NaN before there are any."""
        inputs = _inputs(X, y, self._y[len(self._y) - min(max(self._backs, default=0), len(self._y)) :], self._backs)
        mean = np.full(y.shape, np.nan)
        for e, booster in enumerate(self._boosters):
            if booster is not None:
                mean[:, e] = booster.predict(inputs)
        return mean

    def _fit(self, backs: Sequence[int]) -> None:
        """Fit trees to the rows kept whose targets are known by now, of two targets at least."""
        assert self._X is not None
        lightgbm, self._backs = lightgbm_package(), list(backs)
        known = slice(max(len(self._y) - self._known + 1 - KEPT, 0), max(len(self._y) - self._known + 1, 0))
        inputs, y = _inputs(self._X, self._y, self._y[:0], backs)[known], self._y[known]
        for e in range(y.shape[1]):
            there = np.isfinite(y[:, e])
            if there.sum() > 1:
                data = lightgbm.Dataset(inputs[there], y[there, e], params={"verbosity": -1})
                self._boosters[e] = lightgbm.train(_SETTINGS, data, _TREES)

    def _score(self, y: np.ndarray, mean: np.ndarray, ours: np.ndarray, flagged: np.ndarray | None) -> None:
        for e in range(y.shape[1]):
            there = np.isfinite(y[:, e])
            scored = there & (self._came[e] + np.cumsum(there) > self._warmup)
            self._came[e] += there.sum()
            self._scored[e] = self._scored[e].add(y[scored, e])
            error = mean[:, e] - y[:, e]
            self._errors[e].add(error[scored])
            self._bands[e].add(-error, scored)
            losses = np.square(np.stack([ours[:, e] - y[:, e], error], axis=1))
            self._paired[e].add(losses[scored], None if flagged is None else flagged[scored])

    def join(self, found: dict[str, Any]) -> None:
        """Add the scores of the trees, and the judgement beside them, to those of a run and of its targets."""
        for e, scores in enumerate([found] if len(self._errors) == 1 else found["per_target"].values()):
            n = self._scored[e].count
            own = self._errors[e].result(self._scored[e].m2 / n if n else 0.0) | self._bands[e].result()
            beside = Judgement.from_json(scores["judgement"])
            joined = beside.joined(self._paired[e].judgement(beside.score)).to_json()
            for each in (scores, *([found] if e == 0 else [])):
                each["naive"] = each["naive"] | {NAME: own}
                each["judgement"] = joined

    def to_tree(self) -> dict[str, Any]:
        """Return everything for a checkpoint; trees are text."""
        return {
            "warmup": self._warmup,
            "known": self._known,
            "rows": self._rows,
            "X": None if self._X is None else self._X.copy(),
            "y": self._y.copy(),
            "boosters": [None if each is None else each.model_to_string() for each in self._boosters],
            "backs": list(self._backs),
            "came": self._came.copy(),
            "scored": [list(each) for each in self._scored],
            "errors": [dict(vars(each)) for each in self._errors],
            "bands": [each.to_tree() for each in self._bands],
            "paired": [each.to_tree() for each in self._paired],
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "BoostedTrees":
        """Restore what `to_tree` stored."""
        found = cls(tree["y"].shape[1], tree["warmup"], tree["known"])
        found._rows, found._X, found._y = tree["rows"], tree["X"], tree["y"]
        texts = tree["boosters"]
        found._boosters = [None if text is None else lightgbm_package().Booster(model_str=text) for text in texts]
        found._backs, found._came = list(tree["backs"]), tree["came"].copy()
        found._scored = [Moments(*each) for each in tree["scored"]]
        for errors, stored in zip(found._errors, tree["errors"], strict=True):
            vars(errors).update(stored)
        found._bands = [BaselineBands.from_tree(each) for each in tree["bands"]]
        found._paired = [PairedLosses.from_tree(each) for each in tree["paired"]]
        return found


def _inputs(X: np.ndarray, y: np.ndarray, past: np.ndarray, backs: Sequence[int]) -> np.ndarray:
    """Return the inputs of rows: columns, then the targets of so many rows before, NaN before the first of `past`."""
    every, each = np.concatenate([past, y]), [X]
    for back in backs:
        shifted = np.concatenate([np.full((back, y.shape[1]), np.nan), every])
        each.append(shifted[len(past) : len(past) + len(y)])
    return np.concatenate(each, axis=1)
