"""Hyperparameters as coordinates that may be any numbers, and the search for the best ones."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import OptimizeResult, minimize

from streamgp.bases.base import Basis
from streamgp.likelihoods.base import Likelihood

_Model = TypeVar("_Model", bound=Basis | Likelihood)
_TO = {"positive": jnp.log, "real": lambda a: a}
_FROM = {"positive": jnp.exp, "real": lambda a: a}
# Guards against overflow, never active at a sensible optimum of standardised data (in logs).
_BOUNDS = {"positive": (np.log(1e-4), np.log(1e6)), "real": (-np.inf, np.inf)}
PRIOR_BOUNDS = (np.log(1e-8), np.log(1e8))
# The search gets this value where the function is not a number.
_HUGE = 1e10
_ABNORMAL = 2  # SciPy's status of a line search that failed


def unconstrain(model: Basis | Likelihood, names: tuple[str, ...]) -> dict[str, Array]:
    """Return the named hyperparameters, positive ones as their logs."""
    return {name: _TO[model.trainable[name]](getattr(model, name)) for name in names}


def constrain(model: _Model, names: tuple[str, ...], hyper: dict[str, Any]) -> _Model:
    """Return `model` with the named hyperparameters as `unconstrain` has them."""
    for name in names:
        model = eqx.tree_at(attrgetter(name), model, _FROM[model.trainable[name]](hyper[name]))
    return model


def limits(model: Basis | Likelihood, names: tuple[str, ...]) -> dict[str, Float[np.ndarray, "*shape 2"]]:
    """Return the least and the greatest value of each coordinate of `unconstrain`."""
    return {name: np.broadcast_to(_BOUNDS[model.trainable[name]], (*getattr(model, name).shape, 2)) for name in names}


def search(
    objective: Callable[[np.ndarray], tuple[Array, Array]], start: Any, bounds: Any, max_steps: int
) -> OptimizeResult:
    """Search the least value of a function that comes with its gradient, by L-BFGS-B.

    Where a value is no number the search turns back. One that ends abnormally gives the best point that it has seen;
    where there is none, not even the start, the value is infinite.
    """
    start = np.asarray(start, dtype=np.float64)
    best, where = np.inf, start

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, where
        value, gradient = (np.asarray(a, dtype=np.float64) for a in objective(flat))
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return _HUGE, np.zeros_like(flat)
        if value < best:
            best, where = float(value), flat.copy()
        return float(value), gradient

    found = minimize(
        evaluate,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_steps, "ftol": 1e-7, "gtol": 1e-5, "maxcor": 20},
    )
    if found.status == _ABNORMAL or not found.fun < _HUGE:
        found.fun, found.x = best, where
    return found
