"""Block = row by row = resumed = the textbook loops, for every basis, dynamics and weight rule."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.ensemble_loop import Weights, e_doebe_matrix, joint_log_density, weigh
from oracles.loop_filter import Run, loop_filter
from streamgp.bases import BASES, UserFunction
from streamgp.filters.dynamics import parse
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics import keys
from streamgp.numerics.checkpoint import load, save
from streamgp.numerics.module import Module
from streamgp.weights import BMA, WeightRule, fixed_share, markov, share

pytestmark = pytest.mark.slow

ROWS = 520
SOME = 135  # enough for a row at a time, which takes long: experts are shut down, blocks of 64 rows begin and end
PRIOR_VAR, NOISE_VAR = 1.3, 0.05
DYNAMICS = {"static": (1.0, 0.0), "walk 0.001": (1.0, 1e-3), "revert 0.99": (0.99, 1.0 - 0.99**2)}
NUM_BASES = len(BASES) + 1
K = NUM_BASES * len(DYNAMICS)
Q = np.random.default_rng(9).dirichlet(np.full(K, 0.3), K).T
ORACLES: dict[str, dict[str, Any]] = {
    "bma": {},
    "bma-shutdown": {"threshold": 1e-16},
    "switching": {"transition": np.full((K, K), 1e-2 / (K - 1)) + (1 - 1e-2 - 1e-2 / (K - 1)) * np.eye(K)},
    "e-doebe": {"transition": e_doebe_matrix(NUM_BASES, len(DYNAMICS), 0.05)},
    "Q": {"transition": Q},
}


class OneOf(Module):
    """All the rules at once, the ensemble weighed by the one at `which`: one compilation serves them all."""

    rules: tuple[WeightRule, ...]
    which: jax.Array
    shuts_down = True

    def init(self, log_prior):
        return tuple(rule.init(log_prior) for rule in self.rules)

    def predict(self, state):
        every = [rule.predict(s) for rule, s in zip(self.rules, state, strict=True)]
        return jnp.stack(every)[self.which]

    def update(self, state, log_density):
        return tuple(rule.update(s, log_density) for rule, s in zip(self.rules, state, strict=True))


@dataclass
class Stream:
    """Rows with gaps in them: what is masked out is not a number."""

    X: np.ndarray
    y: np.ndarray
    mask: np.ndarray
    times: np.ndarray | None


@cache
def stream(kind: str, rows: int = ROWS) -> Stream:
    """``regular``: one output. ``timed``: three outputs, irregular times with ties, rows left out."""
    if rows < ROWS:
        every = stream(kind)
        times = None if every.times is None else every.times[:rows]
        return Stream(every.X[:rows], every.y[:rows], every.mask[:rows], times)
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (ROWS, 2))
    drift = np.where(np.arange(ROWS) < 280, 0.0, 1.5)
    signal = np.stack([np.sin(3 * X[:, 0] + drift + e) + 0.3 * X[:, 1] for e in range(3)], axis=1)
    y = signal + 0.2 * rng.normal(size=signal.shape)
    if kind == "regular":
        return Stream(X, y[:, :1], np.ones(ROWS, bool), None)
    times = np.cumsum(rng.exponential(0.02, ROWS) * (rng.random(ROWS) > 0.3)) + 1e3
    mask = rng.random(ROWS) > 0.1
    mask[[0, 1, 64, 65, 499, 519]] = False
    for a in (X, y, times):
        a[~mask] = np.nan
    return Stream(X, y, mask, times)


@cache
def model(kind: str) -> Ensemble:
    """Every family and a user's function, each with every dynamics, in the same order as the oracle."""
    rows = stream(kind)
    warm_up, y = rows.X[rows.mask][:50], rows.y[rows.mask][:50]
    key = keys.key(0)
    settings = {"num_features": 9, "start": 0.7, "key": key, "y": y}
    bases = [cls.from_data(warm_up, **settings).precomputed() for cls in BASES.values()]
    bases.append(UserFunction(jnp.sin, 2))
    experts = [
        Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(NOISE_VAR), parse(name))
        for basis in bases
        for name in DYNAMICS
    ]
    groups = [b for b in range(NUM_BASES) for _ in DYNAMICS]
    rules = (BMA(), BMA(1e-16), fixed_share(K, 1e-2), share(groups, 0.05), markov(Q))
    return ensemble(experts, OneOf(rules, jnp.asarray(0)), num_outputs=rows.y.shape[1], time_unit=0.02)


@cache
def oracle(kind: str, length: int = ROWS) -> list[Run]:
    """Every expert by the loop filter, over the rows that count."""
    rows = stream(kind, length)
    X, y = rows.X[rows.mask], rows.y[rows.mask]
    gaps = None if rows.times is None else np.r_[1.0, np.diff(rows.times[rows.mask]) / 0.02]
    runs = []
    for group in model(kind).groups:
        for i in range(group.noise.prior_var.shape[0]):
            Phi = np.asarray(jax.tree.map(lambda a, i=i: a[i], group.basis)(jnp.asarray(X)))
            runs += [
                loop_filter(
                    Phi, y, prior_var=PRIOR_VAR, noise_var=NOISE_VAR, decay=decay, diffusion=diffusion, gaps=gaps
                )
                for decay, diffusion in DYNAMICS.values()
            ]
    return [runs[i] for i in np.argsort(model(kind).order)]


@cache
def weighed(kind: str, length: int, rule: str) -> Weights:
    """The oracle's experts by the loop over the weights of one rule."""
    runs, rows = oracle(kind, length), stream(kind, length)
    loc = np.stack([run.loc for run in runs], axis=1)
    var = np.stack([run.var for run in runs], axis=1)
    return weigh(joint_log_density(rows.y[rows.mask], loc, var), **ORACLES[rule])


def learn(
    kind: str, rule: str, chunk: int, directory=None, engine: str = "host", length: int = ROWS
) -> tuple[dict[str, np.ndarray], EnsembleState, list[tuple[int, list[np.ndarray]]]]:
    """Predictions of the rows that count and the final state; through a checkpoint on disk if given one.

    After every chunk, too, the number of rows so far that count and the weights that each rule has for the next.
    """
    rows = stream(kind, length)
    which = jnp.asarray(list(ORACLES).index(rule))
    ens = eqx.tree_at(lambda m: m.rule.which, model(kind), which)
    state = ens.init(keys.key(0))
    padding = -length % chunk
    X, y = (np.pad(a, [(0, padding), (0, 0)], constant_values=np.nan) for a in (rows.X, rows.y))
    mask = np.pad(rows.mask, (0, padding))
    times = None if rows.times is None else np.pad(rows.times, (0, padding), constant_values=np.nan)
    update = ens.update if engine == "host" else ens._update_compiled
    parts, weights = [], []
    for at in range(0, length, chunk):
        now = slice(at, at + chunk)
        clock = None if times is None else jnp.asarray(times[now])
        state, info = update(state, jnp.asarray(X[now]), jnp.asarray(y[now]), jnp.asarray(mask[now]), clock)
        parts.append(jax.tree.map(np.asarray, info.predictive))
        weights.append((int(rows.mask[: at + chunk].sum()), list(map(np.asarray, state.weights))))
        if directory is not None and at <= length // 2 < at + chunk:
            save(directory, state, {})
            state = load(directory)[0]
    joined = jax.tree.map(lambda *a: np.concatenate(a)[mask], *parts)
    return {"loc": joined.loc, "var": joined.var, "log_weights": joined.log_weights}, state, weights


def close(got, want, rtol=1e-9):
    """Relative to each number, or to the largest where it nearly cancels."""
    finite = np.isfinite(want)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * np.abs(want[finite]).max())


@pytest.mark.parametrize("rule", ["bma-shutdown", "Q"])  # some experts at rest; and all awake, with every rule
@pytest.mark.parametrize(
    ("kind", "chunk", "engine"),
    [
        *(("regular", chunk, "host") for chunk in (1, 64, 500)),
        ("timed", 7, "host"),
        ("timed", 500, "host"),
        ("regular", 64, "compiled"),
        ("timed", 500, "compiled"),
    ],
)
def test_every_way_of_running_is_the_loop(kind, chunk, engine, rule, tmp_path):
    check(kind, chunk, engine, rule, tmp_path)


@pytest.mark.parametrize("rule", ["bma", "switching", "e-doebe"])
@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_every_rule_weighs_the_rows_of_a_chunk_as_the_loop_does(engine, rule, tmp_path):
    check("regular", 64, engine, rule, tmp_path)


def check(kind, chunk, engine, rule, directory):
    length = SOME if chunk == 1 else ROWS
    runs, rows = oracle(kind, length), stream(kind, length)
    y = rows.y[rows.mask]
    loc = np.stack([run.loc for run in runs], axis=1)
    var = np.stack([run.var for run in runs], axis=1)
    want = weighed(kind, length, rule)

    got, state, weights = learn(kind, rule, chunk, directory, engine, length)
    close(got["log_weights"], want.before)
    # Each rule keeps its own weights: where no expert rests, all are right, and else those of the rule that decides.
    for i, name in enumerate(ORACLES):
        if name == rule or rule != "bma-shutdown":
            of_rule, transition = weighed(kind, length, name), ORACLES[name].get("transition", np.eye(K))
            ahead = logsumexp(of_rule.after[-1][None, :], b=transition, axis=1)
            found = np.stack([each[i] for _, each in weights])
            close(found, np.vstack([of_rule.before, ahead])[[n for n, _ in weights]])
    alive = np.isfinite(want.before)
    assert alive.all() == (rule != "bma-shutdown")
    close(got["loc"][alive], loc[alive])
    close(got["var"][alive], np.broadcast_to(var[:, :, None], loc.shape)[alive])
    score = logsumexp(got["log_weights"] + joint_log_density(y, got["loc"], got["var"][..., 0]), axis=1)
    close(score, want.log_density)
    living = alive[-1] & np.isfinite(want.after[-1])
    for i, (mean, cov) in enumerate(beliefs(kind, state)):
        if living[i]:
            close(mean, runs[i].mean)
            close(cov, runs[i].cov)


def beliefs(kind: str, state: EnsembleState) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and covariance of every expert in the user's order."""
    flat = [
        (np.asarray(mean), np.asarray(cov))
        for filters in state.filters
        for means, covs in zip(filters.mean, filters.cov, strict=True)
        for mean, cov in zip(means, covs, strict=True)
    ]
    return [flat[i] for i in np.argsort(model(kind).order)]


def test_a_resumed_run_is_the_unbroken_one_bit_for_bit(tmp_path):
    got, state, _ = learn("timed", "e-doebe", 7, tmp_path, length=SOME)
    want, unbroken, _ = learn("timed", "e-doebe", 7, length=SOME)
    assert eqx.tree_equal(state, unbroken)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)
