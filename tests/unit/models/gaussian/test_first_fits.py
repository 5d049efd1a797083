"""The experts fitted early in the warm-up: exact where that can be checked, and there only when they are of use."""

import numpy as np
import pytest

from streamgp.models.base import WarmupRows
from streamgp.models.gaussian.first_fits import FEWEST_ROWS, MANY_ROWS, first_fits
from streamgp.models.gaussian.model import ensemble
from streamgp.models.gaussian.provisional import PROVISIONAL_NOISE, provisional_experts
from streamgp.models.registry import make_spec
from streamgp.numerics import keys
from streamgp.stream.settings import StreamSettings
from streamgp.weights import BMA


def rows(n: int, inputs: int = 2) -> WarmupRows:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, inputs))
    y = np.sin(X[:, :1]) + 0.5 * X[:, -1:] + 0.1 * rng.normal(size=(n, 1))
    return WarmupRows(X, (y - y.mean()) / y.std(), 1, 1.0)


def names(found: WarmupRows) -> set[str]:
    return {expert.name.split(" ")[2] for expert in first_fits(found, 0)}


def test_few_rows_are_a_gaussian_process():
    """The mean of the dense posterior, at the hyperparameters found (Rasmussen and Williams 2006, Eq. 2.25)."""
    known = rows(64)
    expert = next(each for each in first_fits(known, 0) if each.name == "first fit nystrom static")
    alone = ensemble([expert], BMA())
    state, _ = alone.update(alone.init(keys.key(0)), known.X, known.y)
    new = np.random.default_rng(6).normal(size=(20, 2))

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        squares = np.square((A[:, None] - B[None]) / expert.basis.lengthscale).sum(axis=2)  # type: ignore[attr-defined]
        return float(expert.prior_var) * np.exp(-0.5 * squares)

    K = kernel(known.X, known.X) + float(expert.noise_var) * np.eye(64)
    expected = kernel(new, known.X) @ np.linalg.solve(K, known.y)
    np.testing.assert_allclose(alone.predict(state, new).mean, expected, atol=1e-3 * np.abs(expected).max())
    assert np.abs(expected).max() > 0.5


def test_what_is_fitted_depends_on_how_many_rows_there_are():
    assert names(rows(FEWEST_ROWS - 1)) == set()
    assert names(rows(FEWEST_ROWS)) == {"linear", "hilbert", "nystrom"}
    assert names(rows(MANY_ROWS)) == {"linear", "hilbert", "fourier-trained"}


def test_with_many_inputs_more_rows_are_waited_for():
    assert names(rows(64, inputs=33)) == set()
    assert names(rows(64, inputs=32)) != set()


def test_a_constant_target_and_rows_that_repeat_are_no_hindrance():
    known = rows(64)
    assert first_fits(known._replace(y=np.zeros((64, 1))), 0) == []
    same = np.tile(known.X[:1], (64, 1))
    for expert in first_fits(known._replace(X=same), 0):
        assert np.isfinite(np.asarray(expert.basis(same))).all()


def test_models_without_a_guard_and_those_that_forecast_have_none():
    known = rows(64)
    for preset, options, kinds in (
        ("fast", {}, {"provisional", "first"}),
        ("fast", {"horizon": 3}, None),
        ("oebe", {}, None),
    ):
        task = StreamSettings(make_spec(preset, **options), num_inputs=2, warmup=100).task
        model = task.provisional(known.X, known.y, known, 0)
        assert {name.split(" ")[0] for name in model.names} == (kinds or {"provisional"})  # type: ignore[attr-defined]


def test_what_goes_on_after_the_warm_up_is_no_first_fit():
    defaults, kinds = len(provisional_experts(2, 0)), len(PROVISIONAL_NOISE)
    weights = np.zeros((defaults + 9, kinds))
    weights[-1] = 1.0  # of a first fit
    weights[4] = 0.1
    task = StreamSettings(make_spec("fast"), num_inputs=2, warmup=100).task
    best = task.best_provisional_expert(weights.ravel(), 2, 0)
    assert best.name == provisional_experts(2, 0)[4].name
    assert best.noise_var == provisional_experts(2, 0)[4].noise_var


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides_what_is_drawn(seed: int):
    known = rows(MANY_ROWS)
    drawn = [first_fits(known, each)[-1].basis.frequencies for each in (0, seed)]  # type: ignore[attr-defined]
    assert np.array_equal(*drawn) == (seed == 0)
