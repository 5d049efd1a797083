"""Targets on a scale of their own or within bounds, against integrals on a fine grid of draws' levels."""

from functools import cache

import jax
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.likelihoods import MappedPredictive, Predictive, TargetMap, mapped
from streamgp.numerics import keys
from streamgp.numerics.precision import float64

MAPS = {
    "nonnegative": TargetMap(None, 0.0),
    "interval": TargetMap(None, -0.5, 0.8),
    "upper": TargetMap(None, high=0.2),
    "log": TargetMap("log"),
    "log from": TargetMap("log", -1.0, 20.0),
    "log1p": TargetMap("log1p"),
    "logit": TargetMap("logit", -1.0, 3.0),
}
WHICH = pytest.mark.parametrize("name", MAPS)
HEAVY = pytest.mark.parametrize("heavy", [False, True], ids=["Gaussian", "Student"])
ROWS, GRID = 4, 60_001
LEVELS = (0.05, 0.5, 0.95)


def base(heavy: bool, recalibrated: bool = False) -> Predictive:
    """Three components a row; the first row lies all but beyond a lower bound at zero."""
    rng = np.random.default_rng(0)
    loc = rng.normal(size=(ROWS, 3, 1))
    loc[0] -= 4.0
    dof = rng.uniform(5.0, 40.0, (ROWS, 3)) if heavy else None
    shares = np.tile([0.05, 0.1, 0.1, 0.6, 0.1, 0.05], (ROWS, 1, 1)) if recalibrated else None
    var = rng.uniform(0.05, 1.0, (ROWS, 3, 1))
    return Predictive(np.log(rng.dirichlet(np.ones(3), ROWS)), loc, var, dof, 0.0, shares)


@cache
def oracle(name: str, heavy: bool) -> tuple[np.ndarray, np.ndarray]:
    """Each row's y and their probabilities on a fine grid of z, by SciPy's densities alone."""
    p, target = base(heavy), MAPS[name]
    z = 60.0 * np.sinh(np.linspace(-7.0, 7.0, GRID)) / np.sinh(7.0)
    below = np.zeros((ROWS, GRID))
    for row in range(ROWS):
        for k in range(3):
            dof = np.inf if p.dof is None else p.dof[row, k]
            scale = np.sqrt(p.var[row, k, 0] * (1.0 if p.dof is None else 1.0 - 2.0 / dof))
            weight = np.exp(p.log_weights[row, k])
            family = scipy.stats.norm if p.dof is None else scipy.stats.t(dof)
            below[row] += weight * family.cdf((z - p.loc[row, k, 0]) / scale)
    inverse = {
        None: lambda z: z,
        "log": lambda z: max(target.low, -1e9) + np.exp(z),
        "log1p": lambda z: target.low + np.exp(z) - 1.0,
        "logit": lambda z: target.low + (target.high - target.low) * scipy.special.expit(z),
    }[target.transform]
    y = np.clip(inverse(0.5 * (z[1:] + z[:-1])), target.low, target.high)
    return y, np.diff(below, axis=1)


def targets(name: str) -> np.ndarray:
    z = np.random.default_rng(1).normal(size=(ROWS, 1))
    return MAPS[name].inverse(z)


def reach(p: MappedPredictive) -> tuple[np.ndarray, np.ndarray]:
    """Return how far out each row is believed, on the scale that is learnt."""
    q05, q50, q95 = (np.asarray(p.base.quantile(level)) for level in LEVELS)
    return p.reach(q05, q50, q95)


def within_reach(p: MappedPredictive, y: np.ndarray) -> np.ndarray:
    """Return each row's y with the tails beyond the reach at its ends."""
    low, high = (p.map.inverse(end) for end in reach(p))
    return np.clip(y, low, high)


@WHICH
@HEAVY
def test_moments_are_those_of_the_grid(name: str, heavy: bool):
    p, (y, mass) = MappedPredictive(base(heavy), MAPS[name]), oracle(name, heavy)
    if MAPS[name].transform is not None:
        y = within_reach(p, y)
    mean = (mass * y).sum(1)
    if MAPS[name].transform is None:
        mean = np.clip((np.exp(p.log_weights) * p.loc[..., 0]).sum(1), MAPS[name].low, MAPS[name].high)
    assert_allclose(p.mean[:, 0], mean, rtol=2e-3 if heavy else 1e-4, atol=1e-7)
    std = np.sqrt((mass * (y - mean[:, None]) ** 2).sum(1))
    assert_allclose(p.std[:, 0], std, rtol=5e-3 if heavy else 5e-4, atol=2e-6)  # never zero


@WHICH
@HEAVY
def test_the_crps_is_the_integral_of_squares(name: str, heavy: bool):
    p, (y, mass), at = MappedPredictive(base(heavy), MAPS[name]), oracle(name, heavy), targets(name)
    if MAPS[name].transform is not None:
        y = within_reach(p, y)
    grid = np.broadcast_to(y, mass.shape)
    above = np.cumsum(mass, axis=1) - (grid >= at)
    want = np.sum(above[:, :-1] ** 2 * np.diff(grid, axis=1), axis=1)
    want += np.abs(at[:, 0] - np.clip(at[:, 0], grid[:, 0], grid[:, -1]))  # beyond the reach all is certain
    assert_allclose(p.crps(at)[:, 0], want, rtol=1e-2, atol=1e-4)


@WHICH
def test_the_density_integrates_to_the_distribution_function(name: str):
    p = MappedPredictive(base(True, recalibrated=True), MAPS[name])
    for level in (0.2, 0.5):
        low, high = p.quantile(level), p.quantile(level + 0.3)
        ys = low + (high - low) * np.linspace(0.0, 1.0, 401)
        each = jax.tree.map(lambda a: np.repeat(a, 401, axis=0), p)
        density = np.exp(each.log_density(ys.reshape(-1, 1))).reshape(ROWS, -1)
        area = np.trapezoid(density, ys, axis=1)
        inside = (low > MAPS[name].low) & (high < MAPS[name].high)
        assert_allclose(area[inside[:, 0]], 0.3, rtol=1e-3)
        assert_allclose(p.cdf(high)[inside], level + 0.3, rtol=1e-7)


def test_what_lies_beyond_a_bound_is_at_the_bound():
    p = MappedPredictive(base(False), TargetMap(None, 0.0))
    zero = np.zeros((ROWS, 1))
    assert_array_equal(p.quantile(0.5)[0], 0.0)
    assert p.mean[0] == 0.0
    assert_allclose(p.cdf(zero), p.base.cdf(zero), rtol=1e-12)
    assert_array_equal(p.cdf(zero - 0.1), 0.0)
    assert_array_equal(p.log_density(zero), p.base.log_density(zero))
    assert_array_equal(p.log_density(zero - 0.1), -np.inf)
    assert p.pit(zero)[0] == 0.5  # the band of any level is the bound alone, which holds the target
    assert_array_equal(TargetMap(None, 0.0).inverse(np.array([-1.0, 2.0])), [0.0, 2.0])
    with float64():
        draws = np.asarray(p.sample(keys.key(0), (2000,)))
    assert draws.min() == 0.0
    assert_allclose((draws == 0.0).mean(0), p.base.cdf(zero), atol=4 * 0.5 / np.sqrt(2000))


def test_bounds_never_make_a_row_worse():
    p = MappedPredictive(base(True, recalibrated=True), MAPS["interval"])
    for y in np.linspace(-0.5, 0.8, 14):
        at = np.full((ROWS, 1), y)
        assert (np.abs(p.mean - at) <= np.abs(p.base.mean - at)).all()
        assert (p.crps(at) <= p.base.crps(at) + 1e-9).all()
        assert ((p.std**2) <= p.base.variance + 1e-12).all()


def test_far_bounds_change_nothing():
    p, at = base(True, recalibrated=True), targets("nonnegative")
    wide = MappedPredictive(p, TargetMap(None, -1e3, 1e3))
    assert_allclose(wide.mean, p.mean, rtol=1e-12)
    assert_allclose(wide.std, p.std, rtol=1e-6)
    assert_allclose(wide.crps(at), p.crps(at), rtol=1e-12)
    assert mapped(p, TargetMap()) is p


def test_several_targets_have_a_joint_density():
    one = base(False)
    two = Predictive(one.log_weights, np.repeat(one.loc, 2, 2), np.repeat(one.var, 2, 2))
    y = np.exp(np.random.default_rng(3).normal(size=(ROWS, 2)))
    p = MappedPredictive(two, TargetMap("log"))
    assert_allclose(p.log_density(y), two.log_density(np.log(y)) - np.log(y).sum(1), rtol=1e-12)
    assert p.crps(y).shape == p.mean.shape == (ROWS, 2)


def test_bounds_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="lower one below the upper, got 2 and 1"):
        TargetMap.of(None, (2.0, 1.0))
    with pytest.raises(ValueError, match=r"expected bounds on both sides with logit, got \(0, inf\)"):
        TargetMap.of("logit", (0.0, None))


def test_targets_that_cannot_be_are_named():
    y = np.array([[0.5], [np.nan], [0.0], [-2.0]])
    assert TargetMap("log").faults(y) == {
        2: "expected a target in (0, inf) for target_transform='log', got 0",
        3: "expected a target in (0, inf) for target_transform='log', got -2",
    }
    assert list(TargetMap("log1p").faults(y)) == [3]
    assert list(TargetMap("logit", 0.0, 0.5).faults(y)) == [0, 2, 3]
    with pytest.raises(ValueError, match=r"y: expected a target in \[0, inf\), got -2 at row 3; .* \(1 of 4\)"):
        TargetMap(None, 0.0).check(y)


@pytest.mark.parametrize("transform", ["log", "log1p", "logit"])
@pytest.mark.parametrize("scale", [0.1, 0.4, 0.7])
def test_of_light_tails_mean_and_std_are_those_of_all_of_the_distribution(transform: str, scale: float):
    loc = np.array([1.0, 4.0]).reshape(2, 1, 1)
    target = TargetMap(transform, 0.0, 50.0 if transform == "logit" else np.inf)
    p = MappedPredictive(Predictive(np.zeros((2, 1)), loc, np.full((2, 1, 1), scale**2)), target)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    y = target.inverse(loc[:, :, 0] + scale * nodes)
    mean = (y * weights).sum(1) / weights.sum()
    std = np.sqrt(((y - mean[:, None]) ** 2 * weights).sum(1) / weights.sum())
    assert_allclose(p.mean[:, 0], mean, rtol=2e-3)
    assert_allclose(p.std[:, 0], std, rtol={0.1: 3e-3, 0.4: 6e-3, 0.7: 2.5e-2}[scale])


@st.composite
def heavy_predictions(draw: st.DrawFn) -> MappedPredictive:
    """Mixtures of any spread, of Gaussians and Student's t, with a recalibration that may stretch or shrink them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = 12, draw(st.integers(1, 5))
    spread = draw(st.sampled_from([0.05, 0.5, 2.0, 8.0]))
    loc = spread * draw(st.sampled_from([0.0, 1.0, 4.0])) * rng.normal(size=(n, k, 1)) + rng.normal(
        0.0, 3.0, (n, 1, 1)
    )
    var = np.exp(rng.normal(2.0 * np.log(spread), 2.0, (n, k, 1)))
    dof = rng.choice([5.0, 7.0, 100.0, np.inf], (n, k)) if draw(st.booleans()) else None
    alpha = np.array(
        draw(st.sampled_from([(1.0,) * 6, (0.1,) * 6, (0.1, 0.1, 0.1, 0.1, 0.1, 9.0), (9.0,) + (0.1,) * 5]))
    )
    shares = rng.dirichlet(alpha, (n, 1)) if draw(st.booleans()) else None
    log_weights = np.log(np.maximum(rng.dirichlet(np.full(k, 0.5), n), 1e-12))
    log_weights -= np.logaddexp.reduce(log_weights, axis=1)[:, None]
    target = MAPS[draw(st.sampled_from(["log", "log from", "log1p", "logit"]))]
    limits = np.sort(rng.normal(0.0, 4.0, (n, 2, 1)), axis=1) if draw(st.booleans()) else None
    return MappedPredictive(Predictive(log_weights, loc, var, dof, 0.0, shares, limits=limits), target)


@given(heavy_predictions(), st.sampled_from([-3.0, -1.0, 0.0, 1.0, 3.0]))
@settings(max_examples=8, deadline=None)
def test_scores_and_moments_keep_their_bounds(p: MappedPredictive, score: float):
    """With Y of the docstring and its median m: CRPS(y) is at most E|Y - y|, and at most |y - m| + E|Y - m| / 2."""
    y = p.at_scores(np.full((12, 1), score))
    median = p.quantile(0.5)
    low, high = (p.map.inverse(end) for end in reach(p))
    mean, std, crps = p.mean, p.std, p.crps(y)
    for each in (mean, std, crps):
        assert np.isfinite(each).all()
    tolerance = 0.01 * (high - low) + 1e-9 * (1.0 + np.abs(y))
    assert ((crps >= 0.0) & (mean >= low - tolerance) & (mean <= high + tolerance)).all()
    assert (crps <= np.hypot(std, mean - y) + tolerance).all()
    draws = np.stack([np.clip(p.quantile(level), low, high) for level in (np.arange(200) + 0.5) / 200])
    assert (crps <= np.abs(draws - y).mean(0) + 2.0 * tolerance).all()
    assert (crps <= np.abs(y - median) + 0.5 * np.abs(draws - median).mean(0) + 2.0 * tolerance).all()
    assert_allclose(mean, draws.mean(0), atol=np.max(2.0 * tolerance))


@given(heavy_predictions())
@settings(max_examples=4, deadline=None)
def test_where_targets_come_as_predicted_the_crps_is_at_most_the_error_of_the_median(p: MappedPredictive):
    median = p.quantile(0.5)
    low, high = (p.map.inverse(end) for end in reach(p))
    ys = [np.clip(p.quantile(level), low, high) for level in (np.arange(60) + 0.5) / 60]
    crps, error = (np.mean(each, axis=0) for each in ([p.crps(y) for y in ys], [np.abs(y - median) for y in ys]))
    assert (crps <= 1.02 * error + 1e-4 * (high - low) + 1e-12).all()


def test_a_wild_tail_does_not_decide_mean_std_and_crps():
    """A component that counts once in a thousand rows, and a recalibration that stretches levels."""
    loc, var = np.zeros((1, 2, 1)), np.array([0.04, 900.0]).reshape(1, 2, 1)
    shares = np.array([[[0.0, 0.0, 0.3, 0.5, 0.1, 0.1]]])
    p = MappedPredictive(
        Predictive(np.log([[0.999, 0.001]]), loc, var, np.full((1, 2), 5.0), 0.0, shares), MAPS["log"]
    )
    y = np.ones((1, 1))
    assert 1.0 < p.mean[0, 0] < 1.1
    assert p.std[0, 0] < p.quantile(0.95)[0, 0] - p.quantile(0.05)[0, 0]
    assert p.crps(y)[0, 0] < 0.5 * p.std[0, 0]


def test_mean_std_and_crps_keep_within_what_was_learnt():
    base = Predictive(np.zeros((2, 1)), np.zeros((2, 1, 1)), np.full((2, 1, 1), 4.0))
    limits = np.array([[-1.0, 1.0], [-9.0, -3.0]])[:, :, None]
    wide = MappedPredictive(base, MAPS["log"])
    p = MappedPredictive(Predictive(base.log_weights, base.loc, base.var, limits=limits), MAPS["log"])
    z = scipy.stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, scale=2.0)
    y = np.exp(np.clip(z, [[-1.0], [-6.6]], [[1.0], [0.0]]))  # the second to its median, and from there by its band
    assert_allclose(p.mean[:, 0], y.mean(1), rtol=1e-3)
    assert_allclose(p.std[:, 0], y.std(1), rtol=1e-3)
    assert_allclose(p.crps(np.full((2, 1), 50.0))[:, 0], 50.0 - y.mean(1) - _half_distance(y), rtol=1e-3)
    assert_array_equal(p.quantile(0.95), wide.quantile(0.95))
    assert_array_equal(p.log_density(np.full((2, 1), 50.0)), wide.log_density(np.full((2, 1), 50.0)))


def _half_distance(y: np.ndarray) -> np.ndarray:
    """E|Y - Y'| / 2 of equally likely values in ascending order."""
    n = y.shape[1]
    return (y * (2.0 * np.arange(1, n + 1) - n - 1.0)).sum(1) / n**2


@pytest.mark.parametrize("name", ["log", "log1p", "logit", "log from"])
@pytest.mark.parametrize("where", [-1e4, -800.0, 0.0, 800.0, 1e4])
@pytest.mark.filterwarnings("error")
def test_absurd_predictions_are_numbers_and_warn_of_nothing(name: str, where: float):
    p = MappedPredictive(Predictive(np.zeros((1, 1)), np.full((1, 1, 1), where), np.full((1, 1, 1), 1e8)), MAPS[name])
    y = MAPS[name].inverse(np.ones((1, 1)))
    with np.errstate(all="warn", under="ignore"):
        each = (p.mean, p.std, p.crps(y), p.quantile(0.95), p.quantile(1e-3), MAPS[name].scale_at(y, y))
    assert all(np.isfinite(a).all() for a in each)
