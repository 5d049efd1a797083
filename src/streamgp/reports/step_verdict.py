"""The verdict on forecasts of several rows: at which steps they are better than the best naive one."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from streamgp.evaluation.metrics.judgement import Judgement, Verdict
from streamgp.evaluation.metrics.paired import LEAST_ROWS
from streamgp.numerics.formats import plural
from streamgp.reports import verdicts

_RANGES = 3  # ranges of steps that are listed
_WORDS: dict[Verdict, str] = {
    "better": "better than every naive baseline",
    "worse": "worse than the best of them",
    "undecided": "cannot be told apart from the best of them",
}


def by_target(metrics: dict[str, Any]) -> dict[str | None, list[dict[str, Any]]]:
    """Return the scores of each step by target; None is the name of a single one."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for each in (metrics.get("steps_ahead") or {}).get("by_step", []):
        found.setdefault(each.get("target"), []).append(each)
    return found


def sentences(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return ``text``, ``verdict`` and ``mark`` for each target of which there is something to judge."""
    each = by_target(metrics)
    found = [(name, _sentence(entries, metrics)) for name, entries in each.items()]
    return [
        said if len(each) == 1 else said | {"text": f"Target {name}: {said['text'][0].lower()}{said['text'][1:]}"}
        for name, said in found
        if said is not None
    ]


def _sentence(scores: list[dict[str, Any]], metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is said of the steps of a target; None where nothing was forecast."""
    entries = [each for each in scores if each["judgement"] and each["judgement"]["against"]]
    if not entries:
        return None
    judged = [(each["step"], Judgement.from_json(each["judgement"])) for each in entries]
    if max(judgement.rows for _, judgement in judged) < LEAST_ROWS:
        few = plural(max(judgement.rows for _, judgement in judged), "forecast")
        text = f"Too few to judge forecasts step by step: {few}, of the {LEAST_ROWS} that are needed."
        return {"text": text, "verdict": "undecided", "mark": "plain"}
    ranges: dict[Verdict, list[list[int]]] = {"better": [], "worse": [], "undecided": []}
    for _, group in groupby(judged, key=lambda each: each[1].verdict):
        alike = list(group)
        ranges[alike[0][1].verdict].append([step for step, _ in alike])
    counts = {verdict: sum(map(len, steps)) for verdict, steps in ranges.items()}
    said = [f"{_WORDS[verdict]} {_listed(steps, metrics)}" for verdict, steps in ranges.items() if steps]
    best = [judgement.against[0].baseline for _, judgement in judged]
    commonest = max(best, key=best.count)
    mostly = "mostly " if best.count(commonest) < len(best) else ""
    text = (
        f"Forecasts of the next {len(judged)} rows, by squared error: {'; '.join(said)}. The best of these baselines "
        f"is {mostly}{verdicts.named(metrics, commonest)}."
    )
    whole: Verdict = "worse" if counts["worse"] > counts["better"] else "better" if counts["better"] else "undecided"
    mark = "good" if counts["better"] == len(judged) else "warn" if whole == "worse" else "plain"
    return {"text": text, "verdict": whole, "mark": mark}


def _listed(ranges: Sequence[Sequence[int]], metrics: dict[str, Any]) -> str:
    """Return steps in words, the longest ranges first of many."""
    longest = sorted(sorted(ranges, key=len, reverse=True)[:_RANGES], key=min)
    left = sum(map(len, ranges)) - sum(map(len, longest))
    texts = [_range(each[0], each[-1], metrics) for each in longest]
    if left:
        return f"{', '.join(texts)} and {plural(left, 'other row')} ahead"
    return f"{', '.join(texts[:-1])}{' and ' if texts[1:] else ''}{texts[-1]} ahead"


def _range(first: int, last: int, metrics: dict[str, Any]) -> str:
    days = [each["rows"] for each in metrics.get("seasons") or () if each["cycle"] == "day"]
    rows = plural(first, "row") if first == last else f"{first} to {last} rows"
    if not days:
        return rows
    hours = [f"{round(24.0 * each / days[0], 2):g}" for each in dict.fromkeys((first, last))]
    return f"{rows} ({' to '.join(hours)} h)"
