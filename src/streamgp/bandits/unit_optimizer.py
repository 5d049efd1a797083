"""The optimiser over unit coordinates: the choice of the next point and of side queries, and what is learnt."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bandits import queries as rules
from streamgp.bandits.acquisition import maximise
from streamgp.bandits.avoidance import Failures
from streamgp.bandits.clock import Clock
from streamgp.bandits.ensemble_surrogate import EnsembleSurrogate
from streamgp.bandits.gaussian_surrogate import GaussianSurrogate
from streamgp.bandits.history import History
from streamgp.bandits.outliers import find_retry
from streamgp.bandits.pending import Pending, among
from streamgp.bandits.regression import KERNELS
from streamgp.bandits.settings import Settings
from streamgp.bandits.space import Box, Candidates
from streamgp.bandits.surrogate import Predictor, Surrogate
from streamgp.numerics.checkpoint.field_types import check_value, checked
from streamgp.numerics.threads import one_blas_thread

# The purposes of random numbers.
_DRAW, _QUERY = 0, 1


class UnitOptimizer:
    """The state of `TimeVaryingOptimizer`, which converts points and checks what users give.

    Attributes
    ----------
    space, settings
        The search space and the checked arguments.
    surrogate
        The model of the function.
    history, clock, failures, pending
        The observations, the time of the last trial, points without a reward, and points under evaluation.
    price
        Of a `Budget`: the nats that a query must give.
    skipped_rewards, skipped_answers
        How many were non-finite.
    """

    def __init__(self, space: Box | Candidates, settings: Settings) -> None:
        width = len(space.groups)
        self.space, self.settings = space, settings
        self.surrogate: Surrogate
        if settings.method == "ensemble":
            self.surrogate = EnsembleSurrogate(space.groups, settings.random_state, robust=settings.robust)
        else:
            self.surrogate = GaussianSurrogate(settings, space.groups)
        self.history, self.clock = History.empty(width), Clock(settings.time_unit)
        self.failures, self.pending = Failures.none(width), Pending.none(width)
        self.price = rules.FIRST_PRICE
        self.skipped_rewards = 0
        self.skipped_answers = 0

    @property
    def steps(self) -> int:
        """Return how many rewards were reported."""
        return self.history.step

    @property
    def screened(self) -> History:
        """Return the history with the marks of all its outliers."""
        return self.surrogate.screen(self.history)

    def predictor(self) -> Predictor:
        """Return the predictions of the next step."""
        return self.surrogate.predictor(self.screened)

    def must_choose(self, another: bool) -> bool:
        """Return whether `ask` has to choose a point, and not to give the last one again."""
        return another or self.pending.latest is None or self.pending.stale

    def ask(self, another: bool) -> Float[np.ndarray, " d"]:
        """Return the point to evaluate next; `another` while those asked for before are under evaluation."""
        if not self.must_choose(another):
            assert self.pending.latest is not None
            return self.pending.latest
        earlier = self.pending.points if another else self.pending.earlier
        # The matrices are small, so that threads would wait for each other.
        with one_blas_thread():
            return self._choose(earlier)

    def _choose(self, earlier: Float[np.ndarray, "k d"]) -> Float[np.ndarray, " d"]:
        new = self.history.unscreened
        self.history = self.surrogate.refit(self.screened)
        found = find_retry(self.history, new)
        retry = self.pending.retry if found is None else found
        if retry is not None and not among(retry[None], earlier)[0]:
            point = retry
        else:
            predictor = self.surrogate.predictor(self.history, earlier)
            point = self._maximise(self._beta(predictor.log_gain), predictor, earlier)
        self.pending = Pending(point, earlier, retry)
        return point

    def best_point(self) -> Float[np.ndarray, " d"]:
        """Return the point of the greatest mean."""
        with one_blas_thread():
            return self._maximise(0.0, self.predictor(), self.pending.earlier[:0])

    def learn_reward(self, u: Float[np.ndarray, " d"], reward: float, time: float | None) -> None:
        """Learn the reward of a point, at a time or one step after the last; on an error nothing has changed."""
        usable = bool(np.isfinite(reward))
        clock, passed = self.clock.advance(time, first=self.steps == 0)
        history = self.history.advance(self.history.time + passed)
        failures = self.failures
        if usable:
            keep_locations = self.settings.query_rule == "past"
            history = history.append(u[None], np.array([reward]), False, self.settings.memory, keep_locations)
            failures = failures.remove(u)
        else:
            failures = failures.add(u, history.step)
        price = self._next_price()
        history = self.surrogate.observe(history)
        self.history, self.clock, self.failures, self.price = history, clock, failures, price
        self.pending = self.pending.without(u)
        self.skipped_rewards += not usable

    def learn_answers(self, U: Float[np.ndarray, "n d"], answers: Float[np.ndarray, " n"]) -> None:
        """Learn answers to side queries of this step."""
        usable = np.isfinite(answers)
        history = self.history.append(U[usable], answers[usable], True, self.settings.memory)
        history = self.surrogate.observe(history)
        self.history = replace(history, given=history.given + len(U))
        self.pending = replace(self.pending, stale=True)
        self.skipped_answers += int((~usable).sum())

    def query_points(self) -> Float[np.ndarray, "n d"]:
        """Return the points of this step's side queries."""
        with one_blas_thread():
            return self._query_points()

    def _query_points(self) -> Float[np.ndarray, "n d"]:
        settings, history, rng = self.settings, self.screened, self._rng(_QUERY)
        count, rule = settings.num_queries, settings.query_rule
        n = rules.queries_in_step(count, self.steps)
        if n == 0 or len(history.y) == 0:
            return np.zeros((0, len(self.space.groups)))
        if rule == "grid":
            return rules.spread_evenly(self.space, n, rng)
        if rule == "random":
            return rules.draw_uniformly(self.space, n, rng)
        hyper = self.surrogate.hyperparameters(self.history)
        if rule == "past":
            kernel = KERNELS[settings.kernel]
            return rules.choose_past_inputs(history.locations, kernel, hyper, n, settings.swaps, rng)
        assert isinstance(self.surrogate, GaussianSurrogate)
        points = rules.draw_dense_points(self.space, rng)
        posterior = self.surrogate.posterior(history, with_present_answers=False)
        noise_var = settings.expert_noise_var or hyper.noise_var
        if rule == "maximisers":
            return rules.choose_maximisers(points, posterior, noise_var, self._beta(posterior.log_gain), n)
        chosen, gains = rules.choose_most_informative(points, posterior, noise_var, n, rng)
        return chosen[: count.affordable(gains, self.price)] if isinstance(count, rules.Budget) else chosen

    def to_tree(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs."""
        return {
            "space": self.space,
            "settings": self.settings,
            "history": self.history,
            "asked": self.pending.latest,
            "stale": self.pending.stale,
            "out": self.pending.earlier,
            "again": self.pending.retry,
            "clock": self.clock,
            "price": self.price,
            "failures": self.failures,
            "skipped": (self.skipped_rewards, self.skipped_answers),
            "belief": self.surrogate.to_tree(),
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "UnitOptimizer":
        """Return the optimiser whose `to_tree` gave `tree`."""
        check_value("the space", tree["space"], Box | Candidates)
        check_value("the settings", tree["settings"], Settings)
        new = cls(tree["space"], tree["settings"])
        new.surrogate.restore(tree["belief"])
        new.history, new.price, new.failures = tree["history"], tree["price"], tree["failures"]
        new.skipped_rewards, new.skipped_answers = tree["skipped"]
        new.pending = checked(Pending(tree["asked"], tree["out"], tree["again"], tree["stale"]))
        new.clock = tree["clock"]
        for name, kind in (("history", History), ("failures", Failures), ("clock", Clock), ("price", float)):
            check_value(f"the {name}", getattr(new, name), kind)
        return new

    def _beta(self, log_gain: float) -> float:
        """Return the factor of the standard deviation in the next step."""
        return self.settings.beta_at(self.steps + 1, log_gain, int(self.space.groups.max()) + 1)

    def _next_price(self) -> float:
        """Return the price after this step; it stays where there were queries and none was answered."""
        count, given = self.settings.num_queries, self.history.given
        if not isinstance(count, rules.Budget) or self.steps == 0:
            return self.price
        if given == 0 and len(self.query_points()):
            return self.price
        return count.next_price(self.price, given)

    def _rng(self, purpose: int) -> np.random.Generator:
        """Return random numbers of this step alone, so that a resumed run draws those of an unbroken one."""
        return np.random.default_rng([self.settings.random_state, self.steps, purpose])

    def _promising(self) -> Float[np.ndarray, "k d"]:
        """Return points around which the best may be: the last choices, and the best answers of this step."""
        h = self.history
        own = h.U[~h.answer][-2:]
        fresh = h.where(h.answer & (h.steps_back == 0) & ~h.flagged)
        best = fresh.U[np.argsort(-fresh.y)[:2]]
        return np.concatenate([own, best])

    def _maximise(
        self, factor: float, predictor: Predictor, pending: Float[np.ndarray, "k d"]
    ) -> Float[np.ndarray, " d"]:
        """Return where the mean and `factor` standard deviations together are greatest, `pending` points left out."""

        def score(U: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
            mean, std = predictor.at(U)
            return (mean - predictor.level + factor * std) / predictor.scale

        def slope(u: Float[np.ndarray, " d"]) -> tuple[float, Float[np.ndarray, " d"]]:
            assert predictor.gradients is not None
            mean, std, by_mean, by_std = predictor.gradients(u)
            value = (mean - predictor.level + factor * std) / predictor.scale
            return value, (by_mean + factor * by_std) / predictor.scale

        def allows(U: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
            return self.failures.allows(U, self.steps) & ~among(U, pending)

        climb = slope if predictor.gradients else None
        return maximise(score, climb, self.space, self._rng(_DRAW), self._promising(), allows)
