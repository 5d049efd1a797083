"""Ask and tell: a black box whose optimum moves, and the methods that follow it."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp import checkpoint
from streamgp.bandits import queries as rules
from streamgp.bandits.acquisition import maximise
from streamgp.bandits.avoidance import Failures
from streamgp.bandits.belief import GaussianBelief, View
from streamgp.bandits.clock import Clock, as_times, as_unit
from streamgp.bandits.confidence import Schedule
from streamgp.bandits.history import History
from streamgp.bandits.memory import EPS, GAMMA, WINDOW
from streamgp.bandits.regression import KERNELS, Hyperparameters
from streamgp.bandits.settings import Settings, known_hyperparameters
from streamgp.bandits.space import as_space
from streamgp.bandits.surrogate import Surrogate
from streamgp.bandits.told import as_rewards, is_one_point
from streamgp.bandits.trust import to_try_again
from streamgp.numerics.threads import one_blas_thread

Expert = Callable[[Any], Any]

_DRAW, _QUERY = 0, 1  # what random numbers are for
MOST_OUT = 64  # points that may be under evaluation at once
_SAME = 1e-9  # unit coordinates of one point, given back


class TimeVaryingOptimizer:
    """Maximises a function that changes as time goes on, one noisy evaluation a step.

    ``x = opt.ask()`` says where to evaluate next, ``opt.tell(x, y)`` what came of it, or of what was not asked
    for, such as past data. ``opt.ask(another=True)`` is for evaluations side by side. Methods that profit from more
    than one evaluation a step have side queries: ``X = opt.queries()`` says where, ``opt.answer(X, y)`` takes the
    answers, and so does the callback `expert`, which ``ask`` calls by itself.

    Parameters
    ----------
    space
        What may be chosen: see `streamgp.bandits.as_space`.
    method
        ``"tv-gp-ucb"``, for one evaluation a step; ``"sparq-gp-ucb"``, which lives by side queries; ``"ensemble"``,
        which learns kernel and forgetting from the data; or ``"gp-ucb"``, ``"r-gp-ucb"``, ``"sw-gp-ucb"``,
        ``"w-gp-ucb"``: see `streamgp.bandits.memory_of`. All of them take answers to side queries.
    beta
        How much more than its mean a point may promise: a number of standard deviations, or the name of a schedule
        (see `streamgp.bandits.beta`).
    delta, bound
        The probability of failure and the bound B on the function's norm that ``beta="theory"`` needs.
    kernel
        ``"squared-exponential"``, ``"matern-5/2"`` or ``"matern-3/2"``. Not for ``"ensemble"``.
    hyperparameters
        Those that are known, of ``lengthscales`` (one for each parameter or one for all, in shares of their ranges),
        ``variance``, ``noise_var`` and ``mean`` (in units of the reward). The others maximise the marginal likelihood
        of the observations in use, under weak priors, in steps 5, 10 and 20 and then every `refit_every`.
    window, eps, gamma
        Of the restarting and sliding-window methods, of the temporal kernel, of the weights.
    query_rule
        Where side queries are: ``"grid"``, evenly spread; ``"past"``, among past inputs as the paper has it;
        ``"domain"``, where they tell most; ``"maximisers"``, at the greatest upper bounds; ``"random"``.
    num_queries
        How many a step: a number; ``"6 log t"`` as in the paper, or with another factor, rounded up; or a `Budget`,
        with ``"domain"``.
    swaps
        Steps of the Markov chain of ``"past"``, after its greedy start.
    reuse_answers
        Whether ``"sparq-gp-ucb"`` keeps answers for later steps, where they age as observations do.
    expert
        Answers side queries: a function of points, as `queries` gives them, to as many numbers.
    expert_noise_var
        Variance of an answer; None: that of an observation.
    refit_every
        Steps between two fits of the hyperparameters.
    memory
        Most observations and answers in use, and most past inputs to choose queries from; beyond, the oldest go.
    random_state
        Seed; None draws one.
    robust
        Whether rewards and answers that are absurd for what is known count the less the further they are out (see
        `trials` for which). Five in a row are a change, and count in full; one that is too good to be true is
        tried again at once, and counts if it comes out the same. The methods' papers have no such thing.
    time_unit
        How much time is a step: a number in the unit of the times that are told, or a timedelta; None: the median gap
        between the last trials. `eps`, `gamma` and the ageing of ``"sparq-gp-ucb"`` are per step.

    Raises
    ------
    ValueError
        If an argument makes no sense.
    """

    def __init__(
        self,
        space: Any,
        method: str = "tv-gp-ucb",
        *,
        beta: Schedule | float = 2.0,
        delta: float = 0.05,
        bound: float = 1.0,
        kernel: str = "squared-exponential",
        hyperparameters: Mapping[str, Any] | None = None,
        window: int = WINDOW,
        eps: float = EPS,
        gamma: float = GAMMA,
        query_rule: rules.Rule = "grid",
        num_queries: rules.Number = "6 log t",
        swaps: int = 0,
        reuse_answers: bool = False,
        expert: Expert | None = None,
        expert_noise_var: float | None = None,
        refit_every: int = 25,
        memory: int = 1000,
        random_state: int | None = None,
        robust: bool = True,
        time_unit: Any = None,
    ) -> None:
        self.space = as_space(space)
        self._settings = Settings(
            method=method,
            beta=beta,
            delta=delta,
            bound=bound,
            kernel=kernel,
            fixed=known_hyperparameters(hyperparameters or {}, self.space.groups),
            window=window,
            eps=eps,
            gamma=gamma,
            query_rule=query_rule,
            num_queries=num_queries,
            swaps=swaps,
            reuse_answers=reuse_answers,
            expert_noise_var=expert_noise_var,
            refit_every=refit_every,
            memory=memory,
            random_state=_as_seed(random_state),
            robust=robust,
            time_unit=as_unit(time_unit),
        )
        self._settings.check()
        self.expert = expert
        self._begin()

    def _begin(self) -> None:
        self._history = History.empty(len(self.space.groups))
        self._belief: GaussianBelief | Surrogate
        if self._settings.method == "ensemble":
            settings = self._settings
            self._belief = Surrogate(self.space.groups, settings.random_state, robust=settings.robust)
        else:
            self._belief = GaussianBelief(self._settings, self.space.groups)
        self._clock = Clock(self._settings.time_unit)
        self._asked: Float[np.ndarray, " d"] | None = None
        self._out = np.zeros((0, len(self.space.groups)))  # asked for before, and not told
        self._again: Float[np.ndarray, " d"] | None = None  # a place whose reward was too good to be true
        self._stale = False  # whether answers came after the last ask
        self._failures = Failures.none(len(self.space.groups))
        self._price = rules.FIRST_PRICE
        self._warned = False
        self.skipped_rewards = 0
        self.skipped_answers = 0

    @property
    def _parameters(self) -> int:
        return int(self.space.groups.max()) + 1

    @property
    def steps(self) -> int:
        """How many rewards were told, those that were skipped among them."""
        return self._history.step

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those in use now, lengthscales in unit coordinates; an ensemble's experts have their own."""
        return self._belief.hyperparameters(self._history)

    @property
    def weights(self) -> dict[str, float]:
        """How much each expert of the ensemble counts; empty for other methods."""
        return self._belief.weights if isinstance(self._belief, Surrogate) else {}

    @property
    def trials(self) -> dict[str, Any]:
        """The rewards in memory, as they were told: ``x``, ``y``, ``step``, and ``flagged``, those not believed.

        What is flagged is judged anew as more becomes known.
        """
        h = self._belief.settle(self._history)
        h = h.where(~h.answer)
        return {"x": self.space.decode_all(h.U), "y": h.y.copy(), "step": h.at_step.copy(), "flagged": h.flagged}

    @property
    def flagged_rewards(self) -> int:
        """How many of the rewards in memory are not believed."""
        return int(self.trials["flagged"].sum())

    @property
    def pending(self) -> Any:
        """The points that were asked for and not told yet, in order."""
        return self.space.decode_all(self._pending)

    @property
    def _pending(self) -> Float[np.ndarray, "k d"]:
        return self._out if self._asked is None else np.concatenate([self._out, self._asked[None]])

    def ask(self, *, another: bool = False) -> Any:
        """Where to evaluate next; the same until something is told or answered.

        With an `expert` its answers of this step are fetched first. If it raises, nothing has changed.

        Parameters
        ----------
        another
            Whether the points asked for before are still being evaluated, so that a further one is wanted: as if they
            had come out as expected, and another one than they are where there is one. At most 64 may be out.

        Raises
        ------
        ValueError
            If the expert's answers have the wrong shape, or too many points are out.
        """
        out, asked = (self._pending, None) if another else (self._out, self._asked)
        if len(out) >= MOST_OUT:
            raise ValueError(
                f"ask: expected at most {MOST_OUT} points out at once, got one more; tell what came of them first, "
                f"NaN where nothing did"
            )
        if self.expert is not None and self._history.given == 0 and self.steps > 0:
            with one_blas_thread():
                U = self._query_points()
            if len(U):
                self._learn_answers(U, self.expert(self.space.decode_all(U)))
        if asked is None or self._stale:
            self._warn_if_unanswered()
            with one_blas_thread():  # matrices are small: threads would wait for each other
                asked = self._next(out)
            self._asked, self._out, self._stale = asked, out, False
        return self.space.decode(asked)

    def _next(self, out: Float[np.ndarray, "k d"]) -> Float[np.ndarray, " d"]:
        new = self._history.unjudged
        self._history = self._belief.refit(self._belief.settle(self._history))
        again = to_try_again(self._history, new)
        self._again = self._again if again is None else again
        if self._again is not None and not _among(self._again[None], out)[0]:
            return self._again
        view = self._belief.view(self._history, out)
        return self._maximum(self._settings.factor(self.steps + 1, view.log_gain, self._parameters), view, out)

    def tell(self, x: Any, y: Any, t: Any = None) -> None:
        """Learn the reward of a point: of one that was asked for, of what was done instead, or of past data.

        A reward that is NaN or infinite is skipped and counted (`skipped_rewards`); the step is over all the same,
        and the place is not asked for again in 1, 2, 4, ... steps. Tell a bad reward where a failure is a verdict.
        Points that are out may be told in any order.

        Parameters
        ----------
        x
            A point of the space, or a sequence of them, in order: as many calls in one.
        y
            Its reward, to be maximised, or one for each.
        t
            When: numbers that never go back, or datetimes; by default one step after the last. See `time_unit`.

        Raises
        ------
        ValueError
            If a point is none of the space, or time goes back. Nothing has changed then.
        """
        one = np.ndim(y) == 0 or is_one_point(self.space, x)
        U = self.space.encode(x)[None] if one else self.space.encode_all(x, "x")
        rewards = as_rewards(y, len(U), "y")
        last = self._clock.last if self.steps else -np.inf
        times = [None] * len(U) if t is None else as_times(t if not one else [t], len(U), last)
        for u, reward, time in zip(U, rewards, times, strict=True):
            self._learn_reward(u, float(reward), time)

    def _learn_reward(self, u: Float[np.ndarray, " d"], reward: float, time: float | None) -> None:
        usable = bool(np.isfinite(reward))
        clock, passed = self._clock.moved(time, first=self.steps == 0)
        history = self._history.advanced(self._history.time + passed)
        failures = self._failures
        if usable:
            places = self._settings.query_rule == "past"
            history = history.with_rows(u[None], np.array([reward]), False, self._settings.memory, places)
            failures = failures.succeeded(u)
        else:
            failures = failures.add(u, history.step)
        price = self._next_price()
        history = self._belief.take(history)
        self._history, self._clock, self._failures, self._price = history, clock, failures, price
        pending, told = self._pending, _among(self._pending, u[None])
        if told.any():
            pending = np.delete(pending, int(np.argmax(told)), axis=0)
        elif len(pending) == 1:
            pending = pending[:0]  # this was done instead
        self._out, self._asked, self._again, self._stale = pending, None, None, False
        self.skipped_rewards += not usable

    def _next_price(self) -> float:
        """Of a budget, after this step; it stays where there were queries and nobody answered."""
        number, given = self._settings.num_queries, self._history.given
        if not isinstance(number, rules.Budget) or self.steps == 0:
            return self._price
        if given == 0:
            with one_blas_thread():
                if len(self._query_points()):
                    return self._price
        return number.next_price(self._price, given)

    def queries(self) -> Any:
        """Where side answers of this step would tell most: as many points as the step has; ask an expert for them.

        None before the first reward. The same until something is told or, where hyperparameters are fitted, asked.
        """
        with one_blas_thread():
            return self.space.decode_all(self._query_points())

    def answer(self, X: Any, y: Any) -> None:
        """Learn fresh evaluations of the function of now, at the points of `queries` or any others.

        Answers that are NaN or infinite are skipped and counted (`skipped_answers`).

        Raises
        ------
        ValueError
            If a point is none of the space, or there are not as many answers as points. Nothing has changed then.
        """
        self._learn_answers(self.space.encode_all(X), y)

    def _learn_answers(self, U: Float[np.ndarray, "n d"], y: Any) -> None:
        rewards = as_rewards(y, len(U), "y")
        usable = np.isfinite(rewards)
        history = self._history.with_rows(U[usable], rewards[usable], True, self._settings.memory)
        history = self._belief.take(history)
        self._history = replace(history, given=history.given + len(U))
        self._stale = True
        self.skipped_answers += int((~usable).sum())

    def predict(self, X: Any) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of the function of now at points of the space, noise left out."""
        return self._belief.view(self._belief.settle(self._history)).at(self.space.encode_all(X))

    def recommend(self) -> Any:
        """The point whose mean is the greatest now: the best guess, without exploration."""
        with one_blas_thread():
            view = self._belief.view(self._belief.settle(self._history))
            return self.space.decode(self._maximum(0.0, view, self._out[:0]))

    def save(self, path: str | Path) -> None:
        """Write everything but the `expert` to a directory, in one step that cannot leave half of it.

        Raises
        ------
        CheckpointError
            If the disk refuses.
        """
        tree = {
            "space": self.space,
            "settings": self._settings,
            "history": self._history,
            "asked": self._asked,
            "stale": self._stale,
            "out": self._out,
            "again": self._again,
            "clock": self._clock,
            "price": self._price,
            "failures": self._failures,
            "skipped": (self.skipped_rewards, self.skipped_answers),
            "belief": self._belief.to_tree(),
        }
        checkpoint.save(path, tree, {"steps": self.steps, "method": self._settings.method})

    @classmethod
    def load(cls, path: str | Path, expert: Expert | None = None) -> "TimeVaryingOptimizer":
        """The optimiser that `save` wrote; it goes on as if nothing had happened.

        Raises
        ------
        CheckpointError
            If there is none, or it is damaged.
        """
        tree, _ = checkpoint.load(path)
        if not isinstance(tree, dict) or not {"space", "settings", "history", "belief"} <= tree.keys():
            raise checkpoint.CheckpointError(
                f"{path}: expected a saved optimiser, found something else; check the path."
            )
        new = object.__new__(cls)
        new.space, new._settings, new.expert = tree["space"], tree["settings"], expert
        new._begin()
        new._belief.restore(tree["belief"])
        new._history, new._asked, new._stale, new._price, new._failures = (
            tree[name] for name in ("history", "asked", "stale", "price", "failures")
        )
        new.skipped_rewards, new.skipped_answers = tree["skipped"]
        new._history = new._history.completed()
        new._out, new._again = tree.get("out", new._out), tree.get("again")
        new._clock = tree.get("clock") or replace(new._clock, last=new._history.time)
        return new

    def _warn_if_unanswered(self) -> None:
        if self._settings.method != "sparq-gp-ucb" or self._warned or self.steps < 5 or self._history.given:
            return
        if len(self._query_points()):  # a budget may have none for this step
            self._warned = True
            warnings.warn(
                "sparq-gp-ucb: expected answers to side queries, got none; without them it knows the last "
                "few rewards alone: pass an expert, call queries() and answer(), or choose another method",
                stacklevel=3,
            )

    def _rng(self, purpose: int) -> np.random.Generator:
        """Random numbers of this step alone, so that a resumed run draws those of an unbroken one."""
        return np.random.default_rng([self._settings.random_state, self.steps, purpose])

    def _near(self) -> Float[np.ndarray, "k d"]:
        """Points around which the best may be: the last choices, and the best answers of now."""
        h = self._history
        own = h.U[~h.answer][-2:]
        fresh = h.where(h.answer & (h.steps_back == 0) & ~h.flagged)
        best = fresh.U[np.argsort(-fresh.y)[:2]]
        return np.concatenate([own, best])

    def _maximum(self, factor: float, view: View, out: Float[np.ndarray, "k d"]) -> Float[np.ndarray, " d"]:
        """Where the mean and `factor` standard deviations together are greatest, but for the points that are out."""

        def score(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
            mean, std = view.at(U)
            return (mean - view.level + factor * std) / view.scale

        def slope(u: Float[np.ndarray, " d"]) -> tuple[float, Float[np.ndarray, " d"]]:
            assert view.gradients is not None
            mean, std, by_mean, by_std = view.gradients(u)
            return (mean - view.level + factor * std) / view.scale, (by_mean + factor * by_std) / view.scale

        def allows(U: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
            return self._failures.allows(U, self.steps) & ~_among(U, out)

        climb = slope if view.gradients else None
        return maximise(score, climb, self.space, self._rng(_DRAW), self._near(), allows)

    def _query_points(self) -> Float[np.ndarray, "n d"]:
        settings, history, rng = self._settings, self._history, self._rng(_QUERY)
        history = self._belief.settle(history)
        number, rule = settings.num_queries, settings.query_rule
        n = rules.number_of_queries(number, self.steps)
        if n == 0 or len(history.y) == 0:
            return np.zeros((0, len(self.space.groups)))
        if rule == "grid":
            return rules.spread_evenly(self.space, n, rng)
        if rule == "random":
            return rules.at_random(self.space, n, rng)
        hyper = self.hyperparameters
        if rule == "past":
            return rules.past_inputs(history.locations, KERNELS[settings.kernel], hyper, n, settings.swaps, rng)
        assert isinstance(self._belief, GaussianBelief)
        points, posterior = rules.dense_points(self.space, rng), self._belief.posterior(history, of_now=False)
        noise_var = settings.expert_noise_var or hyper.noise_var
        if rule == "maximisers":
            factor = settings.factor(self.steps + 1, posterior.log_gain, self._parameters)
            return rules.maximisers(points, posterior, noise_var, factor, n)
        chosen, gains = rules.most_telling(points, posterior, noise_var, n, rng)
        return chosen[: number.affordable(gains, self._price)] if isinstance(number, rules.Budget) else chosen


def _as_seed(random_state: int | None) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(f"random_state: expected a whole number of at least zero or None, got {random_state!r}")
    return int(random_state)


def _among(U: Float[np.ndarray, "n d"], points: Float[np.ndarray, "k d"]) -> Bool[np.ndarray, " n"]:
    """Which of the points are one of the others."""
    return (np.abs(U[:, None] - points[None]).max(axis=2) < _SAME).any(axis=1)
