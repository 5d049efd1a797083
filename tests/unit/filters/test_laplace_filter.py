"""The block filter of Laplace steps against the row-by-row textbook, golden numbers, and what may break it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, config

from oracles.laplace_loop import POISSON, Run, Site, laplace_loop, softmax
from streamgp.filters.dynamics import parse
from streamgp.filters.kalman import FilterState
from streamgp.filters.laplace import Block, Experts, Latent, predict_rows, prior_state, update_block
from streamgp.likelihoods import Expansion, Likelihood, Logistic
from streamgp.numerics import tree
from streamgp.numerics.module import static_field

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "logistic.npz")
NAMES = {
    "static": {"decay": 1.0, "diffusion": 0.0},
    "walk 0.02": {"decay": 1.0, "diffusion": 0.02},
    "revert 0.97": {"decay": 0.97, "diffusion": 1.0 - 0.97**2},
}
N, F, V = 40, 4, 1.7


class Softmax(Likelihood):
    """Class 0 has the logit 0, the others have their latent value and an intercept."""

    intercept: Float[np.ndarray, "*batch"]
    classes: int = static_field()

    @property
    def num_latents(self) -> int:
        return self.classes - 1

    def expand(self, f: Any, y: Any) -> Expansion:
        logits = np.concatenate([np.zeros_like(f[..., :1]), f + self.intercept[..., None]], axis=-1)
        odds = np.exp(logits - logits[..., [int(y)]])
        p = (odds / odds.sum(-1, keepdims=True))[..., 1:]
        gradient = (np.arange(1, self.classes) == y) - p
        value = -np.log1p(np.delete(odds, int(y), axis=-1).sum(-1))
        return Expansion(value, gradient, p[..., None] * np.eye(self.num_latents) - p[..., None] * p[..., None, :])


class Poisson(Likelihood):
    def expand(self, f: Any, y: Any) -> Expansion:
        rate = np.exp(f)
        return Expansion((y * f - rate)[..., 0], y - rate, rate[..., None])


CASES = ("logistic", "poisson", "three classes", "four classes")


def likelihood_of(case: str) -> tuple[Likelihood, Site]:
    match case:
        case "logistic":
            return Logistic(np.asarray(0.3)), softmax(0.3)
        case "poisson":
            return Poisson(), POISSON
        case "three classes":
            return Softmax(np.asarray(0.3), 3), softmax(0.3)
    return Softmax(np.asarray(0.3), 4), softmax(0.3)


def data(case: str, n: int = N, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Features, targets, irregular gaps between the rows, some of them zero, and offsets."""
    rng = np.random.default_rng(seed)
    most = {"logistic": 2, "poisson": 6, "three classes": 3, "four classes": 4}[case]
    gaps = rng.exponential(1.0, n) * (rng.random(n) > 0.2)
    y = rng.integers(0, most, n).astype(float)
    return rng.normal(size=(n, F)) / np.sqrt(F), y, gaps, 0.5 * rng.normal(size=n)


def one(belief: FilterState, Phi: np.ndarray, name: str, v: Any = V) -> Experts:
    """A stack of a single expert."""
    stacked = tree.map(lambda a: np.asarray(a)[None], (belief, parse(name), np.asarray(v), Phi))
    return Experts(*stacked)


def update(
    belief: FilterState, Phi: np.ndarray, block: Block, likelihood: Likelihood, name: str, v: Any = V
) -> tuple[FilterState, Latent]:
    """A block of rows of a single expert."""
    stacked = tree.map(lambda a: np.asarray(a)[None], likelihood)
    beliefs, parts = update_block([one(belief, Phi, name, v)], block, stacked)
    return tree.map(lambda a: a[0], (beliefs[0], parts[0]))


def learn(
    case: str, arrays: tuple[np.ndarray, ...], name: str, *, mask=None, state: FilterState | None = None
) -> tuple[FilterState, Latent]:
    """One block of all the rows; those that `mask` leaves out take no time."""
    Phi, y, gaps, offset = arrays
    likelihood, _ = likelihood_of(case)
    state = prior_state(F, likelihood.num_latents, np.asarray(V)) if state is None else state
    mask = np.ones(len(y), bool) if mask is None else mask
    tau = np.cumsum(np.where(mask, gaps, 0.0))
    Phi = np.where(mask[:, None], Phi, 0.0)
    return update(state, Phi, Block(y, mask, tau, offset), likelihood, name)


def textbook(case: str, arrays: tuple[np.ndarray, ...], name: str) -> Run:
    Phi, y, gaps, offset = arrays
    likelihood, site = likelihood_of(case)
    options = {"num_latents": likelihood.num_latents, "prior_var": V, "gaps": gaps, "offset": offset}
    return laplace_loop(Phi, y, site, **options, **NAMES[name])


def close(got, want, rtol=1e-10):
    want = np.asarray(want)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * np.abs(want).max())


def all_close(got: tuple[FilterState, Latent], want: tuple[FilterState, Latent], rtol=1e-12):
    for one, other in zip(tree.leaves(got), tree.leaves(want), strict=True):
        close(one, other, rtol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_a_block_is_the_row_by_row_recursion(case, name):
    arrays = data(case)
    want = textbook(case, arrays, name)
    state, (loc, cov) = learn(case, arrays, name)
    close(loc, want.loc)
    close(cov, want.cov_of_f)
    close(state.mean[:, 0], want.mean)
    close(state.cov, want.cov)
    np.testing.assert_array_equal(state.cov, state.cov.T)


@pytest.mark.parametrize("case", ["logistic", "three classes"])
def test_rows_left_out_change_nothing(case):
    arrays = data(case)
    keep = np.arange(N) % 3 != 1
    want = textbook(case, tuple(a[keep] for a in arrays), "revert 0.97")
    Phi, y, gaps, offset = arrays
    y, offset = (np.where(keep, a, np.nan) for a in (y, offset))
    state, (loc, cov) = learn(case, (Phi, y, gaps, offset), "revert 0.97", mask=keep)
    close(loc[keep], want.loc)
    close(cov[keep], want.cov_of_f)
    close(state.mean[:, 0], want.mean)
    close(state.cov, want.cov)
    nothing, _ = learn(case, arrays, "revert 0.97", mask=np.zeros(N, bool), state=state)
    np.testing.assert_array_equal(nothing.mean, state.mean)
    np.testing.assert_array_equal(nothing.cov, state.cov)


@given(cuts=st.sets(st.integers(1, N - 1), max_size=6), case=st.sampled_from(CASES), name=st.sampled_from([*NAMES]))
@settings(max_examples=12, deadline=None)
def test_where_the_blocks_are_cut_does_not_matter(cuts, case, name):
    arrays = data(case)
    state, ahead = learn(case, arrays, name)
    cut, loc, cov = None, np.zeros_like(ahead.loc), np.zeros_like(ahead.cov)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), N], strict=True):
        piece = (np.arange(N) >= start) & (np.arange(N) < stop)
        cut, part = learn(case, arrays, name, mask=piece, state=cut)
        loc[piece], cov[piece] = part.loc[piece], part.cov[piece]
    assert cut is not None
    all_close((cut, Latent(loc, cov)), (state, ahead))


@pytest.mark.parametrize("case", CASES)
def test_no_row_is_told_by_its_own_target_or_a_later_one(case):
    Phi, y, gaps, offset = data(case)
    _, ahead = learn(case, (Phi, y, gaps, offset), "walk 0.02")
    for i in (0, 7, 23):
        other = np.where(np.arange(N) < i, y, y.max() - y)
        _, changed = learn(case, (Phi, other, gaps, offset), "walk 0.02")
        for before, after in zip(ahead, changed, strict=True):
            np.testing.assert_array_equal(before[: i + 1], after[: i + 1])
            assert (np.asarray(before) != np.asarray(after))[i + 1 :].any()


@pytest.mark.parametrize("case", ["logistic", "four classes"])
def test_a_forecast_is_what_the_next_block_begins_with(case):
    arrays = data(case)
    first, last = np.arange(N) < 25, np.arange(N) == 25
    state, _ = learn(case, arrays, "revert 0.97", mask=first)
    _, ahead = learn(case, arrays, "revert 0.97", mask=last, state=state)
    Phi, _, gaps, offset = (a[25:] for a in arrays)
    C = likelihood_of(case)[0].num_latents
    loc, cov = (a[0] for a in predict_rows(one(state, Phi, "revert 0.97"), gaps, offset, C))
    close(loc[0], ahead.loc[25], 1e-13)
    close(cov[0], ahead.cov[25], 1e-13)
    # The others as the definition of the dynamics has them.
    a = 0.97 ** np.asarray(gaps)
    for i in range(N - 25):
        H = np.kron(np.eye(C), Phi[i])
        close(loc[i], a[i] * (H @ state.mean[:, 0]) + offset[i], 1e-13)
        close(cov[i], H @ (a[i] ** 2 * state.cov + (1 - a[i] ** 2) * V * np.eye(C * F)) @ H.T, 1e-13)


def blocks_of(arrays: tuple[np.ndarray, ...], size: int) -> list[np.ndarray]:
    """Consecutive blocks, the last one filled up with rows that are left out."""
    Phi, y, gaps, offset = arrays
    count = -(-len(y) // size)
    mask = np.arange(count * size) < len(y)

    def cut(a: np.ndarray) -> np.ndarray:
        return np.concatenate([a, np.zeros((len(mask) - len(a), *a.shape[1:]))]).reshape(count, size, *a.shape[1:])

    return [cut(Phi), cut(y), mask.reshape(count, size), cut(gaps).cumsum(1), cut(offset)]


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("i", [0, 1])
def test_golden_logistic(i, size):
    Phi, y, v = GOLDEN["Phi"], GOLDEN["y"].astype(float), GOLDEN["prior_var"]
    walk = f"walk {float(GOLDEN['rw_vars'][i]) / float(v)!r}"
    state = prior_state(5, 1, v)
    blocks = blocks_of((Phi, y, np.ones(40), np.zeros(40)), size)
    for number, (Phi, *block) in enumerate(zip(*blocks, strict=True)):
        state, (loc, var) = update(state, Phi, Block(*block), Logistic(np.asarray(0.0)), walk, v)
        rows = slice(number * size, min(number * size + size, 40))
        got = loc[: len(y[rows]), 0], var[: len(y[rows]), 0, 0], state.mean[:, 0], state.cov
        names = "latent_mean", "latent_var", "mu_steps", "Sigma_steps"
        for value, name in zip(got, names, strict=True):
            want = GOLDEN[f"{name}_{i}"][rows]
            close(value, want if name.startswith("latent") else want[-1], 1e-8)


def test_experts_of_several_stacks_each_have_their_own_numbers():
    """Experts differ in basis, number of features, dynamics, prior and intercept."""
    rng = np.random.default_rng(1)
    Phi, y, gaps, offset = data("logistic", 30)
    bases = [Phi, rng.normal(size=Phi.shape), rng.normal(size=(30, 7))]
    names, intercepts, v = ["walk 0.02", "revert 0.97", "static"], [0.3, -1.0, 0.5], [0.5, 3.0, 2.0]
    block = Block(y, np.arange(30) != 4, np.cumsum(gaps), offset)
    want = [
        update(prior_state(basis.shape[1], 1, np.asarray(var)), basis, block, Logistic(np.asarray(a)), name, var)
        for basis, name, a, var in zip(bases, names, intercepts, v, strict=True)
    ]
    dynamics = tree.map(lambda *a: np.stack(a), *(parse(name) for name in names[:2]))
    pair = Experts(prior_state(F, 1, np.array(v[:2])), dynamics, np.array(v[:2]), np.stack(bases[:2]))
    other = one(prior_state(7, 1, np.asarray(v[2])), bases[2], names[2], v[2])
    beliefs, parts = update_block([pair, other], block, Logistic(np.array(intercepts)))
    for k, (stack, i) in enumerate([(0, 0), (0, 1), (1, 0)]):
        all_close(tree.map(lambda a, i=i: a[i], (beliefs[stack], parts[stack])), want[k])


def test_experts_may_share_their_features():
    Phi, y, gaps, offset = data("three classes", 12)
    block = Block(y, np.ones(12, bool), np.cumsum(gaps), offset)
    v = np.array([[0.5, 2.0]])
    dynamics = tree.map(lambda *a: np.stack(a)[None], parse("walk 0.02"), parse("revert 0.97"))
    likelihood, alone = Softmax(np.array([0.3, 0.3]), 3), Softmax(np.asarray(0.3), 3)
    shared = Experts(prior_state(F, 2, v), dynamics, v, Phi[None, None])
    (belief,), (part,) = update_block([shared], block, likelihood)
    for r, name in enumerate(["walk 0.02", "revert 0.97"]):
        want = update(prior_state(F, 2, v[0, r]), Phi, block, alone, name, v[0, r])
        all_close(tree.map(lambda a, r=r: a[0, r], (belief, part)), want)


# Streams that go on for long, and say little or too much


def hard_stream(kind: str, n: int, C: int) -> tuple[np.ndarray, np.ndarray]:
    """Features that span fewer directions than there are, and the class of each row."""
    rng = np.random.default_rng(3)
    Phi = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, 2)) @ rng.normal(size=(2, F - 1))], axis=1)
    if kind == "the same row over and over":
        Phi = np.tile(Phi[:1], (n, 1))
    y = rng.integers(0, C + 1, n)
    if kind == "separable":
        y = (Phi @ rng.normal(size=(F, C + 1))).argmax(1)
    if kind == "one class only":
        y = np.full(n, C)
    return Phi, y.astype(float)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No types are checked: checks of every call would take twenty times as long as thousands of steps."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dynamics", ["static", "revert 0.999"])
@pytest.mark.parametrize("C", [1, 2])
@pytest.mark.parametrize("kind", ["separable", "the same row over and over", "one class only", "noise"])
def test_hard_streams_are_survived(kind, C, dynamics):
    n, v = 1000, 1e6
    Phi, y = hard_stream(kind, n, C)
    blocks = blocks_of((Phi, y, np.ones(n), np.zeros(n)), 20)
    likelihood = Logistic(np.asarray(0.0)) if C == 1 else Softmax(np.asarray(0.0), 3)
    state, parts = prior_state(F, C, np.asarray(v)), []
    for Phi_block, *block in zip(*blocks, strict=True):
        state, part = update(state, Phi_block, Block(*block), likelihood, dynamics, v)
        parts.append(part)
    loc, cov = (np.concatenate(a) for a in zip(*parts, strict=True))
    assert np.isfinite(loc).all() and np.isfinite(cov).all()
    values = np.linalg.eigvalsh(state.cov)
    assert values.min() > -1e-9 * v
    assert values.max() < v * (1.0 + 1e-9)
    assert np.linalg.eigvalsh(cov).min() >= 0.0
    logits = np.concatenate([np.zeros((n, 1)), loc], axis=1)
    right = (logits.argmax(1) == y)[-500:].mean()
    if kind in ("separable", "one class only"):
        assert right > 0.95
    else:
        assert right < 0.75
