"""From warm-up rows to experts: build each basis at its starting points, fit it by evidence, drop what is flat."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from streamgp.bases import BASES, ActiveDims, Basis, Concatenation, Fourier, Linear
from streamgp.bases.concatenation import PARTS
from streamgp.filters.dynamics import Dynamics, parse
from streamgp.filters.noise import parse as parse_noise
from streamgp.fitting.gaussian_evidence import INITIAL_NOISE_VAR, INITIAL_PRIOR_VAR, Fit, fit_basis
from streamgp.fitting.hyperparameter_samples import laplace_samples
from streamgp.models.base import FittedExpert
from streamgp.models.gaussian.model import Ensemble, Expert, ensemble
from streamgp.models.spec import Spec
from streamgp.numerics.standardise import Standardiser
from streamgp.numerics.threads import one_blas_thread
from streamgp.weights import SoftBayes, fixed_share, mixture

# A start whose evidence gains less than this share of its family's best ended on a plateau.
FLAT_SHARE = 0.05
FLAT_GAIN = 0.01  # and so does one below this gain, in nats per row: 10 nats over 1,000 rows
MOST_REVERTED = 10.0  # variance of a function that nobody has seen for long, in that of the target
# The provisional experts of the warm-up: lengthscales in units of sqrt(D) standard deviations, noise variances to
# begin with, what the noise does, what the plane does, and the chance per row that another expert is the best.
PROVISIONAL_LENGTHSCALES = (0.5, 1.0, 2.0)
PROVISIONAL_NOISE_VARS = (1.0, 0.1, 0.01)
PROVISIONAL_NOISE = ("constant", "adaptive 0.98", "adaptive 0.8", "adaptive 0.9 ar 0.9", "adaptive 0.9 ar 0.99")
PROVISIONAL_DYNAMICS = ("static", "walk 0.01", "walk 0.1")
PROVISIONAL_SWITCH = 0.01
FEW_ROWS_WIDER = 6.0  # two rows: seven times as wide; four: twice; eight: by a third
PROVISIONAL_FEATURES = 100
ASIDE = 1e-3  # scale of a part of next to no variance: below the noise's floor, but with a slope to come back by
# In nats: the most that one row of the warm-up, and all of it, may tell for or against an expert.
MOST_ROW = 10.0
MOST_OPINION = 20.0
CONCATENATION = "concatenation"  # the family that is built from other families' fits
# Its random key, and that of the samples, among the keys that number families and starts.
_CONCATENATION_KEY = 10
_SAMPLES_KEY = 1_000
_Result = TypeVar("_Result")


def provisional_ensemble(
    num_inputs: int, num_outputs: int, seed: int, guarded: bool = False, recalibrated: bool = False
) -> Ensemble:
    """Experts with default hyperparameters, which predict the warm-up rows before anything has been fitted.

    Their noise finds its level by itself, and the plane also moves: that covers walks and slow drifts.
    """
    experts = provisional_experts(num_inputs, seed)
    kinds = parse_noise(PROVISIONAL_NOISE)
    # One expert at a time, or a blend: where the noise depends on the inputs, several levels together are what fits.
    k = len(experts) * len(kinds.discounts)
    rule = mixture({"fixed share": fixed_share(k, PROVISIONAL_SWITCH), "Soft-Bayes": SoftBayes()})
    return ensemble(experts, rule, num_outputs=num_outputs, kinds=kinds, guarded=guarded, recalibrated=recalibrated)


def provisional_experts(num_inputs: int, seed: int) -> list[Expert]:
    """Those of `provisional_ensemble`, without the kinds of noise."""
    plane = Linear(num_inputs)
    waves: list[Basis] = []
    box = np.stack([np.zeros(num_inputs), np.ones(num_inputs)])
    for i, scale in enumerate(PROVISIONAL_LENGTHSCALES):
        key = jax.random.fold_in(jax.random.key(seed), i)
        start = scale * float(np.sqrt(num_inputs))
        waves.append(Fourier.from_data(box, num_features=PROVISIONAL_FEATURES, start=start, key=key))
    pairs = [(plane, name) for name in PROVISIONAL_DYNAMICS] + [(basis, "static") for basis in waves]
    return [
        Expert(basis, jnp.asarray(1.0), jnp.asarray(noise_var), parse(name), f"provisional {_name(basis)}: {name}")
        for basis, name in pairs
        for noise_var in PROVISIONAL_NOISE_VARS
    ]


def _name(basis: Basis) -> str:
    return next(name for name, family in BASES.items() if isinstance(basis, family))


def provisional_scale(targets: Standardiser) -> Standardiser:
    """Of few rows, a wider scale than they have: what they say of it is Student's t with as many degrees of freedom.

    Where all are the same there is no scale yet but the number itself.
    """
    n, mean = float(targets.count), np.asarray(targets.mean)
    scale = np.where(targets.m2 > 0.0, targets.scale, np.maximum(np.abs(mean), 1.0))
    if n > 1.0:
        scale = scale * (1.0 + FEW_ROWS_WIDER * (n - 1.0) ** -1.5)
    return replace(targets, m2=n * np.square(scale))


def fit_ensemble(
    spec: Spec,
    X: np.ndarray,
    y: np.ndarray,
    *,
    seed: int,
    time_unit: float,
    progress: Callable[[int, int], None] | None = None,
    incumbent: Expert | None = None,
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
    incumbent
        One of `provisional_experts` that joins them, with every kind of noise.
    """
    fits = _fit_all(spec, X, y, seed, progress)
    kinds = parse_noise(spec.noise).for_outputs(y.shape[1])
    experts: list[Expert] = []
    table: list[FittedExpert] = []
    groups: list[int] = []
    for number, (label, fit) in enumerate(fits):
        for name, title, dynamics in dynamics_of(spec, label, fit.basis, fit.prior_var, X):
            experts.append(Expert(fit.basis, jnp.asarray(fit.prior_var), jnp.asarray(fit.noise_var), dynamics, title))
            for noise in kinds.names:
                full = f"{title} {noise}" if len(kinds.names) > 1 else title
                table.append(FittedExpert(full, label, name, noise, fit.basis.num_features, fit.gain))
                groups.append(number)
    if incumbent is not None:
        experts.append(incumbent)
        label, dynamics_name = incumbent.name.split(": ")
        for noise in kinds.names:
            full = f"{incumbent.name} {noise}" if len(kinds.names) > 1 else incumbent.name
            table.append(FittedExpert(full, label, dynamics_name, noise, incumbent.basis.num_features, 0.0))
            groups.append(len(fits))
    rule = spec.make_rule(groups)
    model = ensemble(
        experts,
        rule,
        num_outputs=y.shape[1],
        time_unit=time_unit,
        kinds=kinds,
        guarded=spec.robust,
        recalibrated=spec.recalibrate,
    )
    return model, table


def opinion(log_density: np.ndarray, table: Sequence[FittedExpert]) -> np.ndarray:
    """What rows of the warm-up say of the experts that were fitted to them, as log weights up to a constant.

    `log_density` (n, K) are their one-step-ahead predictions of those rows. The hyperparameters have seen the rows,
    and neighbours in time share their errors: n rows count as sqrt(n). Trees are cut out of the targets
    themselves, and rank no higher than the best of the others. No expert starts out more than `MOST_OPINION` behind.
    """
    against_best = np.nan_to_num(log_density - log_density.max(axis=1, keepdims=True), nan=-MOST_ROW)
    score = np.maximum(against_best, -MOST_ROW).sum(axis=0) / np.sqrt(max(len(log_density), 1))
    grown = np.array([expert.basis.startswith("trees") for expert in table])
    if not grown.all():
        score[grown] = np.minimum(score[grown], score[~grown].max())
    return np.maximum(score - score.max(), -MOST_OPINION)


def dynamics_of(
    spec: Spec, label: str, basis: Basis, prior_var: float, X: np.ndarray
) -> Iterator[tuple[str, str, Dynamics]]:
    """Of every copy of a fit: the name of its dynamics, what it is to be called, and its dynamics, relative to v."""
    amplitude = prior_var * float(jnp.mean(jnp.sum(basis(jnp.asarray(X)) ** 2, axis=1)))
    for name in spec.dynamics:
        dynamics = parse(name)
        absolute = spec.q_absolute and dynamics.decay == 1.0
        unit = 1.0 / prior_var if absolute else _drift_unit(amplitude, dynamics)
        title = f"{label} {name}" if len(spec.dynamics) > 1 else label
        yield name, title, Dynamics(dynamics.decay, dynamics.diffusion * unit)


def _drift_unit(amplitude: float, dynamics: Dynamics) -> float:
    """What the variance that dynamics add is a share of, over v: 1, but less where the prior outdoes the target.

    With lengthscales far beyond the data the evidence asks for a v of thousands. Dynamics in proportion to it would
    forget everything in a row, and experts of next to no weight would make up the mixture's variance. A walk's q
    counts in the variance of the target (1: it is standardised) instead, and what weights revert to has ten times it.
    `amplitude` is the prior variance of the function, v phi' phi, in the mean of the warm-up's rows.
    """
    return min(1.0, (1.0 if dynamics.decay == 1.0 else MOST_REVERTED) / amplitude)


def _fit_all(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int, progress: Callable[[int, int], None] | None
) -> list[tuple[str, Fit]]:
    """The bases at their optima; where lags are among the inputs, once more over the others if `spec` wants it."""
    report = progress or (lambda done, todo: None)
    others = X.shape[1] - len(spec.lags) * y.shape[1]  # lags come last
    if not (spec.without_lags and spec.lags and others):
        kept, uninformed = _fit_inputs(spec, X, y, seed, report)
        return kept or uninformed
    half = replace(spec, most_features=spec.most_features // 2) if spec.most_features else spec
    kept, uninformed = _fit_inputs(half, X, y, seed, lambda done, todo: report(done, 2 * todo))
    more, _ = _fit_inputs(half, X[:, :others], y, seed, lambda done, todo: report(todo + done, 2 * todo))
    for label, fit in more:
        kept.append((f"{label} without lags", replace(fit, basis=ActiveDims(fit.basis, X.shape[1]))))
    return kept or uninformed


def _fit_inputs(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int, report: Callable[[int, int], None]
) -> tuple[list[tuple[str, Fit]], list[tuple[str, Fit]]]:
    """Every start of every family at its optimum; those on a plateau are started again, and then dropped.

    A concatenation is made of the best fits of its parts, whether or not the parts serve as experts themselves. The
    second list has what to go on with where the first one is empty.
    """
    rows, targets = jnp.asarray(X), jnp.asarray(y)
    alone = [family for family in spec.bases if family != CONCATENATION]
    parts = tuple(PARTS) if len(alone) < len(spec.bases) else ()
    jobs = make_jobs(spec, dict.fromkeys([*alone, *parts]), X, y, seed)
    todo = len(jobs) + bool(parts) + (spec.n_samples > 1)
    report(0, todo)
    fits = _fit(jobs, rows, targets, lambda done: report(done, todo))
    best: dict[str, Fit] = {}
    for job, fit in zip(jobs, fits, strict=True):
        if job.family not in best or fit.gain > best[job.family].gain:
            best[job.family] = fit

    def is_flat(i: int) -> bool:
        if spec.rule == "Q":  # the user's matrix counts every expert
            return False
        return fits[i].gain < max(FLAT_GAIN, FLAT_SHARE * best[jobs[i].family].gain)

    # A start on a plateau sets out again from the lengthscales of its family's best, with features of its own.
    again = {
        i: replace(job, basis=_with_lengthscale(job.basis, getattr(best[job.family].basis, "lengthscale")))  # noqa: B009
        for i, job in enumerate(jobs)
        if is_flat(i) and best[job.family].gain >= FLAT_GAIN and "lengthscale" in job.trainable
    }
    for i, fit in zip(again, _fit(list(again.values()), rows, targets), strict=True):
        fits[i] = fit
        jobs[i] = again[i]
    kept: list[tuple[Job, Fit]] = []
    for family in alone:
        members = sorted((i for i, job in enumerate(jobs) if job.family == family), key=lambda i: -fits[i].gain)
        first = spec.starts_kept([fits[i].basis.num_features for i in members])
        kept.extend((jobs[i], fits[i]) for i in members[:first] if not is_flat(i))
    if parts:
        basis = _concatenation(best, X, seed)
        key = jax.random.fold_in(jax.random.key(seed), _CONCATENATION_KEY)
        job = Job(CONCATENATION, CONCATENATION, basis, 1.0, tuple(basis.trainable), key)
        (fit,) = _fit([job], rows, targets)
        whole = _whole_parts(best, basis)
        least = max(best[part].gain for part in whole) - FLAT_GAIN
        if fit.gain < least:  # it went astray, for a part alone does better
            (fit,) = _fit([replace(job, **_part_alone(best, basis, whole))], rows, targets)
        report(len(jobs) + 1, todo)
        if spec.rule == "Q" or fit.gain >= max(FLAT_GAIN, least):
            kept.append((job, fit))
    named = [(job.label, fit) for job, fit in kept]
    if spec.n_samples > 1:
        named = _with_samples(kept, spec.n_samples, rows, targets)
        report(todo, todo)
    # With nothing learnable in the warm-up the first fit says so by its noise. Where noise adapts, so that experts
    # find the scale by themselves, those as they were before their fit are there for what the stream may still show.
    adapts = parse_noise(spec.noise).adapt
    if named or not adapts:
        return named, [(jobs[0].label, fits[0])]
    unfitted = [(f"{job.label} unfitted", _unfitted(job)) for job in jobs if job.family in alone]
    return named, [(jobs[0].label, fits[0]), *unfitted]


def _with_samples(kept: Sequence[tuple["Job", Fit]], count: int, X: Array, y: Array) -> list[tuple[str, Fit]]:
    """`count` experts for each optimum: itself, and samples of the evidence around it."""

    def sample(one: tuple[Job, Fit]) -> list[Fit]:
        job, fit = one
        key = jax.random.fold_in(job.key, _SAMPLES_KEY)
        return laplace_samples(fit, job.basis, job.trainable, X, y, count - 1, key)

    named: list[tuple[str, Fit]] = []
    for (job, fit), samples in zip(kept, side_by_side(sample, kept, X.dtype == np.float64), strict=True):
        named.append((job.label, fit))
        named.extend((f"{job.label} sample {number}", each) for number, each in enumerate(samples, start=2))
    return named


def _unfitted(job: "Job") -> Fit:
    """A start as it stands."""
    return Fit(job.basis.precomputed(), INITIAL_PRIOR_VAR, INITIAL_NOISE_VAR, np.nan, 0.0, job.start, 0)


def _concatenation(best: dict[str, Fit], X: np.ndarray, seed: int) -> Concatenation:
    """The best fit of each part; one of more features than the part is to have is drawn again, with as many."""
    bases = []
    for position, (part, features) in enumerate(PARTS.items()):
        basis: Any = best[part].basis
        if features is not None and basis.num_features > features:
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _CONCATENATION_KEY), position)
            smaller = BASES[part].from_data(X, num_features=features, start=1.0, key=key)
            basis = _with_lengthscale(smaller, basis.lengthscale).precomputed()
        bases.append(basis)
    return Concatenation.of(bases, [best[part].prior_var for part in PARTS])


def _whole_parts(best: dict[str, Fit], basis: Concatenation) -> list[str]:
    """Which parts are in the concatenation as they were fitted, the plane always.

    One that is there with fewer features is another.
    """
    return [name for name, part in zip(PARTS, basis.parts, strict=True) if part is best[name].basis]


def _part_alone(best: dict[str, Fit], basis: Concatenation, among: Sequence[str]) -> dict[str, Any]:
    """Where a concatenation has nearly the evidence of the best of these parts: no search from there ends below."""
    alone = max(among, key=lambda part: best[part].gain)
    scales = [float(np.sqrt(best[part].prior_var)) if part == alone else ASIDE for part in PARTS]
    return {"basis": replace(basis, scales=jnp.asarray(scales)), "noise_var": best[alone].noise_var}


def _fit(jobs: Sequence["Job"], X: Array, y: Array, report: Callable[[int], None] = lambda done: None) -> list[Fit]:
    def run(job: Job) -> Fit:
        return fit_basis(job.basis, X, y, job.start, job.trainable, job.noise_var)

    return side_by_side(run, jobs, X.dtype == np.float64, report)


def side_by_side(
    work: Callable[[Any], _Result],
    items: Sequence[Any],
    x64: bool,
    report: Callable[[int], None] = lambda done: None,
) -> list[_Result]:
    """`work` on each item, two at a time; `report` is told how many are done."""

    def run(item: Any) -> _Result:
        # The setting belongs to a thread. Results that JAX has only promised would be worked out after the context.
        with jax.enable_x64(x64):
            return jax.block_until_ready(work(item))

    results: list[_Result] = []
    with one_blas_thread(), ThreadPoolExecutor(max_workers=2) as pool:
        try:
            for result in pool.map(run, items):
                results.append(result)
                report(len(results))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those at work end, no other begins
            raise
    return results


@dataclass(frozen=True)
class Job:
    """One fit to make."""

    family: str
    label: str
    basis: Basis
    start: float
    trainable: tuple[str, ...]
    key: Key[Array, ""]
    noise_var: float = INITIAL_NOISE_VAR


def _with_lengthscale(basis: Basis, lengthscale: Any) -> Basis:
    return eqx.tree_at(lambda b: b.lengthscale, basis, lengthscale)  # type: ignore[attr-defined]


def make_jobs(
    spec: Spec, families: Iterable[str], X: np.ndarray, y: np.ndarray, seed: int, most: int | None = None
) -> list[Job]:
    """Every starting point of every family; no basis is to have more than `most` features."""
    jobs = []
    for position, family in enumerate(families):
        cls = BASES[family]
        wanted = spec.features_per_basis or cls.default_features
        features = wanted if most is None else min(wanted, most)
        fixed = spec.lengthscales if "lengthscale" in cls.trainable else None
        starts = fixed or cls.starts
        for i, start in enumerate(starts):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), position), i)
            basis = cls.from_data(X, num_features=features, start=start, key=key, y=y)
            trainable = tuple(basis.trainable)
            if fixed:
                basis = _with_lengthscale(basis, jnp.full(X.shape[1], start))
                trainable = tuple(name for name in trainable if name != "lengthscale")
            label = family if len(starts) == 1 else f"{family} {start:.3g}"
            jobs.append(Job(family, label, basis, start, trainable, key))
    return jobs
