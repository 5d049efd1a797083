"""The papers' experts for two classes, logistic and fitted by Laplace's evidence, and the errors of their mixtures.

`streamgp_papers.bank` and `streamgp_papers.stream` do the same for regression.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from streamgp.app.outputs import RunError
from streamgp.bases import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.likelihoods import Logistic
from streamgp.models.fitting.hyperparameter_samples import PERTURBATION, covariance_root
from streamgp.models.fitting.hyperparameters import (
    PRIOR_BOUNDS,
    by_coordinates,
    constrain,
    flatten,
    limits,
    unconstrain,
    unflatten,
)
from streamgp.models.fitting.laplace_evidence import LaplaceFit, evidence_and_gradient, fit_likelihood
from streamgp.models.generalised.model import GeneralisedExpert, generalised_ensemble
from streamgp.numerics import keys, tree
from streamgp.numerics.accelerator import jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.batching import split_batches
from streamgp.numerics.keys import Key
from streamgp.numerics.precision import float64
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import BMA
from streamgp_papers.bank import Family, Likelihood, Member, fit_experts
from streamgp_papers.classification_baselines import ClassificationData, predict
from streamgp_papers.data_files import load
from streamgp_papers.mixing import Mix, Weigher, choose_points, shorten
from streamgp_papers.stream import score

# The most directions of a Hessian. With more hyperparameters, as the centres of a network, all are perturbed.
MAX_DIRECTIONS = 20
# The step of the differences from which the Hessian is computed.
_STEP = 1e-3


class ExpertProbabilities(NamedTuple):
    """A batch of labels (n,), and the log probability that each expert gave them, (n, K)."""

    y: np.ndarray
    log_probability: np.ndarray


def _likelihood() -> Logistic:
    """Make the papers' likelihood, which has no intercept."""
    return Logistic(np.asarray(0.0))


def _fit(basis: Basis, X: AnyArray, y: AnyArray, start: float, trainable: tuple[str, ...]) -> LaplaceFit:
    return fit_likelihood(basis, _likelihood(), X, y, start, trainable)


def _expert(fit: LaplaceFit, dynamics: Dynamics) -> GeneralisedExpert:
    return GeneralisedExpert(fit.basis, np.asarray(fit.prior_var), fit.likelihood, dynamics)


def _hyperparameters(basis: Basis, prior_var: Any, trainable: tuple[str, ...]) -> dict[str, Any]:
    return {"basis": unconstrain(basis, trainable), "log_prior_var": np.log(prior_var)}


def _at(flat: np.ndarray, basis: Basis, trainable: tuple[str, ...]) -> tuple[Basis, float]:
    hyper = unflatten(flat, _hyperparameters(basis, 1.0, trainable))
    return constrain(basis, trainable, hyper["basis"]), float(np.exp(hyper["log_prior_var"]))


def _slope(flat: np.ndarray, basis: Basis, trainable: tuple[str, ...], X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the gradient of the negative log evidence."""
    moved, prior_var = _at(flat, basis, trainable)
    Phi, pullback = moved.features_and_pullback(X)
    _, _, by = evidence_and_gradient(_likelihood(), Phi, y, prior_var, np.zeros((1, Phi.shape[1])))
    gradient = by_coordinates(moved, trainable, pullback(by.Phi))
    return -flatten({"basis": gradient, "log_prior_var": by.log_prior_var})


def _draws(
    fit: LaplaceFit,
    basis: Basis,
    trainable: tuple[str, ...],
    X: Float[AnyArray, "n d"],
    y: Float[AnyArray, " n"],
    count: int,
    key: Key,
) -> list[LaplaceFit]:
    """Draw as `laplace_samples` does, with Laplace's evidence, whose Hessian is by finite differences."""
    X, y, basis = tree.map(np.asarray, (X, y, basis))
    optimum = flatten(_hyperparameters(fit.basis, fit.prior_var, trainable))
    bounds = {"basis": limits(basis, trainable), "log_prior_var": np.asarray(PRIOR_BOUNDS)}
    low, high = np.concatenate([b.reshape(-1, 2) for b in tree.leaves(bounds)]).T
    root = np.sqrt(PERTURBATION) * np.eye(optimum.size)
    if optimum.size <= MAX_DIRECTIONS:
        steps = _STEP * np.eye(optimum.size)
        slopes = [_slope(optimum + step, basis, trainable, X, y) for step in (*steps, *-steps)]
        up, down = np.split(np.asarray(slopes), 2)
        hessian = (up - down) / (2.0 * _STEP)
        root = covariance_root((hessian + hessian.T) / 2.0)
    samples = []
    for i in range(count):
        drawn = np.asarray(jax.random.normal(keys.fold_in(key, i), optimum.shape))
        moved, prior_var = _at(np.clip(optimum + root @ drawn, low, high), basis, trainable)
        samples.append(replace(fit, basis=moved.precomputed(), prior_var=prior_var, log_evidence=np.nan))
    return samples


LOGISTIC = Likelihood(_fit, _draws, _expert)


def stream_classes(
    experts: Sequence[GeneralisedExpert], X: np.ndarray, y: np.ndarray
) -> Iterator[ExpertProbabilities]:
    """Stream the rows (n, D) and labels `y` (n,) through the experts, from their priors on.

    Yield each expert's log probability of every label before the expert learns it.
    """
    model = generalised_ensemble(experts, BMA())
    state = model.init(keys.key(0))
    for rows, _ in split_batches(len(X)):
        labels = y[rows, None]
        state, info = model.update(state, X[rows], labels)
        yield ExpertProbabilities(y[rows], info.predictive.component_log_density(labels))


def classification_scores(right: np.ndarray, log_probability: np.ndarray | None) -> dict[str, float]:
    """Compute the error rate in percent and, with probabilities, the mean negative log probability of the labels."""
    scores = {"error": 100.0 * float(np.mean(~right))}
    if log_probability is not None:
        scores["log_loss"] = -float(np.mean(log_probability))
    return scores


class ClassificationScorer:
    """Scores one classifier along a stream; see `streamgp_papers.mixing.Scorer`."""

    def __init__(self, mix: Mix, members: Sequence[Member]) -> None:
        self.mix = mix
        self._weigher = Weigher(mix, members)
        self._y: list[np.ndarray] = []
        self._log_probability: list[np.ndarray] = []

    def add(self, batch: ExpertProbabilities) -> None:
        """Add the next rows."""
        each = batch.log_probability[:, self._weigher.chosen]
        before, _ = self._weigher.add(each)
        self._y.append(batch.y)
        self._log_probability.append(np.asarray(logsumexp(before + each, axis=1)))

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        y, log_probability = np.concatenate(self._y), np.concatenate(self._log_probability)
        # A half predicts class 0; no other probability is likely to occur by chance.
        return np.where(y == 1, log_probability > np.log(0.5), log_probability >= np.log(0.5)), log_probability

    def scores(self) -> dict[str, float]:
        """Return the error rate in percent, and the mean negative log probability of the labels."""
        return classification_scores(*self._rows())

    def curve(self) -> dict[str, list[float]]:
        """Return the scores of the rows so far, at some of them."""
        right, log_probability = self._rows()
        count, at = np.arange(1, len(right) + 1), choose_points(len(right))
        return {
            "rows": (at + 1).tolist(),
            "error": shorten((100.0 * np.cumsum(~right) / count)[at]),
            "log_loss": shorten((-np.cumsum(log_probability) / count)[at]),
        }

    def moving_weight(self) -> dict[str, Any]:
        """Return the weight of the moving experts; see `Weigher.moving_weight`."""
        return self._weigher.moving_weight()


def run_classification(
    data: str,
    seed: int,
    *,
    directory: Path | None,
    rows: int | None,
    warmup: float,
    families: Sequence[Family],
    mixes: Sequence[Mix],
    rivals: Sequence[str] = (),
) -> dict[str, Any]:
    """Fit the families on the first rows of a data set, and score the models and their baselines.

    Every score is computed twice: over the rows after the warm-up, on which the experts start from their priors, and,
    ending in ``_all``, over all rows, which the experts learn from the first one on (with hyperparameters of the
    warm-up). Baselines learn all rows.

    Parameters
    ----------
    warmup
        Its rows or, below one, its share of the rows.
    rivals
        Groups of baselines, from `streamgp_papers.classification_baselines.GROUPS`; named as in stored runs.

    Raises
    ------
    RunError
        If the file is missing, its labels are others than 0 and 1, or no row is left after the warm-up.
    """
    X, y = load(data, directory, rows, seed)
    if not np.isin(y, (0.0, 1.0)).all():
        raise RunError(
            f"{data}: expected labels 0 and 1, got {', '.join(f'{label:g}' for label in np.unique(y)[:5])}"
        )
    first = int(warmup * len(y)) if warmup < 1 else int(warmup)
    if len(y) < first + 2 or first < 2:
        hint = "" if rows is None else "; give more --rows"
        raise RunError(f"{data}: expected more than the {first} rows of the warm-up, at least 2, got {len(y)}{hint}")
    inputs = Standardiser.empty(X.shape[1]).update(X[:first]).transform(X)
    began = time.process_time()
    with float64():
        experts, members = fit_experts(families, inputs[:first], y[:first], seed, LOGISTIC)
        result = score(stream_classes(experts, inputs[first:], y[first:]), members, mixes, ClassificationScorer)
        seconds = time.process_time() - began
        from_first = score(stream_classes(experts, inputs, y), members, mixes, ClassificationScorer)["models"]
        static = [expert.basis for expert, member in zip(experts, members, strict=True) if not member.moving]
        # Of mean square one, which suits stochastic gradients.
        features = [np.asarray(basis(jnp.asarray(inputs))) * np.sqrt(basis.num_features) for basis in static]
    models, errors = result["models"], result.pop("curves")
    for name, scores in models.items():
        scores |= {f"{metric}_all": value for metric, value in from_first[name].items()} | {"seconds": seconds}
    forecasts, remarks = predict(rivals, ClassificationData(X, inputs, features, y, first, seed))
    for name, forecast in forecasts.items():
        right, log_probability = forecast.predicted == y, forecast.log_probability
        after = classification_scores(right[first:], None if log_probability is None else log_probability[first:])
        everything = {
            f"{metric}_all": value for metric, value in classification_scores(right, log_probability).items()
        }
        models[name] = after | everything | {"seconds": forecast.seconds}
    return {
        "rows": len(y),
        "inputs": X.shape[1],
        "experts": len(members),
        "remarks": remarks,
        "errors": errors,
        **result,
    }
