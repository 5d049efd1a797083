"""The settings of an optimiser, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Int

from streamgp.bandits.confidence import Schedule, beta
from streamgp.bandits.memory import METHODS, Memory, memory_of
from streamgp.bandits.queries import RULES, QueryCount, Rule, check_query_count
from streamgp.bandits.regression import KERNELS
from streamgp.numerics.checkpoint.encoding import register


@register
@dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of `TimeVaryingOptimizer`, which says what they mean; `fixed` are the known hyperparameters."""

    method: str
    beta: Schedule | float
    delta: float
    bound: float
    kernel: str
    fixed: dict[str, Any]
    window: int
    eps: float
    gamma: float
    query_rule: Rule
    num_queries: QueryCount
    swaps: int
    reuse_answers: bool
    expert_noise_var: float | None
    refit_every: int
    memory: int
    random_state: int
    # The default is for checkpoints older than this setting.
    robust: bool = False
    time_unit: float | None = 1.0

    def check(self) -> None:
        """Raise ValueError if an argument is out of its range or contradicts another."""
        for name, value, known in (
            ("method", self.method, METHODS),
            ("kernel", self.kernel, KERNELS),
            ("query_rule", self.query_rule, RULES),
        ):
            if value not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
        check_query_count(self.num_queries, self.query_rule)
        if self.method == "ensemble" and self.query_rule in ("domain", "maximisers"):
            raise ValueError(
                f"query_rule: expected 'grid', 'past' or 'random' for an ensemble, got {self.query_rule!r}"
            )
        if not isinstance(self.robust, bool):
            raise ValueError(f"robust: expected True or False, got {self.robust!r}")
        for name, lowest in (("refit_every", 1), ("memory", 10), ("swaps", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < lowest:
                raise ValueError(f"{name}: expected a whole number of at least {lowest}, got {value!r}")
        if self.method == "ensemble":
            unused = {
                "kernel": self.kernel != "squared-exponential",
                "hyperparameters": bool(self.fixed),
                "expert_noise_var": self.expert_noise_var is not None,
                "beta='theory'": self.beta == "theory",
            }
            if any(unused.values()):
                named = ", ".join(name for name, given in unused.items() if given)
                raise ValueError(
                    f"{named}: expected no such choice for an ensemble, whose experts differ in it; leave it out"
                )
        if self.expert_noise_var is not None and not 0.0 < self.expert_noise_var < np.inf:
            raise ValueError(f"expert_noise_var: expected a positive number or None, got {self.expert_noise_var!r}")
        if not 0.0 < self.delta < 1.0 or not self.bound >= 0.0:
            raise ValueError(f"expected 0 < delta < 1 and bound >= 0, got {self.delta!r} and {self.bound!r}")
        self.beta_at(1, 0.0, 1)
        if self.method != "ensemble":
            self.make_memory()

    def make_memory(self) -> Memory:
        """Return the memory of the method, which is not the ensemble."""
        return memory_of(self.method, window=self.window, eps=self.eps, gamma=self.gamma, reuse=self.reuse_answers)

    def beta_at(self, t: int, log_gain: float, parameters: int) -> float:
        """Return beta_t, the factor of the standard deviation in step t."""
        return beta(self.beta, t, log_gain=log_gain, width=parameters, delta=self.delta, bound=self.bound)


def check_hyperparameters(given: Mapping[str, Any], groups: Int[np.ndarray, " d"]) -> dict[str, Any]:
    """Check hyperparameters that the user knows; lengthscales, one a parameter or one for all, by unit coordinate.

    Raises
    ------
    ValueError
        If one has another name, or is out of its range.
    """
    names = {"lengthscales", "variance", "noise_var", "mean"}
    if unknown := set(given) - names:
        raise ValueError(f"hyperparameters: expected some of {', '.join(sorted(names))}, got {', '.join(unknown)}")
    fixed: dict[str, Any] = {name: float(value) for name, value in given.items() if name != "lengthscales"}
    if "lengthscales" in given:
        values = np.asarray(given["lengthscales"], dtype=float)
        parameters = int(groups.max()) + 1
        if values.shape not in ((), (parameters,)):
            raise ValueError(f"lengthscales: expected a number or {parameters} of them, got shape {values.shape}")
        fixed["lengthscales"] = np.broadcast_to(values, (parameters,))[groups]
    for name, value in fixed.items():
        if not np.isfinite(value).all() or (name != "mean" and not np.all(value > 0.0)):
            raise ValueError(f"{name}: expected {'a finite' if name == 'mean' else 'a positive'} number, got {value}")
    return fixed


def as_seed(random_state: int | None) -> int:
    """Return the seed that the user gave, or draw one.

    Raises
    ------
    ValueError
        If it is no whole number of at least zero.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(f"random_state: expected a whole number of at least zero or None, got {random_state!r}")
    return int(random_state)
