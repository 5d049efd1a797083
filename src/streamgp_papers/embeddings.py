"""Runs of latent variable models and baselines: rows get two coordinates, scored by the labels of neighbours."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.decomposition import PCA, IncrementalPCA, KernelPCA

from streamgp.evaluation.neighbours import neighbour_error
from streamgp.filters.dynamics import static
from streamgp.latent import (
    LENGTHSCALES,
    EmbeddedRows,
    LatentLearner,
    LatentSpec,
    fit_coordinates,
    principal_coordinates,
)
from streamgp.numerics import keys
from streamgp.numerics.batching import concatenate
from streamgp.numerics.precision import in_float64
from streamgp_papers.data_files import load

# The warm-up's share of the rows; a tenth for other data sets, as in the paper.
WARMUP_SHARES = {"mnist": 0.05, "mnist-t10k": 0.05}
# The number of first rows that are taken after shuffling.
FIRST_ROWS = {"mnist-3000": 3_000}
# On these data sets, methods that look at all rows at once would take hours.
STREAMS_ONLY = ("mnist", "mnist-t10k")
VARIANTS: dict[str, dict[str, int]] = {
    "one start": {"n_starts": 1},
    "ten starts": {"n_starts": 10},
    "row by row": {"batch_size": 1},
}
# Streams of up to so many rows are learnt row by row as well.
MAX_SINGLE_ROWS = 6_000
MISSING = 0.3
# The kernel variances of kernel PCA.
KERNEL_VARIANCES = tuple(2.0**k for k in range(-10, 11))
# The best variance is chosen on so many rows, by their labels.
SEARCH_ROWS = 1_000
Score = dict[str, float]


@dataclass(frozen=True)
class Images:
    """Rows (n, D) in the order of their stream, their labels (n,), the length of the warm-up, and the seed."""

    X: np.ndarray
    labels: np.ndarray
    warmup: int
    seed: int

    def error(self, coordinates: np.ndarray) -> float:
        """Compute the percentage of rows whose nearest neighbour among all others has another label."""
        return 100.0 * neighbour_error(coordinates, self.labels)


class Embedded(NamedTuple):
    """A stream that was learnt: the learner at the end, the rows as it embedded them, and the seconds it took.

    `warmup` has the embedded rows of the warm-up, `stream` the others.
    """

    learner: LatentLearner
    warmup: EmbeddedRows
    stream: EmbeddedRows
    seconds: float

    @property
    def coordinates(self) -> np.ndarray:
        """Return the coordinates of all rows under every expert (n, k, d)."""
        return np.concatenate([self.warmup.posterior.coordinates, self.stream.posterior.coordinates])

    @property
    def chosen(self) -> np.ndarray:
        """Return the expert of each row, by the rule of the paper (Eq. 53)."""
        first = np.full(len(self.warmup.log_weights), self.best_of_warmup)
        return np.concatenate([first, np.argmax(self.stream.log_weights + self.stream.posterior.log_joint, axis=1)])

    @property
    def by_rule(self) -> np.ndarray:
        """Return each row's coordinates under the expert that the paper's rule chooses for it (n, d)."""
        return self.coordinates[np.arange(len(self.chosen)), self.chosen]

    @property
    def best_of_warmup(self) -> int:
        """Return the expert that explains the rows of the warm-up best."""
        return int(np.argmax(self.warmup.posterior.log_joint[0]))


def embed(some: Images, **changes: Any) -> Embedded:
    """Learn the stream by the estimator's settings, some of them changed."""
    spec = replace(LatentSpec(warmup=some.warmup, seed=some.seed), **changes)
    began = time.perf_counter()
    learner = LatentLearner(spec, some.X.shape[1])
    warmup, *rest = learner.learn(some.X)
    learner.flush()
    return Embedded(learner, warmup, concatenate(rest), time.perf_counter() - began)


def align(coordinates: np.ndarray, warmup: int, reference: int) -> np.ndarray:
    """Rotate, scale and shift all experts' coordinates (n, k, d) to fit those of one on the warm-up's rows."""
    target = coordinates[:warmup, reference]
    out = np.empty_like(coordinates)
    for k in range(coordinates.shape[1]):
        source = coordinates[:warmup, k]
        middle = source.mean(axis=0)
        rotation, fit = orthogonal_procrustes(source - middle, target - target.mean(axis=0))
        scale = fit / np.square(source - middle).sum()
        out[:, k] = scale * (coordinates[:, k] - middle) @ rotation + target.mean(axis=0)
    return out


def copy_nearest(some: Images, of: Embedded) -> np.ndarray:
    """Copy, after the warm-up, the leading expert's coordinates of the nearest row before each row: the control."""
    k = of.learner.leading
    coordinates = np.concatenate([of.warmup.posterior.coordinates[:, k], np.zeros((len(some.X) - some.warmup, 2))])
    squares = np.square(some.X).sum(axis=1)
    for first in range(some.warmup, len(some.X), 500):
        rows = slice(first, min(first + 500, len(some.X)))
        near = squares[: rows.stop] - 2.0 * some.X[rows] @ some.X[: rows.stop].T
        for i, distance in zip(range(rows.start, rows.stop), near, strict=True):
            coordinates[i] = coordinates[np.argmin(distance[:i])]
    return coordinates


def score_ensemble(some: Images) -> Iterator[tuple[str, Score]]:
    """Score the ensemble on a stream, with several choices of its output."""
    whole = embed(some)
    coordinates, k = whole.coordinates, whole.learner.leading
    yield "IE-GPLVM", {"error": some.error(coordinates[:, k]), "seconds": whole.seconds}
    yield "the paper's rule", {"error": some.error(whole.by_rule), "seconds": whole.seconds}
    aligned = align(coordinates, some.warmup, whole.best_of_warmup)
    by_rule = aligned[np.arange(len(aligned)), whole.chosen]
    yield "the paper's rule, aligned", {"error": some.error(by_rule)}
    yield (
        "best expert, by the labels",
        {"error": min(some.error(coordinates[:, i]) for i in range(coordinates.shape[1]))},
    )
    again = whole.learner.embed_rows(some.X).posterior.coordinates[:, k]
    yield "placed again at the end", {"error": some.error(again)}
    yield "copy of the nearest row", {"error": some.error(copy_nearest(some, whole))}
    for name, changes in VARIANTS.items():
        if changes.get("batch_size") != 1 or len(some.X) <= MAX_SINGLE_ROWS:
            other = embed(some, **changes)
            yield name, {"error": some.error(other.coordinates[:, other.learner.leading]), "seconds": other.seconds}
            if name == "one start":  # as in the paper's Remark 3
                yield "the paper's rule, one start", {"error": some.error(other.by_rule), "seconds": other.seconds}


def score_with_gaps(some: Images) -> Iterator[tuple[str, Score]]:
    """Score the same rows with entries missing at random, and the imputation of these, beside means."""
    gone = np.random.default_rng([some.seed, 1]).random(some.X.shape) < MISSING
    holes = replace(some, X=np.where(gone, np.nan, some.X))
    one = embed(holes)
    k = one.learner.leading
    later = slice(some.warmup, None)
    found = one.learner.embed_rows(holes.X[later]).posterior
    mean, var = one.learner.reconstruct(found.coordinates[:, k], found.precision[:, k])
    missed = (some.X[later] - mean)[gone[later]]
    std = np.sqrt(var)[gone[later]]
    yield (
        f"{MISSING:.0%} of entries missing",
        {
            "error": some.error(one.coordinates[:, k]),
            "seconds": one.seconds,
            "fill_rmse": float(np.sqrt(np.mean(np.square(missed)))),
            "coverage": float(np.mean(np.abs(missed) <= 1.96 * std)),
        },
    )
    means = np.nanmean(holes.X[: some.warmup], axis=0)
    filled = np.where(gone, means, some.X)
    yield (
        "PCA of means in their place",
        {
            "error": some.error(PCA(2, random_state=some.seed).fit_transform(filled)),
            "fill_rmse": float(np.sqrt(np.mean(np.square((some.X - filled)[later][gone[later]])))),
        },
    )


def embed_by_batch_gplvm(some: Images) -> np.ndarray:
    """Embed all rows by one fit, with the kernel that is most probable on the warm-up's rows."""
    Y = some.X - some.X.mean(axis=0)
    Y /= np.sqrt(np.mean(np.square(Y)))

    def fit(lengthscale: float, rows: np.ndarray) -> Any:
        key = keys.key(some.seed)
        return fit_coordinates(lengthscale, rows, principal_coordinates(rows, 2), static(), key)

    few = Y[: some.warmup]
    best = max(LENGTHSCALES, key=lambda lengthscale: fit(lengthscale, few).log_joint)
    return np.asarray(fit(best, Y).coordinates)


def embed_by_kernel_pca(some: Images) -> tuple[np.ndarray, float]:
    """Embed by the kernel variance that is best for the labels of some rows, and time it without that search."""
    few = Images(some.X[:SEARCH_ROWS], some.labels[:SEARCH_ROWS], 0, 0)
    scale = np.square(some.X - some.X.mean(axis=0)).mean()

    def make(variance: float) -> KernelPCA:
        return KernelPCA(
            2, kernel="rbf", gamma=0.5 / (scale * some.X.shape[1] * variance), eigen_solver="arpack", random_state=0
        )

    best = min(KERNEL_VARIANCES, key=lambda variance: few.error(make(variance).fit_transform(few.X)))
    began = time.perf_counter()
    return make(best).fit_transform(some.X), time.perf_counter() - began


def embed_by_umap(some: Images, rows: int | None) -> np.ndarray:
    """Embed by UMAP (McInnes, Healy and Melville 2018) with its defaults: fit some rows, transform the others."""
    from umap import UMAP  # pyright: ignore[reportMissingImports]

    model = UMAP(random_state=some.seed, n_jobs=1)
    first = model.fit_transform(some.X[:rows])
    return first if rows is None else np.concatenate([first, model.transform(some.X[rows:])])


def score_baselines(some: Images, every: bool) -> Iterator[tuple[str, Score]]:
    """Score other methods, most of them fitted on all rows; UMAP is missing where it is not installed."""
    methods: dict[str, Callable[[], np.ndarray]] = {
        "PCA": lambda: PCA(2, random_state=some.seed).fit_transform(some.X),
        "PCA of the warm-up": lambda: PCA(2, random_state=some.seed).fit(some.X[: some.warmup]).transform(some.X),
        "IncrementalPCA": lambda: IncrementalPCA(2, batch_size=64).fit_transform(some.X),
        "UMAP of the warm-up": lambda: embed_by_umap(some, some.warmup),
        "UMAP of all rows": lambda: embed_by_umap(some, None),
    }
    if every:
        methods["batch GPLVM"] = lambda: embed_by_batch_gplvm(some)
        coordinates, seconds = embed_by_kernel_pca(some)
        yield "KernelPCA", {"error": some.error(coordinates), "seconds": seconds}
    for name, method in methods.items():
        began = time.perf_counter()
        try:
            coordinates = method()
        except ImportError:
            continue
        yield name, {"error": some.error(coordinates), "seconds": time.perf_counter() - began}


@in_float64
def run(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run every method on a data set in shuffled order."""
    limits = [count for count in (rows, FIRST_ROWS.get(data)) if count is not None]
    X, labels = load(data, directory, min(limits, default=None), seed, keep_constant=True)
    some = Images(X, labels, max(2, round(WARMUP_SHARES.get(data, 0.1) * len(X))), seed)
    every = data not in STREAMS_ONLY
    models = dict(score_ensemble(some))
    if every:
        models |= dict(score_with_gaps(some))
    models |= dict(score_baselines(some, every))
    return {"rows": len(X), "inputs": X.shape[1], "models": models}
