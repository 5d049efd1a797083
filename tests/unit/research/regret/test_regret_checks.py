"""The synthetic checks, small: what their regrets must satisfy whatever the draw."""

import numpy as np

from streamgp.research.regret.checks import bands, static_growth, switching_growth


def test_static_growth_stays_below_lemma_1() -> None:
    points = static_growth(0, (20, 40), n=10, dense_rows=30)
    assert [point.rows for point in points] == [20, 40]
    assert all(0.0 < point.to_basis <= point.bound for point in points)
    assert points[0].to_kernel is not None and points[0].to_kernel > 0.0
    assert points[1].to_kernel is None


def test_switching_growth_stays_below_lemmas_2_and_3_on_own_slots() -> None:
    (point,) = switching_growth(0, (40,), n=10)
    assert point.rows == 40
    assert 0.0 < point.own_to_basis <= point.bound
    # Both algorithms are held to the same functions.
    assert np.isclose(point.to_kernel - point.own_to_kernel, point.to_basis - point.own_to_basis)


def test_bands_are_narrow_where_the_rows_are_and_hold() -> None:
    found = bands(0)
    near = np.abs(found.grid[:, None] - found.x).min(1) < 0.05
    far = np.abs(found.grid[:, None] - found.x).min(1) > 1.0
    assert found.std[near].max() < found.std[far].min()
    assert (np.abs(found.mean - found.truth) < 1.96 * found.std)[near].mean() > 0.9
