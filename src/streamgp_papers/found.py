"""A reproduction with its runs, and the verdicts on its figures and statements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamgp_papers.datasets import DATASETS
from streamgp_papers.kinds import Claim, Reproduction, Shown
from streamgp_papers.verdicts import (
    NOT_COMPARABLE,
    REPRODUCED,
    TESTED_FROM,
    Figure,
    Verdict,
    assess_claim,
    assess_figure,
    compute_gains,
    higher_is_better,
    qualify,
    tell_finding,
)


@dataclass(frozen=True)
class ReproductionResult:
    """A reproduction with its runs.

    Attributes
    ----------
    shown
        The data sets that were run.
    missing
        Data sets of the paper that are not available.
    runs
        By "data seed", as in the file.
    trials, rows
        Seeds of each data set, and the limit of rows, if there was one.
    """

    reproduction: Reproduction
    shown: Sequence[Shown]
    missing: Sequence[str]
    runs: Mapping[str, Mapping[str, Any]]
    trials: int
    rows: int | None

    def of(self, data: str) -> list[Mapping[str, Any]]:
        """Return the runs of a data set, by seed."""
        return [self.runs[f"{data} {seed}"] for seed in range(self.trials)]

    def models(self, data: str) -> list[str]:
        """List the models that every trial has: a package of some may have been missing."""
        first, *rest = self.of(data)
        return [model for model in first["models"] if all(model in run["models"] for run in rest)]

    def values(self, data: str, model: str, metric: str) -> np.ndarray:
        """Return the score of each trial; infinite where it was not finite."""
        found = [run["models"][model][metric] for run in self.of(data)]
        bad = -np.inf if higher_is_better(metric) else np.inf
        return np.array([bad if value is None else value for value in found], dtype=float)

    def label(self, model: str) -> str:
        """Return the name of a model to print."""
        return self.reproduction.labels.get(model, model)

    def obstacle(self, one: Shown) -> str:
        """Return the reason why figures on a data set cannot be compared with the paper's, if there is one."""
        paper = DATASETS[one.data]
        if self.reproduction.obstacle:
            return self.reproduction.obstacle
        if self.rows is not None and self.rows < paper.rows:
            return one.obstacle or f"first {self.rows:,} rows only"
        first = self.of(one.data)[0]
        if one.obstacle or paper.doubt:
            return one.obstacle or paper.doubt
        if first["rows"] != paper.rows:
            return f"{first['rows']:,} rows, the paper's have {paper.rows:,}"
        inputs = first.get("inputs", paper.inputs) + paper.constant
        same = inputs in (paper.inputs, paper.inputs + paper.constant)
        return "" if same else f"{first['inputs']} inputs, the paper's have {paper.inputs}"

    @property
    def few(self) -> str:
        """Return why so few trials decide nothing; empty where there are enough."""
        if self.trials >= TESTED_FROM:
            return ""
        return f"{self.trials} {'trial' if self.trials == 1 else 'trials'}, fewer than {TESTED_FROM}"

    def on(self, data: str) -> Iterator[Shown]:
        """Iterate over the data sets that were run for one of the paper."""
        return (one for one in self.shown if one.stands_for == data)


class AssessedFigure(NamedTuple):
    """A figure of the paper on a data set that was run, ours of each trial, and the verdict."""

    data: str
    model: str
    metric: str
    figure: Figure
    ours: np.ndarray
    verdict: Verdict


class AssessedClaim(NamedTuple):
    """A statement of the paper on a data set that was run, the gain by which it holds, and the verdict."""

    claim: Claim
    data: str
    gain: str
    verdict: Verdict


def assess_figures(result: ReproductionResult) -> Iterator[AssessedFigure]:
    """Assess every figure of the paper on every data set that was run for it."""
    reproduction = result.reproduction
    for (data, model, metric), figure in reproduction.figures.items():
        for one in result.on(data):

            def find(metric: str, one: Shown = one, model: str = model, figure: Figure = figure) -> Verdict:
                ours = result.values(one.data, model, metric).tolist()
                return assess_figure(metric, ours, figure, reproduction.paper_trials)

            found = find(metric)
            if other := reproduction.beside.get(metric):
                found = found._replace(why=f"{found.why}; by {other}: {tell_finding(find(other))}")
            verdict = qualify(found, (result.obstacle(one), figure.doubt), result.few)
            yield AssessedFigure(one.data, model, metric, figure, result.values(one.data, model, metric), verdict)


def assess_claims(result: ReproductionResult) -> Iterator[AssessedClaim]:
    """Assess every statement of the paper on every data set that was run for it."""
    for claim in result.reproduction.claims:
        for one in result.on(claim.data):
            yield AssessedClaim(claim, one.data, *assess(result, claim, one))


def assess(result: ReproductionResult, claim: Claim, one: Shown) -> tuple[str, Verdict]:
    """Assess a statement on a data set; return the gain by which it holds, in words, and the verdict."""
    present = result.models(one.data)
    first, second = ([model for model in models if model in present] for models in (claim.ahead, claim.behind))
    if not first or (claim.behind and not second):
        return "", Verdict(NOT_COMPARABLE, "no run has its models", NOT_COMPARABLE)
    words, found, won_over = _compare(result, claim, one.data, claim.metric, (first, second))
    doubts = [result.obstacle(one), claim.doubt]
    if found.word == REPRODUCED and won_over and claim.metric != "seconds":
        doubts.append(_no_better_than_control(result, one.data, won_over, claim.metric))
    if other := result.reproduction.beside.get(claim.metric):
        told = tell_finding(_compare(result, claim, one.data, other, (first, second))[1])
        found = found._replace(why=f"{found.why}; by {other}: {told}")
    return words, qualify(found, doubts, claim.open or ("" if claim.always else result.few))


def _compare(
    result: ReproductionResult, claim: Claim, data: str, metric: str, models: tuple[list[str], list[str]]
) -> tuple[str, Verdict, str]:
    """Compare the models of a statement by a score: the gain in words, what is found, and the model won over."""
    first, second = models
    values = {model: result.values(data, model, metric) for model in (*first, *second)}
    best = max if higher_is_better(metric) else min
    # Of the models on one side, the one with the best median.
    ahead = best(first, key=lambda model: float(np.median(values[model])))
    behind = best(second, key=lambda model: float(np.median(values[model]))) if second else ""
    if claim.within is not None:
        if behind:
            apart = compute_gains(metric, values[behind].tolist(), values[ahead].tolist())
        elif claim.number is not None:
            apart = np.abs(values[ahead] - claim.number)
        else:
            apart = np.ptp([values[model] for model in first], axis=0)
        how = f"{result.label(ahead)} behind {result.label(behind)}" if behind else "apart"
        words = f"{how}: {number(float(np.median(apart)))}, at most {claim.within:g}"
        return words, assess_claim(claim.within - apart, claim.always), ""
    if claim.number is not None:
        gain = compute_gains(metric, values[ahead].tolist(), [claim.number] * result.trials)
        gain = -gain if claim.worse else gain
        words = f"{result.label(ahead)} over {claim.number:g}: {_signed(float(np.median(gain)))}"
        return words, assess_claim(gain, claim.always), ""
    gain = compute_gains(metric, (claim.times * values[ahead]).tolist(), values[behind].tolist())
    words = _tell_gain(result, metric, (ahead, behind), values)
    if not claim.always:
        words += _in_percent(metric, values[ahead], values[behind])
    return words, assess_claim(gain, claim.always), behind


def _tell_gain(
    result: ReproductionResult, metric: str, pair: tuple[str, str], values: Mapping[str, np.ndarray]
) -> str:
    """Say by how much the first is better; of times, how often they are as long."""
    ahead, behind = (values[model] for model in pair)
    first, second = (result.label(model) for model in pair)
    if metric == "seconds":
        return f"{second} takes {number(float(np.median(behind / ahead)))} times as long as {first}"
    gain = compute_gains(metric, ahead.tolist(), behind.tolist())
    return f"{first} over {second}: {_signed(float(np.median(gain)))}"


def _in_percent(metric: str, ahead: np.ndarray, behind: np.ndarray) -> str:
    """Say by how many percent of the other score; nothing of log densities and times, and of what is not positive."""
    scale = float(np.median(behind))
    if higher_is_better(metric) or metric in ("seconds", "exponent") or not np.isfinite(scale) or scale <= 0.0:
        return ""
    share = float(np.median(behind - ahead)) / scale
    return f" ({share:+.{0 if abs(share) >= 0.1 else 1}%})"


def _no_better_than_control(result: ReproductionResult, data: str, model: str, metric: str) -> str:
    """Say so where a model is not ahead of the control; return nothing where it is, or there is no control."""
    control = result.reproduction.control
    scores = result.of(data)[0]["models"]
    if model == control or metric not in scores.get(control, {}) or control not in result.models(data):
        return ""
    gain = compute_gains(metric, *(result.values(data, name, metric).tolist() for name in (model, control)))
    found = assess_claim(gain)
    return "" if found.word == REPRODUCED else f"{result.label(model)} is not ahead of '{control}' ({found.why})"


def number(value: float) -> str:
    """Write a number with three decimals, or with three digits if it is very small or large."""
    return f"{value:.3f}" if 0.01 <= abs(value) < 100 or value == 0 else f"{value:.3g}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)
