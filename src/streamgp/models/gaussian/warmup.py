"""From warm-up rows to experts: build each basis at its starting points, fit it by evidence, drop what is flat."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.bases import BASES, ActiveDims, Basis, Concatenation
from streamgp.bases.concatenation import PARTS
from streamgp.filters.dynamics import Dynamics, parse
from streamgp.filters.noise import parse as parse_noise
from streamgp.likelihoods.noise_features import NoiseInputs
from streamgp.models.base import FittedExpert
from streamgp.models.expert import Expert
from streamgp.models.fitting.gaussian_evidence import INITIAL_NOISE_VAR, INITIAL_PRIOR_VAR, Fit, fit_basis
from streamgp.models.fitting.hyperparameter_samples import laplace_samples
from streamgp.models.fitting.hyperparameters import with_value
from streamgp.models.gaussian.fit_tasks import FitTask, make_fit_tasks, map_in_threads
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.weights.by_name import make_rule

# A start whose evidence gains less than this share of the best of its basis ended on a plateau.
FLAT_SHARE = 0.05
FLAT_GAIN = 0.01  # and so does one below this gain, in nats per row: 10 nats over 1,000 rows
MAX_REVERTED_VARIANCE = 10.0  # of a function that has not been seen for long, in units of the target's variance
ASIDE = 1e-3  # scale of a part of next to no variance: below the noise's floor, but with a slope to come back by
# In nats: the most that one row of the warm-up, and all of it, may count for or against an expert.
MAX_ROW_LOG_ODDS = 10.0
MAX_LOG_ODDS = 20.0
CONCATENATION = "concatenation"  # the basis that is built from other bases' fits
# Its random key, and that of the samples, among the keys that number bases and starts.
_CONCATENATION_KEY = 10
_SAMPLES_KEY = 1_000


def fit_ensemble(
    spec: Spec,
    X: np.ndarray,
    y: np.ndarray,
    *,
    seed: int,
    time_unit: float,
    progress: Callable[[int, int], None] | None = None,
    provisional_expert: Expert | None = None,
) -> tuple[Ensemble, list[FittedExpert]]:
    """Fit the experts of `spec` to standardised warm-up rows and build the ensemble, weights at their prior.

    Parameters
    ----------
    X, y
        Standardised inputs (n, D) and targets (n, E).
    seed
        Seed of the frequencies and centres.
    time_unit
        The length of one time step, for streams with time stamps.
    progress
        Called with the number of fits done and to do.
    provisional_expert
        One of the provisional experts, which joins them with every kind of noise.
    """
    fits = _fit_all(spec, X, y, seed, progress)
    kinds = parse_noise(spec.noise).for_outputs(y.shape[1])
    experts: list[Expert] = []
    table: list[FittedExpert] = []
    groups: list[int] = []
    for number, (label, fit) in enumerate(fits):
        for name, title, dynamics in dynamics_of(spec, label, fit.basis, fit.prior_var, X):
            experts.append(Expert(fit.basis, np.asarray(fit.prior_var), np.asarray(fit.noise_var), dynamics, title))
            for noise in kinds.names:
                full = f"{title} {noise}" if len(kinds.names) > 1 else title
                table.append(FittedExpert(full, label, name, noise, fit.basis.num_features, fit.gain))
                groups.append(number)
    if provisional_expert is not None:
        experts.append(provisional_expert)
        title, num_features = provisional_expert.name, provisional_expert.basis.num_features
        label, dynamics_name = title.split(": ")
        for noise in kinds.names:
            full = f"{title} {noise}" if len(kinds.names) > 1 else title
            table.append(FittedExpert(full, label, dynamics_name, noise, num_features, 0.0))
            groups.append(len(fits))
    rule = make_rule(
        spec.rule, groups, delta=spec.delta, share_rate=spec.share, switch=spec.switch, transition=spec.transition
    )
    model = ensemble(
        experts,
        rule,
        num_outputs=y.shape[1],
        time_unit=time_unit,
        kinds=kinds,
        guarded=spec.robust,
        recalibrated=spec.recalibrate,
        rests=spec.rest,
        noise_inputs=NoiseInputs.of_rows(X, y) if spec.noise_by_input else None,
    )
    return model, table


def prior_log_weights(log_density: np.ndarray, table: Sequence[FittedExpert]) -> np.ndarray:
    """Compute what rows of the warm-up add to the prior log weights of the experts fitted to them, up to a constant.

    `log_density` (n, K) are their one-step-ahead predictions of those rows. The hyperparameters have seen the rows,
    and neighbours in time share their errors: n rows count as sqrt(n). Trees, and regressors of the user's, are made
    of the targets themselves, and rank no higher than the best of the others. No expert starts more than
    `MAX_LOG_ODDS` behind.
    """
    against_best = np.nan_to_num(log_density - log_density.max(axis=1, keepdims=True), nan=-MAX_ROW_LOG_ODDS)
    score = np.maximum(against_best, -MAX_ROW_LOG_ODDS).sum(axis=0) / np.sqrt(max(len(log_density), 1))
    is_tree = np.array([expert.basis.startswith(("trees", "boosted", "learner ")) for expert in table])
    if not is_tree.all():
        score[is_tree] = np.minimum(score[is_tree], score[~is_tree].max())
    return np.maximum(score - score.max(), -MAX_LOG_ODDS)


def dynamics_of(
    spec: Spec, label: str, basis: Basis, prior_var: float, X: np.ndarray
) -> Iterator[tuple[str, str, Dynamics]]:
    """Yield the copies of a fit: the name of its dynamics, its own name, and its dynamics relative to v."""
    phi = basis(X)
    amplitude = prior_var * float(np.mean(np.sum(phi * phi, axis=1)))
    for name in spec.dynamics:
        dynamics = parse(name)
        absolute = spec.q_absolute and dynamics.decay == 1.0
        unit = 1.0 / prior_var if absolute else _drift_unit(amplitude, dynamics)
        title = f"{label} {name}" if len(spec.dynamics) > 1 else label
        yield name, title, Dynamics(dynamics.decay, dynamics.diffusion * unit)


def _drift_unit(amplitude: float, dynamics: Dynamics) -> float:
    """Return the unit of the variance that dynamics add, over v: 1, or less where the prior exceeds the target.

    With lengthscales far beyond the data the evidence asks for a v of thousands. Dynamics in proportion to it would
    forget everything in a row, and experts of next to no weight would make up the mixture's variance. A walk's q
    counts in the variance of the target (1: it is standardised) instead, and what weights revert to has ten times it.
    `amplitude` is the prior variance of the function, v phi' phi, in the mean of the warm-up's rows.
    """
    return min(1.0, (1.0 if dynamics.decay == 1.0 else MAX_REVERTED_VARIANCE) / amplitude)


def _fit_all(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int, progress: Callable[[int, int], None] | None
) -> list[tuple[str, Fit]]:
    """Fit the bases; where lags are among the inputs, once more over the others, and a plane over the lags, if asked.

    The plane is what repeats the last value, or a share of it, whatever the inputs say.
    """
    report = progress or (lambda done, todo: None)
    others = X.shape[1] - spec.num_past(y.shape[1])
    if not (spec.without_lags and spec.looks_back and others):
        kept, uninformed = _fit_inputs(spec, X, y, seed, report)
        return kept or uninformed
    half = replace(spec, most_features=spec.most_features // 2) if spec.most_features else spec
    kept, uninformed = _fit_inputs(half, X, y, seed, lambda done, todo: report(done, 2 * todo))
    more, _ = _fit_inputs(half, X[:, :others], y, seed, lambda done, todo: report(todo + done, 2 * todo))
    for label, fit in more:
        kept.append((f"{label} without lags", replace(fit, basis=ActiveDims(fit.basis, X.shape[1]))))
    past, _ = _fit_inputs(
        replace(spec, bases=("linear",), learners=()), X[:, others:], y, seed, lambda done, todo: None
    )
    for label, fit in past:
        kept.append((f"{label} of lags alone", replace(fit, basis=ActiveDims(fit.basis, X.shape[1], others))))
    return kept or uninformed


def _fit_inputs(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int, report: Callable[[int, int], None]
) -> tuple[list[tuple[str, Fit]], list[tuple[str, Fit]]]:
    """Fit every start of every basis; those that end on a plateau are started again, and then dropped.

    A concatenation is made of the best fits of its parts, whether or not the parts serve as experts themselves. The
    second list takes the place of the first one where that is empty.
    """
    alone = [name for name in (*spec.bases, *spec.learners) if name != CONCATENATION]
    parts = tuple(PARTS) if CONCATENATION in spec.bases else ()
    most = {part: PARTS[part] for part in parts} | dict.fromkeys(alone)
    tasks = make_fit_tasks(spec, {name: most[name] for name in (*alone, *parts)}, X, y, seed)
    todo = len(tasks) + bool(parts) + (spec.n_samples > 1)
    report(0, todo)
    fits = _fit(tasks, X, y, lambda done: report(done, todo))
    best: dict[str, Fit] = {}
    for task, fit in zip(tasks, fits, strict=True):
        if task.name not in best or fit.gain > best[task.name].gain:
            best[task.name] = fit

    def stays(task: FitTask) -> bool:
        return task.name in spec.renewable  # more rows may tell more

    def is_flat(i: int) -> bool:
        if spec.rule == "Q" or stays(tasks[i]):  # the user's matrix counts every expert
            return False
        return fits[i].gain < max(FLAT_GAIN, FLAT_SHARE * best[tasks[i].name].gain)

    # A start on a plateau begins again with the lengthscales of the best of its basis and features of its own.
    again = {
        i: replace(task, basis=with_value(task.basis, "lengthscale", getattr(best[task.name].basis, "lengthscale")))  # noqa: B009
        for i, task in enumerate(tasks)
        if is_flat(i) and best[task.name].gain >= FLAT_GAIN and "lengthscale" in task.trainable
    }
    for i, fit in zip(again, _fit(list(again.values()), X, y), strict=True):
        fits[i] = fit
        tasks[i] = again[i]
    kept: list[tuple[FitTask, Fit]] = []
    for name in alone:
        members = sorted((i for i, task in enumerate(tasks) if task.name == name), key=lambda i: -fits[i].gain)
        first = spec.starts_kept([fits[i].basis.num_features for i in members])
        kept.extend((tasks[i], fits[i]) for i in members[:first] if not is_flat(i))
    if parts:
        basis = _concatenation(best, X, seed)
        key = keys.fold_in(keys.key(seed), _CONCATENATION_KEY)
        task = FitTask(CONCATENATION, CONCATENATION, basis, 1.0, tuple(basis.trainable), key)
        (fit,) = _fit([task], X, y)
        unchanged = _unchanged_parts(best, basis)
        min_gain = max(best[part].gain for part in unchanged) - FLAT_GAIN
        if fit.gain < min_gain:  # the search failed, for a part alone does better
            (fit,) = _fit([replace(task, **_part_alone(best, basis, unchanged))], X, y)
        report(len(tasks) + 1, todo)
        if spec.rule == "Q" or fit.gain >= max(FLAT_GAIN, min_gain):
            kept.append((task, fit))
    named = [(task.label, fit) for task, fit in kept]
    if spec.n_samples > 1:
        named = _with_samples(kept, spec.n_samples, X, y)
        report(todo, todo)
    # With nothing learnable in the warm-up the first fit says so by its noise. Where noise adapts, so that experts
    # find the scale by themselves, those as they were before their fit are there for what the stream may still show.
    first = (tasks[0].label, fits[0])
    informed = spec.rule == "Q" or any(fit.gain >= FLAT_GAIN for _, fit in named)
    if informed or not parse_noise(spec.noise).adapt:
        return named, [first]
    others = [task for task in tasks if task.name in alone and not stays(task)]
    unfitted = [(f"{task.label} unfitted", _unfitted(task)) for task in others]
    return (named and [*named, *unfitted]), [first, *unfitted]


def _with_samples(
    kept: Sequence[tuple[FitTask, Fit]], count: int, X: np.ndarray, y: np.ndarray
) -> list[tuple[str, Fit]]:
    """Return `count` experts for each optimum: itself, and samples of the evidence around it."""

    def sample(one: tuple[FitTask, Fit]) -> list[Fit]:
        task, fit = one
        key = keys.fold_in(task.key, _SAMPLES_KEY)
        return laplace_samples(fit, task.basis, task.trainable, X, y, count - 1, key)

    named: list[tuple[str, Fit]] = []
    for (task, fit), samples in zip(kept, map_in_threads(sample, kept), strict=True):
        named.append((task.label, fit))
        named.extend((f"{task.label} sample {number}", each) for number, each in enumerate(samples, start=2))
    return named


def _unfitted(task: FitTask) -> Fit:
    """Return a start as it is before the fit."""
    return Fit(task.basis.precomputed(), INITIAL_PRIOR_VAR, INITIAL_NOISE_VAR, np.nan, 0.0, task.start, 0)


def _concatenation(best: dict[str, Fit], X: np.ndarray, seed: int) -> Concatenation:
    """Join the best fit of each part; one with more features than the part may have is drawn again, with as many."""
    bases = []
    for position, (part, features) in enumerate(PARTS.items()):
        basis: Any = best[part].basis
        if features is not None and basis.num_features > features:
            key = keys.fold_in(keys.fold_in(keys.key(seed), _CONCATENATION_KEY), position)
            smaller = BASES[part].from_data(X, num_features=features, start=1.0, key=key)
            basis = with_value(smaller, "lengthscale", basis.lengthscale).precomputed()
        bases.append(basis)
    return Concatenation.of(bases, [best[part].prior_var for part in PARTS])


def _unchanged_parts(best: dict[str, Fit], basis: Concatenation) -> list[str]:
    """Name the parts that are in the concatenation as they were fitted; the plane always is.

    A part that was drawn again with fewer features is another one.
    """
    return [name for name, part in zip(PARTS, basis.parts, strict=True) if part is best[name].basis]


def _part_alone(best: dict[str, Fit], basis: Concatenation, names: Sequence[str]) -> dict[str, Any]:
    """Return a start with nearly the evidence of the best of these parts, so that no search from it ends below."""
    alone = max(names, key=lambda part: best[part].gain)
    scales = [float(np.sqrt(best[part].prior_var)) if part == alone else ASIDE for part in PARTS]
    return {"basis": replace(basis, scales=np.asarray(scales)), "noise_var": best[alone].noise_var}


def _fit(
    tasks: Sequence[FitTask], X: np.ndarray, y: np.ndarray, report: Callable[[int], None] = lambda done: None
) -> list[Fit]:
    def run(task: FitTask) -> Fit:
        rows = task.basis.honest_rows(len(X))
        return fit_basis(task.basis, X[rows], y[rows], task.start, task.trainable, task.noise_var)

    return map_in_threads(run, tasks, report)
