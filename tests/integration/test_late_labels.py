"""Labels that come late: as a replay of the labelled rows in their order, whatever the order of events."""

import copy
from typing import Any

import numpy as np
import pytest

from oracles.late_replay import LateReplay
from streamgp.evaluation import RegressionMetrics
from streamgp.models.registry import make_spec
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.session import Session
from streamgp.stream.arrivals import Arrivals
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.stream.replay import KEPT_STATES
from streamgp.stream.settings import StreamSettings
from streamgp.table import Chunk
from streamgp.table.chunks import cut
from streams import close, learn, make_stream, mixture, restored

pytestmark = pytest.mark.slow

WARMUP = 20
SMALL = {"bases": ("linear", "rbf"), "features_per_basis": 6}
MODELS: dict[str, dict[str, Any]] = {
    "moving": {"model": "doebe", **SMALL},
    "lags": {"model": "doebe", "bases": ("linear",), "lags": (2, 5)},
    "robust": {"model": "default", "bases": ("linear",), "dynamics": ("static", "walk 0.1"), "renew": False},
    "renewed": {"model": "best", "bases": ("linear", "boosted"), "dynamics": ("static",), "lags": (1,)},
    "counts": {"model": "doebe", "task": "count", "bases": ("linear",)},
    "classes": {"model": "linear", "task": "classification"},
    "local": {"model": "wgpr", "features_per_basis": 6},
    "many kernels": {"model": "sfg-mkl", "features_per_basis": 6},
}
# Of a target that is transformed, for tests that look at the scale that is learnt.
POSITIVE = {"positive": MODELS["robust"] | {"target_transform": "log1p"}}


def make(name: str, timed: bool = False, **more: Any) -> StreamLearner:
    """Return a learner of a stream of `make_stream`."""
    options: dict[str, Any] = {"task": "regression"} | (MODELS | POSITIVE)[name]
    spec = make_spec(**options)
    classes = 3 if spec.task == "classification" else 0
    return StreamLearner(
        StreamSettings(spec, num_inputs=2, warmup=WARMUP, seed=3, timed=timed, **more), num_classes=classes
    )


def stream(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of `make_stream` for a model."""
    X, y, times = make_stream((MODELS | POSITIVE)[name].get("task", "regression"))
    return X, np.abs(y) if name == "positive" else y, times


def events(rows: int, seed: int, mean: float, never: float) -> list[tuple[str, int]]:
    """Return rows and labels in the order in which they come; of some rows the label never comes, or as NaN."""
    rng = np.random.default_rng(seed)
    fate, delay = rng.uniform(size=rows), rng.exponential(mean, rows)
    fate[0], delay[0] = 1.0, 0.0
    came = [(float(r), "row", r) for r in range(rows)]
    kinds = np.where(fate < never / 2, "lost", np.where(fate < never, "gone", "label")).tolist()
    came += [(r + 0.5 + delay[r], kind, r) for r, kind in enumerate(kinds) if kind != "lost"]
    return [(kind, r) for _, kind, r in sorted(came)]


def row_by_row(predictive: Any) -> list[np.ndarray]:
    return list(np.concatenate(mixture(predictive), axis=1))


@pytest.mark.parametrize(
    ("name", "timed"), [("moving", False), ("moving", True), ("lags", False), ("robust", False), ("counts", False)]
)
def test_every_prediction_is_that_of_a_replay(name: str, timed: bool):
    X, y, times = stream(name)
    limit, checked = 25, 0
    late = LateLabels(make(name, timed), limit=limit)
    weighs = name == "robust"
    oracle = LateReplay(lambda stamped: make(name, stamped), X, y, times if timed else None, limit, weighs)
    for kind, r in events(60, seed=7, mean=5.0, never=0.1):
        if kind == "row":
            ((numbers, info),) = late.predict(X[r : r + 1], times[r : r + 1] if timed else None)
            assert list(numbers) == [r]
            if weighs or r in (1, 6, 18, 31, 44, 59):
                close(row_by_row(info.predictive), row_by_row(oracle.predict(r)))
                checked += late.learner.is_warmed_up
            oracle.means.append(np.asarray(info.predictive.mean)[0])
        elif late.waits(r):
            late.learn([r], y[r][None] if kind == "label" else np.full((1, 1), np.nan))
            oracle.label(r, y[r] if kind == "label" else np.full(1, np.nan))
    assert checked >= 2
    assert not weighs or oracle.weights is not None
    assert late.given_up
    assert late.never


@pytest.mark.parametrize("name", MODELS)
def test_once_all_are_in_it_is_as_if_they_had_come_in_time(name: str):
    X, y, _ = stream(name)
    in_time, late = make(name), LateLabels(make(name))
    learn(in_time, X[:90], y[:90])
    rng, at, waiting = np.random.default_rng(0), 0, []
    while at < 90 or waiting:  # one to nine rows come, and some labels in any order, several at once
        n = min(int(rng.integers(1, 10)), 90 - at)
        for numbers, _info in late.predict(X[at : at + n]):
            waiting += numbers
        at += n
        rng.shuffle(waiting)
        # The fit waits a while, but not for ever.
        some = waiting[: len(waiting) if 10 < at < 45 else int(rng.integers(0, 12))]
        waiting = waiting[len(some) :]
        late.learn(some, y[some])
    late.refresh()
    close(row_by_row(late.learner.predict(X[90:95])), row_by_row(in_time.predict(X[90:95])))
    np.testing.assert_allclose(late.learner.weights, in_time.weights, rtol=1e-7, atol=1e-12)
    assert late.learner.rows == in_time.rows == 90
    assert late.waiting == 0


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", ["moving", "lags", "robust", "positive"])
def test_a_row_by_itself_is_predicted_as_in_a_batch(name: str, timed: bool):
    # A copy predicts by the engine of batches, what goes on by that of single rows.
    (X, y, times), at = stream(name), 3 * WARMUP
    X = X.copy()
    X[at - 5, 0] = X[at + 2, 1] = X[at + 4, 0] = np.nan
    late = LateLabels(make(name, timed))
    for r in range(at + 8):
        stamp, copied = times[r : r + 1] if timed else None, late.fork()
        copied.refresh()
        known = copied.outlook()
        info, _ = known.leading(X[r : r + 1], stamp)
        assert known.learner._latest is None
        ((_, own),) = late.predict(X[r : r + 1], stamp)
        for a, b in zip(parts(own.predictive), parts(info.predictive), strict=True):
            close(a, b)
        if r >= 4:
            late.learn([r - 4], y[r - 4][None])
    assert late.learner._latest is not None


def parts(predictive: Any) -> list[np.ndarray]:
    """Return the mixture that is predicted, and how far a transformed target is believed."""
    base = getattr(predictive, "base", predictive)
    limits = [] if base is predictive or base.limits is None else [np.asarray(base.limits)]
    return [np.concatenate(mixture(base), axis=1), *limits]


def late_rows(n: int = 150, seed: int = 3) -> Chunk:
    """Return rows of a stream with gaps, labels that are missing, late, out of order or never come."""
    rng = np.random.default_rng(seed)
    X, y, _ = make_stream()
    X, y = X[:n].copy(), y[:n].copy()
    X[50, 0] = X[90, 1] = np.nan
    y[[30, 31, 77]] = np.nan
    when = np.arange(n) + 1.0 + np.floor(rng.exponential(6.0, n))
    when[rng.uniform(size=n) < 0.05] = np.nan
    when[[60, 70]] += 60.0
    return Chunk(X, y, None, np.arange(n), when)


def scored(arrivals: Arrivals, rows: Chunk, chunk: int) -> list[np.ndarray]:
    session = Session(arrivals.late.learner, RegressionMetrics(["y"], WARMUP), arrivals=arrivals)
    chunks = [cut(rows, slice(at, at + chunk)) for at in range(0, len(rows.X), chunk)]
    parts: Any = [part for each in chunks for part in session.feed(each)]
    return [row for part in parts for row in np.column_stack([part.scores.mean, part.scores.std])]


@pytest.mark.parametrize("name", ["moving", "lags", "robust"])
def test_a_row_a_chunk_and_a_resumed_run_are_the_same(name: str):
    rows = late_rows()
    arrivals = Arrivals(LateLabels(make(name), limit=40), "arrives")
    whole = scored(arrivals, rows, len(rows.X))
    close(scored(Arrivals(LateLabels(make(name), limit=40), "arrives"), rows, 1), whole)
    counts = arrivals.result()
    assert counts["never"] >= 5
    assert counts["too_late"] == 2
    assert counts["on_the_way"]

    found, broken, at = [], Arrivals(LateLabels(make(name), limit=40), "arrives"), 0
    for stop in (7, 19, 33, 64, 100, len(rows.X)):
        found += scored(broken, cut(rows, slice(at, stop)), 13)
        learner = restored(broken.late.learner)
        broken = Arrivals.from_tree(learner, decode(*encode(broken.to_tree()), {}))
        at = stop
    close(found, whole)
    assert broken.result() == counts


def test_no_prediction_has_seen_a_label_before_it_came():
    rows = late_rows()
    changed = rows._replace(y=np.where(np.arange(len(rows.y))[:, None] >= 60, rows.y + 7.0, rows.y))
    before, after = (scored(Arrivals(LateLabels(make("robust")), "arrives"), each, 64) for each in (rows, changed))
    first = int(np.nanmin(np.where(np.isnan(rows.y[60:, 0]), np.nan, rows.arrives[60:])))
    close(before[:first], after[:first])
    assert not np.allclose(before[first:], after[first:])


def test_labels_in_time_give_the_numbers_of_the_ordinary_run():
    X, y, _ = make_stream()
    found = scored(Arrivals(LateLabels(make("robust")), 0), Chunk(X, y, None, np.arange(len(X))), 64)
    infos = list(make("robust").learn(X, y))
    close(found, [row for info in infos for row in np.column_stack([info.predictive.mean, info.predictive.std])])


def test_memory_is_bounded_when_labels_never_come():
    X, y, _ = make_stream()
    late = LateLabels(make("moving"), limit=10)
    for r in range(150):
        next(late.predict(X[r : r + 1]))
        if (r % 2 and r > 60) or r < 40:
            late.learn([r], y[r : r + 1])
        assert len(late._rows) <= 2 * late.limit + 1
        assert len(late._states) <= KEPT_STATES + 2
    assert late.given_up > 40


def test_the_fit_does_not_wait_for_labels_that_never_come():
    X, y, _ = make_stream()
    late = LateLabels(make("moving"))
    for r in range(60):
        next(late.predict(X[r : r + 1]))
        if r != 5:
            late.learn([r], y[r : r + 1])
    # 20 labels have come with row 20, and 10 rows later row 5 is given up: what is predicted next is by the fit.
    assert late.learner.is_warmed_up
    assert late.given_up == 1
    in_time = make("moving")
    kept = np.delete(np.arange(59), 5)
    learn(in_time, X[kept], y[kept])
    close(row_by_row(late.learner.predict(X[:3])), row_by_row(in_time.predict(X[:3])))
    before = encode(late.to_tree())[0]
    for number in (0, 5):
        with pytest.raises(ValueError, match=f"row {number} has its label, or was given up with the warm-up"):
            late.learn([number], y[number : number + 1])
    assert encode(late.to_tree())[0] == before


def test_rows_that_come_singly_are_left_in_their_buffer_once_all_labels_are_in():
    X, y, _ = make_stream()
    late = LateLabels(make("robust"))
    for r in range(30):
        next(late.predict(X[r : r + 1]))
    late.take(X[30:31], y[30:31])
    late.learn(range(30), y[:30])
    late.refresh()
    late.learner.step_one(X[31], y[31])
    late.refresh()
    assert late.learner._latest is not None  # to fold it into the state takes longer than the row


def test_an_interrupted_fit_loses_nothing():
    X, y, _ = make_stream()

    def interrupt(_done: int, _todo: int) -> None:
        raise KeyboardInterrupt

    late = LateLabels(make("moving"))
    for r in range(25):
        next(late.predict(X[r : r + 1]))
        if r == 19:
            late.learn(range(20), y[:20])
            late.learner.progress = interrupt
            with pytest.raises(KeyboardInterrupt):
                late.refresh()
            stored = decode(*encode(late.to_tree()), {})
            late = LateLabels.from_tree(restored(late.learner), stored)
    in_time = make("moving")
    learn(in_time, X[:20], y[:20])
    close(row_by_row(late.learner.predict(X[:3])), row_by_row(in_time.predict(X[:3])))


def test_bad_labels_change_nothing():
    X, y, times = make_stream()
    late = LateLabels(make("moving", timed=True), limit=10)
    for r in range(30):
        next(late.predict(X[r : r + 1], times[r : r + 1]))
    late.learn([28], y[28:29])
    before = encode(late.to_tree())[0]
    for numbers, why in (
        ([30], "one of the 30 rows that came"),
        ([-1], "one of the 30 rows that came"),
        ([3], "one of the last 10 rows, got row 3 of 30"),
        ([29, 28], "a row that waits, but row 28 has its label"),
        ([27, 27], "each row once"),
    ):
        with pytest.raises(ValueError, match=why):
            late.learn(numbers, y[numbers])
    with pytest.raises(ValueError, match="expected none before"):
        next(late.predict(X[:1], times[:1]))
    with pytest.raises(ValueError, match="expected none before"):
        late.take(X[:1], y[:1], times[:1])
    assert encode(late.to_tree())[0] == before
    with pytest.raises(ValueError, match="without a horizon"):
        LateLabels(StreamLearner(StreamSettings(make_spec("linear", horizon=3), num_inputs=2, warmup=WARMUP)))


def test_copies_are_independent():
    X, y, _ = make_stream()
    late = LateLabels(make("moving"))
    next(late.predict(X[:1]))
    twin = copy.deepcopy(late)
    assert twin.learner is not late.learner
    twin.learn([0], y[:1])
    assert late.waiting == 1
    assert twin.waiting == 0


class WeightsInTime(LateLabels):
    """Late labels whose predictions keep the weights in time."""

    weights = property(lambda self: (), lambda self, value: None)  # pyright: ignore[reportAssignmentType]


def test_with_a_steady_delay_the_experts_are_weighed_by_how_they_predict_late_rows():
    rng = np.random.default_rng(4)
    n, warmup = 500, 60
    X, error = rng.normal(size=(n, 2)), np.zeros(n)
    for t in range(1, n):
        error[t] = 0.97 * error[t - 1] + 0.25 * rng.normal()  # the last errors tell much, those of 20 rows ago little
    y = (X @ [1.0, -1.0] + error)[:, None]
    spec = make_spec("default", bases=("linear",), renew=False)
    found = []
    for kind in (LateLabels, WeightsInTime):
        learner = StreamLearner(StreamSettings(spec, num_inputs=2, warmup=warmup, seed=0))
        arrivals = Arrivals(kind(learner), 20)
        session = Session(learner, RegressionMetrics(["y"], warmup), arrivals=arrivals)
        parts: Any = session.feed(Chunk(X, y, None, np.arange(n)))
        found.append(np.concatenate([part.scores.log_density for part in parts])[200:])
    assert found[0].mean() > found[1].mean() + 0.05
    late = arrivals.late
    assert late.weights == ()


def test_a_target_far_out_does_not_decide_the_scores_without_outliers():
    X, y, _ = make_stream()
    n, spoilt = 150, y[:150].copy()
    spoilt[120] = 1e12
    found = []
    for target in (y[:n], spoilt):
        learner, metrics = make("robust"), RegressionMetrics(["y"], WARMUP)
        session = Session(learner, metrics, arrivals=Arrivals(LateLabels(learner), 3))
        parts: Any = list(session.feed(Chunk(X[:n], target, None, np.arange(n))))
        marked = np.concatenate([part.flagged for part in parts])
        assert len(marked) == n
        found.append((np.flatnonzero(marked).tolist(), metrics.result()))
    assert found[0][0] == [60]  # the stream has a glitch of its own
    assert found[1][0] == [60, 120]
    assert found[1][1]["rmse"] > 1e9
    assert found[1][1]["unflagged"]["rmse"] < 1.5 * found[0][1]["rmse"]


def test_a_checkpoint_knows_that_a_label_of_an_earlier_row_came():
    X, y, _ = stream("robust")
    late = LateLabels(make("robust"))
    for r in range(60):
        next(late.predict(X[r : r + 1]))
        if r >= 4 and r != 52:
            late.learn([r - 4], y[r - 4][None])
    late.refresh()
    late.learn([48], y[48][None])  # after those of rows 49 to 55
    again = LateLabels.from_tree(restored(late.learner), decode(*encode(late.to_tree()), {}))
    found = [row_by_row(next(each.predict(X[60:61]))[1].predictive) for each in (late, again)]
    close(found[0], found[1])
    assert again.learner.rows == late.learner.rows == 56


def test_a_row_is_learnt_once_if_the_renewal_after_it_is_interrupted(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    X, y, _ = stream("renewed")
    late = LateLabels(make("renewed"))
    for r in range(70):
        next(late.predict(X[r : r + 1]))
        if r >= 4:
            late.learn([r - 4], y[r - 4][None])
    rows = max(late.learner.rows, 66)
    monkeypatch.setattr("streamgp.stream.learner.due_after", interrupted)
    for r in range(70, 140):
        try:
            next(late.predict(X[r : r + 1]))
        except KeyboardInterrupt:
            break
        late.learn([r - 4], y[r - 4][None])
        rows += 1
    else:
        pytest.fail("expected a renewal")
    monkeypatch.undo()
    late.refresh()
    assert late.learner.rows == rows
