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


def unconstrain(model: Basis | Likelihood, names: tuple[str, ...]) -> dict[str, Array]:
    """The named hyperparameters, positive ones as their logs."""
    return {name: _TO[model.trainable[name]](getattr(model, name)) for name in names}


def constrain(model: _Model, names: tuple[str, ...], hyper: dict[str, Any]) -> _Model:
    """`model` with the named hyperparameters as `unconstrain` has them."""
    for name in names:
        model = eqx.tree_at(attrgetter(name), model, _FROM[model.trainable[name]](hyper[name]))
    return model


def limits(model: Basis | Likelihood, names: tuple[str, ...]) -> dict[str, Float[np.ndarray, "*shape 2"]]:
    """The least and the greatest value of each coordinate of `unconstrain`."""
    return {name: np.broadcast_to(_BOUNDS[model.trainable[name]], (*getattr(model, name).shape, 2)) for name in names}


def search(
    objective: Callable[[np.ndarray], tuple[Array, Array]], start: Any, bounds: Any, most_steps: int
) -> OptimizeResult:
    """The least value of a function that comes with its gradient, by L-BFGS-B."""

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(flat)
        return float(value), np.asarray(gradient, dtype=np.float64)

    return minimize(
        evaluate,
        np.asarray(start, dtype=np.float64),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": most_steps, "ftol": 1e-7, "gtol": 1e-5, "maxcor": 20},
    )
