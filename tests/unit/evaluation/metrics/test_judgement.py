"""Judgements against the direct formula, chunks, checkpoints, and how often they are wrong about streams of noise."""

import json
import math
from typing import Any

import numpy as np
import pytest

from streamgp.evaluation.metrics import paired_interval
from streamgp.evaluation.metrics.judgement import BATCHES, Judgement, PairedLosses, judge, verdict_of
from streamgp.numerics.checkpoint.encoding import decode, encode

NAMES = ("last", "mean")


def losses_of(n: int, seed: int = 0, ratio: float = 0.8) -> np.ndarray:
    """Heavy-tailed losses of a model and two baselines that share most of their errors."""
    rng = np.random.default_rng(seed)
    base = rng.lognormal(0.0, 1.2, n)
    noise = rng.lognormal(-0.02, 0.2, (n, 2))
    return np.column_stack([ratio * base * noise[:, 0], base, 1.5 * base * noise[:, 1]])


def paired(losses: np.ndarray, cuts: tuple[int, ...] = (), flagged: np.ndarray | None = None) -> PairedLosses:
    found, at = PairedLosses(NAMES), 0
    for stop in (*cuts, len(losses)):
        found.add(losses[at:stop], None if flagged is None else flagged[at:stop])
        at = stop
    return found


def test_the_interval_is_that_of_the_ratio_of_means():
    """Of as many rows as there are batches: row by row, with the relative error of the ratio by the delta method."""
    losses = losses_of(BATCHES)
    found = paired(losses).judgement("rps")
    ours, theirs = losses[:, 0], losses[:, 1]
    ratio = ours.mean() / theirs.mean()
    _, low, high = paired_interval(ours / ours.mean() - theirs / theirs.mean(), np.zeros(BATCHES))
    best = found.best
    assert best is not None and [each.baseline for each in found.against] == ["last", "mean"]
    assert (best.loss, found.loss) == pytest.approx((theirs.mean(), ours.mean()), rel=1e-12)
    expected = (1.0 - ratio, 1.0 - ratio * np.exp(high), 1.0 - ratio * np.exp(low))
    assert (best.skill, best.low, best.high) == pytest.approx(expected, rel=1e-9)
    assert (found.score, found.rows, found.verdict, found.unflagged) == ("rps", BATCHES, "better", None)


def test_many_rows_have_the_interval_of_their_batches():
    """2,400 rows make 300 batches of eight, the last of 1,201 rows in batches of four has one."""
    for n, size in ((2_400, 8), (1_201, 4)):
        losses = losses_of(n)
        whole = np.zeros((-(-n // size) * size, 3))
        whole[:n] = losses
        batches = whole.reshape(-1, size, 3).sum(1)
        ours, theirs = batches[:, 0], batches[:, 2]
        ratio = ours.sum() / theirs.sum()
        _, low, high = paired_interval(ours / ours.mean() - theirs / theirs.mean(), np.zeros(len(batches)))
        found = paired(losses).judgement("rps").against[1]
        expected = (1.0 - ratio, 1.0 - ratio * np.exp(high), 1.0 - ratio * np.exp(low))
        assert (found.skill, found.low, found.high) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("cuts", [tuple(range(1, 700)), (511, 512, 513, 1025), (1_999,)])
def test_chunks_and_checkpoints_do_not_matter(cuts: tuple[int, ...]):
    losses = losses_of(2_000)
    losses[[0, 700]] = np.nan
    flagged = np.random.default_rng(1).random(2_000) < 0.1
    whole, cut = paired(losses, (), flagged), paired(losses, cuts, flagged)
    assert cut.judgement("rps") == whole.judgement("rps")
    first = paired(losses[:777], (), flagged[:777])
    stored = encode(first.to_tree())
    for tree in (decode(*stored, {}), first.to_tree()):
        again = PairedLosses.from_tree(tree)
        again.add(losses[777:], flagged[777:])
        assert again.judgement("rps") == whole.judgement("rps")
    assert first.judgement("rps").rows == 775


def test_the_state_does_not_grow():
    first, second = (paired(losses_of(n)).to_tree() for n in (10, 20_000))
    assert [np.shape(each) for each in first.values()] == [np.shape(each) for each in second.values()]


def test_flagged_rows_are_judged_apart():
    losses = losses_of(600)
    flagged = np.zeros(600, bool)
    flagged[[5, 300]] = True
    losses[flagged] = (1e6, 1e3, 1e3)
    found = paired(losses, (301,), flagged).judgement("squared_error")
    assert found.verdict != "better"
    usual = found.unflagged
    assert usual is not None and (usual.rows, usual.verdict) == (598, "better")
    assert usual.loss == pytest.approx(losses[~flagged, 0].mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "skill"),
    [
        (0.0, 1.0, "better", 1.0),
        (0.0, 0.0, "undecided", None),
        (1.0, 0.0, "worse", None),
        (1.0, 1.0, "undecided", 0.0),
        (math.inf, 1.0, "worse", None),
        (math.inf, math.inf, "undecided", None),
        (1e-200, 1e200, "better", 1.0),
    ],
)
def test_losses_at_the_ends(ours: float, theirs: float, verdict: str, skill: float | None):
    found = judge("rps", {"ours": np.full(50, ours), "a": np.full(50, theirs)})
    assert found.best is not None
    assert (found.verdict, found.best.skill) == (verdict, skill)
    assert Judgement.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_few_rows_are_undecided():
    for n in (0, 1, 19):
        found = judge("rps", {"ours": np.zeros(n), "a": np.ones(n)})
        assert (found.rows, found.verdict) == (n, "undecided")
        assert Judgement.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert judge("rps", {"ours": np.zeros(20), "a": np.ones(20)}).verdict == "better"


def test_rows_that_a_baseline_does_not_predict_are_left_out():
    losses = losses_of(100)
    losses[:3, 2] = np.nan
    assert paired(losses).judgement("rps") == paired(losses[3:]).judgement("rps")


@pytest.mark.parametrize("seed", range(20))
def test_no_share_is_above_one_and_verdicts_are_those_of_the_interval(seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n, tail = int(rng.integers(20, 1500)), rng.uniform(0.0, 3.0)
        base = rng.lognormal(0.0, tail, n)
        ours = base ** rng.uniform(0.0, 1.5) * rng.lognormal(rng.normal(scale=0.5), rng.uniform(0.0, 2.0), n)
        found = judge("rps", {"ours": ours, "a": base, "b": np.roll(base, 1)}, rng.random(n) < 0.05)
        for part in (found, found.unflagged):
            for each in () if part is None else part.against:
                assert each.skill is not None and each.skill <= 1.0
                if each.low is not None and each.high is not None:
                    assert each.low <= each.skill <= each.high <= 1.0
                assert each.verdict == verdict_of(each.low, each.high)
                assert (each.verdict == "better") == (each.low is not None and each.low > 0.0)


def noise(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    if kind == "heavy tails":
        return rng.standard_t(4, n)
    if kind == "skewed":
        return rng.exponential(size=n)
    if kind == "varying":
        return rng.normal(size=n) * np.exp(np.sin(np.arange(n) / 40.0))
    return rng.normal(size=n)


def of_noise(rng: np.random.Generator, n: int, kind: str, wander: float) -> dict[str, np.ndarray]:
    """The squared errors of predictors of noise: a model that wanders about the mean, slowly, and two baselines."""
    y = noise(rng, n + 200, kind)
    known = np.cumsum(y) / np.arange(1, len(y) + 1)
    steps = rng.normal(size=len(y))
    off = np.empty(len(y))
    off[0] = steps[0]
    for i in range(1, len(y)):
        off[i] = 0.9 * off[i - 1] + math.sqrt(1.0 - 0.81) * steps[i]
    target, mean = y[200:], known[199:-1]
    predicted = {"model": mean + wander * off[200:], "running_mean": mean, "persistence": y[199:-1]}
    return {name: np.square(target - each) for name, each in predicted.items()}


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "skewed", "varying"])
def test_models_of_noise_are_not_called_better_than_the_best_baseline(kind: str):
    """No predictor is better than the mean: of 400 streams at most 2.5%, and three standard errors, say otherwise."""
    rng = np.random.default_rng(len(kind))
    lengths = (60, 300, 1_500)
    found = [
        judge("squared_error", of_noise(rng, lengths[i % 3], kind, wander=0.05)).verdict == "better"
        for i in range(400)
    ]
    assert np.mean(found) <= 0.025 + 3.0 * math.sqrt(0.025 * 0.975 / 400)


def test_the_interval_holds_the_true_share_as_often_as_it_says():
    """Two equal forecasts whose errors are autocorrelated; two-sided, within three standard errors of 95%."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(300):
        shocks = rng.normal(size=(3, 800))
        errors = shocks[:, 1:] + 0.6 * shocks[:, :-1]
        shared = errors[0]
        best: Any = judge("squared_error", {"m": (shared + errors[1]) ** 2, "b": (shared + errors[2]) ** 2}).best
        held.append(best.low <= 0.0 <= best.high)
    assert abs(np.mean(held) - 0.95) <= 3.0 * math.sqrt(0.05 * 0.95 / 300)


def test_the_interval_holds_a_share_under_heavy_tails_and_is_never_more_than_all():
    """As of squared errors of delays; 300 streams, and three standard errors of the share that holds."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(300):
        base = rng.lognormal(0.0, 1.2, size=600)
        best: Any = judge("rps", {"m": 0.2 * base * rng.lognormal(-0.125, 0.5, size=600), "b": base}).best
        held.append(best.low <= 0.8 <= best.high)
    assert 0.95 - 3 * 0.0126 <= np.mean(held) <= 0.95 + 3 * 0.0126
    # One row that decides both means: the difference alone would save between 0 and two times everything.
    base, ours = np.ones(400), np.full(400, 0.1)
    base[200], ours[200] = 1e4, 2e3
    best = judge("rps", {"m": ours, "b": base}).best
    assert best.low < best.skill < best.high < 1.0


def test_a_real_difference_is_seen():
    """A model that knows a tenth of the variance, over 3,000 rows: the verdict is found in nearly all streams."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(60):
        x, e = rng.normal(size=(2, 3_000))
        y = math.sqrt(0.1) * x + math.sqrt(0.9) * e
        found.append(judge("squared_error", {"m": 0.9 * e**2, "mean": y**2}).verdict)
    assert found.count("better") >= 57
