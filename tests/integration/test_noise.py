"""Noise that adapts: the evidence of a dense multivariate t, a textbook loop, and coverage after a jump."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases import Linear
from streamgp.filters.dynamics import parse
from streamgp.filters.noise import PRIOR_ROWS, NoiseState
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.gaussian.single_row import SingleRow
from streamgp.models.presets import PRESETS
from streamgp.numerics import keys
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import BMA, share

pytestmark = pytest.mark.slow

V, S2 = 1.5, 0.2
KINDS = ("constant", "adaptive 1.0", "adaptive 0.95", "adaptive 0.9 ar 0.6")
DYNAMICS = ("static", "walk 0.01", "revert 0.9")


def rows(n: int, E: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ rng.normal(size=(2, E)) + 0.8 * rng.normal(size=(n, E))


def model(dynamics=DYNAMICS, kinds=KINDS, E: int = 1, rule=None) -> Ensemble:
    basis = Linear(2)
    experts = [Expert(basis, jnp.asarray(V), jnp.asarray(S2), parse(d)) for d in dynamics]
    rule = share([0] * (len(dynamics) * len(kinds)), 0.01) if rule is None else rule
    return ensemble(experts, rule, num_outputs=E, kinds=parse_noise(kinds))


def test_without_forgetting_the_evidence_is_a_multivariate_t():
    X, y = rows(40)
    one = model(("static",), ("adaptive 1",), rule=BMA())
    _, info = one.update(one.init(keys.key(0)), X, y)
    Phi = np.column_stack([np.ones(40), X])
    # theta | s2 ~ N(0, s2 V / S2 I), s2 ~ IG(a, b): y ~ t with 2a degrees of freedom and shape (b / a) R.
    R = S2 * (Phi @ Phi.T * (V / S2) + np.eye(40))
    want = stats.multivariate_t(np.zeros(40), R, df=PRIOR_ROWS).logpdf(y[:, 0])
    np.testing.assert_allclose(np.sum(info.predictive.log_density(jnp.asarray(y))), want, rtol=1e-9)


def loop(X: np.ndarray, y: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and log density of every expert, row by row; filters outside, kinds of noise inside."""
    found = []
    for name in DYNAMICS:
        dynamics = parse(name)
        lam, q = float(dynamics.decay), float(dynamics.diffusion)
        for kind in KINDS:
            d = None if kind == "constant" else float(kind.split()[1])
            rho = float(kind.split()[3]) if "ar" in kind.split() else 0.0
            memory = PRIOR_ROWS if d in (None, 1.0) else 1.0 / (1.0 - d)
            a = b = 0.5 * memory
            b = np.full(y.shape[1], b)
            mean, cov = np.zeros((3, y.shape[1])), V * np.eye(3)
            last = np.zeros(y.shape[1])
            out = []
            for x, target, keep in zip(X, y, mask, strict=True):
                if not keep:
                    continue
                mean, cov = lam * mean, lam**2 * cov + q * V * np.eye(3)
                phi = np.array([1.0, *x])
                loc, r = phi @ mean, phi @ cov @ phi + S2
                expected = loc + rho * last
                if d is None:
                    var, density = np.full(len(target), r), stats.norm.logpdf(target, loc, np.sqrt(r))
                else:
                    var = r * b / (a - 1.0)
                    density = stats.t.logpdf(target, 2 * a, expected, np.sqrt(r * b / a))
                    b, a = d * b + 0.5 * (target - expected) ** 2 / r, d * a + 0.5
                gain, last = cov @ phi / r, target - loc
                mean, cov = mean + np.outer(gain, target - loc), cov - np.outer(gain, gain) * r
                out.append((expected, var, density.sum()))
            found.append(out)
    loc, var, density = (np.asarray([[row[i] for row in out] for out in found]) for i in range(3))
    return np.moveaxis(loc, 0, 1), np.moveaxis(var, 0, 1), density.T


@pytest.mark.parametrize(
    ("chunk", "engine"),
    [(1, "host"), (7, "host"), (64, "host"), (1000, "host"), (64, "compiled"), (1, "rows"), (7, "rows")],
)
def test_every_way_of_running_is_the_loop(chunk, engine):
    n, E = 130, 2
    X, y = rows(n, E)
    mask = np.random.default_rng(1).random(n) > 0.1
    loc, var, density = loop(X, y, mask)
    ens = model(E=E)
    state = ens.init(keys.key(0))
    assert [filters.cov.shape for filters in state.filters] == [(1, 3, 3, 3)]  # no covariance for a kind of noise
    if engine == "rows":
        single, means, stds = SingleRow(ens, Standardiser.empty(2), Standardiser.empty(E)), [], []
        single.load(ens, state)
        for i in np.flatnonzero(mask):
            mean, std = single.moments(X[[i]])
            means.append(mean[0])
            stds.append(std[0])
            single.update(X[[i]], y[[i]])
            if i % chunk == 0:  # how often the single rows settle
                single.load(ens, single.flush())
        log_weights = run_weights(ens, density)
        weights = np.exp(log_weights)[:, :, None]
        mean = (weights * loc).sum(1)
        np.testing.assert_allclose(means, mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(stds, np.sqrt((weights * (var + (loc - mean[:, None]) ** 2)).sum(1)), rtol=1e-9)
        return
    parts = []
    for at in range(0, n, chunk):
        now = slice(at, at + chunk)
        arguments = [jnp.asarray(a[now]) for a in (X, y, mask)]
        if engine == "host":
            state, info = ens.update(state, *arguments)
        else:
            state, info = ens._update_compiled(state, *arguments, None)
        parts.append(info.predictive)
    got = jax.tree.map(lambda *a: np.concatenate(a)[mask], *parts)
    np.testing.assert_allclose(got.loc, loc, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got.var, var, rtol=1e-9)
    np.testing.assert_allclose(got.component_log_density(jnp.asarray(y[mask])), density, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(got.log_weights, run_weights(ens, density), rtol=1e-9, atol=1e-9)


def run_weights(ens: Ensemble, density: np.ndarray) -> np.ndarray:
    """The weights before every row, by the rule in NumPy."""
    Q, log_w, out = np.asarray(ens.rule.matrix), np.asarray(ens.log_prior), []
    for row in density:
        log_w = logsumexp(np.log(Q) + log_w[None], axis=1)
        out.append(log_w)
        log_w = log_w + row - logsumexp(log_w + row)
    return np.asarray(out)


def test_a_filter_works_on_while_one_of_its_experts_has_weight():
    X, y = rows(300)
    ens = model(("static",), ("constant", "adaptive 1"), rule=BMA(1e-16))
    state, _ = ens.update(ens.init(keys.key(0)), X, 5.0 * y)  # the constant noise is far too small
    assert np.isneginf(np.asarray(state.weights)).tolist() == [True, False]
    after, _ = ens.update(state, X, y)
    assert not np.array_equal(np.asarray(after.filters[0].mean), np.asarray(state.filters[0].mean))


def regressor(noise) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", noise=noise, weights="auto", warmup=500, random_state=0)


ADAPTIVE = PRESETS["default"].noise


def test_bands_hold_again_soon_after_the_noise_has_jumped():
    n, jump, runs = 1_300, 700, 6
    covered = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2))
        y = X @ [1.0, -0.5] + np.where(np.arange(n) < jump, 0.3, 1.2) * rng.normal(size=n)
        pit = evaluate(regressor(ADAPTIVE), X, y, progress=False).pit[jump + 300 :]
        covered.append(np.abs(pit - 0.5) < 0.475)
    rate = np.mean(covered)
    assert abs(rate - 0.95) < 0.02, rate


def test_constant_noise_costs_next_to_nothing():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6_000, 2))
    y = X @ [1.0, -0.5] + 0.3 * rng.normal(size=6_000)
    losses = [-evaluate(regressor(noise), X, y, progress=False).metrics["pll"] for noise in (ADAPTIVE, "constant")]
    assert losses[0] - losses[1] < 0.005


def test_errors_of_zero_for_ever_leave_a_variance():
    kinds = parse_noise(["adaptive 0.8", "adaptive 0.9 ar 0.5"])
    state, nothing, one = kinds.init(1, 1), np.zeros((1, 1)), np.ones((1, 1))
    for _ in range(5_000):
        state = kinds.update(state, nothing, one, np.ones(()))
    _, var, dof = kinds.predict(NoiseState(*(a[None] for a in state)), nothing[None], one[None], np.ones(1))
    assert (np.asarray(var) > 1e-13).all()
    assert (np.asarray(var) < 1e-11).all()
    np.testing.assert_allclose(dof, [[5.0, 10.0]])


def test_the_share_of_an_error_that_is_left_fades_with_time():
    kinds = parse_noise(["adaptive 0.9 ar 0.5", "adaptive 0.9"])
    state = kinds.update(kinds.init(1, 1), np.full((1, 1), 2.0), np.ones((1, 1)), np.ones(()))
    gaps = np.array([0.0, 1.0, 3.0])
    states = NoiseState(*(np.stack([a] * 3) for a in state))
    loc, _, _ = kinds.predict(states, np.full((3, 1, 1), 10.0), np.ones((3, 1, 1)), gaps)
    np.testing.assert_allclose(loc[:, 0, 0], 10.0 + 2.0 * 0.5**gaps)
    np.testing.assert_allclose(loc[:, 1, 0], 10.0)


def test_correlated_errors_are_expected_to_last():
    """On a line with AR(1) errors the one-step error is that of the fresh noise, as for the optimal predictor."""
    rng = np.random.default_rng(4)
    n, rho = 6_000, 0.9
    fresh = 0.1 * rng.normal(size=n)
    errors = np.zeros(n)
    for t in range(1, n):
        errors[t] = rho * errors[t - 1] + fresh[t]
    X = rng.normal(size=(n, 1))
    y = 2.0 * X[:, 0] + errors
    plain, correlated = (
        evaluate(regressor(noise), X, y, progress=False).metrics["rmse"]
        for noise in (["adaptive 0.99"], ["adaptive 0.99", "adaptive 0.99 ar 0.9"])
    )
    assert abs(plain - 0.1 / np.sqrt(1 - rho**2)) < 0.02  # the standard deviation of the errors
    assert abs(correlated - 0.1) < 0.005


def test_a_saved_model_goes_on_with_its_noise(tmp_path):
    X, y = rows(900)
    whole = regressor(ADAPTIVE).partial_fit(X, y[:, 0])
    half = regressor(ADAPTIVE).partial_fit(X[:700], y[:700, 0])
    half.save(tmp_path / "model")
    resumed = StreamingGPRegressor.load(tmp_path / "model").partial_fit(X[700:], y[700:, 0])
    np.testing.assert_allclose(resumed.weights_, whole.weights_, rtol=1e-9)
    for got, want in zip(resumed.predict(X[:5], return_std=True), whole.predict(X[:5], return_std=True), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)
    assert [e["noise"] for e in whole.experts_] == list(parse_noise(ADAPTIVE).names)


REFUSED = (
    "adaptive",
    "adaptive 0.9 ar",
    "adaptive 0.9 ar 1.0",
    "adaptive x",
    "adaptive 0.5",
    "adaptive 1.1",
    "steady",
)


@pytest.mark.parametrize("name", [*REFUSED, "adaptive nan"])
def test_what_is_refused(name):
    with pytest.raises(ValueError, match=r"noise: expected .*got 'adaptive|noise: expected .*got 'steady'"):
        parse_noise([name])


def test_names_are_read_back():
    kinds = parse_noise(["constant", 1, "adaptive 0.99", 0.9, "adaptive 0.990"])
    assert kinds.names == ("constant", "adaptive 1.0", "adaptive 0.99", "adaptive 0.9")
    assert parse_noise(kinds.names) == kinds
