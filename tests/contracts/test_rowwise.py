"""One row at a time with waiting rank-one updates: the numbers of the textbook loops, at a fraction of the time."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from test_equivalence import ORACLES, SOME, beliefs, close, model, oracle, stream, weighed

from streamgp import StreamingGPRegressor
from streamgp.bases import BASES, UserFunction
from streamgp.filters.dynamics import parse
from streamgp.filters.engine.rowfilter import PENDING
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.models.gaussian.single_row import SingleRow
from streamgp.numerics import keys
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import BMA

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "rule", "settled"),
    [
        ("regular", "e-doebe", 1),
        ("regular", "e-doebe", 10_000),
        ("timed", "Q", 7),
        ("timed", "Q", 10_000),
    ],
)
def test_a_row_at_a_time_is_the_loop(kind, rule, settled):
    rows, runs = stream(kind, SOME), oracle(kind, SOME)
    E, D = rows.y.shape[1], rows.X.shape[1]
    ens = eqx.tree_at(lambda m: m.rule.which, model(kind), jnp.asarray(list(ORACLES).index(rule)))
    single = SingleRow(ens, Standardiser.empty(D), Standardiser.empty(E))
    single.load(ens, ens.init(keys.key(0)))
    loc = np.stack([run.loc for run in runs], axis=1)
    var = np.broadcast_to(np.stack([run.var for run in runs], axis=1)[:, :, None], loc.shape)
    weights = np.exp(weighed(kind, SOME, rule).before)
    mean = np.einsum("nk,nke->ne", weights, loc)
    std = np.sqrt(np.einsum("nk,nke->ne", weights, var + (loc - mean[:, None]) ** 2))
    got = []
    for i, row in enumerate(np.flatnonzero(rows.mask)):
        x, y = rows.X[[row]], rows.y[[row]]
        stamp = None if rows.times is None else rows.times[[row]]
        got.append([a[0] for a in single.moments(x, stamp)])
        if i % 3:  # a prediction for another row in between must not be taken for this one's
            single.moments(x + 1.0, stamp)
        single.update(x, y, stamp)
        if i % settled == 0:
            single.load(ens, single.flush())
    close(np.stack([m for m, _ in got]), mean)
    close(np.stack([s for _, s in got]), std)
    state = single.flush()
    np.testing.assert_allclose(logsumexp(np.asarray(single.log_weights)), 0.0, atol=1e-9)
    for (mean, cov), run in zip(beliefs(kind, state), runs, strict=True):
        close(mean, run.mean)
        close(cov, run.cov)
        np.testing.assert_array_equal(cov, cov.T)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(260, 3))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=260)


def new() -> StreamingGPRegressor:
    return StreamingGPRegressor("e-doebe", bases=["fourier", "linear"], features_per_basis=6, warmup=60)


def test_one_row_calls_mix_with_all_the_others(rows, tmp_path):
    """Blocks, single rows, a checkpoint in between, weights looked at: the numbers of a single call."""
    X, y = rows
    model, plain = new(), new()
    want = plain.partial_fit(X, y).predict(X[:9], return_std=True)
    for i in range(70):
        model.learn_one(X[i], y[i])  # from the very first row on, through the warm-up
    model.partial_fit(X[70:100], y[70:100])
    for i in range(100, 100 + PENDING + 5):
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])
        assert model.weights_.sum() == pytest.approx(1.0)
    model.save(tmp_path / "kept")
    for going_on in (model, StreamingGPRegressor.load(tmp_path / "kept")):
        for i in range(going_on.rows_, len(X)):
            going_on.learn_one(X[i], y[i])
        got = going_on.predict(X[:9], return_std=True)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-9)
        one = [going_on.predict_one(x) for x in X[:9]]
        np.testing.assert_allclose([m for m, _ in one], want[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose([s for _, s in one], want[1], rtol=1e-9)
        np.testing.assert_allclose(going_on.weights_, plain.weights_, atol=1e-9)
        assert going_on.rows_ == plain.rows_
        assert going_on.outside_rows_ == plain.outside_rows_


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0, 1.0], 1.0, "x: expected one row, shape \\(3,\\), got shape \\(2,\\)"),
        ([0.0, np.nan, 1.0], 1.0, "x: expected finite numbers, got nan at column 1"),
        ([0.0, 1.0, 1.0], np.inf, "y: expected finite numbers, got inf"),
        ([0.0, 1.0, 1.0], [1.0], "y: expected shape \\(\\), the target of one row, got shape \\(1,\\)"),
    ],
)
def test_bad_rows_change_nothing(rows, x, y, message):
    X, targets = rows
    model = new().set_params(missing="raise").partial_fit(X[:80], targets[:80])
    before = model.predict_one(X[0])
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, y)
    assert model.predict_one(X[0]) == before
    assert model.rows_ == 80
    if not np.isfinite([*x, *np.ravel(y)]).all():
        model.set_params(missing="skip").learn_one(x, y)
        assert model.skipped_rows_ == 1
        assert model.predict_one(X[0]) == before


def test_times_belong_to_the_stream_or_not(rows):
    X, y = rows
    timed = new().partial_fit(X[:80], y[:80], times=np.arange(80.0))
    with pytest.raises(ValueError, match="give them always or never"):
        timed.learn_one(X[80], y[80])
    timed.learn_one(X[80], y[80], 85.0)
    with pytest.raises(ValueError, match=r"time: expected none before 85\.0"):
        timed.learn_one(X[81], y[81], 84.0)
    with pytest.raises(ValueError, match="give them always or never"):
        new().partial_fit(X[:80], y[:80]).learn_one(X[80], y[80], 85.0)


def test_nothing_is_compiled_or_grows_row_by_row(rows):
    X, y = rows
    model = new().partial_fit(X[:80], y[:80])
    model.predict_one(X[80])
    model.learn_one(X[80], y[80])
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "compile" in event else None
    )
    start = time.perf_counter()
    for i in range(81, 181):
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])
    assert not compiled
    assert time.perf_counter() - start < 1.0  # 10 ms a row: a hundred times more than it needs


def test_groups_of_equal_shape_keep_their_places_in_the_stack():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(70, 2)), rng.normal(size=(70, 1))
    build = {"num_features": 4, "start": 1.0}
    bases = [BASES[name].from_data(X, key=keys.key(i), **build) for i, name in enumerate(["fourier", "hilbert"] * 2)]
    bases += [UserFunction(lambda x: jnp.concatenate([x, x**2], axis=1), 2)]
    experts = [
        Expert(basis, jnp.asarray(1.0 + i), jnp.asarray(0.1), parse(name))
        for name in ("static", "walk 0.01")
        for i, basis in enumerate(bases)
    ]
    ens = ensemble(experts, BMA())
    assert len(ens.groups) == 3
    single = SingleRow(ens, Standardiser.empty(2), Standardiser.empty(1))
    single.load(ens, ens.init(keys.key(0)))
    got = []
    for row, target in zip(X, y, strict=True):
        got.append(single.moments(row[None]).mean[0])
        single.update(row[None], target[None])
    want, info = ens.update(ens.init(keys.key(0)), X, y)
    np.testing.assert_allclose(got, info.predictive.mean, rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(single.flush().filters, want.filters, strict=True):
        close(ours.mean, theirs.mean)
        close(ours.cov, theirs.cov)
