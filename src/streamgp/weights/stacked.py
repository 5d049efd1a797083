"""The rules of a mixture side by side: rows learnt by the kernel in C, or each in few calls of NumPy."""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.weights.base import WeightRule
from streamgp.weights.compiled import CompiledRules, is_compiled
from streamgp.weights.mixture import Mixture, MixtureState
from streamgp.weights.row import learn_row
from streamgp.weights.rules import BMA, Share, SoftBayes

# A rule that gives a row less than this part of what its best expert does goes through it in logs.
_LEAST = 1e-280


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
    here
        The experts that are there.
    weights
        Their log weights by every rule; `learn` changes them in place.
    of_rules
        The weights of the rules, in the order in which they are stacked, or their logarithms: see `log_of_rules`.
    kernel
        The same in C; None where that was not built.
    """

    def __init__(self, rule: WeightRule, state: Any, absent: Bool[np.ndarray, " k"] | None = None) -> None:
        rules = rule.rules if isinstance(rule, Mixture) else (rule,)
        kinds: list[Any] = [_kind(each) for each in rules]
        self._rule, self._absent = rule, absent
        self._order = sorted(range(len(rules)), key=lambda r: kinds[r])
        self._back = np.argsort(self._order)
        ends = kinds.count(0), kinds.count(0) + kinds.count(1)
        parts = slice(0, ends[0]), slice(*ends), slice(ends[1], None)
        self.here = slice(None) if absent is None else np.flatnonzero(~absent)
        self._set_state(state)
        self._fresh = rule.share / len(rules) if isinstance(rule, Mixture) else 0.0
        self._old = 1.0 - self._fresh * len(rules)
        J, E, total = np.empty_like(self.weights), np.empty_like(self.weights), np.empty((len(rules), 1))
        self._joint, self._likely, self._total, self._log_total = J, E, total, np.empty_like(total)
        self._totals = total[:, 0]
        ordered = [rules[r] for r in self._order]
        self._bayes = self.weights[parts[0]], J[parts[0]]
        self._shared = self.weights[parts[1]], E[parts[1]], total[parts[1]], np.empty_like(E[parts[1]])
        self._soft = self.weights[parts[2]], J[parts[2]]
        self._set_shares([each for each in ordered if isinstance(each, Share)], len(self._whole[0]))
        rates = np.array([[each.rate] for each in ordered if isinstance(each, SoftBayes)]).reshape(-1, 1)
        self._soft_old, self._soft_new = np.log1p(-rates), np.log(rates)
        if absent is not None:
            self._set_absent(absent, parts)
        self.kernel: CompiledRules | None = CompiledRules(self._fields(parts)) if is_compiled() else None

    def _set_state(self, state: Any) -> None:
        """Go on from a state of the rule."""
        each = state.rules if isinstance(state, MixtureState) else (state,)
        self._whole = np.stack([np.asarray(each[r], float) for r in self._order])
        if hasattr(self, "weights"):
            self.weights[...] = self._whole[:, self.here]
        else:
            self.weights = self._whole[:, self.here].copy()
        logs = np.asarray(state.log_weights)[self._order] if isinstance(state, MixtureState) else np.zeros(1)
        is_linear = isinstance(self._rule, Mixture) and self._rule.share > 0.0
        of_rules = np.exp(logs) if is_linear else logs
        if hasattr(self, "of_rules"):
            self.of_rules[...] = of_rules
        else:
            self.of_rules = np.array(of_rules, float)

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

    def _set_absent(self, absent: Bool[np.ndarray, " k"], parts: tuple[slice, slice, slice]) -> None:
        """Note what the rules give those that are absent and the others, which all keep their sum."""
        with np.errstate(over="ignore"):  # of weights that `of` refuses
            theirs = np.exp(self._whole[:, absent])
            self._mass, left = theirs.sum(1, keepdims=True), np.exp(self.weights).sum(1, keepdims=True)
        self._left: Float[np.ndarray, " r"] = left[:, 0].copy()
        with np.errstate(divide="ignore"):
            self._log_left = np.log(left)
        self._left_of = tuple(left[part] for part in parts)
        self._log_left_of = tuple(self._log_left[part] for part in parts)
        shared = theirs[parts[1]]
        self._pooled = [pool.mass_of(absent, shared[pool.which]) for pool in self._pools]

    @classmethod
    def of(cls, rule: WeightRule, state: Any, absent: Bool[np.ndarray, " k"] | None = None) -> "StackedRules | None":
        """Return the rules side by side; None where one is of another kind, or a weight is zero."""
        rules = rule.rules if isinstance(rule, Mixture) else (rule,)
        if any(_kind(each) is None for each in rules) or (absent is not None and absent.all()):
            return None
        found = cls(rule, state, absent)
        sound = np.isfinite(found._whole).all() and np.isfinite(found.log_of_rules).all()
        if absent is not None:
            sound = sound and found._left.min() > _LEAST
        return found if sound else None

    @property
    def log_of_rules(self) -> Float[np.ndarray, " r"]:
        """Return the log weights of the rules, in the order in which they are stacked."""
        return self.in_logs(self.of_rules)

    def in_logs(self, of_rules: Float[np.ndarray, "*n r"]) -> Float[np.ndarray, "*n r"]:
        """Return the log weights of the rules, from such as `of_rules` has them."""
        with np.errstate(divide="ignore"):
            return np.log(of_rules) if self._fresh else of_rules

    def in_users_order(self, of_rules: Float[np.ndarray, "*n r"]) -> Float[np.ndarray, "*n r"] | None:
        """Return the log weights of several rules in the order of the rule's own, from such; None of a single one."""
        return self.in_logs(of_rules)[..., self._back] if isinstance(self._rule, Mixture) else None

    @property
    def now(self) -> Any:
        """Return the rule's state."""
        whole = self._whole.copy()
        whole[:, self.here] = self.weights
        if not isinstance(self._rule, Mixture):
            return whole[0]
        return MixtureState(tuple(whole[s] for s in self._back), self.log_of_rules[self._back])

    def log_mixed(self) -> Float[np.ndarray, " k"]:
        """Return the log weights of all experts by all rules together, ``-inf`` of those that are not there."""
        return self.of_all(self.log_mixed_here())

    def of_all(self, log_weights: Float[np.ndarray, "*n h"]) -> Float[np.ndarray, "*n k"]:
        """Return log weights of all experts, ``-inf`` of those that are not there, from those of the others."""
        if self._absent is None:
            return log_weights
        whole = np.full((*log_weights.shape[:-1], len(self._absent)), -np.inf)
        whole[..., self.here] = log_weights
        return whole

    def log_mixed_here(self) -> Float[np.ndarray, " h"]:
        """Return the log weights of the experts that are there by all rules together."""
        if self.kernel is not None:
            return self.kernel.log_mixed()
        mixed = self.weights[0].copy()
        if len(self.weights) > 1:
            joint = self.weights + self.log_of_rules[:, None]
            top = np.maximum.reduce(joint, 0)
            joint -= top
            mixed = top + np.log(np.add.reduce(np.exp(joint, out=joint), 0))
        if self._absent is None:
            return mixed
        top = mixed.max()
        return mixed - (top + log(np.exp(mixed - top).sum()))

    def learn(
        self,
        log_density: Float[np.ndarray, "n k"],
        is_outlier: Bool[np.ndarray, "n k"] | None,
        least: float,
        mixed: Float[np.ndarray, "n k"] | None = None,
        of_rules: Float[np.ndarray, "n r"] | None = None,
    ) -> None:
        """Learn the log densities of rows by the experts that are there.

        Those of a row that is an outlier to some are bounded by `least` and the log of their weight. What all rules
        say together after each row (see `log_mixed`), and the weights of the rules then, are written to `mixed` and
        `of_rules`, where they are given.
        """
        at, n = 0, len(log_density)
        while at < n:
            if self.kernel is not None:
                rest = (None if a is None else a[at:] for a in (mixed, of_rules))
                outliers = None if is_outlier is None else is_outlier[at:]
                at += self.kernel.learn(log_density[at:], outliers, least, *rest)
            if at == n:
                return
            density = log_density[at]
            if is_outlier is not None and is_outlier[at].any():
                density = self._bounded(density, is_outlier[at], least)
            self._learn_row(density - density.max())
            if mixed is not None and of_rules is not None:
                mixed[at], of_rules[at] = self.log_mixed_here(), self.of_rules
            at += 1

    def _bounded(
        self, density: Float[np.ndarray, " k"], outlier: Bool[np.ndarray, " k"], least: float
    ) -> Float[np.ndarray, " k"]:
        """Return log densities of a row that is an outlier to some, bounded by `least` and their weight's log."""
        each = np.exp(self.weights)
        mixed = np.dot(self._weights_of_rules, each)
        mistrust = mixed[outlier].sum()
        if self._absent is not None:
            mistrust = mistrust / mixed.sum()
        return np.logaddexp(density, least + log(min(mistrust, 1.0))) if mistrust > 0.0 else density

    def _learn_row(self, density: Float[np.ndarray, " k"]) -> None:
        """Learn the log densities of a row, of which the largest is zero."""
        J, likely, total = self._joint, self._likely, self._total
        np.add(self.weights, density, out=J)
        np.exp(J, out=likely)
        np.add.reduce(likely, 1, keepdims=True, out=total)
        if not total.min() > _LEAST:
            self._learn_in_logs(density)
            return
        np.log(total, out=self._log_total)
        together = 0.0
        if self._absent is not None:
            known = self._weights_of_rules
            together = float(np.dot(known, self._totals) / np.dot(known, self._left))
            total += self._mass * together
        self._learn_bayes()
        self._learn_shares(together)
        self._learn_soft()
        if len(total) > 1:
            self._weigh()

    @property
    def _weights_of_rules(self) -> Float[np.ndarray, " r"]:
        return self.of_rules if self._fresh else np.exp(self.of_rules)

    def _learn_bayes(self) -> None:
        weights, joint = self._bayes
        if len(weights):
            np.subtract(joint, self._log_total[: len(weights)], out=weights)
            if self._absent is not None:
                weights += self._log_left_of[0]

    def _learn_shares(self, together: float) -> None:
        weights, likely, total, new = self._shared
        if not len(weights):
            return
        likely /= total
        np.multiply(likely, self._keep, out=new)
        new += self._add
        for n, pool in enumerate(self._pools):
            mass = pool.mass(likely[pool.which])
            if self._absent is not None:
                mass += self._pooled[n] * (together / total[pool.which, 0])
            new[pool.which] += mass[pool.groups]
        if self._absent is not None:
            new *= self._left_of[1] / np.add.reduce(new, 1, keepdims=True)
        np.log(new, out=weights)

    def _learn_soft(self) -> None:
        weights, joint = self._soft
        if not len(weights):
            return
        weights += self._soft_old
        joint += self._soft_new - (self._log_total if self._absent is None else np.log(self._total))[-len(weights) :]
        np.logaddexp(weights, joint, out=weights)
        if self._absent is not None:
            weights += np.log(self._left_of[2] / np.add.reduce(np.exp(weights), 1, keepdims=True))

    def _learn_in_logs(self, density: Float[np.ndarray, " k"]) -> None:
        """Learn a row as the rules themselves do, however little a rule gives it."""
        of_all = np.zeros(len(self._whole[0]))
        of_all[self.here] = density
        self._set_state(learn_row(self._rule, self.now, of_all, None, 0.0, self._absent))

    def _weigh(self) -> None:
        """Weigh the rules by the density that each gave the target."""
        if self._fresh:
            likely = self.of_rules * self._totals
            np.add(self._old / likely.sum() * likely, self._fresh, out=self.of_rules)
            return
        joint = self.of_rules + np.log(self._totals)
        top = joint.max()
        np.subtract(joint, top + log(np.exp(joint - top).sum()), out=self.of_rules)

    def _fields(self, parts: tuple[slice, slice, slice]) -> dict[str, Any]:
        """Return what the kernel needs of it."""
        R, K = self.weights.shape
        pools, is_whole = self._pools, self._absent is None
        most = max((pool.num_groups for pool in pools), default=0)
        pooled = np.zeros((len(pools), most))
        if not is_whole:
            for n, of_absent in enumerate(self._pooled):
                pooled[n, : len(of_absent)] = of_absent
        counts = {name: part.stop - part.start for name, part in zip(("bayes", "shares"), parts, strict=False)}
        return {
            **counts,
            "experts": K,
            "rules": R,
            "soft": R - counts["bayes"] - counts["shares"],
            "pools": len(pools),
            "most_groups": most,
            "is_linear": int(self._fresh > 0.0),
            "fresh": self._fresh,
            "least_total": _LEAST,
            "weights": self.weights,
            "of_rules": self.of_rules,
            "keep": np.ascontiguousarray(self._keep),
            "add": self._add,
            "soft_old": self._soft_old,
            "soft_new": self._soft_new,
            "pool_share": np.array([pool.which for pool in pools], np.int64),
            "pool_group": np.array([pool.groups for pool in pools], np.int64).reshape(len(pools), K),
            "pool_rate": np.array([pool.rate for pool in pools]),
            "pooled": pooled,
            "mass": None if is_whole else self._mass,
            "left": None if is_whole else self._left,
        }


class _Pool:
    """The groups of experts among which the share with number `which` passes weight on, each its own."""

    def __init__(self, which: int, groups: np.ndarray, num_groups: int, rate: float, here: Any) -> None:
        self.which, self.groups, self.num_groups, self.rate = which, groups[here], num_groups, rate
        self._all = groups

    def mass(self, weights: Float[np.ndarray, " k"]) -> Float[np.ndarray, " g"]:
        """Return what each expert of a group gets of the group's weight."""
        return self.rate * np.bincount(self.groups, weights, self.num_groups)

    def mass_of(self, some: Bool[np.ndarray, " k"], weights: Float[np.ndarray, " j"]) -> Float[np.ndarray, " g"]:
        """Return the same of some of all experts, and of no other."""
        return self.rate * np.bincount(self._all[some], weights, self.num_groups)


def _kind(rule: WeightRule) -> int | None:
    """Return the place of a rule's kind in the stack; None where it has none."""
    if isinstance(rule, BMA):
        return None if rule.shuts_down else 0
    if isinstance(rule, Share):
        return 1 if rule.background > 0.0 or (rule.num_groups == 1 and rule.rate > 0.0) else None
    return 2 if isinstance(rule, SoftBayes) else None
