"""The pooled prior against dense Gaussian algebra, and where keys lie against their definitions."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from fleet_streams import fleet, frame
from streamgp.fleet import prior as pooled
from streamgp.fleet.pooling import belief_sums, pooled_prior
from streamgp.fleet.prior import PooledPrior, Sums
from streamgp.fleet.scales import CLIP, MEMORY, YOUNG, KeyMoments, PoolScales, of_young
from streamgp.fleet.warmup import find_season, rounds


def keys(count: int, rows: int, F: int = 3, seed: int = 0, shape: float = np.inf):
    """Return features and targets of keys whose weights have a common mean and covariance.

    Those are in units of the keys' levels of noise, one over which is Gamma with this shape and the mean 1.
    """
    rng = np.random.default_rng(seed)
    mean, root = np.array([1.0, -2.0, 0.5])[:F], np.diag([0.3, 0.1, 0.6][:F])
    data = []
    for _ in range(count):
        Phi = rng.normal(size=(rows, F))
        unit = 1.0 if shape == np.inf else rng.gamma(shape, 1.0 / shape) ** -0.5
        data.append((Phi, Phi @ (mean + unit * root @ rng.normal(size=F)) + 0.2 * unit * rng.normal(size=rows)))
    return data, mean, root @ root.T


def sums_of(data) -> Sums:
    return Sums(
        np.stack([Phi.T @ Phi for Phi, _ in data]),
        np.stack([Phi.T @ y for Phi, y in data]),
        np.array([y @ y for _, y in data]),
        np.array([float(len(y)) for _, y in data]),
    )


def dense_log_evidence(data, mean, cov, noise, start) -> float:
    each = [
        multivariate_t(Phi @ mean, Phi @ cov @ Phi.T + noise * np.eye(len(y)), df=2.0 * start).logpdf(y)
        for Phi, y in data
    ]
    return float(np.sum(each))


def test_evidence_and_posterior_are_those_of_the_dense_student_t():
    data, mean, cov = keys(4, 6)
    V, means, rates, log_evidence = pooled._posterior(sums_of(data), mean, cov, 0.3, 3.5)
    np.testing.assert_allclose(log_evidence, dense_log_evidence(data, mean, cov, 0.3, 3.5), rtol=1e-10)
    for (Phi, y), covariance, center, rate in zip(data, V, means, rates, strict=True):
        K, error = Phi @ cov @ Phi.T + 0.3 * np.eye(len(y)), y - Phi @ mean
        gain = cov @ Phi.T @ np.linalg.inv(K)
        np.testing.assert_allclose(center, mean + gain @ error, rtol=1e-9)
        np.testing.assert_allclose(covariance, cov - gain @ Phi @ cov, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(rate, 3.5 + 0.5 * error @ np.linalg.solve(K, error), rtol=1e-9)


def test_the_fit_finds_what_the_keys_have_in_common_and_no_step_would_be_better():
    data, mean, cov = keys(300, 12)
    found = pooled.fit(sums_of(data), 0.3 * np.eye(3))
    # Standard errors of a mean and of a variance of 300 keys, each known to within the noise of its rows.
    error = np.sqrt((np.diag(cov) + 0.2**2 / 12) / 300)
    assert (np.abs(found.mean - mean) < 4.0 * error + 0.005).all()
    drawn = 300 + pooled.PRIOR_KEYS
    np.testing.assert_allclose(
        np.diag(found.cov), np.diag(cov) * 300 / drawn + 0.3 * pooled.PRIOR_KEYS / drawn, rtol=0.4
    )
    np.testing.assert_allclose(found.noise_var, 0.04, rtol=0.1)
    assert found.start > 20.0  # the keys are alike in their noise
    noise, start = found.noise_var, found.start
    np.testing.assert_allclose(
        found.log_evidence, dense_log_evidence(data, found.mean, found.cov, noise, start), rtol=1e-9
    )
    for moved in (found.mean + 0.1, found.mean - 0.1):
        assert dense_log_evidence(data, moved, found.cov, noise, start) < found.log_evidence
    for factor in (0.5, 2.0):
        assert dense_log_evidence(data, found.mean, factor * found.cov, noise, start) < found.log_evidence


def test_the_noise_is_that_of_each_key_and_not_of_the_noisiest():
    data, _, cov = keys(400, 20, shape=4.0, seed=3)
    found = pooled.fit(sums_of(data), 0.3 * np.eye(3))
    np.testing.assert_allclose(found.noise_var, 0.04, rtol=0.15)
    np.testing.assert_allclose(found.start, 4.0, rtol=0.35)
    np.testing.assert_allclose(np.diag(found.cov), np.diag(cov), rtol=0.4)
    for noise in (0.8, 1.25):
        moved = dense_log_evidence(data, found.mean, found.cov, noise * found.noise_var, found.start)
        assert moved < found.log_evidence
    # One key that is a hundred times as rough changes nothing of that.
    Phi, y = data[0]
    rough = pooled.fit(sums_of([(Phi, 100.0 * y), *data[1:]]), 0.3 * np.eye(3))
    np.testing.assert_allclose(rough.noise_var, found.noise_var, rtol=0.03)


def test_one_key_and_no_rows_leave_a_prior_of_use():
    data, _, _ = keys(1, 5)
    found = pooled.fit(sums_of(data), 0.3 * np.eye(3))
    assert np.linalg.eigvalsh(found.cov).min() > 0.1
    none = pooled.fit(Sums(np.zeros((2, 3, 3)), np.zeros((2, 3)), np.zeros(2), np.zeros(2)), 0.3 * np.eye(3))
    np.testing.assert_allclose(none.mean, 0.0)
    np.testing.assert_allclose(none.cov, 0.3 * np.eye(3), rtol=1e-9)


def test_the_pooled_moments_are_those_of_a_mixture():
    rng = np.random.default_rng(1)
    means, covs = rng.normal(size=(50, 2)), np.stack([np.diag(rng.uniform(0.1, 1.0, 2)) for _ in range(50)])
    counts, guess = rng.uniform(0.1, 3.0, 50), pooled.PRIOR_KEYS * np.eye(2)
    total, scatter = counts @ means, (means.T * counts) @ means
    mean, cov = pooled.pooled(total, scatter, covs.sum(0), 50, counts.sum(), np.zeros(2), np.eye(2))
    np.testing.assert_allclose(mean, total / (1.0 + counts.sum()))
    between = ((means - mean).T * counts) @ (means - mean)
    np.testing.assert_allclose(cov, (guess + covs.sum(0) + between) / (50 + pooled.PRIOR_KEYS), rtol=1e-12)


def test_the_root_of_a_covariance_with_features_that_are_off():
    cov = np.zeros((4, 4))
    cov[:2, :2] = [[2.0, 0.5], [0.5, 1.0]]
    L = pooled.root(cov)
    np.testing.assert_allclose(L @ L.T, cov, atol=1e-12)
    assert not L[2:].any()
    assert PooledPrior(np.zeros((1, 4)), L[None], np.zeros(1)).root.shape == (1, 4, 4)


def test_young_keys_are_located_by_median_and_median_deviation():
    rng = np.random.default_rng(0)
    for count in (1, 2, 5, YOUNG):
        targets = rng.normal(size=(3, count))
        padded = np.concatenate([np.full((3, YOUNG - count), np.nan), targets], axis=1)
        center, var = of_young(padded)
        np.testing.assert_allclose(center, np.median(targets, axis=1))
        spread = 1.4826 * np.median(np.abs(targets - center[:, None]), axis=1)
        np.testing.assert_allclose(var, spread**2, rtol=1e-12)
    # More than half of them the same: the mean square instead.
    center, var = of_young(np.array([[0.0, 0.0, 0.0, 2.0]]))
    np.testing.assert_allclose([center[0], var[0]], [0.0, 1.0])


def pool(**changes) -> PoolScales:
    return PoolScales(**({name: np.array([value]) for name, value in changes.items()}))


def moments_of(count: float, loc: float, var: float) -> KeyMoments:
    return KeyMoments(*(np.array([[value]]) for value in (count, loc, var, 0.0, loc, var)))


def test_a_location_is_drawn_to_the_fleet_s_while_rows_are_few():
    common = pool(center=10.0, log_scale=0.0, spread=1.0, center_rows=2.0, scale_rows=1.0)
    none = KeyMoments.none(1, 1)
    np.testing.assert_allclose(np.array(common.locate(none)).ravel(), [10.0, 1.0])
    some = moments_of(2.0, 13.0, 8.0)
    center, scale = common.locate(some)
    np.testing.assert_allclose(center, (2 * 10 + 2 * 13) / 4)
    np.testing.assert_allclose(np.log(scale), 0.5 * np.log(8.0 * 2 / 1) / 2)


def test_running_moments_are_mean_and_variance_and_keep_glitches_out():
    common = pool(center=0.0, log_scale=0.0, spread=1.0, center_rows=1e-6, scale_rows=1e-6)
    rng = np.random.default_rng(0)
    values, moments, past = rng.normal(3.0, 2.0, size=150), KeyMoments.none(1, 1), np.full((1, YOUNG), np.nan)
    for value in values:
        past = np.roll(past, -1, axis=1)
        past[0, -1] = value
        ordinary = np.zeros(1, bool)
        moments = common.learn_row(moments, past, np.array([[value]]), common.locate(moments)[1], ordinary)
    np.testing.assert_allclose(moments.loc[0, 0], values.mean(), atol=0.3)
    np.testing.assert_allclose(np.sqrt(moments.var[0, 0]), 2.0, rtol=0.2)
    assert moments.count[0, 0] == 150 < MEMORY
    scale = common.locate(moments)[1]
    for left_out, most in ((False, CLIP * scale[0, 0] / 150), (True, 0.0)):
        after = common.learn_row(moments, past, np.array([[1e9]]), scale, np.array([left_out]))
        assert abs(after.loc[0, 0] - moments.loc[0, 0]) <= most


def test_after_a_shift_a_key_is_located_where_it_went():
    common = pool(center=10.0, log_scale=0.5, spread=1.0, center_rows=3.0, scale_rows=2.0)
    for center, scale in ((12.0, 4.0), (50.0, 4.0), (-50.0, 4.0), (9.0, 1e6), (9.0, 0.01)):
        loc, var = common.after_shift(np.array([center]), np.array([scale]))
        found = common.locate(moments_of(16.0, loc[0], var[0]))
        np.testing.assert_allclose(np.array(found).ravel(), [center, scale], rtol=1e-12)


def test_a_key_that_is_like_no_other_is_drawn_by_no_more_than_one_that_might_be():
    common = pool(center=0.0, log_scale=0.0, spread=0.3, center_rows=10.0, scale_rows=10.0)
    for loc, std in ((1e4, 1.0), (-1e9, 1.0), (0.0, 1e6), (0.0, 1e-4), (1e4, 1e6)):
        center, scale = common.locate(moments_of(50.0, loc, std**2))
        assert abs(center[0, 0] - loc) <= CLIP * np.hypot(0.3, 1.0) * 10.0 / 60.0 + 1e-6 * abs(loc)
        assert abs(np.log(scale[0, 0] / std)) < 0.2


def first_rows(common: PoolScales, targets: list[float], inputs: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return where the columns of a key are found to lie after these rows."""
    moments, past = KeyMoments.none(1, 2), np.full((1, YOUNG), np.nan)
    for y, x in zip(targets, inputs, strict=True):
        past = np.column_stack([past[:, 1:], [y]])
        scale = common.locate(moments)[1]
        moments = common.learn_row(moments, past, np.array([[y, x]]), scale, np.zeros(1, bool))
    center, scale = common.locate(moments)
    return center[0], scale[0]


@pytest.mark.parametrize("at", [0, 1, 2, 5])
@pytest.mark.parametrize("glitch", [1e4, -1e12, 1e99])
def test_one_glitch_among_the_first_rows_moves_neither_location_nor_scale_much(at: int, glitch: float):
    two = {name: np.full(2, value) for name, value in (("center", 0.0), ("log_scale", 0.0), ("spread", 0.3))}
    common = PoolScales(**two, center_rows=np.full(2, 10.0), scale_rows=np.full(2, 10.0))
    values = np.random.default_rng(0).normal(size=12)
    values[at] = glitch
    center, scale = first_rows(common, values.tolist(), values.tolist())
    assert (np.abs(center) < 2.0).all() and (scale < 4.0).all()


@pytest.mark.parametrize(("level", "size"), [(0.0, 1e6), (0.0, 0.01), (1e4, 1.0), (-1e8, 1e3)])
def test_a_key_of_another_kind_is_soon_found(level: float, size: float):
    two = {name: np.full(2, value) for name, value in (("center", 0.0), ("log_scale", 0.0), ("spread", 0.3))}
    common = PoolScales(**two, center_rows=np.full(2, 10.0), scale_rows=np.full(2, 10.0))
    values = level + size * np.random.default_rng(0).normal(size=YOUNG)
    center, scale = first_rows(common, values.tolist(), np.zeros(YOUNG).tolist())
    assert abs(center[0] - level) < 2.0 * size + 3.0  # of the fleet's scale, 1, at most so much is left
    assert 0.3 < scale[0] / size < 3.0


def test_what_the_keys_have_in_common_is_found():
    rng = np.random.default_rng(0)
    values = [np.exp(0.2 * rng.normal()) * rng.normal(size=(40, 1)) + 5.0 + 3.0 * rng.normal() for _ in range(400)]
    found = PoolScales.of(values)
    np.testing.assert_allclose(found.center[0], 5.0, atol=0.7)
    np.testing.assert_allclose(found.spread[0], 3.0, rtol=0.2)
    np.testing.assert_allclose(found.log_scale[0], 0.0, atol=0.1)
    np.testing.assert_allclose(found.center_rows[0], 1.0 / 9.0, rtol=0.5)
    assert found.scale_rows[0] == pytest.approx(0.5 / 0.04, rel=0.6) or found.scale_rows[0] == 10.0
    for odd in ([np.full((3, 1), np.nan)], [np.ones((5, 1))], [np.array([[2.0]])]):
        assert all(np.isfinite(each).all() for each in vars(PoolScales.of(odd)).values())


@pytest.mark.parametrize("season", [4, 7, 24])
def test_the_season_is_found_and_none_where_there_is_none(season):
    rng = np.random.default_rng(season)
    i = np.arange(season * 6)
    shape = rng.normal(size=season)
    seasonal = [shape[i % season] + 0.4 * rng.normal(size=len(i)) for _ in range(20)]
    assert find_season(seasonal) == season
    assert find_season([*seasonal, np.arange(100.0)]) == season
    assert find_season([np.cumsum(rng.normal(size=120)) for _ in range(20)]) is None
    assert find_season([rng.normal(size=5)]) is None
    assert find_season([np.ones(100)]) is None


def test_rounds_take_one_row_of_each_key_in_order():
    key = np.array([3, 1, 3, 3, 2, 1])
    for number, at in enumerate(rounds(key)):
        for row in at.tolist():
            assert (key[:row] == key[row]).sum() == number
    assert rounds(np.empty(0, np.int64)) == []


def test_the_prior_of_new_keys_is_the_moments_of_the_beliefs_so_far():
    model = fleet().partial_fit(frame(keys=6, rows=60, seed=1))
    engine = model.learner.engine
    priors, beliefs = engine.model.priors, engine.keys.states.beliefs
    assert len(priors) > 1
    beliefs.prior[:3] = 0
    engine.keys.states.learnt[2] = 0  # has learnt nothing
    beliefs.mean[4, 1, 3] = np.nan  # is broken
    one = np.zeros(6, np.int64)
    experts = engine.model.experts
    found = pooled_prior(belief_sums(engine.keys.states, experts, priors, one, 1), priors[0])
    first = priors[0]
    F = first.mean.shape[1]
    i, j = np.tril_indices(F)
    for e in range(len(first.mean)):
        thetas, covs, weights, counts = [], [], [], []
        for k in (0, 1, 3, 5):
            prior, P = priors[beliefs.prior[k]], np.zeros((F, F))
            P[i, j] = P[j, i] = beliefs.cov[k, e]
            thetas.append(prior.mean[e] + prior.root[e] @ beliefs.mean[k, e])
            covs.append(prior.root[e] @ P @ prior.root[e].T)
            weights.append(np.exp(beliefs.log_weights[k]))
            shape = 25.0 - (25.0 - min(experts.start, 25.0)) * 0.98 ** engine.keys.states.learnt[k]
            counts.append((experts.start + shape) / (experts.start + beliefs.rate[k, e, 1]))
        mean = (np.einsum("k,kf->f", counts, thetas) + first.mean[e]) / (1.0 + np.sum(counts))
        between = sum(c * np.outer(t - mean, t - mean) for c, t in zip(counts, thetas, strict=True))
        drawn = pooled.PRIOR_KEYS * first.root[e] @ first.root[e].T + np.sum(covs, axis=0) + between
        cov = drawn / (4 + pooled.PRIOR_KEYS)
        np.testing.assert_allclose(found.mean[e], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.root[e] @ found.root[e].T, cov, rtol=1e-9, atol=1e-12)
        shares = np.mean([w / w.sum() for w in weights], axis=0)
        np.testing.assert_allclose(np.exp(found.log_weights), 0.995 * shares + 0.005 / 6, rtol=1e-9)
    engine.keys.states.learnt[:] = 0
    assert pooled_prior(belief_sums(engine.keys.states, experts, priors, one, 1), first) is first
