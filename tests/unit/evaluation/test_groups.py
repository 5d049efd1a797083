"""Bands by groups of rows: thresholds by hand, the share held in every group, and tests of coverage."""

from itertools import product
from math import ceil, inf

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPClassifier, StreamingGPRegressor, evaluate
from streamgp.evaluation import Conformal
from streamgp.evaluation.coverage_tests import SLACK, CoverageTests
from streamgp.evaluation.group_thresholds import FEWEST, STEP, GroupThresholds
from streamgp.evaluation.row_groups import AUTO, MOST_LEVELS, GroupColumn, RowGroups
from streamgp.numerics.checkpoint.encoding import decode, encode

LEVEL = 0.9


def by_hand(scores: np.ndarray, groups: np.ndarray, ahead: int) -> np.ndarray:
    """Return the thresholds from scratch at every row, by all rows that are known by then."""
    told, factors = [], []
    for t in range(len(scores)):
        own = []
        for place, g in enumerate([None, *groups[t]]):
            past = [i for i in range(t + 1 - ahead) if place == 0 or groups[i, place - 1] == g]
            missed = np.array([scores[i] > told[i] for i in past], float)
            miss = 0.1 + STEP * np.sum(0.1 - missed)
            before = {i: np.prod(factors[i][:place]) for i in past}
            left = sorted([scores[i] / b for i, b in before.items() if 0.0 < b < inf][-200:])
            rank = min(ceil((1.0 - miss) * (len(left) + 1) - 1e-9), len(left))
            known = bool(left) if place == 0 else len(left) >= FEWEST
            usual = left[rank - 1] if known else inf if place == 0 else 1.0
            own.append(inf if miss <= 1e-12 else 0.0 if miss >= 1.0 else usual)
        factors.append(own)
        told.append(inf if inf in own else np.prod(own))
    return np.array(told)


@pytest.mark.parametrize("ahead", [1, 4])
def test_thresholds_are_those_by_hand_whatever_the_chunks(ahead):
    rng = np.random.default_rng(0)
    groups = np.stack([rng.integers(0, 3, 600), rng.integers(3, 5, 600)], axis=1)
    scores = np.abs(rng.standard_t(3, 600)) * np.exp(groups[:, 0] - (groups[:, 1] == 3))
    want = by_hand(scores, groups, ahead)
    for cuts in ([], [1, 5, 300, 301], list(range(1, 600))):
        found = GroupThresholds(LEVEL, 5, ahead)
        parts = zip(np.split(scores, cuts), np.split(groups, cuts), strict=True)
        assert_allclose(np.concatenate([found.update(*each) for each in parts]), want, rtol=1e-12)
    first, second = GroupThresholds(LEVEL, 5, ahead), GroupThresholds(LEVEL, 5, ahead)
    first.update(scores[:333], groups[:333])
    second.restore(decode(*encode(first.to_tree()), {}))
    assert_allclose(second.update(scores[333:], groups[333:]), want[333:], rtol=1e-12)


@pytest.mark.parametrize("kind", ["grows", "jumps", "xor", "falls"])
def test_no_sequence_is_missed_more_often_than_promised_in_any_overlapping_group(kind):
    rng = np.random.default_rng(1)
    rows = 6_000
    groups = np.stack([rng.integers(0, 2, rows), 2 + rng.integers(0, 2, rows)], axis=1)
    scores = {
        "grows": np.exp(np.arange(rows) / 300.0),
        "jumps": rng.choice([1.0, 100.0], rows),
        "xor": np.abs(rng.normal(size=rows)) * np.where(groups[:, 0] == groups[:, 1] - 2, 10.0, 1.0),
        "falls": np.exp(-np.arange(rows) / 300.0),
    }[kind]
    missed = scores > GroupThresholds(LEVEL, 4).update(scores, groups)
    for g in range(4):
        own = (groups == g).any(axis=1)
        assert (np.cumsum(missed[own] - 0.1) <= (0.1 + STEP) / STEP + 1e-9).all()  # at any time
        if kind == "xor":  # neither column knows of it, and yet the share is held
            assert abs(missed[own].mean() - 0.1) < 0.02


def test_a_missing_score_teaches_nothing():
    thresholds, groups = GroupThresholds(LEVEL, 1), np.zeros((50, 1), int)
    thresholds.update(np.arange(1.0, 51.0), groups)
    before = thresholds.to_tree()
    thresholds.update(np.full(50, np.nan), groups)
    assert_array_equal(before["miss"], thresholds.to_tree()["miss"])
    assert_array_equal(before["last"], thresholds.to_tree()["last"])


def test_levels_and_fifths_and_what_they_are_called():
    columns = [
        GroupColumn("cut", (0,), ("fair", "good")),
        GroupColumn("hue", (1, 2), ("red", "blue"), one_hot=True),
        GroupColumn("carat", (3,)),
        *AUTO,
    ]
    groups, rng = RowGroups(columns), np.random.default_rng(2)
    X = np.column_stack(
        [[0, 1, 5, np.nan] * 25, [1, 0, 0, 0] * 25, [0, 1, 0, 0] * 25, rng.permutation(np.arange(100.0))]
    )
    found = groups.place(X, np.full(100, np.nan), np.exp(X[:, 3]))
    assert [groups.name(g) for g in found[:4, 0].tolist()] == ["cut fair", "cut good", "another cut", "another cut"]
    assert [groups.name(g) for g in found[:4, 1].tolist()] == ["hue red", "hue blue", "another hue", "another hue"]
    assert groups.name(int(found[0, 2])) == "no known fifth of carat"  # nothing is known of the first rows
    late = {groups.name(g) for g in found[60:, 2].tolist()}
    assert any(name.startswith("carat above") for name in late)
    assert {groups.name(g) for g in found[:, 3].tolist()} == {"no known fifth of predicted noise"}
    assert "predicted std in its highest fifth" in {groups.name(g) for g in found[60:, 4].tolist()}
    again = RowGroups.from_tree(decode(*encode(groups.to_tree()), {}))
    assert_array_equal(again.place(X, X[:, 3], X[:, 3]), groups.place(X, X[:, 3], X[:, 3]))


def test_the_evidence_is_the_mean_over_starts_and_has_mean_one_at_most():
    """Over all sequences of 9 rows; at the nearest share of misses of either side the mean is that of the starts."""
    for side in (1.0, -1.0):
        p, mean = 0.1 * (1.0 + side * SLACK), np.zeros(8)
        for misses in product([False, True], repeat=9):
            tests = CoverageTests(LEVEL, np.ones(1, bool), rate=1e-9)
            tests.update(np.array(misses), np.zeros((9, 1), int), np.arange(9))
            mean += np.exp(tests._log_sums[0]) * p ** sum(misses) * (1.0 - p) ** (9 - sum(misses))
            ratios = np.exp(np.where(np.array(misses)[:, None], tests._on_miss, tests._on_hit))
            each = [np.prod(ratios[s:], axis=0) / ((s + 1) * (s + 2)) for s in range(9)]
            assert_allclose(np.exp(tests._log_sums[0]), np.sum(each, axis=0))
        own = slice(5) if side > 0.0 else slice(5, None)
        assert_allclose(mean[own], 1.0 - 1.0 / 10.0)
        assert (mean <= 1.0).all()


def test_groups_are_found_with_few_false_ones_and_the_same_in_parts():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 20, (30_000, 1))
    share = np.full(20, 0.1)
    share[[2, 7]], share[11] = 0.22, 0.01
    missed = rng.random(30_000) < share[groups[:, 0]]
    missed &= (groups[:, 0] != 7) | (np.arange(30_000) > 10_000) | (rng.random(30_000) < 0.45)  # group 7 turns bad
    rows = np.arange(30_000)
    whole, parts = CoverageTests(LEVEL, np.ones(20, bool)), CoverageTests(LEVEL, np.ones(20, bool))
    found = whole.update(missed, groups, rows)
    assert sorted(each.group for each in found) == [2, 7, 11]
    turned = next(each for each in found if each.group == 7)
    assert 8_500 < turned.since < 12_500
    assert abs(turned.coverage - 0.78) < 0.06
    first = parts.update(missed[:9_999], groups[:9_999], rows[:9_999])
    then = CoverageTests(LEVEL, np.ones(20, bool))
    then.restore(decode(*encode(parts.to_tree()), {}))
    for i in range(9_999, 30_000, 500):
        first += then.update(missed[i : i + 500], groups[i : i + 500], rows[i : i + 500])
    assert first == found


def test_bands_of_whole_numbers_may_hold_more_and_not_less():
    groups, rows = np.zeros((3_000, 1), int), np.arange(3_000)
    rng = np.random.default_rng(6)
    for share, told in ((0.02, False), (0.2, True)):
        tests = CoverageTests(LEVEL, np.ones(1, bool), at_least=True)
        assert bool(tests.update(rng.random(3_000) < share, groups, rows)) is told


def stream(rows: int = 6_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    return X, X[:, 0] + np.exp(2.0 * X[:, 1]) * rng.normal(size=rows)


def test_every_fifth_of_an_input_is_covered_by_a_model_that_knows_none_of_it():
    X, y = stream()
    model = StreamingGPRegressor("linear", warmup=200, noise_by_input=False)
    result = evaluate(model, X, y, conformal=LEVEL, groups=["auto", 1], alarms=True, progress=False)
    plain = evaluate(
        StreamingGPRegressor("linear", warmup=200, noise_by_input=False), X, y, conformal=LEVEL, progress=False
    )
    bands, own = result.metrics["conformal"], plain.metrics["conformal"]
    fifths = [each for each in bands["groups"] if each["column"] == "x1"]
    assert len(fifths) == 5
    assert all(each["rows"] > 900 and abs(each["coverage"] - LEVEL) < 0.02 for each in fifths)
    assert max(abs(each["own"]["coverage"] - LEVEL) for each in fifths) > 0.08
    assert bands["width"] < 0.9 * own["width"]
    assert bands["unbounded_rows"] < 20
    told = [alarm for alarm in result.alarms if alarm.kind == "coverage"]
    assert any(alarm.sentence.startswith("rows with x1 above") and alarm.size < 0.88 for alarm in told)
    assert [alarm.row for alarm in result.alarms] == sorted(alarm.row for alarm in result.alarms)
    assert "no known fifth" not in " ".join(alarm.sentence for alarm in told)
    assert_array_equal(plain.mean, result.mean)


def test_a_band_knows_neither_its_own_target_nor_later_ones():
    X, y = stream(900)
    bands = []
    for change in (0.0, 1e3):
        model = StreamingGPRegressor("linear", warmup=100)
        late = np.where(np.arange(900) >= 700, change, 0.0)
        result = evaluate(model, X, y + late, conformal=LEVEL, groups="auto", progress=False)
        bands.append(np.asarray(result.conformal)[:701])
    assert_array_equal(*bands)


def test_levels_of_a_column_of_text_for_two_targets():
    X, y = stream(700)
    frame = pl.DataFrame({"a": X[:, 0], "kind": np.where(X[:, 1] > 0.0, "loud", "quiet")})
    model = StreamingGPRegressor("linear", warmup=100)
    result = evaluate(model, frame, np.column_stack([y, -y[::-1]]), conformal=0.8, groups="kind", progress=False)
    for scores in result.metrics["conformal"]["per_target"].values():
        assert {g["group"] for g in scores["groups"]} == {"kind loud", "kind quiet"}
        assert sum(g["rows"] for g in scores["groups"]) == 600


def test_bands_go_on_from_a_checkpoint_a_row_at_a_time():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(900, 1)), rng.standard_t(3, size=(900, 2))
    X[::5] = np.nan
    y[::7, 0] = np.nan
    columns, numbers = [GroupColumn("a", (0,)), *AUTO], np.arange(900)
    std = np.exp(rng.normal(size=(900, 2)))

    def fed(bands: Conformal, rows: slice) -> np.ndarray:
        places = [g.groups.place(X[rows], std[rows, e], std[rows, e]) for e, g in enumerate(bands.groups)]
        own = -std[rows], std[rows]
        return np.stack(bands.add(y[rows], np.zeros_like(y[rows]), std[rows], own, places, numbers[rows]))

    whole, other = (Conformal(LEVEL, ["y", "z"], 50, 2, columns) for _ in range(2))
    want = fed(whole, slice(None))
    parts = [fed(other, slice(i, i + 1)) for i in range(400)]
    other = Conformal.from_tree(decode(*encode(other.to_tree()), {}))
    assert_array_equal(np.concatenate([*parts, fed(other, slice(400, None))], axis=1), want)
    for name, found in other.result()["per_target"].items():
        assert found["groups"] == whole.result()["per_target"][name]["groups"]


@pytest.mark.parametrize(
    ("groups", "more", "said"),
    [
        ("c", {"conformal": 0.9}, r"groups: expected 'auto' or columns of X \(x0, x1\), got 'c'"),
        (5, {"conformal": 0.9}, "got 5"),
        ("auto", {}, "groups: expected them with conformal="),
    ],
)
def test_groups_that_mean_nothing_are_refused_before_anything_is_learnt(groups, more, said):
    X, y = stream(300)
    model = StreamingGPRegressor("linear", warmup=50)
    with pytest.raises(ValueError, match=said):
        evaluate(model, X, y, groups=groups, **more)
    assert not model.__sklearn_is_fitted__()


def test_labels_have_no_groups():
    X, y = stream(300)
    with pytest.raises(ValueError, match="groups: expected numbers or counts"):
        evaluate(StreamingGPClassifier("linear", warmup=50), X, y > 0.0, conformal=0.9, groups="auto")


def test_levels_beyond_the_most_share_a_group():
    groups = RowGroups([GroupColumn("k", (0,), tuple(map(str, range(MOST_LEVELS))))])
    assert set(groups.place(np.array([[60.0], [99.0]]), np.zeros(2), np.ones(2)).ravel()) == {MOST_LEVELS}
