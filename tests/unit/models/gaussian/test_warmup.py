"""From warm-up rows to experts: which starts stay, and what odd data do."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from streamgp.bases import Basis, Concatenation, Linear
from streamgp.models.fitting.gaussian_evidence import Fit, fit_basis
from streamgp.models.gaussian import warmup
from streamgp.models.gaussian.model import Ensemble
from streamgp.models.gaussian.warmup import fit_ensemble
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow


def rows(n: int = 60, inputs: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, inputs))
    y = np.sin(X[:, :1]) + 0.5 * X[:, -1:] + 0.1 * rng.normal(size=(n, 1))
    return X, (y - y.mean()) / y.std()


def fit(spec: Spec, X: np.ndarray, y: np.ndarray, **options: object) -> tuple[Ensemble, list[warmup.FittedExpert]]:
    return fit_ensemble(spec, X, y, **({"seed": 0, "time_unit": 1.0} | options))  # type: ignore[arg-type]


def names_kept(monkeypatch: pytest.MonkeyPatch, spec: Spec, gains: dict[float, float]) -> list[str]:
    """The names of the experts, where a start's fits always end with these gains."""

    def fake(basis: Basis, X: object, y: object, start: float, *_: object) -> Fit:
        return Fit(basis, 1.0, 0.1, 0.0, gains[start], start, 1)

    monkeypatch.setattr(warmup, "fit_basis", fake)
    return [expert.name for expert in fit(spec, *rows())[1]]


FOURIER = make_spec("oebe", bases=["fourier"], features_per_basis=4)


def test_flat_starts_are_dropped(monkeypatch: pytest.MonkeyPatch):
    kept = names_kept(monkeypatch, FOURIER, {0.1: 1e-6, 1.0: 1.0, 10.0: 0.8})
    assert sorted(kept) == ["fourier 1", "fourier 10"]


def test_only_the_best_starts_are_kept_on_request(monkeypatch: pytest.MonkeyPatch):
    one = Spec("one", bases=("fourier",), features_per_basis=4, most_features=7)
    assert names_kept(monkeypatch, one, {0.1: 0.5, 1.0: 0.7, 10.0: 0.9}) == ["fourier 10"]


def test_the_plane_of_lags_is_the_regression_on_them():
    X, y = rows()
    spec = Spec("lags", bases=("fourier",), features_per_basis=4, lags=(1,), without_lags=True)
    own = dict(warmup._fit_all(spec, X, y, 0, None))["linear of lags alone"]
    np.testing.assert_array_equal(own.basis(X), np.c_[np.ones(len(X)), X[:, -1]])
    alone = fit_basis(Linear(1), jnp.asarray(X[:, -1:]), jnp.asarray(y))
    assert (own.prior_var, own.noise_var, own.gain) == (alone.prior_var, alone.noise_var, alone.gain)


def test_with_lags_a_basis_may_serve_twice_and_shares_its_features(monkeypatch: pytest.MonkeyPatch):
    spec = Spec("twice", bases=("fourier",), features_per_basis=4, most_features=12, lags=(1,), without_lags=True)
    gains = {0.1: 0.5, 1.0: 0.7, 10.0: 0.9}
    assert names_kept(monkeypatch, spec, gains) == ["fourier 10", "fourier 10 without lags", "linear of lags alone"]
    assert len(names_kept(monkeypatch, replace(spec, lags=()), gains)) == 3
    assert len(names_kept(monkeypatch, replace(spec, without_lags=False), gains)) == 3


def test_the_second_of_the_two_looks_at_no_lag_and_the_plane_beside_them_at_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
):
    spec = Spec("twice", bases=("fourier",), features_per_basis=4, most_features=8, lags=(3,), without_lags=True)
    monkeypatch.setattr(warmup, "fit_basis", lambda basis, X, y, start, *_: Fit(basis, 1.0, 0.1, 0.0, 1.0, start, 1))
    X, y = rows(inputs=4)
    model, _ = fit(spec, X, y)
    looks = [np.asarray(group.basis(jnp.asarray(X)))[0] for group in model.groups]
    blind = [np.asarray(group.basis(jnp.asarray(X * [1.0, 1.0, 1.0, 0.0])))[0] for group in model.groups]
    assert [np.array_equal(a, b) for a, b in zip(looks, blind, strict=True)] == [False, True, False]
    lags_alone = [np.asarray(group.basis(jnp.asarray(X * [0.0, 0.0, 0.0, 1.0])))[0] for group in model.groups]
    assert [np.array_equal(a, b) for a, b in zip(looks, lags_alone, strict=True)] == [False, False, True]


def test_without_other_inputs_lags_serve_once(monkeypatch: pytest.MonkeyPatch):
    spec = Spec("twice", bases=("fourier",), features_per_basis=4, most_features=12, lags=(1, 2), without_lags=True)
    monkeypatch.setattr(warmup, "fit_basis", lambda basis, X, y, start, *_: Fit(basis, 1.0, 0.1, 0.0, 1.0, start, 1))
    assert len(fit(spec, *rows(inputs=2))[1]) == 3


def test_when_nothing_can_be_learnt_one_expert_is_kept(monkeypatch: pytest.MonkeyPatch):
    assert len(names_kept(monkeypatch, FOURIER, {0.1: -0.1, 1.0: 0.0, 10.0: -2.0})) == 1


def test_pure_noise_is_called_noise():
    X, _ = rows(200)
    y = np.random.default_rng(9).normal(size=(200, 1))
    model, experts = fit(make_spec("oebe", bases=["linear"]), X, y)
    assert len(experts) == 1
    assert 0.7 < float(model.groups[0].noise.noise_var.squeeze()) < 1.3


def test_random_walks_are_absolute_on_request():
    X, y = rows()
    for absolute in (False, True):
        model, _ = fit(make_spec("oebe", bases=["linear"], dynamics=["walk 0.01"], paper=absolute), X, y)
        v = float(model.groups[0].noise.prior_var.squeeze())
        q = float(model.groups[0].dynamics.diffusion.squeeze()) * v
        per_feature = 1.0 / np.mean(1.0 + np.sum(X**2, axis=1))  # phi = (1, x), and the target's variance is 1
        assert q == pytest.approx(0.01 if absolute else 0.01 * min(v, per_feature), rel=1e-9)
        assert per_feature < 0.9


@pytest.mark.parametrize("v", [0.5, 2.0, 1e6])
def test_dynamics_never_outpace_the_target(monkeypatch: pytest.MonkeyPatch, v: float):
    """Per row it adds q v to the variance of the function, at most q times the target's variance, which is 1."""
    X, y = rows()

    def at_v(basis: Basis, X: Array, y: Array, start: float, *_: object) -> Fit:
        return replace(fit_basis(basis, X, y, start, ()), prior_var=v)

    monkeypatch.setattr(warmup, "fit_basis", at_v)
    spec = make_spec("i-ssgpr", features_per_basis=50, dynamics=["walk 0.01", "revert 0.99"])
    model, _ = fit(spec, X, y)
    walk, revert = np.asarray(model.groups[0].dynamics.diffusion).ravel()
    # Fourier features have phi' phi = 1, so that the function's prior variance is v.
    assert walk * v == pytest.approx(0.01 * min(v, 1.0), rel=1e-9)
    # What it reverts to has at most ten times that variance.
    assert revert * v == pytest.approx((1 - 0.99**2) * min(v, 10.0), rel=1e-9)


def test_the_seed_decides_what_is_drawn():
    X, y = rows()
    spec = make_spec("i-ssgpr", features_per_basis=4)
    predicted = []
    for seed in (0, 0, 1):
        model, _ = fit(spec, X, y, seed=seed)
        state = model.init(keys.key(0))
        state, _ = model.update(state, X, y)
        predicted.append(np.asarray(model.predict(state, X[:5]).mean))
    np.testing.assert_array_equal(predicted[0], predicted[1])
    assert not np.allclose(predicted[0], predicted[2])


@pytest.mark.parametrize("bases", [["linear", "spline"], ["linear", "concatenation"]])
def test_progress_counts_the_fits(bases: list[str]):
    said: list[tuple[int, int]] = []
    spec = make_spec("oebe", bases=bases, features_per_basis=6)
    fit(spec, *rows(), progress=lambda done, todo: said.append((done, todo)))
    assert [done for done, _ in said] == list(range(len(said)))
    assert {todo for _, todo in said} == {len(said) - 1}


def test_a_concatenation_is_made_of_the_best_fits_of_its_parts():
    X, y = rows()
    spec = make_spec("oebe", bases=["concatenation", "fourier", "nystrom"], features_per_basis=8)
    model, table = fit(spec, X, y)
    assert table[-1].name == "concatenation"
    assert table[-1].features == 3 + 8 + 8
    found = {expert.name: group for expert, group in zip(table, unstacked(model), strict=True)}
    best = max((expert for expert in table if expert.name.startswith("fourier")), key=lambda expert: expert.gain)
    _, fourier, nystrom = found["concatenation"].parts
    np.testing.assert_array_equal(fourier.frequencies, found[best.name].frequencies)
    np.testing.assert_array_equal(fourier.lengthscale, found[best.name].lengthscale)
    np.testing.assert_array_equal(nystrom.lengthscale, found["nystrom"].lengthscale)
    # It can say what each part said, and more.
    assert table[-1].gain > max(expert.gain for expert in table[:-1])

    alone, table = fit(make_spec("oebe", bases=["concatenation"], features_per_basis=8), X, y)
    assert [expert.name for expert in table] == ["concatenation"]
    assert [type(part).__name__ for part in unstacked(alone)[0].parts] == ["Linear", "Fourier", "Nystrom"]


def unstacked(model: Ensemble) -> list[Any]:
    """The basis of each expert, in the order of the experts."""
    bases = [
        jax.tree.map(lambda leaf, g=g: leaf[g], group.basis)
        for group in model.groups
        for g in range(len(group.noise.prior_var))
    ]
    return [bases[i] for i in np.argsort(model.order)]


def closed_form(X: np.ndarray, y: np.ndarray, at: np.ndarray, v: float, s2: float) -> tuple[np.ndarray, np.ndarray]:
    """Bayesian linear regression with an intercept (Bishop 2006, Eqs. 3.53, 3.54 and 3.59)."""
    Phi, phi = (np.column_stack([np.ones(len(a)), a]) for a in (X, at))
    cov = np.linalg.inv(np.eye(Phi.shape[1]) / v + Phi.T @ Phi / s2)
    return phi @ (cov @ (Phi.T @ y) / s2), np.sqrt(s2 + np.sum(phi @ cov * phi, axis=1))


@pytest.mark.parametrize("posterior", ["condition", "prior"])
def test_what_the_experts_know_after_the_warm_up(posterior: str):
    n = 64
    rng = np.random.default_rng(3)
    X = 5.0 + 3.0 * rng.normal(size=(n, 2))
    y = 100.0 + X @ [[4.0], [-2.0]] + rng.normal(size=(n, 1))
    learner = StreamLearner(StreamSettings(make_spec("linear", warmup_posterior=posterior), num_inputs=2, warmup=n))
    list(learner.learn(X, y))
    noise = learner.state.model.groups[0].noise
    v, s2 = float(noise.prior_var.squeeze()), float(noise.noise_var.squeeze())
    centre, spread = y.mean(), y.std()
    Z, at = (X - X.mean(0)) / X.std(0), (X[:5] - X.mean(0)) / X.std(0)
    known = slice(None) if posterior == "condition" else slice(0)
    mean, std = closed_form(Z[known], ((y - centre) / spread)[known], at, v, s2)
    predictive = learner.predict(X[:5])
    np.testing.assert_allclose(predictive.mean, centre + spread * mean, rtol=1e-8)
    np.testing.assert_allclose(predictive.std[:, 0], spread * std, rtol=1e-8)


def columns(kind: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Odd data, 60 rows of them, and the length of the warm-up."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=60)
    match kind:
        case "a constant column":
            X[:, 1] = 7.0
        case "a column that is constant in the warm-up only":
            X[:40, 1] = 7.0
        case "duplicate columns":
            X[:, 1] = X[:, 0]
        case "a constant target":
            y = np.full(60, 1e3)
        case "a target that is constant in the warm-up only":
            y[:40] = 5.0
        case "fewer rows than features":
            return X, y, 4
        case "a warm-up of one row":
            return X, y, 1
        case "one input":
            X = X[:, :1]
        case "sixty inputs":
            X = rng.normal(size=(60, 60))
        case "huge values":
            X, y = X * 1e150, y * 1e150
        case "tiny values":
            X, y = X * 1e-150, y * 1e-150
        case "the same row over and over":
            X[:], y[:] = X[0], y[0]
    return X, y, 40


@pytest.mark.parametrize(
    "kind",
    [
        "a constant column",
        "a column that is constant in the warm-up only",
        "duplicate columns",
        "a constant target",
        "a target that is constant in the warm-up only",
        "fewer rows than features",
        "a warm-up of one row",
        "one input",
        "sixty inputs",
        "huge values",
        "tiny values",
        "the same row over and over",
    ],
)
def test_odd_data_give_finite_predictions(kind: str):
    check_odd_data(kind, ["linear", "hilbert", "rbf"])


@pytest.mark.parametrize("kind", ["duplicate columns", "fewer rows than features", "the same row over and over"])
def test_odd_data_suit_bases_that_look_at_them(kind: str):
    check_odd_data(kind, ["nystrom", "trees", "concatenation"])


def test_a_relation_that_starts_after_a_barren_warm_up_is_found():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(600, 2))
    y = np.where(np.arange(600) < 100, 5.0, np.sin(2.0 * X[:, 0]) + 0.05 * rng.normal(size=600))
    spec = make_spec("default", bases=["linear", "fourier"], features_per_basis=100)
    learner = StreamLearner(StreamSettings(spec, num_inputs=2, warmup=100))
    mean = np.concatenate([info.predictive.mean[:, 0] for info in learner.learn(X, y[:, None])])
    starts = {f"fourier {start} unfitted" for start in ("0.1", "1", "10")}
    assert {expert.basis for expert in learner.experts if not expert.basis.startswith("provisional")} == {
        "linear",
        "linear unfitted",
    } | starts
    # A line explains a seventh of the variance at best.
    assert np.mean((mean - y)[400:] ** 2) < 0.2 * np.var(y[400:])


def check_odd_data(kind: str, bases: list[str]) -> None:
    X, y, length = columns(kind)
    spec = make_spec("oebe", bases=bases, features_per_basis=10)
    learner = StreamLearner(StreamSettings(spec, num_inputs=X.shape[1], warmup=length))
    for part in (info.predictive for info in learner.learn(X, y[:, None])):
        assert np.isfinite(part.loc).all()
        assert (np.asarray(part.var) > 0.0).all()
        np.testing.assert_allclose(np.exp(part.log_weights).sum(1), 1.0, rtol=1e-9)
    assert learner.is_warmed_up
    if kind in ("a constant target", "the same row over and over"):
        np.testing.assert_allclose(learner.predict(X[:3]).mean[:, 0], y[:3], rtol=1e-2)
        assert learner.constant_targets == [y[0]]


def test_a_concatenation_that_went_astray_starts_again_from_its_best_part(monkeypatch: pytest.MonkeyPatch):
    found: list[Fit] = []

    def astray(basis: Basis, X: Array, y: Array, start: float, *options: Any) -> Fit:
        fitted = fit_basis(basis, X, y, start, *options)
        if isinstance(basis, Concatenation):
            at_start = fit_basis(basis, X, y, start, (), *options[1:])
            found.append(at_start)
            fitted = fitted if len(found) > 1 else replace(fitted, gain=best[-1] - 0.1)
        else:
            best.append(max([fitted.gain, *best]))
        return fitted

    best: list[float] = []
    monkeypatch.setattr(warmup, "fit_basis", astray)
    _, table = fit(make_spec("oebe", bases=["concatenation"], features_per_basis=6), *rows())
    assert len(found) == 2
    assert found[1].gain > best[-1] - 0.01
    assert [expert.gain >= best[-1] - 0.01 for expert in table] == [True]


def test_a_concatenation_that_stays_below_its_parts_is_dropped(monkeypatch: pytest.MonkeyPatch):
    def worse(basis: Basis, X: Array, y: Array, start: float, *options: Any) -> Fit:
        gain = 1.0 if isinstance(basis, Concatenation) else 1.1
        return Fit(basis, 1.0, 0.1, 0.0, gain, start, 1)

    monkeypatch.setattr(warmup, "fit_basis", worse)
    _, table = fit(make_spec("oebe", bases=["linear", "concatenation"], features_per_basis=6), *rows())
    assert [expert.name for expert in table] == ["linear"]


def test_a_fit_without_a_number_is_no_expert(monkeypatch: pytest.MonkeyPatch):
    assert names_kept(monkeypatch, FOURIER, {0.1: -np.inf, 1.0: 1.0, 10.0: 0.8}) == ["fourier 1", "fourier 10"]
