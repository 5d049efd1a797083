"""The search for hyperparameters where the function is not what a search hopes for."""

import numpy as np
import pytest

from streamgp.models.fitting.hyperparameters import search


def test_it_turns_back_where_there_is_no_number():
    def objective(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.where(x < 1.5, np.square(x - 1.0) * 20, np.nan).sum()
        return value, 40 * (x - 1.0)

    found = search(objective, [-5.0], [(None, None)], 50)  # type: ignore[arg-type]
    assert found.x[0] == pytest.approx(1.0, abs=1e-3)


def test_without_a_number_at_the_start_it_stays_there_and_says_so():
    found = search(lambda x: (np.nan * x.sum(), np.nan * x), [2.0, 3.0], [(None, None)] * 2, 50)  # type: ignore
    assert found.fun == np.inf
    np.testing.assert_array_equal(found.x, [2.0, 3.0])


def test_one_that_ends_abnormally_gives_the_best_point_seen():
    seen: list[tuple[float, np.ndarray]] = []

    def objective(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.abs(x - 2.0).sum()
        seen.append((float(value), x.copy()))
        return value, np.full(1, -1e6)  # which promises much more than there is

    found = search(objective, [0.0], [(None, None)], 100)  # type: ignore[arg-type]
    assert found.status == 2
    value, where = min(seen, key=lambda pair: pair[0])
    assert found.fun == value < 2.0
    np.testing.assert_array_equal(found.x, where)
