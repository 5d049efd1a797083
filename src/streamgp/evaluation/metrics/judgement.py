"""Judgement of a model against baselines, by paired losses along a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, inf, isfinite
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from streamgp.evaluation.metrics.paired import LEAST_ROWS, paired_interval

# The coverage of the intervals.
COVERAGE = 0.95
# The losses are kept as sums over so many batches of consecutive rows.
BATCHES = 512

Verdict = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class Against:
    """A model beside one baseline, on the same rows.

    Attributes
    ----------
    baseline
        Its name.
    loss
        Its mean loss.
    skill
        The share of that loss which the model saves: 1 where it loses nothing, below 0 where it loses more. None
        where the baseline loses nothing, or a loss is not finite.
    low, high
        The ends of the interval of `skill`; None where that is None, or the rows are too few for one.
    verdict
        ``better`` if the interval lies above 0; ``worse`` if it lies below, or if the baseline loses nothing where
        the model does, or the model's loss alone is not finite; else ``undecided``.
    """

    baseline: str
    loss: float | None
    skill: float | None
    low: float | None
    high: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Judgement:
    """A model beside each of its baselines, by one proper score: what every page and table words.

    Attributes
    ----------
    score
        The loss: ``squared_error``, ``log_loss`` or ``rps``.
    rows
        Those that the model and all baselines predicted, after the warm-up.
    loss
        The model's mean loss; None without a row, or where it is not finite.
    against
        The baselines, the one that loses least first.
    unflagged
        The same without the rows that were flagged as outliers; None where none was.
    """

    score: str
    rows: int
    loss: float | None
    against: tuple[Against, ...]
    unflagged: "Judgement | None" = None

    @property
    def best(self) -> Against | None:
        """Return the model beside the best baseline; None where there is none."""
        return self.against[0] if self.against else None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict beside the best baseline."""
        return self.against[0].verdict if self.against else "undecided"

    def joined(self, other: "Judgement") -> "Judgement":
        """Return the judgement beside the baselines of both, of the same model on the same rows; else this one."""
        if other.rows != self.rows:
            return self
        both, usual = sorted([*self.against, *other.against], key=_by_loss), self.unflagged
        if usual is not None and other.unflagged is not None:
            usual = usual.joined(other.unflagged)
        return replace(self, against=tuple(both), unflagged=usual)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of ``metrics.json``: those of the best baseline, and of each under ``against``."""
        own = dict.fromkeys(("baseline", "skill", "low", "high")) if self.best is None else asdict(self.best)
        return {
            "score": self.score,
            "rows": self.rows,
            "coverage": COVERAGE,
            "verdict": self.verdict,
            **{name: own[name] for name in ("baseline", "skill", "low", "high")},
            "loss": self.loss,
            "against": {
                each.baseline: {k: v for k, v in asdict(each).items() if k != "baseline"} for each in self.against
            },
            "unflagged": None if self.unflagged is None else self.unflagged.to_json(),
        }

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> "Judgement":
        """Return the judgement that `to_json` wrote."""
        return cls(
            entries["score"],
            entries["rows"],
            entries["loss"],
            tuple(Against(name, **each) for name, each in entries["against"].items()),
            None if entries["unflagged"] is None else cls.from_json(entries["unflagged"]),
        )


class PairedLosses:
    """The losses of a model and of its baselines on the same rows, as sums of batches: a state of fixed size.

    A batch has one row, then two, four, ... as rows come; there are never more than 512, and from the 257th row on
    never fewer than 257. The sums are the same in whatever chunks the rows come.

    Parameters
    ----------
    baselines
        Their names, any number of them.
    """

    def __init__(self, baselines: Sequence[str]) -> None:
        self.baselines = tuple(baselines)
        # The numbers of all rows, and of those not flagged.
        self._rows = np.zeros(2, np.int64)
        # The number of rows of a batch.
        self._size = 1
        # The sums of the losses of all rows and of those not flagged, by predictor.
        self._sums = np.zeros((2, 1 + len(self.baselines), BATCHES))

    def add(self, losses: Float[np.ndarray, "n k"], flagged: Bool[np.ndarray, " n"] | None = None) -> None:
        """Take in the next rows: the losses of the model, then of each baseline; a row where one is NaN is left out.

        `flagged` marks those that the model set aside as outliers.
        """
        whole = ~np.isnan(losses).any(axis=1)
        losses = losses[whole]
        usual = np.ones(len(losses), bool) if flagged is None else ~flagged[whole]
        at = 0
        while at < len(losses):
            if self._rows[0] == BATCHES * self._size:
                self._sums[..., : BATCHES // 2] = self._sums[..., ::2] + self._sums[..., 1::2]
                self._sums[..., BATCHES // 2 :] = 0.0
                self._size *= 2
            some = slice(at, at + int(BATCHES * self._size - self._rows[0]))
            taken, kept = losses[some], usual[some]
            batch = (self._rows[0] + np.arange(len(taken))) // self._size
            for number, picked in enumerate((np.ones(len(taken), bool), kept)):
                # `np.add.at` adds repeated indices one after the other.
                np.add.at(self._sums[number].T, batch[picked], taken[picked])
                self._rows[number] += int(picked.sum())
            at += len(taken)

    def judgement(self, score: str) -> Judgement:
        """Return what there is to say by now, of losses with this name."""
        batches = -(-int(self._rows[0]) // self._size)
        all_rows, usual = (
            _judgement(score, self.baselines, int(rows), sums[:, :batches])
            for rows, sums in zip(self._rows, self._sums, strict=True)
        )
        return all_rows if self._rows[0] == self._rows[1] else _with_unflagged(all_rows, usual)

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "baselines": list(self.baselines),
            "rows": self._rows.copy(),
            "size": self._size,
            "sums": self._sums.copy(),
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "PairedLosses":
        """Restore the state that `to_tree` returned."""
        found = cls(tree["baselines"])
        found._rows, found._size, found._sums = tree["rows"].copy(), tree["size"], tree["sums"].copy()
        return found


def judge(
    score: str,
    losses: Mapping[str, Float[np.ndarray, " n"]],
    flagged: Bool[np.ndarray, " n"] | None = None,
) -> Judgement:
    """Return the judgement of rows that are all at hand: the losses of the model first, then of each baseline."""
    _, *baselines = losses
    paired = PairedLosses(baselines)
    paired.add(np.stack(list(losses.values()), axis=1), flagged)
    return paired.judgement(score)


def verdict_of(low: float | None, high: float | None) -> Verdict:
    """Return the verdict of an interval of what is saved."""
    if low is None or high is None:
        return "undecided"
    return "better" if low > 0.0 else "worse" if high < 0.0 else "undecided"


def _with_unflagged(all_rows: Judgement, usual: Judgement) -> Judgement:
    return Judgement(all_rows.score, all_rows.rows, all_rows.loss, all_rows.against, usual)


def _judgement(score: str, baselines: Sequence[str], rows: int, sums: Float[np.ndarray, "k b"]) -> Judgement:
    """Return the judgement of so many rows from the sums of their batches."""
    if not rows:
        return Judgement(score, 0, None, ())
    ours, *theirs = sums
    against = [_against(name, ours, of, rows) for name, of in zip(baselines, theirs, strict=True)]
    against.sort(key=_by_loss)
    return Judgement(score, rows, _finite(float(ours.sum()) / rows), tuple(against))


def _by_loss(each: Against) -> float:
    return inf if each.loss is None else each.loss


def _against(name: str, ours: Float[np.ndarray, " b"], theirs: Float[np.ndarray, " b"], rows: int) -> Against:
    """Compare a model with one baseline, by the sums of their losses over batches of rows.

    The interval is that of the ratio of the two mean losses, on the scale of its log, so that no more than all is
    ever saved: the relative error of the ratio r is that of the mean of ``ours - r * theirs``, to the first order,
    and neighbouring batches may share their errors (`streamgp.evaluation.metrics.paired_interval`).
    """
    own, other = float(ours.sum()), float(theirs.sum())
    loss, enough = _finite(other / rows), rows >= LEAST_ROWS
    if loss is None or not isfinite(own) or other <= 0.0:
        lost = enough and loss is not None and own > 0.0
        return Against(name, loss, None, None, None, "worse" if lost else "undecided")
    ratio = own / other
    if not enough:
        return Against(name, loss, 1.0 - ratio, None, None, "undecided")
    ends = (0.0, 0.0) if own == 0.0 else paired_interval(ours, ratio * theirs, COVERAGE)[1:]
    mean = own / len(ours) or 1.0
    low, high = (1.0 - ratio * exp(min(end / mean, 700.0)) for end in (ends[1], ends[0]))
    return Against(name, loss, 1.0 - ratio, low, high, verdict_of(low, high))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
