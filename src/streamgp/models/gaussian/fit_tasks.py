"""The fits that a warm-up ends with: every starting point of every basis, and how several of them run at a time."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from streamgp.bases import BASES, Basis, Learner
from streamgp.models.fitting.gaussian_evidence import INITIAL_NOISE_VAR
from streamgp.models.fitting.hyperparameters import with_value
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.numerics.keys import Key
from streamgp.numerics.precision import float64
from streamgp.numerics.threads import one_blas_thread

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FitTask:
    """One fit to make.

    Attributes
    ----------
    name
        Name of the kind of basis (see `streamgp.bases.BASES`).
    label
        Name of the fit in the table of experts.
    basis
        The basis as it is before the fit.
    start
        Its initial lengthscale, as a multiple of each input's range.
    trainable
        The fields of the basis that the fit may move.
    key
        The random key that the basis was drawn with.
    noise_var
        The noise variance that the fit begins with.
    """

    name: str
    label: str
    basis: Basis
    start: float
    trainable: tuple[str, ...]
    key: Key
    noise_var: float = INITIAL_NOISE_VAR


def make_fit_tasks(
    spec: Spec, max_features: Mapping[str, int | None], X: np.ndarray, y: np.ndarray, seed: int
) -> list[FitTask]:
    """Build every starting point of every basis named, with at most so many features; None: as many as it has."""
    tasks = []
    for position, (name, most) in enumerate(max_features.items()):
        if name in spec.learners:
            tasks += _learner_tasks(name, position, X, y, seed)
            continue
        cls = BASES[name]
        wanted = spec.features_per_basis or cls.default_features
        features = wanted if most is None else min(wanted, most)
        fixed = spec.lengthscales if "lengthscale" in cls.trainable else None
        starts = fixed or cls.starts
        for i, start in enumerate(starts):
            key = keys.fold_in(keys.fold_in(keys.key(seed), position), i)
            basis = cls.from_data(X, num_features=features, start=start, key=key, y=y)
            trainable = tuple(basis.trainable)
            if fixed:
                basis = with_value(basis, "lengthscale", np.full(X.shape[1], float(start)))
                trainable = tuple(field for field in trainable if field != "lengthscale")
            label = name if len(starts) == 1 else f"{name} {start:.3g}"
            tasks.append(FitTask(name, label, basis, start, trainable, key))
    return tasks


def _learner_tasks(name: str, position: int, X: np.ndarray, y: np.ndarray, seed: int) -> list[FitTask]:
    """Fit a regressor of the user's to the rows, and to the latter half of them."""
    tasks = []
    for i, (start, label) in enumerate(zip(Learner.starts, (name, f"{name} latest"), strict=True)):
        key = keys.fold_in(keys.fold_in(keys.key(seed), position), i)
        tasks.append(FitTask(name, label, Learner.fitted(name, X, y, start=start, key=key), start, (), key))
    return tasks


def map_in_threads(
    work: Callable[[Any], _Result],
    items: Sequence[Any],
    report: Callable[[int], None] = lambda done: None,
) -> list[_Result]:
    """Do `work` on each item, two at a time; call `report` with how many are done.

    The last ones are begun first: the bases that take longest stand there, and none is then left to run alone.
    """

    def run(item: Any) -> _Result:
        # The setting of JAX, which a user's own basis may call, belongs to a thread.
        with float64():
            return work(item)

    results: list[_Result] = []
    with one_blas_thread(), ThreadPoolExecutor(max_workers=2) as pool:
        try:
            for result in pool.map(run, reversed(items)):
                results.append(result)
                report(len(results))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # running ones end, no other begins
            raise
    return results[::-1]
