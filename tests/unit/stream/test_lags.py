"""Lagged targets, cell by cell."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.lagged_rows import widened_by_hand
from streamgp.stream.lags import LaggedTargets, lag_names
from streamgp.stream.passed_rows import PassedRows


def with_fill(lags: tuple[int, ...], fill: np.ndarray, exposed: bool = False) -> LaggedTargets:
    return replace(LaggedTargets.empty(lags, len(fill), exposed), fill=fill)


@given(
    lags=st.lists(st.integers(1, 12), max_size=4, unique=True).map(lambda lags: tuple(sorted(lags))),
    cuts=st.lists(st.integers(0, 9), max_size=6),
    outputs=st.integers(1, 3),
)
def test_any_pieces_give_the_cells_counted_off_by_hand(lags: tuple[int, ...], cuts: list[int], outputs: int):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(sum(cuts), 2)), rng.normal(size=(sum(cuts), outputs))
    fill = np.arange(outputs) + 50.0
    past, parts, at = with_fill(lags, fill), [np.zeros((0, 2 + len(lags) * outputs))], 0
    for size in cuts:
        rows = slice(at, at + size)
        parts.append(past.widen(X[rows], y[rows]))
        past = past.learn(y[rows])
        at += size
    expected = widened_by_hand(X, y, lags, fill).reshape(len(X), 2 + len(lags) * outputs)
    np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("learnt", [0, 1, 3, 9])
def test_rows_to_predict_are_all_the_next_one(learnt: int):
    rng = np.random.default_rng(1)
    X, y, fill = rng.normal(size=(4, 2)), rng.normal(size=(learnt + 1, 2)), np.array([7.0, 8.0])
    past = with_fill((1, 3), fill).learn(y[:learnt])
    expected = widened_by_hand(np.zeros((learnt + 1, 0)), y, (1, 3), fill)[-1]
    np.testing.assert_array_equal(past.widen_next(X), np.hstack([X, np.tile(expected, (4, 1))]))


def test_an_exposure_stays_the_last_column():
    rng = np.random.default_rng(2)
    X, y, fill = rng.normal(size=(6, 3)), rng.normal(size=(6, 1)), np.array([7.0])
    expected = widened_by_hand(np.zeros((6, 0)), y, (1, 3), fill).reshape(6, 2)
    expected = np.hstack([X[:, :2], expected, X[:, 2:]])
    past = with_fill((1, 3), fill, exposed=True)
    np.testing.assert_array_equal(past.widen(X, y), expected)
    np.testing.assert_array_equal(past.learn(y[:5]).widen_next(X[5:]), expected[5:])
    np.testing.assert_array_equal(past.learn(y).emptied().widen(X, y), expected)
    some = PassedRows.none().add(2, 1)
    np.testing.assert_array_equal(past.widen_among(X, y, some)[:, [0, 1, 4]], X)


def test_what_is_remembered_has_a_fixed_size():
    past = LaggedTargets.empty((2, 5), 1)
    for n in (1, 1000, 3, 0):
        past = past.learn(np.arange(n, dtype=float)[:, None])
        assert past.last.shape == (6, 1)
    np.testing.assert_array_equal(past.last[:, 0], [997.0, 998.0, 999.0, 0.0, 1.0, 2.0])


def test_names():
    assert lag_names(["load", "price"], (1, 24)) == ["load lag 1", "price lag 1", "load lag 24", "price lag 24"]
