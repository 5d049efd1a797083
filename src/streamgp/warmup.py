"""From warm-up rows to experts: build each basis at its starting points, fit it by evidence, drop what is flat."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from streamgp.bases import FAMILIES, Basis, Fourier, Linear
from streamgp.dynamics import Dynamics, parse, static
from streamgp.ensemble import Ensemble, Expert, ensemble
from streamgp.evidence import FLAT_GAIN, Fit, fit_basis
from streamgp.presets import Spec
from streamgp.weights import BMA

# A start whose evidence gains less than this share of its family's best ended on a plateau.
FLAT_SHARE = 0.05
# The provisional experts of the warm-up: lengthscales in units of sqrt(D) standard deviations, noise variances.
PROVISIONAL_LENGTHSCALES = (0.5, 1.0, 2.0)
PROVISIONAL_NOISE = (0.25, 0.02)
PROVISIONAL_FEATURES = 100


@dataclass(frozen=True)
class FittedExpert:
    """What the table of experts says about one expert."""

    name: str
    basis: str
    dynamics: str
    features: int
    gain: float


def provisional_ensemble(num_inputs: int, num_outputs: int, seed: int) -> Ensemble:
    """Experts with default hyperparameters, which predict the warm-up rows before anything has been fitted."""
    bases: list[Basis] = [Linear(num_inputs)]
    box = np.stack([np.zeros(num_inputs), np.ones(num_inputs)])
    for i, scale in enumerate(PROVISIONAL_LENGTHSCALES):
        key = jax.random.fold_in(jax.random.key(seed), i)
        start = scale * float(np.sqrt(num_inputs))
        bases.append(Fourier.from_data(box, num_features=PROVISIONAL_FEATURES, start=start, key=key))
    experts = [
        Expert(basis, jnp.asarray(1.0), jnp.asarray(noise), static())
        for basis in bases
        for noise in PROVISIONAL_NOISE
    ]
    return ensemble(experts, BMA(), num_outputs=num_outputs)


def fit_ensemble(
    spec: Spec,
    X: np.ndarray,
    y: np.ndarray,
    *,
    seed: int,
    time_unit: float,
    progress: Callable[[int, int], None] | None = None,
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
    """
    fits = _fit_all(spec, X, y, seed, progress)
    experts: list[Expert] = []
    table: list[FittedExpert] = []
    groups: list[int] = []
    for number, (label, fit) in enumerate(fits):
        for name in spec.dynamics:
            dynamics = parse(name)
            if spec.q_absolute:
                dynamics = Dynamics(dynamics.decay, dynamics.diffusion / fit.prior_var)
            title = f"{label} {name}" if len(spec.dynamics) > 1 else label
            experts.append(Expert(fit.basis, jnp.asarray(fit.prior_var), jnp.asarray(fit.noise_var), dynamics, title))
            table.append(FittedExpert(title, label, name, fit.basis.num_features, fit.gain))
            groups.append(number)
    rule = spec.make_rule(groups)
    return ensemble(experts, rule, num_outputs=y.shape[1], time_unit=time_unit), table


def _fit_all(
    spec: Spec, X: np.ndarray, y: np.ndarray, seed: int, progress: Callable[[int, int], None] | None
) -> list[tuple[str, Fit]]:
    rows, targets = jnp.asarray(X), jnp.asarray(y)
    jobs = _jobs(spec, X, seed)
    x64 = bool(jax.config.read("jax_enable_x64"))
    done = 0

    def run(job: tuple) -> Fit:
        _, _, basis, start, trainable = job
        with jax.enable_x64(x64):  # the setting belongs to a thread
            return fit_basis(basis, rows, targets, start, trainable)

    fits: list[Fit] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for fit in pool.map(run, jobs):
            fits.append(fit)
            done += 1
            if progress is not None:
                progress(done, len(jobs))
    kept: list[tuple[str, Fit]] = []
    for family in dict.fromkeys(job[0] for job in jobs):
        members = [(job[1], fit) for job, fit in zip(jobs, fits, strict=True) if job[0] == family]
        members.sort(key=lambda member: -member[1].gain)
        flat = max(FLAT_GAIN, FLAT_SHARE * members[0][1].gain)
        kept.extend(member for member in members[: spec.keep_starts] if member[1].gain >= flat)
    # Nothing learnable in the warm-up: keep the first fit, which says so by its noise.
    return kept or [(jobs[0][1], fits[0])]


def _jobs(spec: Spec, X: np.ndarray, seed: int) -> list[tuple]:
    """(family, label, basis, start, trainable) of every fit to make."""
    jobs = []
    for position, family in enumerate(spec.bases):
        cls = FAMILIES[family]
        features = spec.features_per_basis or cls.default_features
        fixed = spec.lengthscales if "lengthscale" in cls.trainable else None
        for i, start in enumerate(fixed or cls.starts):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), position), i)
            basis = cls.from_data(X, num_features=features, start=start, key=key)
            trainable = tuple(basis.trainable)
            if fixed:
                old = getattr(basis, "lengthscale")  # noqa: B009
                basis = eqx.tree_at(lambda b: b.lengthscale, basis, jnp.full_like(old, start))
                trainable = ()
            label = family if len(fixed or cls.starts) == 1 else f"{family} {start:.3g}"
            jobs.append((family, label, basis, start, trainable))
    return jobs
