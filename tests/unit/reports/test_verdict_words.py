"""The words of a judgement never say what its interval does not, nor one thing here and another there."""

import re
from typing import Any

import numpy as np
import pytest

from streamgp.evaluation.metrics.judgement import Judgement, judge
from streamgp.reports import verdicts

SCORES = {"regression": "squared_error", "count": "squared_error", "classification": "log_loss", "ordinal": "rps"}
NAMES = {
    "regression": ("persistence", "running_mean"),
    "count": ("persistence", "running_mean"),
    "classification": ("last_label", "frequencies"),
    "ordinal": ("last_grade", "frequencies"),
}
ENDS = re.compile(r"\(95% interval of what is saved: (−?[\d,.]+)% to (−?[\d,.]+)%\)")
TIMES = re.compile(r"\(95% interval: ([\d,.e+]+) to ([\d,.e+]+) times\)")
WORDS = re.compile(r"better|worse|cannot be told apart", re.IGNORECASE)
OF_WORDS = {"better": "better", "worse": "worse", "cannot be told apart": "undecided"}


def drawn(seed: int) -> tuple[dict[str, Any], Judgement]:
    """The metrics of a run of some task, with a judgement of random losses, in which a few rows may decide all."""
    rng = np.random.default_rng(seed)
    task = list(SCORES)[seed % 4]
    n = int(rng.integers(5, 900))
    base = rng.lognormal(0.0, rng.uniform(0.0, 2.0), n)
    losses = {"model": base * rng.lognormal(rng.normal(scale=0.4), rng.uniform(0.0, 1.0), n)}
    losses |= {name: base * rng.lognormal(0.0, rng.uniform(0.0, 1.0), n) for name in NAMES[task]}
    flagged = rng.random(n) < rng.choice([0.0, 0.02])
    for each in losses.values():
        each[flagged] *= rng.lognormal(4.0, 2.0)
    judgement = judge(SCORES[task], losses, flagged)
    lags = [1, 2] if task == "regression" and rng.random() < 0.3 else []
    features = ["a"] if not lags or rng.random() < 0.5 else []
    return {
        "task": task,
        "judgement": judgement.to_json(),
        "naive": {name: {"error_rate": rng.random()} for name in NAMES[task]},
        "error_rate": rng.random() if task in ("classification", "ordinal") else None,
        "features": [*features, *(f"y lag {lag}" for lag in lags)],
        "lags": lags,
        "targets": ["y"],
        "late_labels": {"delay": 3} if rng.random() < 0.2 else None,
    }, judgement


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def said(text: str) -> list[tuple[str, str]]:
    """Return the verdicts of a text, each with what its interval says."""
    words = [OF_WORDS[each.lower()] for each in WORDS.findall(text)]
    found = []
    for match in re.finditer(f"{ENDS.pattern}|{TIMES.pattern}", text):
        low, high, least, most = match.groups()
        if low is None:
            assert number(least) <= number(most)
            found.append("worse" if number(least) > 1.0 else "undecided")
            continue
        assert number(low) <= number(high) <= 100.0
        found.append("better" if number(low) > 0.0 else "worse" if number(high) < 0.0 else "undecided")
    return list(zip(words, found, strict=True))


@pytest.mark.parametrize("seed", range(400))
def test_words_say_what_the_interval_says_and_the_same_everywhere(seed: int):
    metrics, judgement = drawn(seed)
    sentences, tile = verdicts.sentences(metrics), verdicts.tile(metrics)
    assert [each["verdict"] for each in sentences] == [each.verdict for each in judgement.against]
    if judgement.rows < 20:
        assert all(each["text"].startswith("Too few rows") for each in sentences)
        return
    for sentence, against in zip(sentences, judgement.against, strict=True):
        found = said(sentence["text"])
        assert all(words == interval for words, interval in found)
        assert found[0][0] == against.verdict
        both = judgement.unflagged is not None and "without the" in sentence["text"]
        assert len(found) == 1 + both
        if judgement.unflagged is not None:
            (usual,) = (each for each in judgement.unflagged.against if each.baseline == against.baseline)
            assert both or usual.verdict == against.verdict  # a difference is told
            assert not both or found[1][0] == usual.verdict
        if sentence["mark"] == "good":
            assert {words for words, _ in found} == {"better"}
    assert tile is not None
    of_tile = said(tile["text"])
    assert all(words == interval for words, interval in of_tile)
    assert of_tile[0][0] == judgement.verdict == said(sentences[0]["text"])[0][0]
    assert ("without the" in tile["text"]) == ("without the" in sentences[0]["text"])
    if judgement.unflagged is not None and len(of_tile) == 2:
        assert of_tile[1][0] == judgement.unflagged.verdict
    whole = " ".join(each["text"] for each in sentences)
    if "better" in (judgement.verdict, judgement.unflagged and judgement.unflagged.verdict):
        assert "--lags" not in whole and "information" not in whole
    else:
        assert "--lags" in whole or "information" in whole
    if metrics["task"] not in ("regression", "count") or metrics["late_labels"]:
        assert "lags" not in whole  # which they refuse
    if "features" in whole:
        assert "a" in metrics["features"]


def test_a_verdict_of_labels_is_that_of_their_probabilities():
    """Log loss 1.041 to .825 while the likeliest label is no better: it was called "about as well" and 20.7% less."""
    rng = np.random.default_rng(0)
    base = rng.gamma(4.0, 1.041 / 4.0, 1_000)
    losses = {"model": base * (0.825 / 1.041) * rng.lognormal(-0.005, 0.1, 1_000)}
    losses |= {"last_label": base * 1.2, "frequencies": base}
    metrics = {"task": "classification", "judgement": judge("log_loss", losses).to_json(), "classes": ["u", "v", "w"]}
    metrics |= {"error_rate": 0.4, "naive": {"last_label": {"error_rate": 0.6}, "frequencies": {"error_rate": 0.405}}}
    first, second = verdicts.sentences(metrics)
    assert re.match(r"Better than predicting the frequencies so far: 2\d\.\d% less log loss", first["text"])
    assert "though" not in first["text"] and second["verdict"] == "better"
    metrics["naive"]["frequencies"]["error_rate"] = 0.38
    assert "likeliest one is wrong more often, 40.0% of the time for 38.0%." in verdicts.sentences(metrics)[0]["text"]
    assert verdicts.sentences(metrics | {"classes": ["u"]}) == []


def test_all_rows_and_those_that_were_not_flagged_are_both_told():
    """On a river the last value is ahead on all rows, the model on those that were not flagged."""
    rng = np.random.default_rng(1)
    base = rng.chisquare(1, 2_000)
    losses = {"model": 0.5 * base, "persistence": base, "running_mean": 9.0 * base}
    flagged = np.zeros(2_000, bool)
    flagged[::40] = True
    losses["model"] = np.where(flagged, 50.0, losses["model"])
    metrics: dict[str, Any] = {"judgement": judge("squared_error", losses, flagged).to_json(), "naive": {}}
    text, tile = verdicts.sentences(metrics)[0]["text"], verdicts.tile(metrics)
    assert text.startswith("On all 2,000 rows the model is worse than repeating the last value: ")
    assert "; without the 50 rows flagged as outliers it is better: " in text and tile is not None
    assert "worse (95% interval" in tile["text"] and "value, better (95% interval" in tile["text"]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.2074, "20.7%"),
        (-0.205, "−20.5%"),
        (0.0004, "0.04%"),
        (-0.0000123, "−0.001%"),
        (0.0, "0.0%"),
        (0.99996, "99.996%"),
        (1.0, "100.0%"),
    ],
)
def test_a_share_near_none_or_all_is_not_rounded_to_it(share: float, text: str):
    assert verdicts.fine_share(share) == text


def test_further_targets_have_their_own():
    rng = np.random.default_rng(2)
    base = rng.chisquare(1, 500)
    good, bad = (
        judge("squared_error", {"model": k * base, "persistence": base, "running_mean": 2.0 * base}).to_json()
        for k in (0.5, 1.5)
    )
    metrics = {"judgement": good, "naive": {}, "by_target": {"y": {"judgement": good}, "z": {"judgement": bad}}}
    first, _, other = verdicts.sentences(metrics)
    assert first["text"].startswith("Better") and other["text"].startswith("Target z: worse than repeating")
    assert (other["verdict"], other["mark"]) == ("worse", "warn")


def test_keys_are_counted_by_their_intervals():
    ends = [(0.1, 0.2), (0.01, 0.5), (-0.1, 0.3), (-0.5, -0.1), (None, None), (float("nan"), float("nan"))]
    found = verdicts.of_keys(ends)
    assert found is not None and found["mark"] == "good"
    assert "2 of 4 keys are better, 1 worse, and 1 cannot be told apart" in found["text"]
    assert found["text"].endswith("; 2 keys had too few rows.")
    assert verdicts.of_keys(ends[4:]) is None
    noise = verdicts.of_keys([(-0.1, 0.1)] * 39 + [(0.01, 0.1)])
    assert noise is not None and noise["mark"] == "plain"  # as many as by chance
    worse = verdicts.of_keys(ends[3:])
    assert worse is not None and worse["mark"] == "warn"


def test_the_value_of_a_season_before_is_called_by_its_cycle():
    rng = np.random.default_rng(0)
    ours, week, last = (rng.normal(size=400) * size for size in (1.0, 0.5, 2.0))
    losses = {"model": np.square(ours), "persistence": np.square(last), "seasonal_336": np.square(week)}
    metrics = {"judgement": judge("squared_error", losses).to_json(), "seasons": [{"rows": 336, "cycle": "week"}]}
    best, other = (each["text"] for each in verdicts.sentences(metrics | {"lags": [1, 2]}))
    assert best.startswith("Worse than repeating the value of a week before (336 rows): ")
    assert best.endswith("; make that an input, with --lags 1,2,336.")
    assert other.startswith("Better than repeating the last value: ")
    known = verdicts.sentences(metrics | {"lags": [1, 336], "features": ["a", "y lag 1", "y lag 336"]})
    assert "make that an input" not in known[0]["text"]
    assert verdicts.named({"seasons": [{"rows": 24, "cycle": "day"}], "horizon": 30}, "seasonal_24") == (
        "the value of 2 days before (48 rows)"
    )
    assert verdicts.named({"seasons": [{"rows": 60, "cycle": None}]}, "seasonal_60") == "the value of 60 rows before"
