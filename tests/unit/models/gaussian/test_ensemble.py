"""The ensemble around its experts: golden numbers, order, clock, shutdown, compilation."""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from streamgp.bases import Fourier, Linear, Spline, UserFunction
from streamgp.filters.dynamics import Dynamics, mean_reverting, parse, random_walk, static
from streamgp.models.contract import OnlineModel
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.numerics.module import static_field
from streamgp.weights import BMA, markov, share

pytestmark = pytest.mark.slow

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "ensemble.npz")
KEY = 0

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


def expert(basis, dynamics="static", prior_var=1.0, noise_var=0.1, name="") -> Expert:
    return Expert(basis, jnp.asarray(prior_var), jnp.asarray(noise_var), parse(dynamics), name)


def started(model: Ensemble):
    return model.init(keys.key(KEY))


def rows(n: int, D: int = 2, E: int = 1, seed: int = 0) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, D))
    y = np.sin(3.0 * X[:, :1] + np.arange(E)) + 0.3 * rng.normal(size=(n, E))
    return jnp.asarray(X), jnp.asarray(y)


@pytest.mark.parametrize("name", ["bma", "sym", "asym"])
def test_golden_ensemble(name):
    # Golden features are (cos, sin), ours (sin, cos): the belief is permuted, the predictions are the same.
    params = GOLDEN["params"]
    bases = [
        Fourier(jnp.asarray(GOLDEN[f"freqs_{i}"]), jnp.asarray(GOLDEN["lengthscales"][i : i + 1])) for i in (0, 1)
    ]
    experts = [
        Expert(basis, jnp.asarray(v), jnp.asarray(s2), random_walk(float(q / v)))
        for basis, (v, q, s2) in zip([*bases, Linear(1)], params, strict=True)
    ]
    rule = BMA() if name == "bma" else markov(GOLDEN[f"Q_{name}"])
    prior = np.log(GOLDEN["w0"]) if name == "asym" else None
    model = ensemble(experts, rule, log_prior=prior)
    y = GOLDEN["y"][:, None]
    _, info = model.update(started(model), jnp.asarray(GOLDEN["x"]), jnp.asarray(y))
    got, tight = info.predictive, {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(got.loc[:, :, 0], GOLDEN["expert_mean"], **tight)
    np.testing.assert_allclose(got.var[:, :, 0], GOLDEN["expert_var"], **tight)
    np.testing.assert_allclose(got.log_weights, GOLDEN[f"{name}_log_w_pred"], **tight)
    np.testing.assert_allclose(got.mean[:, 0], GOLDEN[f"{name}_mean"], **tight)
    np.testing.assert_allclose(got.variance[:, 0], GOLDEN[f"{name}_var"], **tight)
    np.testing.assert_allclose(got.log_density(y), GOLDEN[f"{name}_logdens_mixture"], **tight)
    np.testing.assert_allclose(got.moment_log_density(y), GOLDEN[f"{name}_logpdf_moment_matched"], **tight)


def test_experts_keep_the_order_in_which_they_were_given():
    X, y = rows(30)
    linear, wave = Linear(2), Fourier(jnp.ones((4, 2)), jnp.ones(2))
    other = Fourier(2.0 * jnp.ones((4, 2)), jnp.ones(2))
    experts = [
        expert(wave, "walk 0.1", name="a"),
        expert(linear, noise_var=0.2, name="b"),
        expert(other, "static", name="c"),
        expert(wave, "static", prior_var=2.0, name="d"),
        expert(other, "walk 0.1", name="e"),
        expert(linear, noise_var=0.3, name="f"),
    ]
    together = ensemble(experts, BMA())
    assert together.names == tuple("abcdef")
    assert (together.num_experts, together.num_inputs, together.num_outputs) == (6, 2, 1)
    assert len(together.groups) == 2
    assert isinstance(together, OnlineModel)
    state, info = together.update(started(together), X, y)
    ahead = together.predict(state, X[:5])
    for i, one in enumerate(experts):
        alone = ensemble([replace(one, name="")], BMA())  # equal shapes, one compilation
        own, single = alone.update(started(alone), X, y)
        np.testing.assert_allclose(info.predictive.loc[:, i], single.predictive.loc[:, 0], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(info.predictive.var[:, i], single.predictive.var[:, 0], rtol=1e-12)
        np.testing.assert_allclose(ahead.loc[:, i], alone.predict(own, X[:5]).loc[:, 0], rtol=1e-12, atol=1e-13)


def test_predict_is_the_next_update():
    X, y = rows(40, E=2)
    times = jnp.asarray(np.cumsum(np.random.default_rng(0).exponential(1.0, 40)))
    experts = [expert(Linear(2), name) for name in ("static", "walk 0.1", "revert 0.9")]
    model = ensemble(experts, share([0, 0, 0], 0.05), num_outputs=2, time_unit=0.7)
    for stamps in (None, times):
        first, later = (None, None) if stamps is None else (stamps[:20], stamps[20:])
        state = started(model)
        for at in (0, 20):
            now = first if at == 0 else later
            predicted = model.predict(state, X[at : at + 20], now)
            state, info = model.update(state, X[at : at + 20], y[at : at + 20], None, now)
            for a, b in zip(jax.tree.leaves(predicted), jax.tree.leaves(info.predictive), strict=True):
                np.testing.assert_allclose(a[0], b[0], rtol=1e-12, atol=1e-13)


def test_a_late_row_counts_as_simultaneous_with_the_newest():
    X, y = rows(6)
    model = ensemble([expert(Linear(2), "walk 0.1"), expert(Linear(2), "revert 0.9")], BMA())
    late, sorted_ = jnp.asarray([0.0, 2.0, 1.0, 3.0, -5.0, 4.0]), jnp.asarray([0.0, 2.0, 2.0, 3.0, 3.0, 4.0])
    want, _ = model.update(started(model), X, y, None, sorted_)
    whole, _ = model.update(started(model), X, y, None, late)
    state = started(model)
    for i in range(6):
        row = slice(i, i + 1)
        ahead = model.predict(state, X[row], late[row])
        state, info = model.update(state, X[row], y[row], None, late[row])
        np.testing.assert_allclose(ahead.var, info.predictive.var, rtol=1e-12)
    for got in (whole, state):
        assert float(got.last_time) == 4.0
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_rows_outside_are_counted_unless_left_out():
    knots = jnp.asarray(np.pad(np.linspace(-1.0, 1.0, 4), (3, 3), mode="edge")[None])
    model = ensemble([expert(Spline(knots)), expert(Linear(1))], BMA())
    X = jnp.asarray([[0.0], [1.5], [-2.0], [1.0]])
    mask = jnp.asarray([True, True, False, True])
    _, info = model.update(started(model), X, jnp.zeros((4, 1)), mask)
    np.testing.assert_array_equal(info.outside, [False, True, False, False])
    assert np.isnan(info.predictive.loc[2]).all()


def test_a_block_of_nothing_but_gaps_changes_nothing():
    X, y = rows(10)
    model = ensemble([expert(Linear(2), "walk 0.1")], BMA())
    times = jnp.arange(10.0)
    state, _ = model.update(started(model), X, y, None, times)
    nothing = jnp.full_like(X, jnp.nan), jnp.full_like(y, jnp.nan), jnp.zeros(10, bool), times + 100.0
    after, _ = model.update(state, *nothing)
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_the_ensemble_works_in_single_precision():
    with jax.enable_x64(False):
        X, y = (jnp.asarray(a, jnp.float32) for a in rows(100))
        model = ensemble([expert(Linear(2), "walk 0.01"), expert(Linear(2), "revert 0.9")], share([0, 0], 0.1))
        state, info = model.update(started(model), X, y)
        leaves = jax.tree.leaves((state, info.predictive, model.predict(state, X)))
        assert all(leaf.dtype == jnp.float32 for leaf in leaves)
        assert np.isfinite(info.predictive.log_density(y)).all()


def test_no_experts_are_refused():
    with pytest.raises(ValueError, match="expected at least one expert, got none"):
        ensemble([], BMA())


# The case of Waxman and Djuric (2024), 5.2: static data until the weights underflow, then drift.
STILL, MOVING = 2000, 1000


@pytest.fixture(scope="module")
def collapse() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By rule: weights of (static, dynamic) before every row, and the log density of every row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(STILL + MOVING, 5))
    theta = rng.normal(size=6)
    y = np.zeros(STILL + MOVING)
    for i, x in enumerate(X):
        theta = theta + (np.sqrt(1e-2) * rng.normal(size=6) if i >= STILL else 0.0)
        y[i] = theta @ np.r_[1.0, x] + 0.5 * rng.normal()
    results = {}
    with jax.enable_x64(True):
        basis = Linear(5)
        experts = [expert(basis, name, noise_var=0.25) for name in ("static", "walk 0.01")]
        for name, rule in {"bma": BMA(), "bma-shutdown": BMA(1e-16), "e-doebe": share([0, 0], 0.05)}.items():
            model = ensemble(experts, rule)
            _, info = model.update(started(model), jnp.asarray(X), jnp.asarray(y[:, None]))
            results[name] = (
                np.asarray(info.predictive.log_weights),
                np.asarray(info.predictive.log_density(jnp.asarray(y[:, None]))),
            )
    return results


def test_bma_with_its_threshold_never_recovers(collapse):
    log_weights, score = collapse["bma-shutdown"]
    dropped = int(np.argmax(np.isneginf(log_weights[:, 1])))
    assert 0 < dropped < STILL
    assert np.isneginf(log_weights[dropped:, 1]).all()
    assert (log_weights[dropped:, 0] == 0.0).all()
    for rival in ("bma", "e-doebe"):
        # By whole nats a row: the static expert is lost once the weights move.
        assert collapse[rival][1][-500:].mean() > score[-500:].mean() + 1.0


def test_bma_in_logs_recovers(collapse):
    log_weights, _ = collapse["bma"]
    assert log_weights[STILL, 1] < np.log(1e-16)
    assert log_weights[-1, 1] > np.log(0.99)


def test_e_doebe_recovers_at_once(collapse):
    log_weights, score = collapse["e-doebe"]
    assert log_weights[:, 1].min() > np.log(0.9 * 0.05)
    recovered = {rule: int(np.argmax(weights[STILL:, 1] > np.log(0.5))) for rule, (weights, _) in collapse.items()}
    assert 0 < recovered["e-doebe"] < recovered["bma"]
    # And it costs little while nothing moves: at most -log(1 - delta) a row against the static expert alone.
    still = slice(STILL - 500, STILL)
    assert score[still].mean() > collapse["bma-shutdown"][1][still].mean() + np.log(0.95)
    assert score.sum() > collapse["bma"][1].sum() - 0.06 * STILL


def counting(name: str, calls: dict[str, int]):
    """A basis function that tells, at run time, how often its features were computed."""

    def count():
        calls[name] = calls.get(name, 0) + 1

    def phi(X):
        jax.debug.callback(count)
        return jnp.concatenate([jnp.ones_like(X), X], axis=1)

    return UserFunction(phi, 2)


def test_an_expert_that_is_shut_down_does_no_more_work():
    calls: dict[str, int] = {}
    experts = [
        expert(counting("good", calls), "static"),
        expert(counting("bad", calls), "static", noise_var=1e-4),
    ]
    model = ensemble(experts, BMA(1e-16))
    X, y = rows(64)
    state, _ = model.update(started(model), X, y)
    jax.effects_barrier()
    np.testing.assert_array_equal(np.isneginf(state.weights), [False, True])
    before = dict(calls)
    after, info = model.update(state, X, y)
    jax.effects_barrier()
    assert calls["bad"] == before["bad"]
    assert calls["good"] > before["good"]
    bad = int(np.argmax(np.asarray(model.order) == 1))
    assert eqx.tree_equal(after.filters[bad], state.filters[bad])
    assert not eqx.tree_equal(after.filters[1 - bad], state.filters[1 - bad])
    # What it would predict is of no account.
    alone = ensemble(experts[:1], BMA())
    single = started(alone)
    for _ in range(2):
        single, own = alone.update(single, X, y)
    np.testing.assert_allclose(info.predictive.log_density(y), own.predictive.log_density(y), rtol=1e-12)
    np.testing.assert_allclose(info.predictive.mean, own.predictive.mean, rtol=1e-12, atol=1e-13)


def test_dynamics_of_one_basis_are_shut_down_one_by_one():
    basis = Linear(2)
    model = ensemble([expert(basis), expert(basis, noise_var=1e-4), expert(basis, "walk 0.001")], BMA(1e-16))
    X, y = rows(64)
    state, _ = model.update(started(model), X, y)
    np.testing.assert_array_equal(np.isneginf(state.weights), [False, True, False])
    after, _ = model.update(state, X, y)
    same = (np.asarray(after.filters[0].mean) == np.asarray(state.filters[0].mean)).all((2, 3))
    np.testing.assert_array_equal(same, [[False, True, False]])


def traced(num_bases: int, engine: str) -> tuple[int, int, int, int]:
    """How often a basis is traced, and programs are compiled, by a first chunk; and by later ones of its shape."""
    calls = []

    def phi(X):
        if isinstance(X, jax.core.Tracer):
            calls.append(X.shape)
        return jnp.concatenate([jnp.ones_like(X), X], axis=1)

    bases = [Scaled(2, jnp.asarray(1.0 + i), phi) for i in range(num_bases)]
    dynamics = ("static", "walk 0.01")
    model = ensemble([expert(b, name) for b in bases for name in dynamics], BMA())
    update, predict = {
        "host": (model.update, model.predict),
        "compiled": (
            lambda state, X, y: model._update_compiled(state, X, y, jnp.ones(len(X), bool), None),
            lambda state, X: model._predict_compiled(state, X, None, None),
        ),
    }[engine]
    state = started(model)
    X, y = rows(130)
    calls.clear()
    COMPILED.clear()
    state, _ = update(state, X, y)
    predict(state, X)
    first, programs = len(calls), len(COMPILED)
    for _ in range(3):
        state, _ = update(state, X, y)
        predict(state, X)
    return first, len(calls) - first, programs, len(COMPILED) - programs


class Scaled(Linear):
    """A function of the inputs in units of its own."""

    scale: jax.Array
    function: object = static_field()

    @property
    def num_features(self) -> int:
        return 4

    def __call__(self, X):
        return self.function(X / self.scale)


def test_a_second_chunk_compiles_nothing_and_experts_share_one_compilation():
    first, later, programs, more = traced(2, "compiled")
    assert first > 0 and programs > 0
    assert (later, more) == (0, 0)
    assert traced(6, "compiled")[:2] == (first, 0)


def test_on_the_host_no_basis_is_traced_and_a_second_chunk_compiles_nothing():
    traced(2, "host")
    first, later, programs, more = traced(6, "host")
    assert (first, later, more) == (0, 0, 0)
    assert programs <= 3  # the weights of six bases, the mixture; for each number of bases once


def test_uneven_shares_of_experts_are_what_the_compiled_program_computes():
    """Three bases on two cores are shared out by their dynamics."""
    X, y = rows(150)
    bases = [Fourier.from_data(np.asarray(X), num_features=8, start=1.0, key=keys.key(i)) for i in range(3)]
    model = ensemble([expert(basis, name) for basis in bases for name in ("static", "revert 0.9")], BMA())
    state, info = model.update(started(model), X, y)
    want, compiled = model._update_compiled(started(model), X, y, jnp.ones(150, bool), None)
    np.testing.assert_allclose(info.predictive.loc, compiled.predictive.loc, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.filters[0].cov, want.filters[0].cov, rtol=1e-9, atol=1e-12)


def test_the_prior_weights_can_be_given():
    model = ensemble([expert(Linear(2)), expert(Linear(2))], BMA(), log_prior=np.log([0.9, 0.1]))
    predictive = model.predict(started(model), jnp.zeros((1, 2)))
    np.testing.assert_allclose(predictive.weights, [[0.9, 0.1]], rtol=1e-14)
    np.testing.assert_allclose(predictive.log_density(jnp.zeros((1, 1))), norm.logpdf(0.0, 0.0, np.sqrt(1.1)))


def test_unexcited_directions_grow_without_bound_only_as_a_random_walk():
    X = jnp.zeros((100, 1))
    dynamics = {"static": static(), "walk": random_walk(0.1), "revert": mean_reverting(0.9)}
    experts = [Expert(Linear(1), jnp.asarray(2.0), jnp.asarray(0.1), d) for d in dynamics.values()]
    model = ensemble(experts, BMA())
    state, _ = model.update(started(model), X, jnp.zeros((100, 1)))
    slope = np.asarray(state.filters[0].cov)[np.argsort(model.order), 0, 1, 1]
    np.testing.assert_allclose(slope, [2.0, 2.0 * (1.0 + 100 * 0.1), 2.0], rtol=1e-12)


def test_weights_that_only_fade_are_no_static_ones():
    """A decay without diffusion: both engines shrink the mean at every row."""
    X = jnp.asarray(np.random.default_rng(3).normal(size=(70, 2)))
    fading = Dynamics(jnp.asarray(0.9), jnp.asarray(0.0))
    model = ensemble([Expert(Linear(2), jnp.asarray(1.0), jnp.asarray(0.1), fading)], BMA())
    state, info = model.update(model.init(keys.key(0)), X, X[:, :1])
    want, compiled = model._update_compiled(model.init(keys.key(0)), X, X[:, :1], jnp.ones(70, bool), None)
    np.testing.assert_allclose(info.predictive.loc, compiled.predictive.loc, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.filters[0].mean, want.filters[0].mean, rtol=1e-9, atol=1e-12)
    assert np.abs(np.asarray(state.filters[0].mean)).max() < 0.95  # a static expert would have found 1


@pytest.mark.parametrize("options", [{"rests": True}, {}])
def test_it_may_stand_in_a_users_program(options):
    X, y = rows(20)
    model = ensemble([expert(Linear(2)), expert(Linear(2), "walk 0.01")], BMA(), **options)
    state = started(model)

    def total(c: jax.Array) -> jax.Array:
        after, info = model.update(state, X, y)
        return c + info.predictive.loc.sum() + model.predict(after, X).loc.sum()

    np.testing.assert_allclose(jax.jit(total)(0.0), total(0.0), rtol=1e-9)
