"""Ask and tell: a black box whose optimum moves, and the methods that follow it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp import checkpoint
from streamgp.bandits import queries as rules
from streamgp.bandits.acquisition import maximise
from streamgp.bandits.confidence import Schedule, beta
from streamgp.bandits.history import History
from streamgp.bandits.memory import EPS, GAMMA, METHODS, WINDOW, memory_of
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior, default_hyperparameters, fit
from streamgp.bandits.space import as_space
from streamgp.bandits.surrogate import Surrogate

Expert = Callable[[Any], Any]

_FIRST_FITS, _FEWEST = (5, 10, 20), 5
_MOST_FITTED = 300  # observations, the newest ones
_DRAW, _QUERY = 0, 1  # what random numbers are for


class TimeVaryingOptimizer:
    """Maximises a function that changes as time goes on, one noisy evaluation a step.

    ``x = opt.ask()`` says where to evaluate next, ``opt.tell(x, y)`` what came of it. Methods that profit from more
    than one evaluation a step have side queries: ``X = opt.queries()`` says where, ``opt.answer(X, y)`` takes the
    answers, and so does the callback `expert`, which ``ask`` calls by itself.

    Parameters
    ----------
    space
        What may be chosen: see `streamgp.bandits.as_space`.
    method
        ``"sparq-gp-ucb"``, which lives by side queries; ``"ensemble"``, which learns kernel and forgetting from the
        data; or ``"gp-ucb"``, ``"r-gp-ucb"``, ``"sw-gp-ucb"``, ``"tv-gp-ucb"``, ``"w-gp-ucb"``: see
        `streamgp.bandits.memory_of`. All of them take answers to side queries.
    beta
        How much more than its mean a point may promise: a number of standard deviations, or the name of a schedule
        (see `streamgp.bandits.beta`).
    delta, bound
        The probability of failure and the bound B on the function's norm that ``beta="theory"`` needs.
    kernel
        ``"squared-exponential"``, ``"matern-5/2"`` or ``"matern-3/2"``. Not for ``"ensemble"``.
    hyperparameters
        Those that are known, of ``lengthscales`` (in shares of the parameters' ranges; a number for all),
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

    Raises
    ------
    ValueError
        If an argument makes no sense.
    """

    def __init__(
        self,
        space: Any,
        method: str = "sparq-gp-ucb",
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
    ) -> None:
        self.space = as_space(space)
        if method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
        if kernel not in KERNELS:
            raise ValueError(f"kernel: expected one of {', '.join(KERNELS)}, got {kernel!r}")
        if query_rule not in rules.RULES:
            raise ValueError(f"query_rule: expected one of {', '.join(rules.RULES)}, got {query_rule!r}")
        rules.check_number(num_queries, query_rule)
        if method == "ensemble" and query_rule in ("domain", "maximisers"):
            raise ValueError(f"query_rule: expected 'grid', 'past' or 'random' for an ensemble, got {query_rule!r}")
        for name, value, least in (("refit_every", refit_every, 1), ("memory", memory, 10), ("swaps", swaps, 0)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        if expert_noise_var is not None and not 0.0 < expert_noise_var < np.inf:
            raise ValueError(f"expert_noise_var: expected a positive number or None, got {expert_noise_var!r}")
        if not 0.0 < delta < 1.0 or not bound >= 0.0:
            raise ValueError(f"expected 0 < delta < 1 and bound >= 0, got delta {delta!r} and bound {bound!r}")
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if random_state is None else int(random_state)
        self.expert = expert
        self._settings = {
            "method": method, "beta": beta, "delta": delta, "bound": bound, "kernel": kernel, "window": window,
            "eps": eps, "gamma": gamma, "query_rule": query_rule, "num_queries": num_queries, "swaps": swaps,
            "reuse_answers": reuse_answers, "expert_noise_var": expert_noise_var, "refit_every": refit_every,
            "memory": memory, "random_state": seed,
        }  # fmt: skip
        self._beta(1, 0.0)
        width = len(self.space.groups)
        self._fixed = _fixed(hyperparameters or {}, width)
        self._settings["hyperparameters"] = dict(self._fixed)
        self._kernel = KERNELS[kernel]
        self._memory = None if method == "ensemble" else memory_of(
            method, window=window, eps=eps, gamma=gamma, reuse=reuse_answers
        )  # fmt: skip
        parameters = int(self.space.groups.max()) + 1
        self._surrogate = Surrogate(width, parameters, seed) if method == "ensemble" else None
        self._history = History.empty(width)
        self._hyper: Hyperparameters | None = None
        self._fitted_at = 0
        self._asked: Float[np.ndarray, " d"] | None = None
        self._stale = False  # whether answers came after the last ask
        self._price = rules.FIRST_PRICE
        self.skipped_rewards = 0
        self.skipped_answers = 0

    @property
    def steps(self) -> int:
        """How many rewards were told, those that were skipped among them."""
        return self._history.step

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those in use now, lengthscales in unit coordinates."""
        return self._hyper or self._default_hyper()

    @property
    def weights(self) -> dict[str, float]:
        """How much each expert of the ensemble counts; empty for other methods."""
        return {} if self._surrogate is None else self._surrogate.weights

    def ask(self) -> Any:
        """Where to evaluate next; the same until something is told or answered.

        With an `expert` its answers of this step are fetched first. If it raises, nothing has changed.

        Raises
        ------
        ValueError
            If the expert's answers have the wrong shape.
        """
        if self.expert is not None and self._history.answers_now == 0 and self.steps > 0:
            X = self.queries()
            if len(X):
                self.answer(X, self.expert(X))
        if self._asked is None or self._stale:
            self._maybe_fit()
            posterior = self._belief()
            factor = self._beta(self.steps + 1, 0.0 if posterior is None else posterior.log_gain)
            self._asked, self._stale = self._maximum(factor, posterior), False
        return self.space.decode(self._asked)

    def tell(self, x: Any, y: float, t: float | None = None) -> None:
        """Learn the reward of a point: of the one that was asked, or of what was done instead.

        A reward that is NaN or infinite is skipped and counted (`skipped_rewards`); the step is over all the same.

        Parameters
        ----------
        x
            A point of the space.
        y
            Its reward, to be maximised.
        t
            When: any unit of time, never going back. By default one after the last.

        Raises
        ------
        ValueError
            If nothing was asked, the point is none of the space, or time goes back. Nothing has changed then.
        """
        if self._asked is None:
            raise ValueError(
                "tell: expected a reward of a point that was asked for, but nothing was; call ask() first"
            )
        u = self.space.encode(x)
        reward = _as_rewards(y, 1, "y")[0]
        time = self._history.time + 1.0 if t is None else float(t)
        if not np.isfinite(time) or time < self._history.time:
            raise ValueError(
                f"t: expected a number of at least {self._history.time:g}, the time of the last, got {t!r}"
            )
        usable = bool(np.isfinite(reward))
        history = self._history.advanced(time)
        if usable:
            history = history.with_rows(u[None], np.array([reward]), False, self._settings["memory"])
        if isinstance(number := self._settings["num_queries"], rules.Budget) and self.steps > 0:
            self._price = number.next_price(self._price, self._history.answers_now)
        if self._surrogate is not None and usable:
            self._surrogate.learn(u[None], np.array([reward]), time)
        self._history, self._asked, self._stale = history, None, False
        self.skipped_rewards += not usable

    def queries(self) -> Any:
        """Where side answers of this step would tell most: as many points as the step has; ask an expert for them.

        None before the first reward. The same until something is told.
        """
        return self.space.decode_all(self._query_points())

    def answer(self, X: Any, y: Any) -> None:
        """Learn fresh evaluations of the function of now, at the points of `queries` or any others.

        Answers that are NaN or infinite are skipped and counted (`skipped_answers`).

        Raises
        ------
        ValueError
            If a point is none of the space, or there are not as many answers as points. Nothing has changed then.
        """
        U = self.space.encode_all(X)
        rewards = _as_rewards(y, len(U), "y")
        usable = np.isfinite(rewards)
        U, rewards = U[usable], rewards[usable]
        if self._surrogate is not None:
            self._surrogate.learn(U, rewards, self._history.time)
        self._history = self._history.with_rows(U, rewards, True, self._settings["memory"])
        self._stale = True
        self.skipped_answers += int((~usable).sum())

    def predict(self, X: Any) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of the function of now at points of the space, noise left out."""
        return self._at(self.space.encode_all(X), self._belief())

    def recommend(self) -> Any:
        """The point whose mean is the greatest now: the best guess, without exploration."""
        return self.space.decode(self._maximum(0.0, self._belief()))

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
            "hyper": self._hyper,
            "fitted_at": self._fitted_at,
            "asked": self._asked,
            "stale": self._stale,
            "price": self._price,
            "skipped": (self.skipped_rewards, self.skipped_answers),
            "surrogate": None if self._surrogate is None else self._surrogate.to_tree(),
        }
        checkpoint.save(path, tree, {"steps": self.steps, "method": self._settings["method"]})

    @classmethod
    def load(cls, path: str | Path, expert: Expert | None = None) -> "TimeVaryingOptimizer":
        """The optimiser that `save` wrote; it goes on as if nothing had happened.

        Raises
        ------
        CheckpointError
            If there is none, or it is damaged.
        """
        tree, _ = checkpoint.load(path)
        if "history" not in tree:
            raise checkpoint.CheckpointError(
                f"{path}: expected a saved optimiser, found another model; check the path."
            )
        new = cls(tree["space"], expert=expert, **tree["settings"])
        new._history, new._hyper, new._fitted_at = tree["history"], tree["hyper"], tree["fitted_at"]
        new._asked, new._stale, new._price = tree["asked"], tree["stale"], tree["price"]
        new.skipped_rewards, new.skipped_answers = tree["skipped"]
        if new._surrogate is not None:
            new._surrogate.restore(tree["surrogate"])
        return new

    def _rng(self, purpose: int) -> np.random.Generator:
        """Random numbers of this step alone, so that a resumed run draws those of an unbroken one."""
        return np.random.default_rng([self._settings["random_state"], self.steps, purpose])

    def _beta(self, t: int, log_gain: float) -> float:
        width, s = int(self.space.groups.max()) + 1, self._settings
        return beta(s["beta"], t, log_gain=log_gain, width=width, delta=s["delta"], bound=s["bound"])

    def _default_hyper(self) -> Hyperparameters:
        default = default_hyperparameters(self._history.y, len(self.space.groups))
        return Hyperparameters(**(vars(default) | self._fixed))

    def _noise(self, hyper: Hyperparameters, used: History) -> Float[np.ndarray, " n"]:
        """Variance of every observation about the function of now."""
        assert self._memory is not None
        answered = self._settings["expert_noise_var"] or hyper.noise_var
        fresh = np.where(used.answer, answered, hyper.noise_var)
        return fresh + hyper.noise_var * (self._memory.inflation(used.ages) - 1.0)

    def _used(self, hyper: Hyperparameters) -> History:
        assert self._memory is not None
        h, signal = self._history, hyper.variance / hyper.noise_var
        return h.where(self._memory.keeps(h.steps_back, h.ages, h.answer, h.step, signal))

    def _maybe_fit(self) -> None:
        """Fit the hyperparameters where the schedule says so, and enough is in use."""
        every, t = self._settings["refit_every"], self.steps
        due = max((s for s in (*_FIRST_FITS, t - t % every) if s <= t), default=0)
        if self._memory is None or due <= self._fitted_at:
            return
        used = self._used(self.hyperparameters).newest(_MOST_FITTED)
        if len(used.y) < _FEWEST:
            return
        factors = self._noise(self.hyperparameters, used) / self.hyperparameters.noise_var
        decay = self._memory.correlation(used.times[:, None] - used.times) if self._memory.eps else None
        self._hyper = fit(self._kernel, used.U, used.y, factors, self.space.groups, self._fixed, decay)
        self._fitted_at = t

    def _posterior(self, *, of_now: bool = True) -> Posterior:
        """What the observations in use say, without the answers of this step unless those `of_now` count."""
        assert self._memory is not None
        hyper = self.hyperparameters
        used = self._used(hyper)
        if not of_now:
            used = used.where(~used.answer | (used.steps_back > 0))
        decay = now = None
        if self._memory.eps:
            decay = self._memory.correlation(used.times[:, None] - used.times)
            now = self._memory.correlation(self._history.next_time - used.times)
        return Posterior(self._kernel, hyper, used.U, used.y, self._noise(hyper, used), decay, now)

    def _near(self) -> Float[np.ndarray, "k d"]:
        """Points around which the best may be: the last choices, and the best answers of now."""
        h = self._history
        own = h.U[~h.answer][-2:]
        fresh = h.where(h.answer & (h.steps_back == 0))
        best = fresh.U[np.argsort(-fresh.y)[:2]]
        return np.concatenate([own, best])

    def _belief(self) -> Posterior | None:
        """The Gaussian process of now; None where the ensemble stands in for it."""
        return self._posterior() if self._surrogate is None else None

    def _at(self, U: Float[np.ndarray, "n d"], posterior: Posterior | None) -> tuple[np.ndarray, np.ndarray]:
        if posterior is not None:
            return posterior.at(U)
        assert self._surrogate is not None
        return self._surrogate.at(U, self._history.next_time)

    def _maximum(self, factor: float, posterior: Posterior | None) -> Float[np.ndarray, " d"]:
        """Where the mean and `factor` standard deviations together are greatest."""

        def score(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
            mean, std = self._at(U, posterior)
            return mean + factor * std

        def slope(u: Float[np.ndarray, " d"]) -> tuple[float, Float[np.ndarray, " d"]]:
            assert posterior is not None
            mean, std, by_mean, by_std = posterior.gradients(u)
            return mean + factor * std, by_mean + factor * by_std

        climb = None if posterior is None else slope
        return maximise(score, climb, self.space, self._rng(_DRAW), self._near())

    def _query_points(self) -> Float[np.ndarray, "n d"]:
        number, rule = self._settings["num_queries"], self._settings["query_rule"]
        n, rng = rules.number_of_queries(number, self.steps), self._rng(_QUERY)
        if n == 0 or len(self._history.y) == 0:
            return np.zeros((0, len(self.space.groups)))
        if rule == "grid":
            return rules.spread_evenly(self.space, n, rng)
        if rule == "random":
            return rules.at_random(self.space, n, rng)
        hyper = self.hyperparameters
        if rule == "past":
            return rules.past_inputs(self._history.locations, self._kernel, hyper, n, self._settings["swaps"], rng)
        points, posterior = rules.dense_points(self.space, rng), self._posterior(of_now=False)
        noise_var = self._settings["expert_noise_var"] or hyper.noise_var
        if rule == "maximisers":
            factor = self._beta(self.steps + 1, posterior.log_gain)
            return rules.maximisers(points, posterior, noise_var, factor, n)
        chosen, gains = rules.most_telling(points, posterior, noise_var, n, rng)
        return chosen[: number.affordable(gains, self._price)] if isinstance(number, rules.Budget) else chosen


def _fixed(given: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Hyperparameters that the user knows, checked."""
    known = {"lengthscales", "variance", "noise_var", "mean"}
    if unknown := set(given) - known:
        raise ValueError(f"hyperparameters: expected some of {', '.join(sorted(known))}, got {', '.join(unknown)}")
    fixed: dict[str, Any] = {name: float(value) for name, value in given.items() if name != "lengthscales"}
    if "lengthscales" in given:
        values = np.asarray(given["lengthscales"], dtype=float)
        if values.shape not in ((), (width,)):
            raise ValueError(f"lengthscales: expected a number or {width} of them, got shape {values.shape}")
        fixed["lengthscales"] = np.broadcast_to(values, (width,)).copy()
    for name, value in fixed.items():
        if not np.isfinite(value).all() or (name != "mean" and not np.all(value > 0.0)):
            raise ValueError(f"{name}: expected {'a finite' if name == 'mean' else 'a positive'} number, got {value}")
    return fixed


def _as_rewards(y: Any, n: int, name: str) -> Float[np.ndarray, " n"]:
    try:
        rewards = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected {n} numbers, got {y!r}") from None
    if rewards.size != n or rewards.ndim > 2:
        raise ValueError(f"{name}: expected {n} numbers, one per point, got shape {rewards.shape}")
    return rewards.reshape(-1)
