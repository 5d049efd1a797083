"""The models of a table: the experts of a bank that they mix, the weight rule, and their scores along the stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Predictive
from streamgp.numerics.accelerator import Array, eqx, jax, jnp
from streamgp.weights import BMA, fixed_share, scan_rule, share
from streamgp.weights.base import WeightRule, posterior
from streamgp_papers.bank import ExpertPredictions, Member

SHUTDOWN = 1e-16  # a weight below it is zero for good: both papers' rule
CURVE_POINTS, WEIGHT_POINTS = 120, 400
# The weights of moving experts are averaged over so many rows (Waxman and Djuric 2024, Fig. 3).
AVERAGED_ROWS = 10


@dataclass(frozen=True)
class Mix:
    """A model: a choice of experts and a weight rule.

    Attributes
    ----------
    name
        Its name in tables.
    families
        The families whose experts it has; all where none are named.
    moving
        Only the static or only the moving copies; None takes both.
    optima
        Only the experts at an optimum of the evidence, none drawn around it.
    delta
        E-DOEBE's switching rate; None weighs by Bayes' rule.
    shutdown
        Under Bayes' rule a weight below it is zero for good.
    leak
        Score a second time with weights that have already seen the target they help to predict.
    switch
        SIE-GP's probability of a switch to any other expert, in place of Bayes' rule.
    """

    name: str
    families: tuple[str, ...] = ()
    moving: bool | None = None
    optima: bool = False
    delta: float | None = None
    shutdown: float = SHUTDOWN
    leak: bool = False
    switch: float | None = None

    def chosen(self, members: Sequence[Member]) -> np.ndarray:
        """Return the positions of its experts in the bank."""
        return np.array(
            [
                i
                for i, member in enumerate(members)
                if (not self.families or member.family in self.families)
                and self.moving in (None, member.moving)
                and not (self.optima and member.draw)
            ],
            dtype=int,
        )

    def rule(self, members: Sequence[Member]) -> WeightRule:
        """Make its rule for these experts."""
        if self.switch is not None:
            return fixed_share(len(members), self.switch)
        if self.delta is None:
            return BMA(self.shutdown)
        return share([member.basis for member in members], self.delta)


@eqx.filter_jit
def _weigh(
    rule: WeightRule, state: Any, log_density: Float[Array, "n k"]
) -> tuple[Any, Float[Array, "n k"], Float[Array, "n k"]]:
    """Weigh rows; return the state after them, and each row's log weights before and after its own target."""
    state, (before, _) = scan_rule(rule, state, log_density)
    return state, before, jax.vmap(posterior)(before, log_density)


class Weigher:
    """Weighs one model's experts along a stream.

    Parameters
    ----------
    mix
        The model.
    members
        All experts of the bank.
    """

    def __init__(self, mix: Mix, members: Sequence[Member]) -> None:
        self.mix = mix
        self.chosen = mix.chosen(members)
        mine = [members[i] for i in self.chosen]
        if not mine:
            raise ValueError(f"{mix.name}: expected experts of {', '.join(mix.families)}, but the bank has none")
        self._moving = np.array([member.moving for member in mine])
        self._rule = mix.rule(mine)
        self._state = self._rule.init(jnp.full(len(mine), -np.log(len(mine))))
        self._moving_weight: list[np.ndarray] = []

    def add(self, log_density: Float[np.ndarray, "n k"]) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """Return log weights before and after each row's target, by the log density that each expert gave it."""
        self._state, before, after = _weigh(self._rule, self._state, jnp.asarray(log_density))
        self._moving_weight.append(np.exp(np.asarray(before))[:, self._moving].sum(1))
        return np.asarray(before), np.asarray(after)

    def moving_weight(self) -> dict[str, Any]:
        """Return the total weight of the moving experts, averaged over ten rows, and the row where it gets zero."""
        weight = np.concatenate(self._moving_weight)
        last = int(np.max(np.flatnonzero(weight), initial=-1))
        width = min(AVERAGED_ROWS, len(weight))
        averaged = np.convolve(weight, np.full(width, 1.0 / width), mode="valid")
        at = np.unique(np.linspace(0, len(averaged) - 1, WEIGHT_POINTS).astype(int))
        return {
            "rows": (at + width).tolist(),
            "weight": shorten(averaged[at]),
            "zero_from": None if last == len(weight) - 1 else last + 2,
        }


class Scorer:
    """Scores one regression model along a stream.

    Parameters
    ----------
    mix
        The model.
    members
        All experts of the bank.
    """

    def __init__(self, mix: Mix, members: Sequence[Member]) -> None:
        self.mix = mix
        self._weigher = Weigher(mix, members)
        self._rows: list[np.ndarray] = []

    def add(self, batch: ExpertPredictions) -> None:
        """Add the next rows."""
        loc, var = (a[:, self._weigher.chosen, None] for a in (batch.loc, batch.var))
        y = batch.y[:, None]
        blank = np.zeros(loc.shape[:2])
        before, after = self._weigher.add(np.asarray(Predictive(blank, loc, var).component_log_density(y)))
        columns = [batch.y]
        for weights in (before, after)[: 1 + self.mix.leak]:
            predictive = Predictive(weights, loc, var)
            columns += [
                np.square(predictive.mean[:, 0] - batch.y),
                predictive.log_density(y),
                predictive.moment_log_density(y),
            ]
        self._rows.append(np.stack([np.asarray(a) for a in columns]))

    def scores(self) -> dict[str, float]:
        """Return nMSE (over the variance of the scored targets) and mean log densities (mixture, moment-matched)."""
        y, *scores = np.concatenate(self._rows, axis=1)
        names = ("nmse", "pll", "pll_moment", "nmse_leak", "pll_leak", "pll_moment_leak")
        values = [float(np.mean(a)) for a in scores]
        for squares in range(0, len(values), 3):
            values[squares] /= float(np.var(y))
        return dict(zip(names, values, strict=False))

    def curve(self) -> dict[str, list[float]]:
        """Return scores of the rows so far, at some of them: nMSE as in the papers, by all targets' variance."""
        y, squares, density, *_ = np.concatenate(self._rows, axis=1)
        count = np.arange(1, len(y) + 1)
        at = choose_points(len(y))
        return {
            "rows": (at + 1).tolist(),
            "nmse": shorten((np.cumsum(squares) / count / np.var(y))[at]),
            "pll": shorten((np.cumsum(density) / count)[at]),
        }

    def moving_weight(self) -> dict[str, Any]:
        """Return the weight of the moving experts; see `Weigher.moving_weight`."""
        return self._weigher.moving_weight()


def choose_points(length: int) -> np.ndarray:
    """Choose the positions of a curve to keep, denser where it begins."""
    return np.unique(np.geomspace(min(10, length), length, CURVE_POINTS).astype(int)) - 1


def shorten(values: np.ndarray) -> list[float]:
    """Round to five digits, which are enough for a chart."""
    return [float(f"{value:.5g}") for value in values]
