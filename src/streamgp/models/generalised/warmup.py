"""The fit of experts for classes, counts and ordinal targets to the rows of the warm-up."""

from collections.abc import Callable

import numpy as np

from streamgp.bases import Basis, Fourier, Intercept, Linear
from streamgp.filters.dynamics import static
from streamgp.likelihoods import Likelihood, ceiling
from streamgp.likelihoods.from_targets import make_likelihood
from streamgp.likelihoods.noise_features import NoiseInputs
from streamgp.models.base import FittedExpert
from streamgp.models.fitting.laplace_evidence import LaplaceFit, fit_likelihood
from streamgp.models.gaussian.fit_tasks import FitTask, make_fit_tasks, map_in_threads
from streamgp.models.gaussian.warmup import FLAT_GAIN, FLAT_SHARE, dynamics_of
from streamgp.models.generalised.model import GeneralisedEnsemble, GeneralisedExpert, generalised_ensemble
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.weights import BMA
from streamgp.weights.by_name import make_rule

# The provisional experts of the warm-up: lengthscales in units of sqrt(D) standard deviations, prior variances.
PROVISIONAL_LENGTHSCALES = (0.5, 1.0, 2.0)
PROVISIONAL_VARS = (1.0, 10.0)
PROVISIONAL_FEATURES = 50
# The most coefficients of an expert, features times latent values: the covariance holds their square.
MAX_COEFFICIENTS = 400
MIN_FEATURES = 10


def provisional_generalised(
    spec: Spec, y: np.ndarray, num_classes: int, num_inputs: int, seed: int
) -> GeneralisedEnsemble:
    """Build the ensemble with default hyperparameters that predicts the rows of the warm-up.

    `y` are the targets so far, counts per exposure. Experts have latent values for the next power of two of classes,
    so that few programs are compiled while classes turn up.
    """
    inputs = num_inputs - spec.exposure
    bases: list[Basis] = [Linear(inputs)]
    box = np.stack([np.zeros(inputs), np.ones(inputs)])
    for i, scale in enumerate(PROVISIONAL_LENGTHSCALES):
        key = keys.fold_in(keys.key(seed), i)
        start = scale * float(np.sqrt(inputs))
        bases.append(Intercept(Fourier.from_data(box, num_features=PROVISIONAL_FEATURES, start=start, key=key)))
    slots = max(2, 1 << (num_classes - 1).bit_length())
    highest = highest_rate(spec, y, np.ones(len(y)))
    likelihood = make_likelihood(spec.likelihood, y if highest is None else y[y <= highest], num_classes, slots)
    experts = [
        GeneralisedExpert(basis, np.asarray(prior_var), likelihood, static())
        for basis in bases
        for prior_var in PROVISIONAL_VARS
    ]
    return generalised_ensemble(experts, BMA(), offset=spec.exposure, highest=highest)


def highest_rate(spec: Spec, y: np.ndarray, exposure: np.ndarray) -> float | None:
    """Return the largest rate of counts per exposure that is believed; None for other targets, or without a guard."""
    return ceiling.believed(y, exposure) if spec.task == "count" and spec.robust else None


def fit_generalised(
    spec: Spec,
    X: np.ndarray,
    y: np.ndarray,
    num_classes: int,
    *,
    seed: int,
    time_unit: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[GeneralisedEnsemble, list[FittedExpert]]:
    """Fit the experts of `spec` to warm-up rows and build the ensemble, weights at their prior.

    Parameters
    ----------
    X, y
        Standardised inputs (n, D), the last one a log exposure if there is one, and targets (n,).
    num_classes
        How many classes, or grades, there are.
    seed, time_unit, progress
        As in `streamgp.models.gaussian.warmup.fit_ensemble`.
    """
    inputs = X[:, : X.shape[1] - spec.exposure]
    offset = X[:, -1] if spec.exposure else np.zeros(len(X))
    highest = highest_rate(spec, y, np.exp(offset))
    if highest is not None:
        # The tolerance is for the rounding of the rate, which is a quotient.
        keep = y <= highest * np.exp(offset) * (1.0 + 1e-12)
        inputs, y, offset = inputs[keep], y[keep], offset[keep]
    likelihood = make_likelihood(spec.likelihood, y / np.exp(offset), num_classes, max(2, num_classes))
    fits = _fit_all(spec, inputs, y, offset, likelihood, num_classes, seed, progress or (lambda done, todo: None))
    experts: list[GeneralisedExpert] = []
    table: list[FittedExpert] = []
    groups: list[int] = []
    for number, (label, fit) in enumerate(fits):
        for name, title, dynamics in dynamics_of(spec, label, fit.basis, fit.prior_var, inputs):
            expert = GeneralisedExpert(fit.basis, np.asarray(fit.prior_var), fit.likelihood, dynamics, title)
            experts.append(expert)
            table.append(FittedExpert(title, label, name, spec.likelihood, fit.basis.num_features, fit.gain))
            groups.append(number)
    rule = make_rule(
        spec.rule, groups, delta=spec.delta, share_rate=spec.share, switch=spec.switch, transition=spec.transition
    )
    follows = spec.noise_by_input and spec.likelihood == "negative-binomial"
    ensemble = generalised_ensemble(
        experts,
        rule,
        time_unit=time_unit,
        offset=spec.exposure,
        highest=highest,
        noise_inputs=NoiseInputs.of_rows(inputs, _as_targets(spec, y, num_classes)) if follows else None,
    )
    return ensemble, table


def _fit_all(
    spec: Spec,
    X: np.ndarray,
    y: np.ndarray,
    offset: np.ndarray,
    likelihood: Likelihood,
    num_classes: int,
    seed: int,
    report: Callable[[int, int], None],
) -> list[tuple[str, LaplaceFit]]:
    """Fit every start of every basis; drop those that learnt next to nothing."""
    max_features = max(MIN_FEATURES, MAX_COEFFICIENTS // likelihood.num_latents)
    tasks = make_fit_tasks(spec, dict.fromkeys(spec.bases, max_features), X, _as_targets(spec, y, num_classes), seed)
    # There is nothing to learn yet.
    if spec.likelihood == "categorical" and num_classes < 2:
        return [(task.label, _unfitted(task, likelihood)) for task in tasks]

    def fit(task: FitTask) -> LaplaceFit:
        basis = _with_intercept(task.basis)
        return fit_likelihood(basis, likelihood, X, y, task.start, task.trainable, offset=offset)

    report(0, len(tasks))
    fits = map_in_threads(fit, tasks, lambda done: report(done, len(tasks)))
    best = max(fit.gain for fit in fits)
    kept = []
    for name in spec.bases:
        members = sorted((i for i, task in enumerate(tasks) if task.name == name), key=lambda i: -fits[i].gain)
        first = spec.starts_kept([fits[i].basis.num_features for i in members])
        kept += [i for i in members[:first] if spec.rule == "Q" or fits[i].gain >= max(FLAT_GAIN, FLAT_SHARE * best)]
    # No expert explains the warm-up better than none. All are kept, unfitted, since later rows may favour one.
    if not kept:
        return [(task.label, _unfitted(task, likelihood)) for task in tasks]
    return [(tasks[i].label, fits[i]) for i in kept]


def _as_targets(spec: Spec, y: np.ndarray, num_classes: int) -> np.ndarray:
    """Return targets (n, E), as in regression, for the bases that are cut out of them."""
    if spec.likelihood == "categorical":
        columns = np.eye(max(2, num_classes))[y.astype(int)]
    else:
        columns = (np.log1p(y) if spec.task == "count" else y)[:, None]
    std = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(std > 0.0, std, 1.0)


def _with_intercept(basis: Basis) -> Basis:
    """Give a basis without a constant one, since latent values have no mean of their own."""
    return basis if isinstance(basis, Linear) else Intercept(basis)


def _unfitted(task: FitTask, likelihood: Likelihood) -> LaplaceFit:
    """Return a start as it is before the fit."""
    return LaplaceFit(_with_intercept(task.basis).precomputed(), 1.0, likelihood, np.nan, 0.0, task.start, 0)
