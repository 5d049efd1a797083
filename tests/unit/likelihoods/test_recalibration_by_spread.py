"""Three maps of levels by predicted spread: the recursion against a textbook loop, and what it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from kernel_forms import in_both_forms
from streamgp.likelihoods import recalibration, recalibration_by_spread
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread, log_spread
from streamgp.numerics import mixtures, tree
from tests.oracles.level_maps import textbook

ROWS, OUTPUTS = 400, 2
BUILT = recalibration_by_spread._compiled("level_shares") is not None
form = in_both_forms(recalibration_by_spread, "_compiled", lambda name: None, BUILT)


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return levels, log spreads, and which rows are learnt: levels lie further out where little spread is said."""
    rng = np.random.default_rng(seed)
    spread = -2.0 + rng.normal(size=(ROWS, OUTPUTS))
    u = stats.norm.cdf(rng.normal(size=spread.shape) * np.where(spread < -2.0, 2.0, 0.7))
    u[rng.random(u.shape) < 0.1] = np.nan
    u[:3] = np.array([0.0, 1.0, 1e-300])[:, None]
    return u, spread, rng.random(ROWS) < 0.9


@pytest.mark.usefixtures("form")
def test_recursion_is_that_of_a_textbook_loop():
    u, spread, mask = rows()
    after, known = RecalibrationBySpread.start(OUTPUTS).learn_rows(u, spread, mask)
    shares = known.shares(spread)
    for e in range(OUTPUTS):
        want = textbook(np.where(mask, u[:, e], np.nan), spread[:, e])
        np.testing.assert_allclose(shares[:, e], want.shares, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(after.counts[e], want.counts, rtol=1e-10)
        np.testing.assert_allclose(after.helps[e], want.helps, rtol=1e-10)
    np.testing.assert_allclose(shares.sum(-1), 1.0, rtol=1e-12)
    one = after.of_output(1).shares(spread[:9, 1:])
    np.testing.assert_array_equal(one, after.shares(spread[:9])[:, 1:])


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("learnt", ["some", "none"])
def test_recursion_is_the_same_in_jax(learnt):
    u, spread, mask = rows()
    given, start = (u, spread, mask & (learnt == "some")), RecalibrationBySpread.start(OUTPUTS)
    theirs = jax.jit(start.learn_rows)(*map(jnp.asarray, given))
    for ours, other in zip(tree.leaves(start.learn_rows(*given)), jax.tree.leaves(theirs), strict=True):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, other, rtol=1e-12)


@pytest.mark.usefixtures("form")
def test_rows_may_come_in_parts():
    given = rows()
    whole, known = RecalibrationBySpread.start(OUTPUTS).learn_rows(*given)
    state, at, found = RecalibrationBySpread.start(OUTPUTS), 0, []
    for size in (1, 7, 92, 300):
        state, part = state.learn_rows(*(a[at : at + size] for a in given))
        found, at = [*found, part.shares(given[1][at : at + size])], at + size
    np.testing.assert_array_equal(np.concatenate(found), known.shares(given[1]))
    for ours, other in zip(tree.leaves(state), tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(ours, other)


def test_what_was_known_before_a_row_does_not_depend_on_it():
    u, spread, mask = rows()
    start, changed = RecalibrationBySpread.start(OUTPUTS), u.copy()
    changed[200:] = 1.0 - 1e-6
    mask[200] = True
    shares, others = (start.learn_rows(levels, spread, mask)[1].shares(spread) for levels in (u, changed))
    np.testing.assert_array_equal(shares[:201], others[:201])
    assert not np.array_equal(shares[201], others[201])


@pytest.mark.usefixtures("form")
def test_missing_levels_teach_nothing():
    _, spread, mask = rows()
    start = RecalibrationBySpread.start(OUTPUTS)
    after, _ = start.learn_rows(np.full_like(spread, np.nan), spread, mask)
    for ours, other in zip(tree.leaves(after), tree.leaves(start), strict=True):
        np.testing.assert_array_equal(ours, other)


def told(spread: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the recalibrated levels of normal scores, and by how much their log density was raised."""
    u = stats.norm.cdf(z)[:, None]
    _, known = RecalibrationBySpread.start(1).learn_rows(u, spread[:, None], np.ones(len(z), bool))
    shares = known.shares(spread[:, None])
    return recalibration.below(shares, u)[:, 0], recalibration.log_density(shares, u)[:, 0]


def test_each_kind_of_row_gets_the_map_that_it_needs():
    rng, n = np.random.default_rng(1), 20_000
    spread = rng.choice([-2.0, -1.0, 0.0], size=n)
    tails = rng.choice([0.4, 2.5], size=n, p=[0.7, 0.3])
    z = rng.normal(size=n) * np.select([spread == -2.0, spread == 0.0], [tails, 0.7], 1.0)
    by_spread, raised = told(spread, z)
    for_all, raised_for_all = told(np.zeros(n), z)
    late = np.arange(n) > 2_000
    for kind in (-2.0, -1.0, 0.0):
        of_kind = late & (spread == kind)
        held, without = (np.mean(np.abs(levels[of_kind] - 0.5) < 0.45) for levels in (by_spread, for_all))
        assert abs(held - 0.9) < min(0.04, abs(without - 0.9)), (kind, held, without)
    assert raised[late].mean() > raised_for_all[late].mean() + 0.05


def test_where_nothing_is_wrong_next_to_nothing_is_lost():
    rng, n = np.random.default_rng(2), 20_000
    _, raised = told(rng.normal(size=n), rng.normal(size=n))
    assert -0.0015 < raised[1_000:].mean() < 0.001


def test_few_absurd_spreads_leave_the_others_nearly_as_they_were():
    rng, n = np.random.default_rng(3), 4_000
    spread, z = rng.normal(size=n), rng.normal(size=n) * 1.5
    without, _ = told(spread, z)
    absurd = spread.copy()
    absurd[::200] = mixtures.log_std(np.array([[np.inf, np.nan, 0.0, 1e300] * 5]))[0]
    assert np.isfinite(absurd).all()
    levels, _ = told(absurd, z)
    usual = np.arange(n) % 200 != 0
    assert np.abs(levels - without)[usual].max() < 0.02


def test_the_spread_is_that_of_the_mixture():
    rng = np.random.default_rng(4)
    weights, loc = rng.dirichlet(np.ones(3), 5), rng.normal(size=(5, 3, 2))
    var = rng.gamma(3.0, size=(5, 3, 2))
    for i in range(5):
        draws = [stats.norm(loc[i, k], np.sqrt(var[i, k])) for k in range(3)]
        second = sum(w * draw.moment(2) for w, draw in zip(weights[i], draws, strict=True))
        first = sum(w * draw.mean() for w, draw in zip(weights[i], draws, strict=True))
        found = log_spread(np.log(weights), loc, var)[i]
        np.testing.assert_allclose(found, 0.5 * np.log(second - first**2), rtol=1e-10)
