"""Ask and tell: choices against inverses and loops, resumed and spoilt runs, and what may not grow."""

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal

from failing_disk import Disk
from oracles.bandit_loop import Model, Seen, upper_bounds
from streamgp.bandits import (
    METHODS,
    Box,
    Budget,
    Candidates,
    Integer,
    Real,
    TimeVaryingOptimizer,
    acquisition,
    ensemble_surrogate,
    gaussian_surrogate,
)
from streamgp.bandits.problems import MovingBump
from streamgp.bandits.queries import FIRST_PRICE
from streamgp.bandits.regression import Posterior
from streamgp.numerics import checkpoint
from streamgp.numerics.checkpoint import MANIFEST, CheckpointError
from streamgp.numerics.checkpoint.directory import _seal, _sha256

pytestmark = pytest.mark.slow

PROBLEM = MovingBump(points=101)
GRID = PROBLEM.space.unit
MODEL = Model(0.2, 0.3, 0.01, 0.02, 1.5, window=7, eps=0.03, gamma=0.9)
KNOWN = {"lengthscales": 0.2, "variance": 0.3, "noise_var": 0.01, "mean": 1.5}
GP_METHODS = [method for method in METHODS if method != "ensemble"]
Answers = Callable[[np.ndarray], np.ndarray]

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Thousands of steps: other tests call the same functions with checks of types and shapes."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def light_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight experts instead of eighty, of few features: `test_ensemble_surrogate` has all of them."""
    monkeypatch.setattr(ensemble_surrogate, "LENGTHSCALES", (0.1, 0.3))
    monkeypatch.setattr(ensemble_surrogate, "DYNAMICS", ("static", "revert 0.95"))
    monkeypatch.setattr(ensemble_surrogate, "NOISE_VARS", (1e-3, 1e-1))
    monkeypatch.setattr(ensemble_surrogate, "_TERMS", 20)
    monkeypatch.setattr(ensemble_surrogate, "_FREQUENCIES", 24)


def new(method: str, space: Any = PROBLEM.space, **arguments: Any) -> TimeVaryingOptimizer:
    return TimeVaryingOptimizer(space, method, **{"random_state": 1, "num_queries": "2 log t", **arguments})


def readings(opt: TimeVaryingOptimizer, t: int) -> Answers:
    """What the function of step t is, with noise that two runs share."""
    rng = np.random.default_rng(t)
    return lambda X: PROBLEM.value(opt.space.encode_all(X), t) + 0.1 * rng.normal(size=len(X))


def play(opt: TimeVaryingOptimizer, steps: Sequence[int], answered: bool = True, sign: float = 1.0) -> np.ndarray:
    """The points chosen in these steps, from 1."""
    chosen = []
    for t in steps:
        x = opt.ask()
        read = readings(opt, t)

        def at(X: np.ndarray, read: Answers = read) -> np.ndarray:
            return sign * read(X)

        opt.tell(x, float(at(x[None])[0]))
        X = opt.queries() if answered else []
        if len(X):
            opt.answer(X, at(X))
        chosen.append(x)
    return np.array(chosen)


def look(opt: TimeVaryingOptimizer) -> tuple[Any, ...]:
    """All that an optimiser would do next, without doing it."""
    opt = copy.deepcopy(opt)
    opt.expert = None
    counts = opt.steps, opt.skipped_rewards, opt.skipped_answers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return opt.queries(), *opt.predict(GRID * 100.0 - 50.0), opt.ask(), opt.queries(), opt.recommend(), counts


def assert_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for a, b in zip(one, other, strict=True):
        assert_array_equal(a, b)


# What is chosen, against inverses and loops


def runs() -> Iterator[tuple[str, str, str | float]]:
    for method in GP_METHODS:
        for beta in ("theory", "log", 2.0):
            yield from ((method, beta, "rewards at any time"), (method, beta, "answers"))
        yield method, 2.0, "answers at any time"
    yield "sparq-gp-ucb", 2.0, "answers kept"


@pytest.mark.parametrize(("method", "beta", "run"), list(runs()))
@pytest.mark.filterwarnings("ignore:sparq-gp-ucb. expected answers")
def test_choices_are_those_of_the_textbook(method, beta, run, unchecked):
    answered, reuse = "answers" in run, run == "answers kept"
    # In weighted regression answers have the weights of rewards: the textbook knows no others.
    model = MODEL._replace(answer_var=0.01 if method == "w-gp-ucb" else 0.02, reuse=reuse)
    known = dict(KNOWN)
    if run == "answers":
        model = model._replace(mean=None)
        del known["mean"]
    steps = 24  # more than three windows
    gaps = np.ones(steps) if run == "answers" else np.random.default_rng(4).choice([0.0, 0.3, 0.5, 1.0, 1.7], steps)
    times = np.cumsum(gaps) + (0.0 if run == "answers" else 100.0)
    opt = new(
        method,
        beta=beta,
        bound=0.7,
        hyperparameters=known,
        window=7,
        reuse_answers=reuse,
        expert_noise_var=model.answer_var,
        num_queries=3,
        robust=False,
        time_unit=1.0,
    )
    seen: list[Seen] = []
    apart = 0
    for step in range(steps):
        x = opt.ask()
        bounds = upper_bounds(
            method,
            model,
            seen,
            GRID,
            step=step,
            time=times[step - 1],
            # As far ahead as the last was from the one before; there is none before the first.
            next_time=times[step - 1] + (gaps[step - 1] if step > 1 else 1.0),
            beta=beta,
            delta=0.05,
            bound=0.7,
        )
        near = np.flatnonzero(bounds >= bounds.max() * (1.0 - 1e-9))
        i = int(np.argmin(np.abs(GRID[:, 0] - opt.space.encode(x)[0])))
        assert i in near
        apart += len(near) < 4
        at = readings(opt, step + 1)
        reward = float(at(x[None])[0])
        opt.tell(x, reward, None if run == "answers" else times[step])
        seen.append(Seen(GRID[i], reward, times[step], step + 1, False))
        if answered:
            X = opt.queries()
            y = at(X)
            opt.answer(X, y)
            U = opt.space.encode_all(X)
            seen += [Seen(u, value, times[step], step + 1, True) for u, value in zip(U, y, strict=True)]
    assert apart >= 18  # so that the textbook leaves little choice


def test_what_counts_little_is_let_go_of(unchecked):
    for method, arguments in (("tv-gp-ucb", {"eps": 0.3}), ("w-gp-ucb", {"gamma": 0.7})):
        opt = new(method, hyperparameters=KNOWN, **arguments)
        play(opt, range(1, 61), answered=False)
        used = opt._unit.surrogate._used(opt._unit.history, opt.hyperparameters)
        assert 15 < len(used.y) < 35
        model, h = MODEL._replace(**arguments), opt._unit.history
        seen = [Seen(*row, False) for row in zip(h.U, h.y, h.times, h.at_step, strict=True)]
        clock = {"step": 60, "time": 60.0, "next_time": 61.0, "delta": 0.05, "bound": 1.0}
        at_mean, above = (upper_bounds(method, model, seen, GRID, beta=beta, **clock) for beta in (0.0, 1.0))
        mean, std = opt.predict(GRID * 100.0 - 50.0)
        assert_allclose(mean, at_mean, atol=0.01)
        assert_allclose(std, above - at_mean, atol=0.01)


def test_in_a_box_the_choice_is_no_worse_than_a_fine_grids(unchecked):
    opt = new("gp-ucb", [(0.0, 1.0), (-3.0, 5.0)], hyperparameters=KNOWN | {"lengthscales": [0.15, 0.3]})
    axes = np.meshgrid(np.linspace(0.0, 1.0, 41), np.linspace(-3.0, 5.0, 41))
    grid = np.stack(axes, -1).reshape(-1, 2)
    for _ in range(12):
        x = opt.ask()
        mean, std = opt.predict(np.concatenate([x[None], grid]))
        bounds = mean + 2.0 * std
        assert bounds[0] >= bounds[1:].max() - 0.01
        opt.tell(x, 1.5 + np.sin(5.0 * x[0]) * np.cos(x[1]))


def test_predictions_leave_noise_out_and_the_recommendation_is_their_best(unchecked):
    opt = new("gp-ucb", hyperparameters=KNOWN)
    x = opt.ask()
    opt.tell(x, 2.3)
    mean, std = opt.predict([x])
    assert_allclose(mean, 1.5 + 0.3 / 0.31 * 0.8, rtol=1e-12)
    assert_allclose(std, np.sqrt(0.3 - 0.3**2 / 0.31), rtol=1e-12)
    for method in METHODS:
        opt = new(method)
        play(opt, range(1, 9))
        mean, std = opt.predict(opt.space.points)
        assert opt.recommend() == opt.space.points[np.argmax(mean)]
        assert np.all(std >= 0.0)
        assert len(opt.predict(opt.space.points[:1])[0]) == 1


# The same again, and the future


@pytest.mark.parametrize("rule", ["grid", "past", "domain", "maximisers", "random"])
def test_a_seed_decides_and_asking_changes_nothing(rule, unchecked):
    runs = [new("sparq-gp-ucb", query_rule=rule, random_state=seed) for seed in (3, 3, 4)]
    one, same, other = (play(opt, range(1, 21)) for opt in runs)
    assert_array_equal(one, same)
    assert np.any(one != other)
    opt = runs[0]
    x, points = opt.ask(), opt.queries()
    assert_array_equal(opt.ask(), x)
    assert_array_equal(opt.queries(), points)
    opt.tell(x, 1.0)
    points = opt.queries()
    before = look(opt)
    assert_array_equal(opt.queries(), points)
    opt.predict([x])
    opt.recommend()
    assert_same(look(opt), before)
    opt.answer(points, np.ones(len(points)))
    if rule in ("grid", "past", "random"):
        assert_array_equal(opt.queries(), points)
    x, points = opt.ask(), opt.space.points
    far = points[np.argmax(np.abs(points - x))]
    assert_array_equal(opt.ask(), x)
    opt.answer([far, far], [99.0, 98.0])  # so that it thinks again: two that agree are no glitch
    assert np.abs(opt.ask() - far) < 10.0


def test_queries_are_elsewhere_in_every_step():
    for rule in ("grid", "random", "domain", "maximisers"):
        opt = new("gp-ucb", [(0.0, 1.0)], query_rule=rule, num_queries=3, hyperparameters=KNOWN)
        asked = []
        for _ in range(4):
            opt.ask()
            opt.tell([0.5], 1.5)
            asked.append(opt.queries())
        assert len({tuple(X[:, 0]) for X in asked}) == 4


def test_known_hyperparameters_leave_queries_as_they_are_after_answers_and_choices(unchecked):
    for rule in ("grid", "past", "domain", "maximisers", "random"):
        opt = new("sparq-gp-ucb", query_rule=rule, hyperparameters=KNOWN)
        play(opt, range(1, 10))
        opt.tell(opt.ask(), 2.0)
        points = opt.queries()
        opt.answer(points, np.ones(len(points)))
        assert_array_equal(opt.queries(), points)
        opt.ask()
        assert_array_equal(opt.queries(), points)


def test_without_a_seed_runs_differ():
    one, other = (play(new("gp-ucb", random_state=None), range(1, 4)) for _ in range(2))
    assert np.any(one != other)


@pytest.mark.parametrize("method", METHODS)
def test_a_choice_knows_nothing_of_later_rewards(method, unchecked):
    one, other = new(method), new(method)
    first = play(one, range(1, 17))
    second = np.concatenate([play(other, range(1, 11)), play(other, range(11, 12), sign=-1.0)])
    assert_array_equal(first[:11], second)
    later = play(other, range(12, 17), sign=-1.0)
    assert np.any(first[11:] != later)


# Interrupted


@pytest.mark.parametrize("method", ["sparq-gp-ucb", "tv-gp-ucb", "ensemble"])
def test_a_resumed_run_is_the_unbroken_one(method, tmp_path, unchecked):
    unbroken = new(method, [(-50.0, 50.0)], refit_every=5, query_rule="past")
    chosen = play(unbroken, range(1, 24))
    broken = new(method, [(-50.0, 50.0)], refit_every=5, query_rule="past")
    parts = [play(broken, range(1, 8))]
    for path, begin, end in ((tmp_path / "a", 8, 14), (tmp_path / "b", 14, 24)):
        broken.save(path)
        # 32-bit types are what a process has that has not asked for others.
        with jax.enable_x64(False):
            broken = TimeVaryingOptimizer.load(path)
        parts.append(play(broken, range(begin, end)))
    assert_array_equal(np.concatenate(parts), chosen)
    assert_same(look(broken), look(unbroken))


@pytest.mark.filterwarnings("ignore:sparq-gp-ucb. expected answers")
@pytest.mark.parametrize("method", ["sparq-gp-ucb", "ensemble"])
@pytest.mark.parametrize("stage", ["new", "asked", "told", "answered"])
def test_a_run_resumes_at_every_stage_of_a_step(method, stage, tmp_path, unchecked):
    opt = new(method, num_queries=5, query_rule="random")
    if stage != "new":
        play(opt, range(1, 4))
        x = opt.ask()
        if stage != "asked":
            opt.tell(x, float("nan"))
            opt.answer([x, x], [1.0, float("inf")])
            opt.tell(opt.ask(), 2.0)
        if stage == "answered":
            X = opt.queries()
            opt.answer(X, np.linspace(0.0, 1.0, len(X)))
    opt.save(tmp_path)
    again = TimeVaryingOptimizer.load(tmp_path)
    assert_same(look(again), look(opt))
    if stage == "asked":
        again.tell(x, 1.0)
        opt.tell(x, 1.0)
    assert_array_equal(play(again, range(9, 12)), play(opt, range(9, 12)))


def test_a_mixed_space_a_budget_and_known_hyperparameters_come_back(tmp_path):
    space = {"rate": Real(1e-4, 1.0, log=True), "depth": Integer(1, 8), "kind": ["a", "b"]}
    opt = new(
        "sparq-gp-ucb",
        space,
        query_rule="domain",
        num_queries=Budget(2.0),
        hyperparameters={"lengthscales": [0.1, 0.2, 0.3]},
    )
    for t in range(1, 5):
        opt.tell(opt.ask(), float(t))
        X = opt.queries()
        opt.answer(X, np.arange(len(X)))
    opt.save(tmp_path)
    again = TimeVaryingOptimizer.load(tmp_path)
    assert again.space == opt.space
    assert again._unit.price == opt._unit.price != FIRST_PRICE
    for _ in range(3):
        x, X = opt.ask(), opt.queries()
        assert (again.ask(), again.queries()) == (x, X)
        for each in (opt, again):
            each.tell(x, 1.0)
            each.answer(X, np.ones(len(X)))


def test_variances_of_a_checkpoint_that_are_none_are_refused(tmp_path, unchecked):
    made = new("tv-gp-ucb", [(-50.0, 50.0)])
    play(made, range(1, 8))
    made.save(tmp_path)
    arrays = next(tmp_path.glob("*.safetensors"))
    document = json.loads((tmp_path / MANIFEST).read_text())
    document.pop("checksum")
    values = safetensors.numpy.load_file(arrays)
    (name,) = [each for each in values if each.endswith("added_noise")]
    payload = safetensors.numpy.save(values | {name: values[name] - 1.0})
    arrays.write_bytes(payload)
    document["arrays"] |= {"bytes": len(payload), "sha256": _sha256(payload)}
    (tmp_path / MANIFEST).write_bytes(_seal(document))
    with pytest.raises(CheckpointError, match="expected added noise of finite variances"):
        TimeVaryingOptimizer.load(tmp_path)


def test_a_save_that_fails_leaves_the_one_before(tmp_path, monkeypatch, unchecked):
    opt = new("sparq-gp-ucb")
    play(opt, range(1, 6))
    opt.save(tmp_path / "x")
    saved = look(opt)
    play(opt, range(6, 9))
    with monkeypatch.context() as patch:
        disk = Disk(patch)
        opt.save(tmp_path / "elsewhere")
    calls = disk.calls.index("replace") + 1
    assert calls > 5
    for fail_at in range(1, calls + 1):
        with monkeypatch.context() as patch:
            Disk(patch, fail_at, dead=True)
            with pytest.raises(CheckpointError, match="No space left on device"):
                opt.save(tmp_path / "x")
        assert_same(look(TimeVaryingOptimizer.load(tmp_path / "x")), saved)
    opt.save(tmp_path / "x")
    assert_same(look(TimeVaryingOptimizer.load(tmp_path / "x")), look(opt))


@pytest.mark.parametrize("tree", [{"model": 1}, {"history": 1}, [1, 2], 3.0, np.zeros(3), None, "history"])
def test_something_else_is_not_loaded(tree, tmp_path):
    checkpoint.save(tmp_path, tree, {})
    with pytest.raises(CheckpointError, match="expected a saved optimiser, found something else"):
        TimeVaryingOptimizer.load(tmp_path)


def test_nothing_or_a_damaged_file_is_not_loaded(tmp_path):
    with pytest.raises(CheckpointError, match="no such directory"):
        TimeVaryingOptimizer.load(tmp_path / "nothing")
    new("gp-ucb").save(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="bytes"):
        TimeVaryingOptimizer.load(tmp_path)


# Experts


def callback(opt_space: Candidates | Box, clock: dict[str, int]) -> Answers:
    """Answers with noise that the step alone decides."""

    def expert(X: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng([7, clock["t"]])
        return PROBLEM.value(opt_space.encode_all(X), clock["t"]) + 0.1 * rng.normal(size=len(X))

    return expert


@pytest.mark.parametrize("method", ["sparq-gp-ucb", "gp-ucb", "ensemble"])
def test_an_expert_answers_as_one_would_by_hand(method, tmp_path, unchecked):
    clock = {"t": 0}
    expert = callback(PROBLEM.space, clock)
    own, by_hand = new(method, expert=expert), new(method)
    for t in range(1, 16):
        X = by_hand.queries()
        by_hand.answer(X, expert(X))
        x = own.ask()
        assert_array_equal(by_hand.ask(), x)
        clock["t"] = t
        for opt in (own, by_hand):
            opt.tell(x, float(readings(opt, t)(x[None])[0]))
        if t == 8:
            own.save(tmp_path)
            own = TimeVaryingOptimizer.load(tmp_path, expert=expert)
    assert own.steps == 15


def test_an_expert_is_asked_once_a_step_and_not_before_the_first_reward():
    asked: list[int] = []

    def expert(X: np.ndarray) -> list[float]:
        asked.append(opt.steps)
        return [1.0] * len(X)

    opt = new("sparq-gp-ucb", expert=expert, num_queries=3)
    for t in range(1, 5):
        x = opt.ask()
        opt.ask()
        opt.tell(x, float(t))
    assert asked == [1, 2, 3]


def test_an_expert_that_fails_changes_nothing_and_may_be_asked_again():
    def good(X: np.ndarray) -> np.ndarray:
        return np.linspace(0.0, 1.0, len(X))

    def fails(_: np.ndarray) -> np.ndarray:
        raise KeyError("the line is dead")

    opt, fine = (new("sparq-gp-ucb", expert=good) for _ in range(2))
    for t in range(1, 4):
        for each in (opt, fine):
            each.tell(each.ask(), float(t))
    before = look(opt)
    for wrong, error in (
        (fails, KeyError),
        (lambda X: np.zeros(len(X) + 1), ValueError),
        (lambda X: np.zeros((len(X), 2)), ValueError),
        (lambda X: 1.0, ValueError),
        (lambda X: None, ValueError),
        (lambda X: ["high"] * len(X), ValueError),
    ):
        opt.expert = wrong
        with pytest.raises(error, match="line is dead" if error is KeyError else r"^y: expected \d numbers"):
            opt.ask()
        assert_same(look(opt), before)
    opt.expert = good
    assert_array_equal(opt.ask(), fine.ask())
    assert_same(look(opt), look(fine))


def test_unanswered_queries_are_warned_of_once():
    opt = new("sparq-gp-ucb")
    play(opt, range(1, 6), answered=False)
    with pytest.warns(UserWarning, match="expected answers to side queries") as caught:
        play(opt, range(6, 13), answered=False)
    assert len(caught) == 1
    # Others do without, and so does one that is to have none.
    play(new("gp-ucb"), range(1, 8), answered=False)
    play(new("sparq-gp-ucb", num_queries=0), range(1, 8), answered=False)
    play(new("sparq-gp-ucb"), range(1, 8))
    # A budget has steps without any.
    thrifty, asked = new("sparq-gp-ucb", query_rule="domain", num_queries=Budget(0.1), hyperparameters=KNOWN), []
    for t in range(1, 20):
        play(thrifty, [t])
        asked.append(len(thrifty.queries()))
    assert 0 in asked[5:]


# Bad input


def test_what_is_told_wrongly_changes_nothing(unchecked):
    named = new("gp-ucb", {"a": (0.0, 1.0), "n": Integer(1, 5), "kind": ["x", "y"]})
    plain = new("gp-ucb", [(0.0, 1.0), (0.0, 2.0)])
    fine = {"a": 0.5, "n": 2, "kind": "x"}
    for opt, points in ((named, [fine]), (plain, [[0.5, 0.5]])):
        opt.tell(points[0], 1.0, 4.0)
        opt.answer(points, [1.5])
        opt.ask()

    def look(opt: TimeVaryingOptimizer) -> tuple[Any, ...]:
        opt = copy.deepcopy(opt)
        X = [fine] if opt.space.names else [[0.5, 0.5]]
        return *opt.predict(X), opt.ask(), opt.queries(), opt.steps, opt._unit.history.time, opt.skipped_answers

    for opt, x, y, t, message in (
        (plain, [0.5], 1.0, None, r"x: expected 2 numbers, one per parameter, got shape \(1,\)"),
        (plain, [0.5, 0.5, 0.5], 1.0, None, r"x: expected 2 numbers.*got shape \(3,\)"),
        (plain, 0.5, 1.0, None, "x: expected 2 numbers"),
        (plain, [0.5, 2.1], 1.0, None, r"x\[1\]: expected a number from 0 to 2, got 2\.1"),
        (plain, [-0.1, 1.0], 1.0, None, r"x\[0\]: expected a number from 0 to 1, got -0\.1"),
        (plain, [float("nan"), 1.0], 1.0, None, r"x\[0\]: expected a finite number, got nan"),
        (plain, {"a": 1.0}, 1.0, None, "x: expected 2 numbers"),
        (named, {"a": 0.5, "n": 2}, 1.0, None, "x: expected a dictionary of a, n, kind, got a, n"),
        (named, fine | {"z": 1}, 1.0, None, "x: expected a dictionary of a, n, kind, got a, n, kind, z"),
        (named, [0.5, 2, "x"], 1.0, None, "x: expected a dictionary"),
        (named, fine | {"kind": "z"}, 1.0, None, r"x\['kind'\]: expected one of 'x', 'y', got 'z'"),
        (named, fine | {"n": 2.5}, 1.0, None, r"x\['n'\]: expected a whole number from 1 to 5, got 2\.5"),
        (named, fine | {"n": 6}, 1.0, None, r"x\['n'\]: expected a whole number"),
        (named, fine | {"a": "high"}, 1.0, None, r"x\['a'\]: expected a finite number, got 'high'"),
        (named, fine, 1.0, 3.9, r"t: expected a finite number.* at least 4, the time of the last, got 3\.9"),
        (named, fine, 1.0, float("nan"), "t: expected a finite number.* at least 4, the time of the last, got nan"),
        (named, fine, 1.0, float("inf"), "t: expected a finite number.* at least 4, the time of the last, got inf"),
        (named, fine, 1.0, "noon", "t: expected a number, such as seconds since 1970, or a datetime, got 'noon'"),
        (named, fine, None, None, "y: expected 1 numbers, one per point, got None"),
        (named, fine, 1e300, None, r"y: expected numbers of at most 1e\+\d+, or NaN, got 1e\+300"),
        (named, fine, [1.0, 2.0], None, r"y: expected 1 numbers, one per point, got shape \(2,\)"),
        (named, fine, "much", None, "y: expected 1 numbers, got 'much'"),
    ):
        before = look(opt)
        with pytest.raises(ValueError, match=f"^{message}"):
            opt.tell(x, y, t)
        assert_same(look(opt), before)
    for opt, X, y, message in (
        (plain, [[0.5, 0.5]], [1.0, 2.0], r"y: expected 1 numbers, one per point, got shape \(2,\)"),
        (plain, [[0.5, 0.5], [0.6, 0.6]], [1.0], r"y: expected 2 numbers, one per point, got shape \(1,\)"),
        (plain, [[0.5, 0.5]], [], r"y: expected 1 numbers, one per point, got shape \(0,\)"),
        (plain, [[0.5, 0.5], [0.6, 2.6]], [1.0, 1.0], r"X\[1\]\[1\]: expected a number from 0 to 2, got 2\.6"),
        (plain, [[0.5]], [1.0], r"X\[0\]: expected 2 numbers"),
        (named, [fine, fine | {"kind": "z"}], [1.0, 1.0], r"X\[1\]\['kind'\]: expected one of 'x', 'y'"),
        (named, [fine], ["much"], "y: expected 1 numbers, got"),
    ):
        before = look(opt)
        with pytest.raises(ValueError, match=f"^{message}"):
            opt.answer(X, y)
        assert_same(look(opt), before)
        with pytest.raises(ValueError, match=r"^X\["):
            opt.predict([[0.5, 2.6]])
        assert_same(look(opt), before)
    named.tell(named.ask(), 1.0, 4.0)  # the same time is none that goes back
    with pytest.raises(ValueError, match=r"^x: expected one of the 101 candidates"):
        grid = new("gp-ucb")
        grid.ask()
        grid.tell([0.5], 1.0)


@pytest.mark.filterwarnings("ignore:sparq-gp-ucb. expected answers")
@pytest.mark.parametrize("method", ["sparq-gp-ucb", "gp-ucb", "ensemble"])
def test_rewards_and_answers_that_are_no_numbers_are_skipped_and_counted(method, unchecked):
    arguments = {} if method == "ensemble" else {"hyperparameters": KNOWN}
    opt, other = (new(method, num_queries=4, time_unit=1.0, **arguments) for _ in range(2))
    for each in (opt, other):
        play(each, range(1, 7))
    for reward in (float("nan"), float("inf"), -float("inf")):
        before = opt.predict(opt.space.points)
        opt.tell(opt.ask(), reward)
        X = opt.queries()
        opt.answer(X, np.full(len(X), np.nan))
        if method == "gp-ucb":  # which forgets nothing
            assert_array_equal(opt.predict(opt.space.points), before)
    assert (opt.steps, opt.skipped_rewards, opt.skipped_answers) == (9, 3, 12)
    x = opt.space.points[[30, 60]]
    for t in (10.0, 11.0):
        for each in (opt, other):
            each.ask()
            each.tell(x[0], 2.0, t)
        opt.answer(x[[0, 1, 1]], [np.nan, 2.5, np.inf])
        other.answer(x[1:], [2.5])
    assert (opt.steps, other.steps) == (11, 8)
    assert (opt.skipped_rewards, opt.skipped_answers) == (3, 16)
    assert (other.skipped_rewards, other.skipped_answers) == (0, 0)
    assert_allclose(opt.predict(opt.space.points), other.predict(other.space.points), rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "gp"}, "method: expected one of sparq-gp-ucb, gp-ucb,.* got 'gp'"),
        ({"beta": -1.0}, r"beta: expected a number of at least zero or one of theory, log.* got -1\.0"),
        ({"beta": float("inf")}, "beta: expected .* got inf"),
        ({"beta": "greedy"}, "beta: expected .* got 'greedy'"),
        ({"beta": float("nan")}, "beta: expected .* got nan"),
        ({"delta": 0.0}, r"expected 0 < delta < 1 and bound >= 0, got 0\.0"),
        ({"delta": 1.0}, r"expected 0 < delta < 1 and bound >= 0, got 1\.0"),
        ({"bound": -1.0}, r"expected 0 < delta < 1 and bound >= 0, got 0\.05 and -1\.0"),
        ({"bound": float("nan")}, "expected 0 < delta < 1 and bound >= 0, got .* nan"),
        ({"kernel": "linear"}, "kernel: expected one of squared-exponential,.* got 'linear'"),
        ({"hyperparameters": {"scale": 1.0}}, "hyperparameters: expected some of lengthscales,.* got scale"),
        ({"hyperparameters": {"noise_var": 0.0}}, r"noise_var: expected a positive number, got 0\.0"),
        ({"hyperparameters": {"variance": float("inf")}}, "variance: expected a positive number, got inf"),
        ({"hyperparameters": {"mean": float("nan")}}, "mean: expected a finite number, got nan"),
        ({"hyperparameters": {"lengthscales": [0.1] * 3}}, r"lengthscales: expected a number or 2 .* shape \(3,\)"),
        ({"hyperparameters": {"lengthscales": [0.1, -0.1]}}, "lengthscales: expected a positive number, got "),
        ({"window": 2.5}, r"expected a whole window >= 1.* got .*2\.5, "),
        ({"window": 0}, "expected a whole window >= 1.* got .*0, "),
        ({"eps": 1.0}, r"expected .* eps and gamma between 0 and 1, got .*1\.0"),
        ({"gamma": 0.0}, r"expected .* eps and gamma between 0 and 1, got .*0\.0$"),
        ({"query_rule": "mesh"}, "query_rule: expected one of past, domain,.* got 'mesh'"),
        ({"query_rule": "domain", "method": "ensemble"}, "query_rule: expected 'grid', 'past' .* ensemble, got 'dom"),
        ({"method": "ensemble", "kernel": "matern-3/2"}, "kernel: expected no such choice for an ensemble"),
        ({"method": "ensemble", "hyperparameters": {"mean": 1.0}}, "hyperparameters: expected no such choice for an"),
        ({"method": "ensemble", "beta": "theory"}, "beta='theory': expected no such choice for an ensemble"),
        ({"method": "ensemble", "expert_noise_var": 1.0}, "expert_noise_var: expected no such choice for an ens"),
        ({"num_queries": -1}, "num_queries: expected a whole number .* got -1"),
        ({"num_queries": 1.5}, r"num_queries: expected a whole number .* got 1\.5"),
        ({"num_queries": "log t"}, "num_queries: expected a whole number .* got 'log t'"),
        ({"num_queries": Budget(2.0)}, "num_queries: expected a Budget with query_rule='domain' alone, got 'grid'"),
        ({"swaps": -1}, "swaps: expected a whole number of at least 0, got -1"),
        ({"expert_noise_var": 0.0}, r"expert_noise_var: expected a positive number or None, got 0\.0"),
        ({"refit_every": 0}, "refit_every: expected a whole number of at least 1, got 0"),
        ({"memory": 9}, "memory: expected a whole number of at least 10, got 9"),
        ({"memory": 20.0}, r"memory: expected a whole number of at least 10, got 20\.0"),
        ({"random_state": -1}, "random_state: expected a whole number of at least zero or None, got -1"),
        ({"random_state": 0.5}, r"random_state: expected a whole number of at least zero or None, got 0\.5"),
        ({"space": "unit"}, "space: expected a dictionary"),
        ({"space": {}}, "space: expected at least one parameter"),
        ({"space": {"a": 3}}, r"space\['a'\]: expected "),
    ],
)
def test_arguments_that_make_no_sense(arguments, message, unchecked):
    space = arguments.get("space", [(0.0, 1.0)] * 2)
    with pytest.raises(ValueError, match=f"^{message}"):
        TimeVaryingOptimizer(space, **{"method": "gp-ucb", **{k: v for k, v in arguments.items() if k != "space"}})


# A real search


SPACE = {"rate": Real(1e-4, 1.0, log=True), "depth": Integer(1, 8), "kind": ["a", "b", "c"]}
KINDS = {"a": 0.0, "b": 1.0, "c": 0.4}


def quality(x: dict[str, Any]) -> float:
    """At most 1, at rate 0.01, depth 5 and kind b."""
    return KINDS[x["kind"]] - 0.5 * (np.log10(x["rate"]) + 2.0) ** 2 - 0.1 * (x["depth"] - 5) ** 2


def is_valid(x: dict[str, Any]) -> bool:
    return 1e-4 <= x["rate"] <= 1.0 and x["depth"] in range(1, 9) and type(x["depth"]) is int and x["kind"] in KINDS


@pytest.mark.parametrize("method", METHODS)
def test_the_optimum_of_a_mixed_space_is_found(method, unchecked, monkeypatch):
    monkeypatch.setattr(ensemble_surrogate, "LENGTHSCALES", (0.2, 0.4))
    monkeypatch.setattr(ensemble_surrogate, "_FREQUENCIES", 64)
    monkeypatch.setattr(acquisition, "POINTS", 128)
    rng = np.random.default_rng(2)

    def noisy(x: dict[str, Any]) -> float:
        return quality(x) + 0.05 * rng.normal()

    arguments: dict[str, Any] = {}
    if method == "sparq-gp-ucb":
        arguments = {"expert": lambda X: [noisy(x) for x in X], "num_queries": 6, "reuse_answers": True}
    figures = []
    # One search of a few random functions may stay at a kind that is not the best one.
    for seed in (1, 2, 3) if method == "ensemble" else (1,):
        opt = new(method, SPACE, random_state=seed, **arguments)
        chosen = []
        for _ in range(40):
            chosen.append(opt.ask())
            opt.tell(chosen[-1], noisy(chosen[-1]))
        assert all(map(is_valid, [*chosen, *opt.queries(), opt.recommend()]))
        found = [quality(x) for x in chosen]
        figures.append((max(found), np.mean(found[20:]), quality(opt.recommend())))
    highest, later, recommended = np.median(figures, axis=0)
    shape = 1000, 40  # as many runs of a random search
    random = rng.choice(list(KINDS.values()), shape) - 0.5 * rng.uniform(-2.0, 2.0, shape) ** 2
    random -= 0.1 * (rng.integers(1, 9, shape) - 5) ** 2
    best, average = random.max(axis=1), random.mean(axis=1)
    assert highest > np.quantile(best, 0.9)
    assert later > np.quantile(average, 0.99)
    assert recommended > np.median(best)


# What may not grow


@pytest.mark.filterwarnings("ignore:sparq-gp-ucb. expected answers")
@pytest.mark.parametrize("method", METHODS)
def test_no_more_is_kept_than_the_memory(method, unchecked):
    opt = new(method, memory=12, query_rule="random")
    for t in range(1, 31):
        play(opt, [t], answered=t % 2 == 0)
        h = opt._unit.history
        rows = len(h.y)
        assert rows <= 12
        assert len(h.locations) <= 12
        assert len(opt._unit.failures.U) == 0
        assert {len(a) for a in (h.U, h.times, h.at_step, h.answer)} == {rows}
    assert rows == 12
    assert np.all(np.diff(h.times) >= 0.0)
    assert h.times[-1] == 30.0


def test_past_inputs_are_distinct_and_the_newest():
    opt = new("gp-ucb", memory=10, query_rule="past")
    at = opt.space.points[[*range(20), 12, 5, 19]]
    for x in at:
        opt.ask()
        opt.tell(x, 1.0)
    wanted = [13, 14, 15, 16, 17, 18, 12, 5, 19]
    held = [int(np.argmin(np.abs(GRID - u))) for u in opt._unit.history.locations]
    assert held[-9:] == wanted
    assert len(held) == len(set(held)) == 10


@pytest.mark.parametrize(
    ("method", "most"),
    [
        ("sparq-gp-ucb", 2 + 6),
        ("r-gp-ucb", 6 + 7 * 6),
        ("sw-gp-ucb", 7 * 7),
        ("tv-gp-ucb", 26 * 7),
        ("w-gp-ucb", 20 * 7),
    ],
)
def test_the_work_of_a_step_does_not_grow(method, most, monkeypatch, unchecked):
    rows: list[int] = []

    class Counted(Posterior):
        def __init__(self, kernel: Any, hyper: Any, U: np.ndarray, *rest: Any) -> None:
            rows.append(len(U))
            super().__init__(kernel, hyper, U, *rest)

    monkeypatch.setattr(gaussian_surrogate, "Posterior", Counted)
    opt = new(method, num_queries=6, window=7, eps=0.3, gamma=0.7, hyperparameters=KNOWN, query_rule="random")
    play(opt, range(1, 31))
    early = max(rows)
    rows.clear()
    play(opt, range(31, 61))
    assert len(rows) == 30
    assert max(rows) <= most
    assert max(rows) <= early + (7 if method == "sparq-gp-ucb" else 0)


def test_sparq_asks_no_more_queries_than_it_has_past_inputs():
    opt = new("sparq-gp-ucb", num_queries=5, query_rule="past", hyperparameters=KNOWN | {"lengthscales": 0.01})
    i = [50, 50, 20, 20, 50, 80, 5, 95, 33, 66]
    for t in range(10):
        opt.ask()
        opt.tell(opt.space.points[i[t]], 1.0)
        X = opt.queries()
        assert len(X) == min(5, len(set(i[: t + 1])))
        assert len(np.unique(X, axis=0)) == len(X)
        opt.answer(X, np.ones(len(X)))


@pytest.mark.parametrize("method", GP_METHODS)
def test_a_gaussian_process_compiles_nothing(method, unchecked):
    opt = new(method, query_rule="past", swaps=5, num_queries=1)
    COMPILED.clear()
    play(opt, range(1, 27))  # with all fits of the first steps and one after
    opt.predict(opt.space.points)
    assert COMPILED == []


def test_the_ensemble_compiles_nothing_once_it_has_begun(unchecked):
    opt = new("ensemble", Candidates(np.linspace(-50.0, 50.0, 41)[:, None]), num_queries=3, query_rule="random")
    play(opt, range(1, 19))
    assert opt._unit.surrogate._count > 64
    COMPILED.clear()
    rng = np.random.default_rng(0)
    for t in range(19, 201):
        x = opt.ask()
        opt.tell(x, float(rng.normal()))
        if t % 4 == 0:
            X = opt.space.points[rng.integers(41, size=int(rng.integers(1, 80)))]
            opt.answer(X, rng.normal(size=len(X)))
    opt.recommend()
    for size in (0, 1, 2, 7, 30, 41):  # among them such as have not been seen before
        assert len(opt.predict(opt.space.points[:size])[0]) == size
    assert opt._unit.surrogate._count > 1000
    assert COMPILED == []
