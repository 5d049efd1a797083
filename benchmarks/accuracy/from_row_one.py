"""How well the rows of the warm-up are predicted, from the first on, and how well they could be.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.from_row_one --data DIR`` writes ``results/from_row_one.json`` after
every run and goes on where it stopped; ``python -m benchmarks.pages.from_row_one`` renders the tables. Every row is
predicted before its target is seen, by all but "hindsight". Log densities and CRPS are of targets over their standard
deviation in the rows.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from scipy import optimize, special, stats

from benchmarks.common.datasets import NAMES, load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.models.gaussian import provisional
from streamgp.models.registry import make_spec
from streamgp.numerics.precision import float64
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

RESULTS = RESULTS_DIR / "from_row_one.json"
WARMUP, ROWS = 1_000, 1_500
# Parts of the stream, by their last rows: those of the warm-up, and the rows after it.
PARTS = (1, 10, 50, 200, 500, WARMUP, ROWS)
LEVEL = 0.9
REFITS = (8, 16, 32, 64, 128, 256, 512)  # rows after which the Gaussian process is fitted anew
SMOOTH = ("linear", "hilbert", "concatenation", "fourier-trained")  # the default's bases but trees

Column = Float[np.ndarray, " n"]


class Scored(NamedTuple):
    """What a model made of rows: means, log densities, CRPS, and whether the target was within the band."""

    mean: Column
    log_density: Column
    crps: Column
    inside: Column


def streamed(preset: str, X: np.ndarray, y: Column, seed: int) -> Scored:
    """Run a preset."""
    learner = StreamLearner(StreamSettings(make_spec(preset), num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
    return _of_infos(learner.learn(X, y[:, None]), y)


def unfitted(X: np.ndarray, y: Column, seed: int) -> Scored:
    """Run the fast preset without the first fits."""
    first_fits, provisional.first_fits = provisional.first_fits, lambda rows, seed: []
    try:
        return streamed("fast", X, y, seed)
    finally:
        provisional.first_fits = first_fits


def hindsight(X: np.ndarray, y: Column, seed: int) -> Scored:
    """Run the default, without trees, from row one with the hyperparameters that the whole warm-up leads to."""
    spec = make_spec("default", bases=SMOOTH)
    learner = StreamLearner(StreamSettings(spec, num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
    list(learner.learn(X[:WARMUP], y[:WARMUP, None]))
    state = learner.state
    with float64():
        model: Any = state.model
        its, infos = model.init(0), []
        target = (y[:, None] - state.targets.mean) / state.targets.scale
        for at in range(0, len(y), 50):
            its, info = model.update(its, state.inputs.standardised(X[at : at + 50]), target[at : at + 50])
            scaled = learner.settings.task.in_units(info.predictive, len(target[at : at + 50]), state.targets, 1)
            infos.append(info._replace(predictive=scaled))
    return _of_infos(infos, y)


def _of_infos(infos: Any, y: Column) -> Scored:
    parts: list[Scored] = []
    at = 0
    for info in infos:
        target, p = y[at : at + len(info.outside), None], info.predictive
        inside = np.abs(np.asarray(p.cdf(target)) - 0.5) <= 0.5 * LEVEL
        each = p.mean, p.log_density(target), p.crps(target), inside
        parts.append(Scored(*(np.asarray(a, float).ravel() for a in each)))
        at += len(target)
    return Scored(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def student(mean: Column, scale: Column, dof: Column, y: Column) -> Scored:
    """Score Student's t; the CRPS is that of Jordan, Krueger and Lerch (2019), Appendix A."""
    z = (y - mean) / scale
    density, below = stats.t.pdf(z, dof), stats.t.cdf(z, dof)
    with np.errstate(all="ignore"):
        ratio = special.beta(0.5, dof - 0.5) / special.beta(0.5, 0.5 * dof) ** 2
        crps = z * (2 * below - 1) + 2 * density * (dof + z * z) / (dof - 1) - 2 * np.sqrt(dof) / (dof - 1) * ratio
    return Scored(mean, stats.t.logpdf(z, dof) - np.log(scale), scale * crps, np.abs(below - 0.5) <= 0.5 * LEVEL)


def bayesian_linear(Phi: np.ndarray, y: Column, offset: Column) -> Scored:
    """Run Bayesian regression of y - offset on features, with a normal-inverse-gamma prior (Bishop 2006, Ex. 3.13).

    Features and targets are standardised by the rows before; the prior is one row's worth of noise as large as that,
    and of weights a D-th of it.
    """
    found = np.zeros((3, len(y)))
    d = y - offset
    for i in range(len(y)):
        scale = (np.std(d[:i]) if i > 1 else abs(d[0]) if i else 1.0) or 1.0
        mean, spread = (Phi[:i].mean(0), Phi[:i].std(0)) if i > 1 else (Phi[i], np.ones(Phi.shape[1]))
        F = np.column_stack(
            [np.ones(i + 1), np.clip((Phi[: i + 1] - mean) / np.where(spread > 0, spread, 1.0), -8, 8)]
        )
        F[:, 1:] /= np.sqrt(max(Phi.shape[1], 1))
        centre = np.mean(d[:i]) if i else 0.0
        t, A = (d[:i] - centre) / scale, np.eye(F.shape[1]) + F[:i].T @ F[:i]
        w = np.linalg.solve(A, F[:i].T @ t)
        a, b = 1.0 + 0.5 * i, 1.0 + 0.5 * (t @ t - w @ A @ w)
        var = max(b, 1e-8) / a * (1.0 + F[i] @ np.linalg.solve(A, F[i]))
        found[:, i] = centre + scale * (F[i] @ w) + offset[i], scale * np.sqrt(var), 2.0 * a
    return student(*found, y)


def gaussian_process(X: np.ndarray, y: Column) -> Scored:
    """Run a Gaussian process that knows all rows so far, and is fitted anew to them at times.

    A squared exponential with a lengthscale for each input, a plane and noise; the maximum a posteriori. The running
    mean predicts the first rows.
    """
    first = bayesian_linear(X[: REFITS[0], :0], y[: REFITS[0]], np.zeros(REFITS[0]))
    mean, scale = np.zeros((2, WARMUP - REFITS[0]))
    start = np.r_[np.full(X.shape[1], np.log(1.5 * np.sqrt(X.shape[1]))), np.log([0.5, 0.5, 0.1])]
    for n, end in zip(REFITS, (*REFITS[1:], WARMUP), strict=True):
        spread, s = X[:n].std(0), (y[:n].std() or 1.0)
        Z = np.clip((X[:end] - X[:n].mean(0)) / np.where(spread > 0, spread, 1.0), -8, 8)
        t = (y[:end] - y[:n].mean()) / s
        how: Any = {"method": "L-BFGS-B", "jac": True, "options": {"maxiter": 40}}
        h = optimize.minimize(_loss, start, (Z[:n], t[:n], start), bounds=[(-8.0, 8.0)] * len(start), **how).x
        waves, plane = _kernel(Z, h)
        L = np.linalg.cholesky(waves + plane + (np.exp(h[-1]) + 1e-8) * np.eye(end))
        z, sd = np.linalg.solve(L, t), np.diag(L)
        rows = slice(n - REFITS[0], end - REFITS[0])
        mean[rows], scale[rows] = (y[:end] - s * z * sd)[n:], (s * sd)[n:]
    later = student(mean, scale, np.full(len(mean), 1e6), y[REFITS[0] : WARMUP])
    return Scored(*(np.concatenate(each) for each in zip(first, later, strict=True)))


def _kernel(Z: np.ndarray, h: Column) -> tuple[np.ndarray, np.ndarray]:
    D = Z.shape[1]
    a = Z / np.exp(h[:D])
    squares = (a * a).sum(1)
    distance = np.maximum(squares[:, None] + squares - 2.0 * a @ a.T, 0.0)
    return np.exp(h[D] - 0.5 * distance), np.exp(h[D + 1]) * (Z @ Z.T) / D + 1.0


def _loss(h: Column, Z: np.ndarray, t: Column, middle: Column) -> tuple[float, Column]:
    """Return the negative log posterior and its gradient; the prior of the logs is normal about `middle`."""
    D, n = Z.shape[1], len(t)
    waves, plane = _kernel(Z, h)
    noise = np.exp(h[-1])
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(waves + plane + (noise + 1e-8) * np.eye(n)))
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(h)
    K = inverse.T @ inverse
    alpha = K @ t
    M = np.outer(alpha, alpha) - K
    MR = M * waves
    by_scale = (2.0 * (Z * Z).T @ MR.sum(1) - 2.0 * np.einsum("ij,ij->j", Z, MR @ Z)) / np.exp(2.0 * h[:D])
    others = np.array([MR.sum(), np.sum(M * (plane - 1.0)), noise * np.trace(M)])
    off = (h - middle) / np.r_[np.ones(D + 1), 1.5, 1.5]
    value = 0.5 * t @ alpha - np.log(np.diag(inverse)).sum() + 0.5 * n * np.log(2 * np.pi) + 0.5 * off @ off
    return float(value), -0.5 * np.r_[by_scale, others] + off / np.r_[np.ones(D + 1), 1.5, 1.5]


def models(seed: int) -> dict[str, Callable[[np.ndarray, Column], Scored]]:
    """Return what is run, by name."""
    nothing = lambda X: np.zeros((len(X), 0))  # noqa: E731
    last = lambda y: np.r_[0.0, y[:-1]]  # noqa: E731
    return {
        "running mean": lambda X, y: bayesian_linear(nothing(X), y, np.zeros(len(y))),
        "last value": lambda X, y: bayesian_linear(nothing(X), y, last(y)),
        "Bayesian linear": lambda X, y: bayesian_linear(X, y, np.zeros(len(y))),
        "no first fits": lambda X, y: unfitted(X, y, seed),
        "fast": lambda X, y: streamed("fast", X, y, seed),
        "default": lambda X, y: streamed("default", X, y, seed),
        "Gaussian process": gaussian_process,
        "hindsight": lambda X, y: hindsight(X, y, seed),
    }


def scores(found: Scored, y: Column) -> dict[str, list[float]]:
    """Return the mean scores of the parts, and of the rows of the warm-up but the first."""
    scale = y.std()
    error = np.square(found.mean - y[: len(found.mean)]) / scale**2
    each = {"log_density": found.log_density + np.log(scale), "crps": found.crps / scale}
    each |= {"nmse": error, "coverage": found.inside}
    cuts = [*zip((0, *PARTS), PARTS, strict=False), (1, WARMUP)]
    return {
        name: [float(np.mean(values[a:b])) if b <= len(values) else np.nan for a, b in cuts]
        for name, values in each.items()
    }


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(NAMES[:-1]),
    seed: Annotated[int, typer.Option(help="Seed of ours.")] = 0,
) -> None:
    """Run what is missing of the results."""
    kept: dict[str, Any] = {"machine": machine(), "sets": {}}
    if RESULTS.exists():
        kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name in names.split(","):
        X, y = load(name, data, ROWS)
        for model, run in models(seed).items():
            of = kept["sets"].setdefault(name, {})
            if model in of:
                continue
            of[model] = scores(run(X, y), y)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(name, model, [round(a, 3) for a in of[model]["log_density"]], flush=True)


if __name__ == "__main__":
    typer.run(main)
