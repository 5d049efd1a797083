"""Verdicts: whether a figure or a statement of a paper holds for our runs, by rules that are printed."""

from collections.abc import Iterable, Sequence
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
    f"A figure is reproduced where our mean lies within the tolerance: two standard errors of the paper's mean, at "
    f"least {MIN_TOLERANCE:g} nats of a log density or {MIN_TOLERANCE:.0%} of another score, whatever our own noise. "
    f"It is undecided where the standard error of our mean is above half of that, or where the mean is less than two "
    f"standard errors beyond it. Else it is better or worse than the paper's; of a baseline it is not reproduced "
    f"either way. The floors are ours, and all there is where a paper prints no deviation.",
    f"A statement is reproduced where a one-sided Wilcoxon signed-rank test over the seeds finds for it at "
    f"{LEVEL:.0%}, not reproduced where it finds for the opposite, else undecided. With five trials .031 is the "
    f"least p that there is. A lemma must hold in every trial.",
    "A statement that scores are close is tested in the same way: by how much they are closer, seed by seed, than "
    "the limit that stands beside it. The limit is ours, since the papers state none.",
    f"With fewer than {TESTED_FROM} trials a verdict is undecided. What all trials agree on is shown, with its "
    f"level: a half to the power of their number.",
    "A figure or a statement is not comparable on data that stand in for the paper's, are made up in their place or "
    "have other inputs or another size, on a part of the rows, where the paper leaves open what decides, where the "
    "protocol of its models is another here, and where it is won over a model that is no better than a control that "
    "learns nothing. A bound for all T is undecided. What the runs show is shown all the same, after 'here'.",
    "p-values are not corrected for their number. A seed draws frequencies and hyperparameters, rows only where they "
    "are shuffled or generated: p says nothing of other data. The best of several models is picked on the seeds that "
    "then test it.",
)


class Verdict(NamedTuple):
    """A verdict in one of the words above, the reason, and the word for what our runs alone show."""

    word: str
    why: str
    found: str = ""


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


def assess_figure(metric: str, ours: Sequence[float], paper: Figure, paper_trials: int = 1) -> Verdict:
    """Assess our figures, one for each trial, against the mean of `paper_trials` of the paper's."""
    difference = float(np.mean(ours)) - paper.value
    unit = 1.0 if higher_is_better(metric) else abs(paper.value)
    # The standard error of our mean.
    error = std_over_trials(ours) / np.sqrt(len(ours))
    tolerance = max(2.0 * paper.std / np.sqrt(max(paper_trials, 1)), MIN_TOLERANCE * unit)
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


def assess_claim(gain: np.ndarray, always: bool = False) -> Verdict:
    """Assess a statement that one model is better than another, from its `gain` in each trial.

    With `always` it must be better, or as good, in every trial.
    """
    trials = f"of {len(gain)} {'trial' if len(gain) == 1 else 'trials'}"
    if always:
        holds = bool((gain >= 0).all())
        fails, why = not holds, f"in {np.sum(gain >= 0)} {trials}"
    elif len(gain) < TESTED_FROM:
        holds, fails = bool((gain > 0).all()), bool((gain < 0).all())
        why = f"{np.sum(gain > 0)} {trials}, level {0.5 ** len(gain):.3g}"
    elif np.count_nonzero(gain) < TESTED_FROM:
        holds, fails, why = False, False, f"no difference in {np.sum(gain == 0)} {trials}"
    else:
        tests: list[Any] = [wilcoxon(gain[gain != 0], alternative=side) for side in ("greater", "less")]
        for_it, against = (float(test.pvalue) for test in tests)
        holds, fails, why = for_it < LEVEL, against < LEVEL, f"p = {for_it:.2g}"
    return Verdict(REPRODUCED if holds else NOT_REPRODUCED if fails else UNDECIDED, why)


def tell_finding(found: Verdict) -> str:
    """Say what our runs alone show: yes, no, or one of the other words, and the reason."""
    word = {REPRODUCED: "yes", NOT_REPRODUCED: "no"}.get(found.word, found.word)
    return f"{word}, {found.why}"


def qualify(found: Verdict, doubts: Iterable[str], undecided: str = "") -> Verdict:
    """Qualify what our runs show: not comparable where there are doubts, `undecided` where no such runs decide."""
    reasons = [reason for reason in dict.fromkeys(doubts) if reason]
    if not reasons and not undecided:
        return Verdict(found.word, found.why, found.word)
    word = NOT_COMPARABLE if reasons else UNDECIDED
    told = "; ".join([*reasons, *([undecided] if undecided else [])])
    return Verdict(word, f"{told}; here: {tell_finding(found)}", found.word)
