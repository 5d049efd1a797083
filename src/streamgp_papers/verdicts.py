"""Verdicts: whether a figure or a statement of a paper holds for our runs, by rules that are printed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import wilcoxon

REPRODUCED, BETTER, WORSE, NOT_COMPARABLE = "reproduced", "better", "worse", "not comparable"
NOT_REPRODUCED, UNDECIDED = "not reproduced", "undecided"

# In nats a row; for a score that is no log density, a share of the paper's figure.
MIN_TOLERANCE = 0.02
# Differences below this share of a score are those of rounding.
ROUNDING = 1e-9
# With fewer trials, the signed-rank test cannot reach its level.
TESTED_FROM = 5
LEVEL = 0.05
RULES = (
    f"A figure is reproduced where our mean lies within the tolerance: two standard deviations of the paper's "
    f"trials, at least {MIN_TOLERANCE:g} nats of a log density or {MIN_TOLERANCE:.0%} of another score, whatever "
    f"our own noise. It is undecided where the standard error of our mean is above half of that, or where the mean "
    f"is less than two standard errors beyond it. Else it is better or worse than the paper's; of a baseline it is "
    f"not reproduced either way.",
    f"A statement is reproduced where a one-sided Wilcoxon signed-rank test over the seeds finds for it at "
    f"{LEVEL:.0%}, not reproduced where it finds for the opposite, else undecided; with fewer than {TESTED_FROM} "
    f"trials all of them must agree. A lemma must hold in every trial.",
    "A statement that scores are close is reproduced where the medians of the models are no further apart than the "
    "limit that stands beside it, which is ours, since the papers state none.",
    "Nothing is comparable on data that stand in for the paper's or have other inputs, on a part of the rows, or "
    "where the paper leaves open what decides.",
)


class Verdict(NamedTuple):
    """A verdict in one of the words above, and the reason."""

    word: str
    why: str


@dataclass(frozen=True)
class Figure:
    """A number that a paper prints, with the standard deviation over its trials where it gives one.

    That of a `baseline` is of a method that the paper compares with, not of its own. `doubt` is why it cannot be
    compared, whatever the data; empty where it can.
    """

    value: float
    std: float = 0.0
    baseline: bool = False
    doubt: str = ""


def higher_is_better(metric: str) -> bool:
    """Check whether higher scores are better: so are log densities, but not errors and regrets."""
    return metric.startswith("pll")


def std_over_trials(values: Sequence[float]) -> float:
    """Compute the standard deviation over the trials; zero where a score is not finite."""
    return float(np.std(values)) if np.isfinite(values).all() and np.ptp(values) else 0.0


def assess_figure(metric: str, ours: Sequence[float], paper: Figure, obstacle: str | None) -> Verdict:
    """Assess our figures, one for each trial, against the paper's; `obstacle` is why they cannot be compared."""
    if reason := obstacle or paper.doubt:
        return Verdict(NOT_COMPARABLE, reason)
    difference = float(np.mean(ours)) - paper.value
    unit = 1.0 if higher_is_better(metric) else abs(paper.value)
    # The standard error of our mean.
    error = std_over_trials(ours) / np.sqrt(len(ours))
    tolerance = max(2.0 * paper.std, MIN_TOLERANCE * unit)
    why = f"{difference:+.3g} ± {error:.2g}, tolerance {tolerance:.2g}"
    if abs(difference) <= tolerance:
        return Verdict(REPRODUCED if error <= 0.5 * tolerance else UNDECIDED, why)
    if abs(difference) <= tolerance + 2.0 * error:
        return Verdict(UNDECIDED, why)
    if paper.baseline:
        return Verdict(NOT_REPRODUCED, why)
    return Verdict(BETTER if (difference > 0) == higher_is_better(metric) else WORSE, why)


def compute_gains(metric: str, ahead: Sequence[float], behind: Sequence[float]) -> np.ndarray:
    """Compute by how much the first is better, seed by seed; by nothing where they differ by rounding."""
    one, other = np.asarray(ahead), np.asarray(behind)
    # Both scores may be infinite.
    differ = (one != other) & ~np.isclose(one, other, rtol=ROUNDING, atol=0.0)
    difference = np.subtract(one, other, out=np.zeros(len(one)), where=differ)
    return difference if higher_is_better(metric) else -difference


def assess_claim(gain: np.ndarray, obstacle: str | None, always: bool = False) -> Verdict:
    """Assess a statement that one model is better than another, from its `gain` in each trial.

    With `always` it must be better, or as good, in every trial.
    """
    if always:
        why = f"in {np.sum(gain >= 0)} of {len(gain)} {'trial' if len(gain) == 1 else 'trials'}"
        holds = bool((gain >= 0).all())
        fails = not holds
    elif len(gain) < TESTED_FROM:
        why = f"{np.sum(gain > 0)} of {len(gain)} {'trial' if len(gain) == 1 else 'trials'}, no test"
        holds, fails = bool((gain > 0).all()), bool((gain < 0).all())
    elif np.count_nonzero(gain) < TESTED_FROM:
        holds, fails, why = False, False, f"no difference in {np.sum(gain == 0)} of {len(gain)} trials"
    else:
        tests: list[Any] = [wilcoxon(gain[gain != 0], alternative=side) for side in ("greater", "less")]
        for_it, against = (float(test.pvalue) for test in tests)
        holds, fails, why = for_it < LEVEL, against < LEVEL, f"p = {for_it:.2g}"
    if obstacle:
        return Verdict(
            NOT_COMPARABLE, f"{obstacle}; here: {'yes' if holds else 'no' if fails else 'undecided'}, {why}"
        )
    return Verdict(REPRODUCED if holds else NOT_REPRODUCED if fails else UNDECIDED, why)


def assess_similarity(values: Sequence[float], within: float, obstacle: str | None) -> Verdict:
    """Assess a statement that scores are close, from one score of each model: they span no more than `within`."""
    span = float(np.ptp(values))
    word = REPRODUCED if span <= within else NOT_REPRODUCED
    why = f"they span {span:.3g}, at most {within:g}"
    return Verdict(NOT_COMPARABLE, f"{obstacle}; {why}") if obstacle else Verdict(word, why)
