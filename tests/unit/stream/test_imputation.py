"""Missing inputs: what is filled is the conditional Gaussian, from the rows before alone, however rows are cut."""

import numpy as np
import pytest

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.stream.autoregression import Belief, RowMoments, filter_rows, step
from streamgp.stream.imputation import REFRESH, WIDEST, Filled, Imputer

NAN = np.nan


def rows(n: int = 600, seed: int = 0) -> np.ndarray:
    """A stream of three columns that move together and have a memory, and one that stands alone."""
    rng = np.random.default_rng(seed)
    e = rng.normal(size=(n, 4)) * [0.3, 0.3, 0.1, 1.0]
    X = np.zeros((n, 4))
    for t in range(n):
        last = X[t - 1] if t else X[0]
        X[t, 0] = 0.9 * last[0] + e[t, 0]
        X[t, 1] = 0.5 * last[1] + 0.4 * X[t, 0] + e[t, 1]
        X[t, 2] = X[t, 0] - X[t, 1] + e[t, 2]
        X[t, 3] = e[t, 3]
    return X * [1.0, 100.0, 1e-3, 5.0] + [0.0, 1e4, 7.0, -3.0]


def with_gaps(X: np.ndarray, share: float = 0.1, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


def learnt(X: np.ndarray, chunk: int | None = None) -> tuple[Filled, Imputer]:
    imputer, parts = Imputer.empty(X.shape[1]), []
    for i in range(0, len(X), chunk or len(X)):
        filled, imputer = imputer.learn(X[i : i + (chunk or len(X))], np.zeros(X.shape[1]), np.ones(X.shape[1]))
        parts.append(filled)
    return Filled(*map(np.concatenate, zip(*parts, strict=True))), imputer


def gaussian(moments: RowMoments, last: Belief, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of the row, and the revised mean of the row before: conditioning the joint by hand."""
    model, scale, D = moments.model, moments.scale, len(x)
    V = last.cov / np.outer(scale, scale)
    f = moments.scaled(last.mean)
    A, C = model.lag, np.linalg.inv(model.precision)
    mean = np.r_[model.start + A @ f, f]
    cov = np.block([[A @ V @ A.T + C, A @ V], [V @ A.T, V]])
    seen = np.flatnonzero(~np.isnan(x))
    gain = cov[:, seen] @ np.linalg.inv(cov[np.ix_(seen, seen)])
    mean = mean + gain @ (moments.scaled(x)[seen] - mean[seen])
    cov = cov - gain @ cov[seen]
    unscaled = mean * np.tile(scale, 2) + np.tile(moments.center, 2)
    return unscaled[:D], cov[:D, :D] * np.outer(scale, scale), unscaled[D:]


class TestAutoregression:
    @pytest.mark.parametrize("now", [[0], [0, 2], [], [0, 1, 2, 3]])
    @pytest.mark.parametrize("before", [[], [1], [0, 1, 3]])
    def test_a_step_is_the_conditional_gaussian(self, now: list[int], before: list[int]):
        X = rows()
        moments = learnt(X)[1].groups[0].moments
        assert moments is not None
        x = X[500].copy()
        x[now] = NAN
        spread = np.diag(moments.scale[before]) @ (np.eye(len(before)) + 0.3) @ np.diag(moments.scale[before])
        last = Belief(X[499], np.zeros((4, 4)))
        last.cov[np.ix_(before, before)] = spread
        found = step(moments, last, x)
        mean, cov, revised = gaussian(moments, last, x)
        np.testing.assert_allclose(found.now.mean, mean, rtol=1e-6)
        unit = np.outer(moments.scale, moments.scale)
        np.testing.assert_allclose(found.now.cov / unit, cov / unit, atol=1e-6)
        np.testing.assert_allclose(found.before, revised, rtol=1e-6)

    def test_coefficients_are_those_of_the_process(self):
        X = rows(4000)
        moments = learnt(X)[1].groups[0].moments
        assert moments is not None
        unit = moments.scale / [1.0, 100.0, 1e-3, 5.0]
        lag = moments.model.lag * unit[:, None] / unit
        true = [[0.9, 0, 0, 0], [0.36, 0.5, 0, 0], [0.54, -0.5, 0, 0], [0, 0, 0, 0]]
        # Column 2 is nearly a sum of the other two: what its own last value says, these do as well.
        np.testing.assert_allclose(lag[:2, :2] + np.outer(lag[:2, 2], [1.0, -1.0]), np.array(true)[:2, :2], atol=0.08)

    def test_rows_without_gaps_are_no_work(self):
        X = rows(100)
        moments = RowMoments.of_first(X, np.concatenate([X[1:], X[:-1]], axis=1))
        X[40, 1] = NAN
        assert [i for i, _ in filter_rows(moments, Belief(X[0], np.zeros((4, 4))), X)] == [40, 41]


class TestImputer:
    @pytest.mark.parametrize("chunk", [1, 7, 64, 100])
    def test_however_rows_are_cut(self, chunk: int):
        X = with_gaps(rows(300))
        whole, imputer = learnt(X)
        found, other = learnt(X, chunk)
        np.testing.assert_allclose(found.X, whole.X, rtol=1e-10)
        np.testing.assert_allclose(found.var, whole.var, rtol=1e-9, atol=1e-12)
        again = decode(*encode(other), {}).fill(X[:20], np.zeros(4), np.ones(4))
        np.testing.assert_allclose(again.X, imputer.fill(X[:20], np.zeros(4), np.ones(4)).X, rtol=1e-10)

    def test_only_from_the_rows_before(self):
        X = with_gaps(rows(200))
        other = X.copy()
        other[150:] = rows(200, seed=5)[150:]
        np.testing.assert_array_equal(learnt(other)[0].X[:150], learnt(X)[0].X[:150])

    def test_the_next_row_is_filled_as_it_will_be_when_it_is_learnt(self):
        X = with_gaps(rows(200))
        imputer = learnt(X[:150])[1]
        ahead = imputer.fill(X[150:151], np.zeros(4), np.ones(4))
        np.testing.assert_allclose(ahead.X[0], imputer.learn(X[150:], np.zeros(4), np.ones(4))[0].X[0], rtol=1e-12)

    def test_what_is_filled_is_near_and_its_variance_is_honest(self):
        X = rows(3000)
        gaps = with_gaps(X)
        filled, _ = learnt(gaps)
        late = np.isnan(gaps) & (np.arange(3000) >= 500)[:, None]
        error = np.where(late, filled.X - X, NAN)
        share = np.nanmean(error**2, axis=0) / X.var(axis=0)
        # What the other columns and the last values leave open of each: the third follows from the first two.
        assert (share[:3] < [0.1, 0.1, 0.25]).all()
        assert share[3] == pytest.approx(1.0, abs=0.2)
        per_variance = np.nanmean(error**2 / np.where(late, filled.var, NAN), axis=0)
        counts = late.sum(axis=0)
        assert (np.abs(per_variance - 1.0) < 5 * np.sqrt(2.0 / counts)).all()
        assert (filled.var[~np.isnan(gaps)] == 0.0).all()

    def test_a_sensor_that_stays_away_is_ever_less_certain(self):
        X = rows(1100)
        gaps = X.copy()
        gaps[500:1000, [0, 3]] = NAN
        filled, _ = learnt(gaps)
        assert filled.var[500, 0] < filled.var[510, 0]
        away = slice(510, 1000)
        for column in (0, 3):
            ratio = np.mean((filled.X - X)[away, column] ** 2 / filled.var[away, column])
            assert 0.7 < ratio < 1.4
        assert np.isfinite(filled.X).all()

    def test_glitches_leave_what_is_filled_as_it_was(self):
        X = rows(2000)
        gaps = with_gaps(X)
        spoilt = gaps.copy()
        glitches = np.random.default_rng(3).random(X.shape) < 0.01
        spoilt[glitches & ~np.isnan(gaps)] *= 1e3
        clean, rough = learnt(gaps)[0].X, learnt(spoilt)[0].X
        # Rows with a glitch of their own, or after one, have less to go by.
        calm = ~(glitches.any(axis=1) | np.roll(glitches.any(axis=1), 1)) & (np.arange(2000) > 500)
        late = np.isnan(gaps) & calm[:, None]
        errors = [np.mean(((found - X) / X.std(axis=0))[late] ** 2) for found in (clean, rough)]
        assert errors[1] < 1.3 * errors[0]

    def test_a_column_that_stood_still_may_move(self):
        X = rows(1500)
        X[:300, 0] = 200.0
        X[300:, 0] = X[300:, 1] / 50.0
        gaps = with_gaps(X)
        filled, _ = learnt(gaps)
        late = np.isnan(gaps[:, 0]) & (np.arange(1500) > 800)
        assert np.mean((filled.X - X)[late, 0] ** 2) < 0.1 * X[800:, 0].var()

    def test_before_anything_is_known(self):
        X = rows(10)
        X[0], X[1, 0], X[2] = NAN, NAN, NAN
        filled, _ = Imputer.empty(4).learn(X, np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 1.0, 1.0]))
        np.testing.assert_array_equal(filled.X[0], [1.0, 2.0, 3.0, 4.0])
        np.testing.assert_array_equal(filled.var[0], [1.0, 4.0, 1.0, 1.0])
        assert filled.X[1, 0] == 1.0
        np.testing.assert_array_equal(filled.X[2, 1:], X[1, 1:])
        nothing, imputer = learnt(np.full((200, 3), NAN))
        assert np.isfinite(nothing.X).all()
        assert np.isfinite(imputer.refill(np.full((5, 3), NAN)).X).all()

    def test_the_warm_up_is_filled_again_by_all_that_is_known(self):
        X = rows(400)
        gaps = with_gaps(X)
        filled, imputer = learnt(gaps)
        again = imputer.refill(gaps)
        early = np.isnan(gaps) & (np.arange(400) < REFRESH)[:, None]
        errors = [np.mean(((found.X - X) / X.std(axis=0))[early] ** 2) for found in (filled, again)]
        assert errors[1] < 0.85 * errors[0]
        np.testing.assert_array_equal(again.X[~np.isnan(gaps)], X[~np.isnan(gaps)])

    def test_many_columns_are_filled_in_groups(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, WIDEST + 2))
        X[:, -1] = X[:, -2]
        gaps = X.copy()
        gaps[70:, -1] = NAN
        filled, imputer = learnt(gaps)
        assert [group.width for group in imputer.groups] == [WIDEST // 2 + 1] * 2
        assert imputer.width == WIDEST + 2
        assert filled.X.shape == X.shape
        base, moved, steps = imputer.probes(1024, np.ones(WIDEST + 2))
        assert len(moved) == len(base) * imputer.width <= 1024
        assert (np.count_nonzero((moved.reshape(imputer.width, len(base), -1) - base).any(axis=1), axis=1) == 1).all()
        assert (steps > 0.0).all()


@pytest.mark.parametrize("n", [1, 2, 9, 70, 200])
@pytest.mark.parametrize("chunk", [1, 64])
def test_the_recent_rows_are_the_last_ones_each_once(n: int, chunk: int):
    X = rows(n)
    (group,) = learnt(X, chunk)[1].groups
    np.testing.assert_array_equal(group.recent, X[-REFRESH:])


DRAWS, DEVIATIONS = 40_000, 5.0  # standard errors


def drawn(imputer: Imputer, X: np.ndarray) -> list[np.ndarray]:
    return list(imputer.paths(X, np.zeros(4), np.ones(4), DRAWS, np.random.default_rng(0)))


def agree(found: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> None:
    std = np.sqrt(np.diag(cov))
    assert (np.abs(found.mean(axis=0) - mean) < DEVIATIONS * std / np.sqrt(DRAWS)).all()
    np.testing.assert_allclose(np.cov(found.T) / np.outer(std, std), cov / np.outer(std, std), atol=0.05)


def test_paths_are_draws_of_the_rows_to_come():
    """Beside the means and covariances of the filter, of rows of which nothing is known."""
    imputer = learnt(rows())[1]
    group = imputer.groups[0]
    assert group.moments is not None
    belief = Belief(group.last, group.uncertain)
    for found in drawn(imputer, np.full((6, 4), NAN)):
        belief = step(group.moments, belief, np.full(4, NAN)).now
        agree(found, *belief)


def test_paths_know_what_is_known_of_a_row():
    X = rows(601)
    imputer = learnt(np.r_[X[:599], [[*X[599, :3], NAN]]])[1]  # the last row has a gap itself
    group = imputer.groups[0]
    assert group.moments is not None
    x = np.array([NAN, X[600, 1], NAN, X[600, 3]])
    (found, known) = drawn(imputer, np.array([x, X[600]]))
    np.testing.assert_array_equal(found[:, [1, 3]], np.tile(x[[1, 3]], (DRAWS, 1)))
    np.testing.assert_array_equal(known, np.tile(X[600], (DRAWS, 1)))
    now = step(group.moments, Belief(group.last, np.zeros((4, 4))), x).now
    gaps = np.ix_([0, 2], [0, 2])
    agree(found[:, [0, 2]], now.mean[[0, 2]], now.cov[gaps])


def test_paths_before_anything_is_known_are_around_the_centre():
    found = list(
        Imputer.empty(2).paths(np.full((2, 2), NAN), np.ones(2), np.full(2, 3.0), 10_000, np.random.default_rng(0))
    )
    for rows_, std in zip(found, (3.0, 3.0 * np.sqrt(2.0)), strict=True):
        np.testing.assert_allclose(rows_.mean(axis=0), 1.0, atol=0.25)
        np.testing.assert_allclose(rows_.std(axis=0), std, rtol=0.05)
