"""A mixture over weight rules as the textbook has it: probabilities, no logs, in decimals that never underflow."""

from collections.abc import Sequence
from decimal import MIN_EMIN, Decimal, localcontext
from typing import NamedTuple

import numpy as np


class Mixed(NamedTuple):
    """Before each row the log weights of the experts (n, K) and of the rules (n, R)."""

    experts: np.ndarray
    rules: np.ndarray


def mix(log_density: np.ndarray, rules: Sequence[np.ndarray | float], share: float) -> Mixed:
    """Run every rule on the experts' likelihoods, and Bayes' rule with a fixed share over the rules.

    Parameters
    ----------
    log_density
        Of each row's targets under each expert, (n, K).
    rules
        Of a switching rule its matrix, Q[i, j] = Pr(expert i now | expert j before); of Soft-Bayes its rate.
    share
        Probability, per row, that the rules start again from equal weights.
    """
    n, K = log_density.shape
    R = len(rules)
    exact = np.vectorize(lambda x: Decimal(float(x)), otypes=[object])
    logs = np.vectorize(lambda x: float(x.ln()) if x else -np.inf, otypes=[float])
    experts, weights_of_rules = np.zeros((n, K)), np.zeros((n, R))
    with localcontext() as context:
        context.prec, context.Emin = 30, MIN_EMIN
        switching = [None if isinstance(rule, float) else exact(rule) for rule in rules]
        weights = [exact(np.ones(K)) / K for _ in rules]
        weights = [w if Q is None else Q @ w for w, Q in zip(weights, switching, strict=True)]
        v = exact(np.ones(R)) / R
        for i in range(n):
            p = np.array([Decimal(float(x)).exp() if np.isfinite(x) else Decimal(0) for x in log_density[i]])
            experts[i] = logs(v @ np.array(weights))
            weights_of_rules[i] = logs(v)
            said = [w @ p for w in weights]
            v = v * said / (v @ said)
            v = (1 - Decimal(share)) * v + Decimal(share) / R
            for r, (rule, Q) in enumerate(zip(rules, switching, strict=True)):
                if not said[r]:
                    continue  # the rule held the row for impossible: it teaches nothing
                bayes = weights[r] * p / said[r]
                if Q is None:
                    weights[r] = weights[r] * (1 - Decimal(rule)) + Decimal(rule) * bayes
                else:
                    weights[r] = Q @ bayes
    return Mixed(experts, weights_of_rules)
