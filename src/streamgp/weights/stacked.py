"""The rules of a mixture side by side in NumPy: a row takes few calls, whatever there are of rules and experts."""

from collections.abc import Sequence
from math import exp, log
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.weights.base import WeightRule
from streamgp.weights.mixture import Mixture, MixtureState
from streamgp.weights.rules import BMA, Share, SoftBayes

Rows = Float[np.ndarray, "r k"]


class StackedRules:
    """Rules whose states are finite log weights (R, K) of the experts, and what a row does to them.

    The numbers are those of the rules themselves. Those of Bayes' kind come first, then those that share, then those
    of the kind of Soft-Bayes.

    Parameters
    ----------
    rule
        A mixture of such rules, or one of them.
    state
        Its state.
    absent
        Which experts are not there: they keep their weights.

    Attributes
    ----------
    weights
        Log weights of the experts that are there, by every rule.
    of_rules
        Log weights of the rules, in the order in which they are stacked.
    """

    def __init__(self, rule: WeightRule, state: Any, absent: Bool[np.ndarray, " k"] | None = None) -> None:
        rules = rule.rules if isinstance(rule, Mixture) else (rule,)
        kinds: list[Any] = [_kind(each) for each in rules]
        self._rule, order = rule, sorted(range(len(rules)), key=lambda r: kinds[r])
        self._order, self._back = order, np.argsort(order)
        ends = kinds.count(0), kinds.count(0) + kinds.count(1)
        self._bayes, self._shared, self._soft = slice(0, ends[0]), slice(*ends), slice(ends[1], None)
        ordered = [rules[r] for r in order]
        here = slice(None) if absent is None else np.flatnonzero(~absent)
        self.here, self._whole = here, self._stacked(state)
        self.weights = self._whole[:, here]
        self.of_rules = np.asarray(state.log_weights)[order].tolist() if isinstance(state, MixtureState) else [0.0]
        self._fresh = rule.share / len(rules) if isinstance(rule, Mixture) else 0.0
        self._old = 1.0 - self._fresh * len(rules)
        self._set_shares([each for each in ordered if isinstance(each, Share)], self._whole.shape[1])
        rates = np.array([[each.rate] for each in ordered if isinstance(each, SoftBayes)]).reshape(-1, 1)
        self._soft_old, self._soft_new = np.log1p(-rates), np.log(rates)
        self._absent = None if absent is None else _Absent(self._whole, absent, self._shared, self._pools)
        self._joint, self._likely = np.empty_like(self.weights), np.empty_like(self.weights)

    def _set_shares(self, shares: Sequence[Share], num_experts: int) -> None:
        """Note what each share does: weights times `_keep`, plus `_add`, plus what is pooled within groups."""
        self._keep, self._add = np.empty((len(shares), num_experts)), np.zeros((len(shares), 1))
        self._pools: list[_Pool] = []
        for s, each in enumerate(shares):
            old, fresh = 1.0 - each.background, each.background / num_experts
            groups = np.asarray(each.groups)
            size = np.bincount(groups, minlength=each.num_groups)
            self._keep[s] = old * np.maximum(1.0 - each.rate * size, 0.0)[groups]
            self._add[s] = fresh
            if each.num_groups == 1:
                self._add[s] += old * each.rate
            else:
                self._pools.append(_Pool(s, groups, each.num_groups, old * each.rate, self.here))
        self._keep = self._keep[:, self.here]

    @classmethod
    def of(cls, rule: WeightRule, state: Any, absent: Bool[np.ndarray, " k"] | None = None) -> "StackedRules | None":
        """Return the rules side by side; None where one is of another kind, or a weight is zero."""
        rules = rule.rules if isinstance(rule, Mixture) else (rule,)
        if any(_kind(each) is None for each in rules) or (absent is not None and absent.all()):
            return None
        found = cls(rule, state, absent)
        return found if np.isfinite(found._whole).all() and np.isfinite(found.of_rules).all() else None

    def _stacked(self, state: Any) -> Rows:
        each = state.rules if isinstance(state, MixtureState) else (state,)
        return np.stack([np.asarray(each[r], float) for r in self._order])

    def state(self, weights: Float[np.ndarray, "*n r k"], of_rules: Any) -> Any:
        """Return the rule's state, or several of them, with these weights of the experts that are there."""
        whole = weights
        if self._absent is not None:
            whole = np.broadcast_to(self._whole, (*weights.shape[:-2], *self._whole.shape)).copy()
            whole[..., self.here] = weights
        if not isinstance(self._rule, Mixture):
            return whole[..., 0, :]
        each = tuple(whole[..., s, :] for s in self._back)
        return MixtureState(each, np.asarray(of_rules)[..., self._back])

    def mixed(self) -> Float[np.ndarray, " k"]:
        """Return the weights of the experts that are there, by all rules together."""
        each = np.exp(self.weights)
        mixed = np.exp(self.of_rules) @ each if len(each) > 1 else each[0]
        return mixed if self._absent is None else mixed / mixed.sum()

    def log_mixed(self) -> Float[np.ndarray, " k"]:
        """Return the log weights of all experts by all rules together, ``-inf`` of those that are not there."""
        mixed = self.weights[0]
        if len(self.weights) > 1:
            joint = self.weights + np.array(self.of_rules)[:, None]
            top = np.maximum.reduce(joint, 0)
            joint -= top
            mixed = top + np.log(np.add.reduce(np.exp(joint, out=joint), 0))
        if self._absent is None:
            return mixed
        whole = np.full(self._whole.shape[1], -np.inf)
        top = mixed.max()
        whole[self.here] = mixed - (top + log(np.exp(mixed - top).sum()))
        return whole

    def bounded(
        self, density: Float[np.ndarray, " k"], outlier: Bool[np.ndarray, " k"], least: float
    ) -> Float[np.ndarray, " k"]:
        """Return log densities of a row that is an outlier to some, bounded by `least` and their weight's log."""
        mistrust = self.mixed()[outlier].sum()
        return np.logaddexp(density, least + log(min(mistrust, 1.0))) if mistrust > 0.0 else density

    def learn(self, density: Float[np.ndarray, " k"], out: Rows) -> None:
        """Learn the log densities of a row, whose largest is zero or so; `weights` becomes `out`, after the row."""
        J, likely, shared, soft = self._joint, self._likely, self._shared, self._soft
        np.add(self.weights, density, out=J)
        top = np.maximum.reduce(J, 1, keepdims=True)
        J -= top
        np.exp(J, out=likely)
        log_total = np.log(np.add.reduce(likely, 1, keepdims=True))
        together = 0.0
        if self._absent is not None:
            together = self._absent.together(top, log_total, self.of_rules)
            log_total = np.logaddexp(log_total, self._absent.log_mass + (together - top))
        J -= log_total
        out[self._bayes] = J[self._bayes]
        if len(self._keep):
            weights = np.exp(J[shared])
            new = weights * self._keep
            new += self._add
            for n, pool in enumerate(self._pools):
                mass = pool.mass(weights[pool.which])
                if self._absent is not None:
                    row = shared.start + pool.which
                    mass += self._absent.pooled[n] * exp(together - top[row, 0] - log_total[row, 0])
                new[pool.which] += mass[pool.groups]
            np.log(new, out=out[shared])
        if len(self._soft_old):
            np.logaddexp(self.weights[soft] + self._soft_old, J[soft] + self._soft_new, out=out[soft])
        if self._absent is not None:
            self._absent.keep(out)
        self.weights = out
        if len(self.of_rules) > 1:
            self._weigh(top[:, 0].tolist(), log_total[:, 0].tolist())

    def _weigh(self, top: list[float], log_total: list[float]) -> None:
        """Weigh the rules by the density that each gave the target."""
        joint = [a + b + c for a, b, c in zip(self.of_rules, top, log_total, strict=True)]
        most = max(joint)
        likely = [exp(a - most) for a in joint]
        total = sum(likely)
        fresh, old = self._fresh, self._old / total
        if fresh:
            self.of_rules = [log(old * a + fresh) for a in likely]
        else:
            log_sum = most + log(total)
            self.of_rules = [a - log_sum for a in joint]


class _Pool:
    """The groups of experts among which the share with number `which` passes weight on, each its own."""

    def __init__(self, which: int, groups: np.ndarray, num_groups: int, rate: float, here: Any) -> None:
        self.which, self.groups = which, groups[here]
        self._all, self._num_groups, self._rate = groups, num_groups, rate

    def mass(self, weights: Float[np.ndarray, " k"]) -> Float[np.ndarray, " g"]:
        """Return what each expert of a group gets of the group's weight."""
        return self._rate * np.bincount(self.groups, weights, self._num_groups)

    def mass_of(self, some: Bool[np.ndarray, " k"], weights: Float[np.ndarray, " j"]) -> Float[np.ndarray, " g"]:
        """Return the same of some of all experts, and of no other."""
        return self._rate * np.bincount(self._all[some], weights, self._num_groups)


class _Absent:
    """The experts that are not there: what a row does to weights of the others, which keep their sum."""

    def __init__(self, whole: Rows, absent: Bool[np.ndarray, " k"], shared: slice, pools: Sequence[_Pool]) -> None:
        theirs = np.exp(whole[:, absent])
        self.log_mass = np.log(theirs.sum(1, keepdims=True))
        rows = range(len(whole))[shared]
        self.pooled = [pool.mass_of(absent, theirs[rows[pool.which]]) for pool in pools]
        left = whole[:, ~absent]
        top = left.max(1, keepdims=True)
        self._log_left = top + np.log(np.exp(left - top).sum(1, keepdims=True))

    def together(self, top: np.ndarray, log_total: np.ndarray, of_rules: list[float]) -> float:
        """Return the log density that the others give a row together, of what each rule finds with them."""
        rows = zip(of_rules, top[:, 0].tolist(), log_total[:, 0].tolist(), self._log_left[:, 0].tolist(), strict=True)
        said, left = zip(*((a + b + c, a + d) for a, b, c, d in rows), strict=True)
        return _log_sum(said) - _log_sum(left)

    def keep(self, weights: Rows) -> None:
        """Normalise the log weights of the others, in place, to the sum that they had."""
        weights -= np.maximum.reduce(weights, 1, keepdims=True)
        total = np.add.reduce(np.exp(weights), 1, keepdims=True)
        weights += self._log_left - np.log(total)


def _kind(rule: WeightRule) -> int | None:
    """Return the place of a rule's kind in the stack; None where it has none."""
    if isinstance(rule, BMA):
        return None if rule.shuts_down else 0
    if isinstance(rule, Share):
        return 1 if rule.background > 0.0 or (rule.num_groups == 1 and rule.rate > 0.0) else None
    return 2 if isinstance(rule, SoftBayes) else None


def _log_sum(a: Sequence[float]) -> float:
    """Return the log of the sum of the exponentials of a few numbers."""
    top = max(a)
    return top + log(sum(exp(x - top) for x in a))
