"""Regret: the losses of a run, the best losses in hindsight, and bounds on the difference."""

from streamgp.research.regret.bounds import (
    Bound,
    optimal_stay,
    sequence_bound,
    slots_bound,
    static_bound,
    static_kernel_bound,
    switching_kernel_bound,
)
from streamgp.research.regret.hindsight import Hindsight, best_fit, best_functions, hindsight_basis, hindsight_kernel
from streamgp.research.regret.losses import (
    Losses,
    best_sequence,
    run_losses,
    sequence_regret,
    static_regret,
    switching_regret,
)

__all__ = [
    "Bound",
    "Hindsight",
    "Losses",
    "best_fit",
    "best_functions",
    "best_sequence",
    "hindsight_basis",
    "hindsight_kernel",
    "optimal_stay",
    "run_losses",
    "sequence_bound",
    "sequence_regret",
    "slots_bound",
    "static_bound",
    "static_kernel_bound",
    "static_regret",
    "switching_kernel_bound",
    "switching_regret",
]
