"""Verdicts in words on a model beside its baselines, worded once for every page and terminal."""

from collections.abc import Sequence
from math import isnan
from typing import Any

from streamgp.evaluation.description import option
from streamgp.evaluation.metrics.judgement import COVERAGE, Against, Judgement, Verdict, verdict_of
from streamgp.evaluation.metrics.paired import LEAST_ROWS
from streamgp.evaluation.seasonal import SEASONAL
from streamgp.numerics.formats import number, plural, share
from streamgp.reports.wording import known_after, last_value

SCORES = {"squared_error": "squared error", "log_loss": "log loss", "rps": "ranked probability score"}
# The style of the notice for each verdict.
MARKS: dict[Verdict, str] = {"better": "good", "worse": "warn", "undecided": "plain"}
_THAN: dict[Verdict, str] = {"better": "better than", "worse": "worse than", "undecided": "cannot be told apart from"}
ALONE: dict[Verdict, str] = {"better": "better", "worse": "worse", "undecided": "cannot be told apart"}
_MATTERS = 0.05  # difference of two shares that is worth a word


def of(metrics: dict[str, Any]) -> Judgement | None:
    """Return the judgement of a run, or of one of its targets; None where nothing was compared."""
    entries = metrics.get("judgement")
    judgement = None if entries is None else Judgement.from_json(entries)
    return judgement if judgement is not None and judgement.against else None


def sentences(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a sentence on each baseline, the best one first, and one on each further target.

    Returns
    -------
    list
        ``text``; ``verdict``, on all rows; ``mark``, how a page shows it.
    """
    judgement = of(metrics)
    if judgement is None or len(metrics.get("classes") or (0, 0)) < 2:
        return []
    found = [sentence(metrics, judgement, each) for each in judgement.against]
    if advice := _advice(metrics, judgement):
        found[0]["text"] = f"{found[0]['text'].removesuffix('.')}; {advice}."
    for name, scores in list((metrics.get("by_target") or {}).items())[1:]:
        other = of(scores)
        if other is not None and other.best is not None:
            own = sentence({"horizon": None} | metrics | {"naive": {}}, other, other.best)
            found.append(own | {"text": f"Target {name}: {own['text'][0].lower()}{own['text'][1:]}"})
    return found


def tile(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return how much the model saves beside the best baseline, ``number`` and ``text``; None if not known."""
    judgement = of(metrics)
    if judgement is None or judgement.best is None or judgement.best.skill is None:
        return None
    best, noun = judgement.best, SCORES[judgement.score]
    size, rest = _amount(best, noun).split(" ", 1)
    naive = "" if best.baseline == "lightgbm" else "naive "
    what = f"the best {naive}baseline, {named(metrics, best.baseline)}"
    text = f"{rest} {_link(best)} {what}: {ALONE[best.verdict]}{_ends(best)}"
    usual = _without_flagged(judgement)
    if usual is not None and usual.best is not None:
        other = usual.best
        amount = f"{_amount(other, noun)} {_link(other)} {named(metrics, other.baseline)}"
        text += f"; without the {_flagged(judgement, usual)}: {amount}, {ALONE[other.verdict]}{_ends(other)}"
    return {"number": size, "text": text}


def of_keys(ends: Sequence[tuple[float | None, float | None]]) -> dict[str, Any] | None:
    """Return a sentence on how many keys are better than the better one of their baselines, by squared errors.

    Parameters
    ----------
    ends
        Of the interval of what each key saves, ``skill_low`` and ``skill_high`` of the fleet's scores.

    Returns
    -------
    dict or None
        ``text`` and ``mark``; None where no key has an interval.
    """
    found = [key_verdict(low, high) for low, high in ends]
    judged = [each for each in found if each is not None]
    if not judged:
        return None
    better, worse, even = (judged.count(each) for each in ("better", "worse", "undecided"))
    few = len(found) - len(judged)
    left = f"; {plural(few, 'key')} had too few rows" if few else ""
    by_chance = (1.0 - COVERAGE) / 2.0
    text = (
        f"By squared errors, beside the better one of the last target and the mean so far, {better:,} of "
        f"{plural(len(judged), 'key')} are better, {worse:,} worse, and {even:,} cannot be told apart (95% "
        f"intervals: of keys that are noise at most {share(by_chance)} are called better by chance){left}."
    )
    return {
        "text": text,
        "mark": "warn" if worse > better else "good" if better > by_chance * len(judged) else "plain",
    }


def key_verdict(low: float | None, high: float | None) -> Verdict | None:
    """Return the verdict on a key; None where it has no interval."""
    known = low is not None and high is not None and not isnan(low)
    return verdict_of(low, high) if known else None


def named(metrics: dict[str, Any], baseline: str) -> str:
    """Return what a baseline repeats or predicts."""
    if baseline.startswith(SEASONAL):
        return _season(metrics, int(baseline.removeprefix(SEASONAL)))
    return {
        "persistence": last_value(metrics),
        "running_mean": "the mean so far",
        "last_label": last_value(metrics, "label"),
        "last_grade": last_value(metrics, "grade"),
        "frequencies": "the frequencies so far",
        "lightgbm": "LightGBM, refitted",
    }.get(baseline, baseline.replace("_", " "))


def heading(metrics: dict[str, Any], baseline: str) -> str:
    """Return the heading of a baseline's column in a table."""
    text = _doing(metrics, baseline)
    return text[0].upper() + text[1:]


def _season(metrics: dict[str, Any], rows: int) -> str:
    """Return what a baseline repeats that goes a season back, or as many of them as it takes to be known by then."""
    cycle = next((each["cycle"] for each in metrics.get("seasons") or () if each["rows"] == rows), None)
    count = -(-known_after(metrics) // rows)
    if cycle is None:
        return f"the value of {rows * count:,} rows before"
    return f"the value of {f'a {cycle}' if count == 1 else f'{count:,} {cycle}s'} before ({rows * count:,} rows)"


def _doing(metrics: dict[str, Any], baseline: str) -> str:
    """Return what a baseline does, or which model it is."""
    if baseline == "lightgbm":
        return named(metrics, baseline)
    repeats = baseline in ("persistence", "last_label", "last_grade") or baseline.startswith(SEASONAL)
    does = "repeating" if repeats else "predicting"
    how = ", as surely as that was right so far" if baseline in ("last_label", "last_grade") else ""
    return f"{does} {named(metrics, baseline)}{how}"


def sentence(metrics: dict[str, Any], judgement: Judgement, against: Against) -> dict[str, Any]:
    """Return what there is to say of one baseline, on all rows and, where that differs, without the flagged ones."""
    noun, what = SCORES[judgement.score], _doing(metrics, against.baseline)
    found = {"verdict": against.verdict, "mark": MARKS[against.verdict]}
    if judgement.rows < LEAST_ROWS:
        rows = plural(judgement.rows, "scored row")
        return found | {"text": f"Too few rows to compare with {what}: {rows}, of the {LEAST_ROWS} that are needed."}
    text = f"{_THAN[against.verdict]} {what}: {_amount(against, noun)}{_ends(against)}"
    usual = _without_flagged(judgement)
    if usual is None:
        text = text[0].upper() + text[1:]
    else:
        (same,) = (each for each in usual.against if each.baseline == against.baseline)
        are = ("" if each.verdict == "undecided" else "is " for each in (against, same))
        text = (
            f"On all {judgement.rows:,} rows the model {next(are)}{text}; without the {_flagged(judgement, usual)} "
            f"it {next(are)}{ALONE[same.verdict]}: {_amount(same, noun)}{_ends(same)}"
        )
        found["mark"] = found["mark"] if same.verdict == against.verdict else MARKS["undecided"]
    return found | {"text": f"{text}{_errors(metrics, against)}."}


def _amount(against: Against, noun: str) -> str:
    """Return how much less, or more, the model loses than a baseline."""
    if against.skill is None:
        if against.loss == 0.0:
            return "the baseline made no error" if against.verdict == "worse" else "neither made an error"
        return f"the {'model' if against.verdict == 'worse' else 'baseline'}'s {noun} is not finite"
    if against.skill < -1.0:
        return f"{number(1.0 - against.skill, 3)} times the {noun}"
    return f"{fine_share(abs(against.skill))} {'less' if against.skill >= 0.0 else 'more'} {noun}"


def _link(against: Against) -> str:
    return "of" if against.skill is None or against.skill < -1.0 else "than"


def _ends(against: Against) -> str:
    if against.low is None or against.high is None or against.skill is None:
        return ""
    if against.skill < -1.0:
        return f" (95% interval: {number(1.0 - against.high, 3)} to {number(1.0 - against.low, 3)} times)"
    return f" (95% interval of what is saved: {fine_share(against.low)} to {fine_share(against.high)})"


def fine_share(value: float) -> str:
    """Return a share as a percentage with one decimal, with more where it would else be none or all."""
    text = f"{100 * value:,.1f}"
    for size in (abs(value), abs(1.0 - value)):
        if 0.0 < size < 0.0005:
            decimals = next((d for d in range(2, 12) if round(100 * size, d) > 0.0), 12)
            text = f"{100 * value:.{decimals}f}"
    return f"{text}%".replace("-", "\N{MINUS SIGN}")


def _without_flagged(judgement: Judgement) -> Judgement | None:
    """Return the judgement without the flagged rows, where it differs from that of all rows."""
    usual = judgement.unflagged
    if usual is None or usual.best is None or judgement.best is None or usual.rows < LEAST_ROWS:
        return None
    by_name = {each.baseline: each for each in usual.against}
    for each in judgement.against:
        other = by_name[each.baseline]
        skills = [-1.0 if a.skill is None else max(a.skill, -1.0) for a in (each, other)]
        if each.verdict != other.verdict or abs(skills[0] - skills[1]) >= _MATTERS:
            return usual
    return usual if judgement.best.baseline != usual.best.baseline else None


def _flagged(judgement: Judgement, usual: Judgement) -> str:
    return f"{plural(judgement.rows - usual.rows, 'row')} flagged as outliers"


def _errors(metrics: dict[str, Any], against: Against) -> str:
    """Return a clause where a baseline of labels is wrong less often, although its probabilities are no better."""
    baseline = metrics.get("naive", {}).get(against.baseline, {})
    ours, theirs = metrics.get("error_rate"), baseline.get("error_rate")
    if against.verdict != "better" or ours is None or theirs is None or theirs >= ours:
        return ""
    return f", though the likeliest one is wrong more often, {share(ours)} of the time for {share(theirs)}"


def _advice(metrics: dict[str, Any], judgement: Judgement) -> str:
    """Return what to try where the model is not better than its best baseline; empty where it is, or rows are few."""
    usual = judgement.unflagged
    if judgement.rows < LEAST_ROWS or "better" in (judgement.verdict, usual and usual.verdict):
        return ""
    assert judgement.best is not None
    undecided, lags = judgement.verdict == "undecided", list(metrics.get("lags") or [])
    takes_lags = metrics.get("task", "regression") in ("regression", "count") and not metrics.get("late_labels")
    if judgement.best.baseline == "persistence" and takes_lags and not lags:
        how = option("lags", "1", metrics.get("python", False))
        return f"{'more rows may tell, or make' if undecided else 'make'} that an input, with {how}"
    season = judgement.best.baseline.removeprefix(SEASONAL)
    if season.isdigit() and takes_lags and int(season) not in lags:
        how = option("lags", ",".join(map(str, sorted({*(lags or [1]), int(season)}))), metrics.get("python", False))
        return f"{'more rows may tell, or make' if undecided else 'make'} that an input, with {how}"
    own = len(metrics.get("features") or []) > len(lags) * len(metrics.get("targets") or (0,))
    further = ", or further lags," if takes_lags and lags else ""
    wanted = f"{'features' if own else 'inputs beside past targets'}{further} that carry more information"
    return f"{'more rows may tell, or' if undecided else 'look for'} {wanted}"
