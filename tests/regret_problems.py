"""Random problems for the tests of regret: ensembles of unlike experts, on targets that none of them expects."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from streamgp.bases import Basis, Fourier, Polynomial
from streamgp.filters.dynamics import static
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.research.regret.hindsight import experts_of
from streamgp.weights import WeightRule

ROWS, INPUTS, FEATURES = 40, 2, 6


class Problem(NamedTuple):
    """An ensemble of three, rows for it, and of each expert v, s2, F and the largest ||phi(x)||^2."""

    model: Ensemble
    X: np.ndarray
    y: np.ndarray
    prior_var: np.ndarray
    noise_var: np.ndarray
    features: np.ndarray
    largest: np.ndarray


def problem(seed: int, rule: WeightRule) -> Problem:
    """Two Fourier experts and a polynomial, variances over four decades; targets from easy to hostile."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, INPUTS))
    fourier = [
        Fourier(jnp.asarray(rng.normal(size=(FEATURES // 2, INPUTS))), jnp.asarray(rng.uniform(0.3, 3.0, INPUTS)))
        for _ in range(2)
    ]
    bases: list[Basis] = [*fourier, Polynomial(INPUTS, 2)]
    v, s2 = 10.0 ** rng.uniform(-2.0, 2.0, 3), 10.0 ** rng.uniform(-2.0, 2.0, 3)
    experts = [
        Expert(basis, jnp.asarray(a), jnp.asarray(b), static()) for basis, a, b in zip(bases, v, s2, strict=True)
    ]
    y = [
        np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=ROWS),
        np.where(np.arange(ROWS) < ROWS // 2, 5.0, -5.0),
        10.0 * (-1.0) ** np.arange(ROWS),
        rng.standard_t(1.5, ROWS),
    ][seed % 4]
    Phis = [np.asarray(basis(jnp.asarray(X))) for basis in bases]
    largest = np.array([(Phi**2).sum(1).max() for Phi in Phis])
    return Problem(ensemble(experts, rule), X, y, v, s2, np.array([Phi.shape[1] for Phi in Phis]), largest)


def designs(case: Problem) -> list[np.ndarray]:
    """The design matrix of every expert."""
    return [np.asarray(expert.basis(jnp.asarray(case.X))) for expert in experts_of(case.model)]
