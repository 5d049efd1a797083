"""Targets on a scale of their own or within bounds, against integrals on a fine grid of draws' levels."""

from functools import cache

import jax
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.core import MappedPredictive, Predictive, TargetMap, mapped
from streamgp.core.mapped import CUT
from streamgp.precision import float64

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


def cut(y: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return each row's y with the tails beyond `CUT` at their quantiles."""
    low, high = (np.array([np.interp(at, np.cumsum(row), y) for row in mass]) for at in (CUT, 1.0 - CUT))
    return np.clip(y, low[:, None], high[:, None])


@WHICH
@HEAVY
def test_moments_are_those_of_the_grid(name: str, heavy: bool):
    p, (y, mass) = MappedPredictive(base(heavy), MAPS[name]), oracle(name, heavy)
    if MAPS[name].transform is not None:  # either tail is cut off at its quantile
        y = cut(y, mass)
    mean = (mass * y).sum(1)
    if MAPS[name].transform is None:
        mean = np.clip((np.exp(p.log_weights) * p.loc[..., 0]).sum(1), MAPS[name].low, MAPS[name].high)
    assert_allclose(p.mean[:, 0], mean, rtol=2e-3 if heavy else 1e-4, atol=1e-7)
    std = np.sqrt((mass * (y - mean[:, None]) ** 2).sum(1))
    assert_allclose(p.std[:, 0], std, rtol=5e-3 if heavy else 5e-4, atol=1e-7)


@WHICH
@HEAVY
def test_the_crps_is_the_integral_of_squares(name: str, heavy: bool):
    p, (y, mass), at = MappedPredictive(base(heavy), MAPS[name]), oracle(name, heavy), targets(name)
    if MAPS[name].transform is not None:
        y = cut(y, mass)
    grid = np.broadcast_to(y, mass.shape)
    above = np.cumsum(mass, axis=1) - (grid >= at)
    want = np.sum(above[:, :-1] ** 2 * np.diff(grid, axis=1), axis=1)
    want += np.abs(at[:, 0] - np.clip(at[:, 0], grid[:, 0], grid[:, -1]))  # beyond the cut all is certain
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
        draws = np.asarray(p.sample(jax.random.key(0), (2000,)))
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
