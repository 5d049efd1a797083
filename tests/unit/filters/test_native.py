"""Tests of the kernel in C: the numbers of the block filter in NumPy, whatever the rows bring."""

import re
from typing import Any

import numpy as np
import pytest

from streamgp.filters import guard
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine import blockfilter, native
from streamgp.filters.guard import Guard
from streamgp.filters.kalman import ExpertVariances, FilterState, Predicted
from streamgp.numerics import tree
from streamgp.numerics.native import FOLDER

pytestmark = pytest.mark.skipif(native.kernel() is None, reason="the kernel was not built: there was no C compiler")

# G, R, F, E, m, B
SIZES = [(2, 3, 11, 1, 3, 64), (2, 3, 7, 2, 4, 64), (1, 6, 40, 1, 5, 64), (1, 2, 210, 1, 2, 64), (1, 1, 5, 1, 4, 1)]


def stream(
    sizes: tuple[int, ...], *, moves: bool, guarded: bool, uneven: bool = False, seed: int = 0
) -> tuple[Any, ...]:
    """Return experts with a belief, and blocks with outliers, a change, and rows that are left out."""
    (G, R, F, E, m, B), rng = sizes, np.random.default_rng(seed)
    root = 0.1 * rng.normal(size=(G, R, F, F))
    belief = FilterState(0.1 * rng.normal(size=(G, R, F, E)), np.eye(F) + root @ root.swapaxes(-1, -2))
    mask = np.ones((m, B), bool)
    mask[-1, -(-B // 2) :] = False
    Phi = np.where(mask[..., None], rng.normal(size=(G, m, B, F)) / np.sqrt(F), 0.0)
    y = rng.normal(size=(m, B, E))
    y[rng.random((m, B)) < 0.03] += 30.0
    y[m // 2, B // 2 :] += 12.0
    y[~mask] = 0.0
    steps = np.where(mask, rng.exponential(size=(m, B)) if uneven else 1.0, 0.0)
    decay, diffusion = np.ones((G, R)), np.zeros((G, R))
    if moves:
        decay[:, 1::3], diffusion[:, 1::3], diffusion[:, 2::3] = 0.99, 1.0 - 0.99**2, 1e-3
    noise = ExpertVariances(np.full((G, R), 1.3), rng.uniform(0.05, 0.3, size=(G, R)))
    gram = Phi @ Phi.swapaxes(-1, -2) if moves else None
    extra = 0.1 * rng.exponential(size=(m, B)) if uneven else None
    belief = FilterState(belief.mean, belief.cov, Guard.start((G, R), E) if guarded else None)
    return belief, Phi, gram, (y, mask, np.cumsum(steps, axis=1), extra), Dynamics(decay, diffusion), noise


def learnt(given: tuple[Any, ...]) -> tuple[FilterState, Predicted, FilterState, Predicted]:
    """Return beliefs and predictions by NumPy, and by the kernel."""
    belief, Phi, gram, (y, mask, tau, extra), dynamics, noise = given
    theirs, ours = tree.map(np.array, belief), tree.map(np.array, belief)
    with np.errstate(all="ignore"):
        said = blockfilter.update_blocks(theirs, Phi, gram, y, mask, tau, dynamics, noise, None, extra)
        shape = (*belief.mean.shape[:2], *mask.shape)
        flags = None if belief.guard is None else np.zeros(shape, bool)
        into = Predicted(np.zeros((*shape, y.shape[-1])), np.ones(shape), flags)
        grams = None if gram is None else list(gram)
        native.update_blocks(ours, list(Phi), grams, (y, mask, tau, extra), dynamics, noise, into)
    return theirs, said, ours, into


def assert_same(theirs: Any, ours: Any, rtol: float = 1e-9) -> None:
    for a, b in zip(tree.leaves(theirs), tree.leaves(ours), strict=True):
        finite = np.isfinite(a)
        np.testing.assert_array_equal(finite, np.isfinite(b))
        atol = rtol * np.abs(a[finite]).max(initial=1e-300)
        np.testing.assert_allclose(b[finite], a[finite], rtol=rtol, atol=atol)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("uneven", [False, True])
def test_numbers_are_those_of_numpy(sizes: tuple[int, ...], moves: bool, guarded: bool, uneven: bool) -> None:
    theirs, said, ours, into = learnt(stream(sizes, moves=moves, guarded=guarded, uneven=uneven))
    assert_same((theirs, said), (ours, into))
    if guarded and sizes[-1] > 1:
        assert said.is_outlier is not None
        assert said.is_outlier.any()
    np.testing.assert_array_equal(ours.cov, ours.cov.swapaxes(-1, -2))


@pytest.mark.parametrize("value", [1e15, -1e80, 1e200])
def test_absurd_targets_are_outliers_as_in_numpy(value: float) -> None:
    given = stream((1, 3, 8, 1, 3, 64), moves=True, guarded=True)
    given[3][0][1, 20] = value
    theirs, said, ours, into = learnt(given)
    assert_same((theirs, said), (ours, into))


@pytest.mark.parametrize("guarded", [False, True])
def test_an_expert_whose_numbers_are_lost_starts_again(guarded: bool) -> None:
    given = stream((1, 3, 8, 1, 3, 64), moves=True, guarded=guarded)
    given[0].cov[0, 1] = np.nan
    given[0].mean[0, 2, 3] = np.inf
    theirs, said, ours, into = learnt(given)
    assert np.isfinite(ours.mean).all() and np.isfinite(ours.cov).all()
    assert_same(theirs, ours)
    for a, b in zip(tree.leaves(said), tree.leaves(into), strict=True):
        assert_same(a[0, 0], b[0, 0])  # the others' first block was predicted by a belief that was lost
        assert_same(a[:, :, 1:], b[:, :, 1:])


def test_a_covariance_that_lost_its_digits_is_repaired_as_in_numpy() -> None:
    belief, *rest = stream((1, 2, 6, 1, 3, 64), moves=False, guarded=True)
    belief.cov[0, 0] = np.diag([1.0, 1.0, -5.0, 1.0, 1.0, 1.0])
    theirs, said, ours, into = learnt((belief, *rest))
    assert_same((theirs, said), (ours, into))


def test_views_of_some_experts_are_learnt_in_place() -> None:
    belief, Phi, gram, rows, dynamics, noise = stream((2, 4, 9, 1, 2, 64), moves=True, guarded=True)
    theirs = learnt((belief, Phi, gram, rows, dynamics, noise))[0]
    which = (slice(1, 2), slice(1, 3))
    part = tree.map(lambda a: a[which], (belief, dynamics, noise))
    shape = (1, 2, *rows[1].shape)
    into = Predicted(np.zeros((*shape, 1)), np.ones(shape), np.zeros(shape, bool))
    before = belief.mean.copy()
    native.update_blocks(part[0], [Phi[1]], [gram[1]], rows, part[1], part[2], into)
    assert_same(theirs.mean[which], belief.mean[which])
    others = np.ones((2, 4), bool)
    others[which] = False
    np.testing.assert_array_equal(belief.mean[others], before[others])


def test_constants_and_limits_are_those_of_the_source() -> None:
    header = (FOLDER / "kernel.h").read_text()
    block = re.search(r"in the order of its.*?typedef struct \{(.*?)\} guard_rules_t", header, re.S)
    assert block is not None
    names = re.findall(r"\b([a-z_]+)\b(?=[,;])", block[1])
    values = [getattr(guard, {"level_memory": "LEVEL_MEMORY"}.get(name, name.upper())) for name in names]
    assert tuple(values) == guard.KERNEL_CONSTANTS
    assert f"MAX_OUTPUTS = {native.MAX_OUTPUTS}" in (FOLDER / "blocks.c").read_text()


def test_without_the_library_numpy_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    native.kernel.cache_clear()
    try:
        assert native.kernel() is None
        assert not native.supports(stream(SIZES[0], moves=True, guarded=True)[0], None)
    finally:
        native.kernel.cache_clear()
