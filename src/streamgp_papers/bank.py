"""The papers' experts, in the papers' settings: each basis from several starts, fitted, then streamed from the prior.

All experts of a data set and seed run once; every model of a table is then a choice among them and a weight rule (see
`streamgp_papers.mixing`). So models that share experts are compared on the very same ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamgp.bases import BASES, Basis, Polynomial
from streamgp.filters.dynamics import Dynamics, random_walk, static
from streamgp.models.expert import Expert
from streamgp.models.fitting.gaussian_evidence import Fit, fit_basis
from streamgp.models.fitting.hyperparameter_samples import laplace_samples
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.numerics.accelerator import eqx, jnp
from streamgp.numerics.batching import split_batches
from streamgp.numerics.keys import Key
from streamgp.numerics.standardise import Standardiser
from streamgp.numerics.threads import one_blas_thread
from streamgp.weights import BMA

Q = 1e-3  # the random walk's variance per row, absolute, in both papers


@dataclass(frozen=True)
class Family:
    """Experts with bases of one kind.

    Attributes
    ----------
    name
        Its name in tables.
    basis
        A name of `streamgp.bases.BASES`.
    features
        F to aim for.
    starts
        The starts of the fits: lengthscales, as multiples of each input's range; of polynomials, orders.
    plain
        The starts are lengthscales in standard deviations of the inputs instead.
    fixed
        Lengthscales stay at their start; only v and s2 are fitted.
    samples
        Experts of each start: the optimum, and draws around it.
    best
        Only the start of the best evidence is kept.
    moving
        The copies of each expert: static, random walk, or both.
    """

    name: str
    basis: str
    features: int = 100
    starts: tuple[float, ...] = (0.1, 1.0, 10.0)
    plain: bool = False
    fixed: bool = False
    samples: int = 1
    best: bool = False
    moving: tuple[bool, ...] = (False, True)


class Member(NamedTuple):
    """The origin of an expert: its family, the number of its basis, its number among a start's draws, if it moves."""

    family: str
    basis: int
    draw: int
    moving: bool


class Likelihood(NamedTuple):
    """The making of experts for targets of one kind: the fit, the draws around it, and the expert itself."""

    fit: Callable[..., Any]
    draws: Callable[..., list]
    expert: Callable[[Any, Dynamics], Any]


def _expert(fit: Fit, dynamics: Dynamics) -> Expert:
    return Expert(fit.basis, jnp.asarray(fit.prior_var), jnp.asarray(fit.noise_var), dynamics)


GAUSSIAN = Likelihood(fit_basis, laplace_samples, _expert)


class ExpertPredictions(NamedTuple):
    """A batch of targets (n,), standardised by the warm-up, and each expert's means and variances of them (n, K)."""

    y: np.ndarray
    loc: np.ndarray
    var: np.ndarray


def _basis(family: Family, X: np.ndarray, start: float, key: Key) -> tuple[Basis, tuple[str, ...]]:
    """Make a basis at its start, and choose the hyperparameters to fit."""
    if family.basis == "polynomial":
        return Polynomial(X.shape[1], int(start)), ()
    basis = BASES[family.basis].from_data(X, num_features=family.features, start=start, key=key)
    if family.plain:
        plain = jnp.full(X.shape[1], start)
        basis = eqx.tree_at(lambda b: b.lengthscale, basis, plain)  # type: ignore[attr-defined]
    return basis, () if family.fixed else tuple(basis.trainable)


def fit_family(
    family: Family, X: np.ndarray, y: np.ndarray, seed: int, likelihood: Likelihood = GAUSSIAN
) -> list[list[Any]]:
    """Fit from every start; return the optimum of each and the draws around it.

    `X` and `y` are the warm-up, `y` in the form of the likelihood: a Gaussian has standardised targets (n, 1).
    """
    rows, targets = jnp.asarray(X), jnp.asarray(y)
    starts = []
    with one_blas_thread():
        for number, start in enumerate(family.starts):
            key = keys.fold_in(keys.key(seed), number)
            basis, trainable = _basis(family, X, start, key)
            starts.append((likelihood.fit(basis, rows, targets, start, trainable), basis, trainable, key))
        if family.best:
            starts = [max(starts, key=lambda start: start[0].log_evidence)]
        found = [[fit] for fit, *_ in starts]
        if family.samples > 1:
            for fits, (fit, basis, trainable, key) in zip(found, starts, strict=True):
                draws = keys.fold_in(key, 1)
                fits += likelihood.draws(fit, basis, trainable, rows, targets, family.samples - 1, draws)
        return found


def fit_experts(
    families: Sequence[Family], X: np.ndarray, y: np.ndarray, seed: int, likelihood: Likelihood = GAUSSIAN
) -> tuple[list[Any], list[Member]]:
    """Make the experts of all families, fitted to warm-up rows, `y` in the form of the likelihood."""
    experts, members = [], []
    for family in families:
        for fits in fit_family(family, X, y, seed, likelihood):
            for draw, fit in enumerate(fits):
                basis = 0 if not members else members[-1].basis + 1
                for moving in family.moving:
                    dynamics = random_walk(Q / fit.prior_var) if moving else static()
                    experts.append(likelihood.expert(fit, dynamics))
                    members.append(Member(family.name, basis, draw, moving))
    return experts, members


def stream(experts: Sequence[Expert], X: np.ndarray, y: np.ndarray) -> Iterator[ExpertPredictions]:
    """Stream the rows (n, D) and targets `y` (n, 1) through the experts, from their priors on.

    Yield each expert's prediction of every row before its target.
    """
    model = ensemble(experts, BMA())
    state = model.init(keys.key(0))
    for rows, _ in split_batches(len(X)):
        state, info = model.update(state, X[rows], y[rows])
        loc, var = (np.asarray(a)[:, :, 0] for a in (info.predictive.loc, info.predictive.var))
        yield ExpertPredictions(y[rows, 0], loc, var)


def standardise(X: np.ndarray, y: np.ndarray, warmup: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardise inputs and targets (n, 1) by the warm-up, clipped at +-1000 standard deviations."""
    targets = y[:, None]
    return tuple(Standardiser.empty(a.shape[1]).update(a[:warmup]).transform(a) for a in (X, targets))  # type: ignore[return-value]
