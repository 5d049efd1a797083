"""Hyperparameters as coordinates that may be any numbers, and the search for the best ones."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Basis
from streamgp.likelihoods.base import Likelihood
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

_Model = TypeVar("_Model", bound=Basis | Likelihood)
# Guards against overflow, never active at a sensible optimum of standardised data (in logs).
_BOUNDS = {"positive": (np.log(1e-4), np.log(1e6)), "real": (-np.inf, np.inf)}
PRIOR_BOUNDS = (np.log(1e-8), np.log(1e8))
# The search gets this value where the function is not a number.
_HUGE = 1e10
_ABNORMAL = 2  # SciPy's status of a line search that failed


def unconstrain(model: Basis | Likelihood, names: tuple[str, ...]) -> dict[str, AnyArray]:
    """Return the named hyperparameters, positive ones as their logs."""
    values = {name: getattr(model, name) for name in names}
    return {
        name: namespace(value).log(value) if model.trainable[name] == "positive" else value
        for name, value in values.items()
    }


def constrain(model: _Model, names: tuple[str, ...], hyper: Mapping[str, Any]) -> _Model:
    """Return `model` with the named hyperparameters as `unconstrain` has them."""
    for name in names:
        value = hyper[name]
        model = with_value(model, name, namespace(value).exp(value) if model.trainable[name] == "positive" else value)
    return model


def with_value(model: _Model, name: str, value: Any) -> _Model:
    """Return `model` with another value of a hyperparameter, its own or one of the basis inside it."""
    if name not in model.array_fields:
        name, value = "basis", with_value(model.basis, name, value)  # type: ignore[union-attr]
    fields = model.array_fields
    return model.with_arrays([value if field == name else getattr(model, field) for field in fields])  # type: ignore[return-value]


def by_coordinates(model: Basis | Likelihood, names: tuple[str, ...], slopes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gradient by the coordinates of `unconstrain`, from that by the hyperparameters themselves."""
    return {
        name: slopes[name] * getattr(model, name) if model.trainable[name] == "positive" else slopes[name]
        for name in names
    }


def flatten(hyper: Mapping[str, Any]) -> Float[np.ndarray, " p"]:
    """Return the values of a dictionary, or of one of dictionaries, as one row, by sorted keys."""
    return np.concatenate([np.zeros(0), *(np.ravel(value) for value in tree.leaves(hyper))])


def unflatten(flat: Float[AnyArray, " p"], like: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dictionary that `flatten` makes `flat` of, of the form of `like`."""
    found, at = {}, 0
    for name in sorted(like):
        size = sum(np.size(value) for value in tree.leaves(like[name]))
        part = flat[at : at + size]
        found[name] = (
            unflatten(part, like[name]) if isinstance(like[name], dict) else part.reshape(np.shape(like[name]))
        )
        at += size
    return found


def limits(model: Basis | Likelihood, names: tuple[str, ...]) -> dict[str, Float[np.ndarray, "*shape 2"]]:
    """Return the least and the greatest value of each coordinate of `unconstrain`."""
    return {name: np.broadcast_to(_BOUNDS[model.trainable[name]], (*getattr(model, name).shape, 2)) for name in names}


def search(
    objective: Callable[[np.ndarray], tuple[Any, Any]], start: Any, bounds: Any, max_steps: int
) -> "OptimizeResult":
    """Search the least value of a function that comes with its gradient, by L-BFGS-B.

    Where a value is no number the search turns back. One that ends abnormally gives the best point that it has seen;
    where there is none, not even the start, the value is infinite.
    """
    from scipy.optimize import minimize  # not needed before there is something to fit

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
