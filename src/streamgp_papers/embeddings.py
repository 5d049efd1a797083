"""Runs of latent variable models and their rivals: rows become two coordinates, and neighbours there have labels."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
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
from streamgp.numerics.batching import concatenate
from streamgp_papers.datasets import load

WARMUP_SHARES = {"mnist": 0.05, "mnist-t10k": 0.05}  # of the rows; of other data sets a tenth, as in the paper
FIRST_ROWS = {"mnist-3000": 3_000}  # of the shuffled ones
STREAMS_ONLY = ("mnist", "mnist-t10k")  # where methods that look at all rows at once would take hours
VARIANTS: dict[str, dict[str, int]] = {
    "one start": {"n_starts": 1},
    "ten starts": {"n_starts": 10},
    "row by row": {"batch_size": 1},
}
ONE_BY_ONE = 6_000  # rows at most that are learnt row by row
MISSING = 0.3
KERNEL_VARIANCES = tuple(2.0**k for k in range(-10, 11))  # of kernel PCA
SEARCH_ROWS = 1_000  # on which the best of them is chosen, by the labels
Score = dict[str, float]


@dataclass(frozen=True)
class Images:
    """Rows (n, D) in the order of their stream, their labels (n,), how many are the warm-up's, and the seed."""

    X: np.ndarray
    labels: np.ndarray
    warmup: int
    seed: int

    def error(self, places: np.ndarray) -> float:
        """Percentage of rows whose nearest neighbour among all others has another label."""
        return 100.0 * neighbour_error(places, self.labels)


class Embedded(NamedTuple):
    """A stream that was learnt: the learner at the end, what it said of the rows, and how long it took.

    `warmup` has what was said of the warm-up's rows, `stream` what of the others.
    """

    learner: LatentLearner
    warmup: EmbeddedRows
    stream: EmbeddedRows
    seconds: float

    @property
    def places(self) -> np.ndarray:
        """Of all rows under every expert (n, k, d)."""
        return np.concatenate([self.warmup.posterior.coordinates, self.stream.posterior.coordinates])

    @property
    def chosen(self) -> np.ndarray:
        """The expert of each row, by the rule of the paper (Eq. 53)."""
        first = np.full(len(self.warmup.log_weights), self.best_of_warmup)
        return np.concatenate([first, np.argmax(self.stream.log_weights + self.stream.posterior.log_joint, axis=1)])

    @property
    def best_of_warmup(self) -> int:
        """The expert that explains the rows of the warm-up best."""
        return int(np.argmax(self.warmup.posterior.log_joint[0]))


def embedded(some: Images, **changes: Any) -> Embedded:
    """The stream, learnt by the settings of the estimator but for what is changed."""
    spec = replace(LatentSpec(warmup=some.warmup, seed=some.seed), **changes)
    began = time.perf_counter()
    learner = LatentLearner(spec, some.X.shape[1])
    warmup, *rest = learner.learn(some.X)
    learner.flush()
    return Embedded(learner, warmup, concatenate(rest), time.perf_counter() - began)


def aligned(places: np.ndarray, warmup: int, reference: int) -> np.ndarray:
    """Places (n, k, d) of all experts, turned, stretched and moved to fit those of one on the rows of the warm-up."""
    target = places[:warmup, reference]
    out = np.empty_like(places)
    for k in range(places.shape[1]):
        source = places[:warmup, k]
        middle = source.mean(axis=0)
        turn, fit = orthogonal_procrustes(source - middle, target - target.mean(axis=0))
        stretch = fit / np.square(source - middle).sum()
        out[:, k] = stretch * (places[:, k] - middle) @ turn + target.mean(axis=0)
    return out


def copied(some: Images, of: Embedded) -> np.ndarray:
    """The control: a row after the warm-up copies the leading expert's place of its nearest row before it."""
    k = of.learner.leading
    places = np.concatenate([of.warmup.posterior.coordinates[:, k], np.zeros((len(some.X) - some.warmup, 2))])
    squares = np.square(some.X).sum(axis=1)
    for first in range(some.warmup, len(some.X), 500):
        rows = slice(first, min(first + 500, len(some.X)))
        near = squares[: rows.stop] - 2.0 * some.X[rows] @ some.X[: rows.stop].T
        for i, apart in zip(range(rows.start, rows.stop), near, strict=True):
            places[i] = places[np.argmin(apart[:i])]
    return places


def ours(some: Images) -> Iterator[tuple[str, Score]]:
    """The ensemble on a stream, and what its output could be."""
    whole = embedded(some)
    places, k = whole.places, whole.learner.leading
    rows = np.arange(len(places))
    yield "IE-GPLVM", {"error": some.error(places[:, k]), "seconds": whole.seconds}
    yield "the paper's rule", {"error": some.error(places[rows, whole.chosen]), "seconds": whole.seconds}
    alike = aligned(places, some.warmup, whole.best_of_warmup)
    yield "the paper's rule, aligned", {"error": some.error(alike[rows, whole.chosen])}
    yield "best expert, by the labels", {"error": min(some.error(places[:, i]) for i in range(places.shape[1]))}
    yield (
        "placed again at the end",
        {"error": some.error(whole.learner.embed_rows(some.X).posterior.coordinates[:, k])},
    )
    yield "copy of the nearest row", {"error": some.error(copied(some, whole))}
    for name, changes in VARIANTS.items():
        if changes.get("batch_size") != 1 or len(some.X) <= ONE_BY_ONE:
            other = embedded(some, **changes)
            yield name, {"error": some.error(other.places[:, other.learner.leading]), "seconds": other.seconds}


def with_gaps(some: Images) -> Iterator[tuple[str, Score]]:
    """The same rows, of which entries are missing at random; how well they are filled in, beside means."""
    gone = np.random.default_rng([some.seed, 1]).random(some.X.shape) < MISSING
    holes = replace(some, X=np.where(gone, np.nan, some.X))
    one = embedded(holes)
    k = one.learner.leading
    later = slice(some.warmup, None)
    found = one.learner.embed_rows(holes.X[later]).posterior
    mean, var = one.learner.reconstruct(found.coordinates[:, k], found.precision[:, k])
    missed = (some.X[later] - mean)[gone[later]]
    std = np.sqrt(var)[gone[later]]
    yield (
        f"{MISSING:.0%} of entries missing",
        {
            "error": some.error(one.places[:, k]),
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


def batch_gplvm(some: Images) -> np.ndarray:
    """Places of all rows by a fit of all at once, with the kernel that is most probable on the warm-up's rows."""
    Y = some.X - some.X.mean(axis=0)
    Y /= np.sqrt(np.mean(np.square(Y)))

    def fitted(lengthscale: float, rows: np.ndarray) -> Any:
        key = jax.random.key(some.seed)
        return fit_coordinates(lengthscale, rows, principal_coordinates(rows, 2), static(), key)

    few = Y[: some.warmup]
    best = max(LENGTHSCALES, key=lambda lengthscale: fitted(lengthscale, few).log_joint)
    return np.asarray(fitted(best, Y).coordinates)


def kernel_pca(some: Images) -> tuple[np.ndarray, float]:
    """Places by the best variance of the kernel, by the labels of some rows, and the seconds without that search."""
    few = Images(some.X[:SEARCH_ROWS], some.labels[:SEARCH_ROWS], 0, 0)
    scale = np.square(some.X - some.X.mean(axis=0)).mean()

    def made(variance: float) -> KernelPCA:
        return KernelPCA(
            2, kernel="rbf", gamma=0.5 / (scale * some.X.shape[1] * variance), eigen_solver="arpack", random_state=0
        )

    best = min(KERNEL_VARIANCES, key=lambda variance: few.error(made(variance).fit_transform(few.X)))
    began = time.perf_counter()
    return made(best).fit_transform(some.X), time.perf_counter() - began


def umap_of(some: Images, rows: int | None) -> np.ndarray:
    """UMAP as it comes (McInnes, Healy and Melville 2018), fitted on some rows; the others are transformed."""
    from umap import UMAP  # pyright: ignore[reportMissingImports]

    model = UMAP(random_state=some.seed, n_jobs=1)
    first = model.fit_transform(some.X[:rows])
    return first if rows is None else np.concatenate([first, model.transform(some.X[rows:])])


def rivals(some: Images, every: bool) -> Iterator[tuple[str, Score]]:
    """Methods of others, most of them fitted on all rows; UMAP is missing where it is not installed."""
    methods: dict[str, Callable[[], np.ndarray]] = {
        "PCA": lambda: PCA(2, random_state=some.seed).fit_transform(some.X),
        "PCA of the warm-up": lambda: PCA(2, random_state=some.seed).fit(some.X[: some.warmup]).transform(some.X),
        "IncrementalPCA": lambda: IncrementalPCA(2, batch_size=64).fit_transform(some.X),
        "UMAP of the warm-up": lambda: umap_of(some, some.warmup),
        "UMAP of all rows": lambda: umap_of(some, None),
    }
    if every:
        methods["batch GPLVM"] = lambda: batch_gplvm(some)
        places, seconds = kernel_pca(some)
        yield "KernelPCA", {"error": some.error(places), "seconds": seconds}
    for name, method in methods.items():
        began = time.perf_counter()
        try:
            places = method()
        except ImportError:
            continue
        yield name, {"error": some.error(places), "seconds": time.perf_counter() - began}


def run(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Every method on a data set in shuffled order."""
    most = [count for count in (rows, FIRST_ROWS.get(data)) if count is not None]
    X, labels = load(data, directory, min(most, default=None), seed, keep_constant=True)
    some = Images(X, labels, max(2, round(WARMUP_SHARES.get(data, 0.1) * len(X))), seed)
    every = data not in STREAMS_ONLY
    with jax.enable_x64(True):
        models = dict(ours(some))
        if every:
            models |= dict(with_gaps(some))
        models |= dict(rivals(some, every))
    return {"rows": len(X), "inputs": X.shape[1], "models": models}
