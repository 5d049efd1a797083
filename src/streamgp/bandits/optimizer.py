"""Ask and tell: optimisation of a black box that changes with time, and its methods."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.bandits import queries as rules
from streamgp.bandits.clock import as_times, as_unit
from streamgp.bandits.confidence import Schedule
from streamgp.bandits.memory import EPS, GAMMA, WINDOW
from streamgp.bandits.regression import Hyperparameters
from streamgp.bandits.reports import as_rewards, is_one_point
from streamgp.bandits.settings import Settings, as_seed, check_hyperparameters
from streamgp.bandits.space import as_space
from streamgp.bandits.unit_optimizer import UnitOptimizer
from streamgp.numerics import checkpoint

Expert = Callable[[Any], Any]

# The most points under evaluation at once.
MAX_PENDING = 64


class TimeVaryingOptimizer:
    """An optimiser of a function that changes as time goes on, with one noisy evaluation a step.

    ``x = opt.ask()`` says where to evaluate next; ``opt.tell(x, y)`` reports the reward of that or of any other
    point, such as past data. ``opt.ask(another=True)`` is for evaluations side by side. Methods that profit from more
    than one evaluation a step have side queries: ``X = opt.queries()`` says where, ``opt.answer(X, y)`` takes the
    answers. Where there is a callback `expert`, ``ask`` calls it by itself.

    Parameters
    ----------
    space
        What may be chosen: see `streamgp.bandits.as_space`.
    method
        ``"tv-gp-ucb"``, for one evaluation a step; ``"sparq-gp-ucb"``, which depends on side queries; ``"ensemble"``,
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
        Where side queries are: ``"grid"``, evenly spread; ``"past"``, among past inputs as in the paper;
        ``"domain"``, where they are most informative; ``"maximisers"``, at the greatest upper bounds; ``"random"``.
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
        Whether rewards and answers far from their predictions count the less the further they are out (see `trials`
        for which). Five in a row are a change, and count in full. One that is far better than predicted is tried
        again at once, and counts if it comes out the same. The methods' papers have no such rule.
    time_unit
        How much time is a step: a number in the unit of the reported times, or a timedelta; None: the median gap
        between the last trials. `eps`, `gamma` and the ageing of ``"sparq-gp-ucb"`` are per step.

    Raises
    ------
    ValueError
        If an argument is out of its range or contradicts another.
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
        num_queries: rules.QueryCount = "6 log t",
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
        settings = Settings(
            method=method,
            beta=beta,
            delta=delta,
            bound=bound,
            kernel=kernel,
            fixed=check_hyperparameters(hyperparameters or {}, self.space.groups),
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
            random_state=as_seed(random_state),
            robust=robust,
            time_unit=as_unit(time_unit),
        )
        settings.check()
        self._unit = UnitOptimizer(self.space, settings)
        self.expert = expert
        self._warned = False

    @property
    def steps(self) -> int:
        """Return how many rewards were reported, those that were skipped among them."""
        return self._unit.steps

    @property
    def skipped_rewards(self) -> int:
        """Return how many rewards were non-finite."""
        return self._unit.skipped_rewards

    @property
    def skipped_answers(self) -> int:
        """Return how many answers were non-finite."""
        return self._unit.skipped_answers

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Return those in use now, lengthscales in unit coordinates; an ensemble's experts have their own."""
        return self._unit.surrogate.hyperparameters(self._unit.history)

    @property
    def weights(self) -> dict[str, float]:
        """Return the weight of each expert of the ensemble; empty for other methods."""
        return self._unit.surrogate.weights

    @property
    def trials(self) -> dict[str, Any]:
        """Return the rewards in memory, as they were reported: ``x``, ``y``, ``step`` and ``flagged``.

        What is flagged does not count in full. It is screened anew as more becomes known.
        """
        h = self._unit.screened
        h = h.where(~h.answer)
        return {"x": self.space.decode_all(h.U), "y": h.y.copy(), "step": h.at_step.copy(), "flagged": h.flagged}

    @property
    def flagged_rewards(self) -> int:
        """Return how many of the rewards in memory do not count in full."""
        return int(self.trials["flagged"].sum())

    @property
    def pending(self) -> Any:
        """Return the points that were asked for and not reported yet, in order."""
        return self.space.decode_all(self._unit.pending.points)

    def ask(self, *, another: bool = False) -> Any:
        """Return where to evaluate next; the same until something is reported or answered.

        With an `expert` its answers of this step are fetched first. If it raises, nothing has changed.

        Parameters
        ----------
        another
            Whether the points asked for before are still being evaluated, so that a further one is wanted: as if they
            had come out as expected, and another one than they are where there is one. At most 64 may be pending.

        Raises
        ------
        ValueError
            If the expert's answers have the wrong shape, or too many points are pending.
        """
        unit = self._unit
        earlier = unit.pending.points if another else unit.pending.earlier
        if len(earlier) >= MAX_PENDING:
            raise ValueError(
                f"ask: expected at most {MAX_PENDING} points out at once, got one more; tell what came of them "
                f"first, NaN where nothing did"
            )
        if self.expert is not None and unit.history.given == 0 and self.steps > 0:
            U = unit.query_points()
            if len(U):
                unit.learn_answers(U, as_rewards(self.expert(self.space.decode_all(U)), len(U), "y"))
        if unit.must_choose(another):
            self._warn_if_unanswered()
        return self.space.decode(unit.ask(another))

    def tell(self, x: Any, y: Any, t: Any = None) -> None:
        """Learn the reward of a point: of one that was asked for, of what was done instead, or of past data.

        A reward that is NaN or infinite is skipped and counted (`skipped_rewards`); the step is over all the same,
        and the point is not asked for again in 1, 2, 4, ... steps. Report a bad reward where a failure means a bad
        point. Points that are pending may be reported in any order.

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
        last = self._unit.clock.last if self.steps else -np.inf
        times = [None] * len(U) if t is None else as_times(t if not one else [t], len(U), last)
        for u, reward, time in zip(U, rewards, times, strict=True):
            self._unit.learn_reward(u, float(reward), time)

    def queries(self) -> Any:
        """Return where side answers of this step would be most informative: as many points as the step has.

        There are none before the first reward. They are the same until something is reported or, where
        hyperparameters are fitted, asked.
        """
        return self.space.decode_all(self._unit.query_points())

    def answer(self, X: Any, y: Any) -> None:
        """Learn fresh evaluations of the function of now, at the points of `queries` or any others.

        Answers that are NaN or infinite are skipped and counted (`skipped_answers`).

        Raises
        ------
        ValueError
            If a point is none of the space, or there are not as many answers as points. Nothing has changed then.
        """
        U = self.space.encode_all(X)
        self._unit.learn_answers(U, as_rewards(y, len(U), "y"))

    def predict(self, X: Any) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return mean and standard deviation of the function of now at points of the space, without noise."""
        return self._unit.predictor().at(self.space.encode_all(X))

    def recommend(self) -> Any:
        """Return the point whose mean is the greatest now: the best guess, without exploration."""
        return self.space.decode(self._unit.best_point())

    def save(self, path: str | Path) -> None:
        """Write everything but the `expert` to a directory, in one step that cannot leave half of it.

        Raises
        ------
        CheckpointError
            If the disk refuses.
        """
        meta = {"steps": self.steps, "method": self._unit.settings.method}
        checkpoint.save(path, self._unit.to_tree(), meta)

    @classmethod
    def load(cls, path: str | Path, expert: Expert | None = None) -> "TimeVaryingOptimizer":
        """Read the optimiser that `save` wrote; it goes on exactly where it was saved.

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
        new.space, new.expert, new._warned = tree["space"], expert, False
        with checkpoint.reading(path):
            new._unit = UnitOptimizer.from_tree(tree)
        return new

    def _warn_if_unanswered(self) -> None:
        unit = self._unit
        if unit.settings.method != "sparq-gp-ucb" or self._warned or self.steps < 5 or unit.history.given:
            return
        # A budget may allow no query at this step.
        if len(unit.query_points()):
            self._warned = True
            warnings.warn(
                "sparq-gp-ucb: expected answers to side queries, got none; without them it knows the last "
                "few rewards alone: pass an expert, call queries() and answer(), or choose another method",
                stacklevel=3,
            )
