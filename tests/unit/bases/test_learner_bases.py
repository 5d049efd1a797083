"""The prediction of a regressor of the user's as a feature: its own, by name, and once more in another process."""

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from streamgp.bases import Learner, learners
from streamgp.bases.boosted import held_out
from streamgp.bases.learners import MAX_ROWS, LearnerError, check_same, remember
from streamgp.numerics import keys
from streamgp.numerics.checkpoint import CheckpointError
from streamgp.numerics.checkpoint.encoding import decode, encode

KEY = keys.key(4)
N, D = 300, 3
RIDGE, FOREST = Ridge(2.0), RandomForestRegressor(5)


class Odd(Ridge):
    """A regressor that does what a test asks."""

    def __init__(self, what: str = "nan") -> None:
        super().__init__()
        self.what = what

    def fit(self, X, y):  # type: ignore[override]
        if self.what == "raise":
            raise RuntimeError("no luck")
        super().fit(X, y)
        if self.what == "in place":
            X *= 0.0
            y *= 0.0
        return self

    def predict(self, X):  # type: ignore[override]
        if self.what == "text":
            return np.array(["a"] * len(X))
        values = super().predict(X)
        if self.what == "in place":
            X += 3.0
            return values
        return (
            values[:, None].repeat(2, 1) if self.what == "wide" else values * np.array([np.nan, np.inf])[len(X) % 2]
        )


def table(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and two targets."""
    X = np.random.default_rng(seed).normal(size=(n, D))
    return X, np.stack([np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2], np.abs(X[:, 2])], axis=1)


def built(regressor: object, n: int = N, start: float = 1.0) -> Learner:
    """Return a basis with the regressor fitted to both targets."""
    return Learner.fitted(remember([regressor])[0], *table(n), start=start, key=KEY)


def in_numpy(basis: Learner) -> Learner:
    return jax.tree.map(np.asarray, basis)


@pytest.mark.parametrize("start", [1.0, 2.0])
def test_it_says_what_the_regressor_says_of_rows_that_were_not_held_out(start: float):
    X, y = table()
    kept = np.setdiff1d(np.arange(N), held_out(N))
    kept = kept[len(kept) - round(len(kept) / start) :]
    new = table(50, 1)[0]
    found = in_numpy(built(RIDGE, start=start))(new)
    np.testing.assert_array_equal(found[:, : D + 1], np.c_[np.ones(50), new])
    for target in range(2):
        np.testing.assert_allclose(found[:, D + 1 + target], Ridge(2.0).fit(X[kept], y[kept, target]).predict(new))


def test_numpy_and_jax_and_a_stack_of_them_agree():
    one, other = (in_numpy(built(FOREST, start=start)) for start in (1.0, 2.0))
    stack = jax.tree.map(lambda *a: np.stack(a), one, other)
    new = table(20, 2)[0]
    in_jax = jax.jit(lambda basis, X: basis(X))
    for basis, found in zip((one, other), stack(new), strict=True):
        np.testing.assert_array_equal(found, basis(new))
        np.testing.assert_array_equal(found, in_jax(jax.tree.map(jnp.asarray, basis), jnp.asarray(new)))
    np.testing.assert_array_equal(stack(new), jax.vmap(lambda basis: basis(jnp.asarray(new)))(stack))
    assert np.abs(stack(new)[0] - stack(new)[1]).max() > 0.1


LATE = """
import os

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, range(os.cpu_count()))  # with one core JAX would wait for itself: see `Learner`
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.ensemble import RandomForestRegressor

import streamgp.numerics.accelerator
from streamgp.bases.learners import Learner, remember
from streamgp.numerics import keys

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = np.sin(X[:, :1])
new = X[:20]
with jax.enable_x64(True):
    (name,) = remember([RandomForestRegressor(5, random_state=0)])
    basis = Learner.fitted(name, X, y, start=1.0, key=keys.key(0))
    late = jax.jit(lambda matrix, X: X + 0.0 * (matrix @ matrix @ matrix).sum())
    found = jax.jit(lambda basis, X: basis(X))(basis, late(jnp.ones((1_200, 1_200)), jnp.asarray(new)))
    np.testing.assert_array_equal(found, jax.tree.map(np.asarray, basis)(new))
"""


@pytest.mark.process
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="JAX's callbacks wait for ever on a single core")
def test_a_thread_that_jax_calls_back_in_gets_whole_numbers():
    """Where the inputs are still being computed, the callback runs in a thread of JAX's that knows of no x64."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr


def test_a_seed_is_given_where_there_is_none():
    """So that the fit can be made once more: also inside a pipeline, and never in place of the user's."""
    new = table(20, 2)[0]
    for regressor in (FOREST, make_pipeline(StandardScaler(), RandomForestRegressor(5))):
        basis = in_numpy(built(regressor))
        before = basis(new)
        learners._fitted.clear()
        np.testing.assert_array_equal(basis(new), before)
    X, y = table()
    kept = np.setdiff1d(np.arange(N), held_out(N))
    own = RandomForestRegressor(5, random_state=7).fit(X[kept], y[kept, 0])
    np.testing.assert_allclose(
        in_numpy(built(RandomForestRegressor(5, random_state=7)))(new)[:, -2], own.predict(new)
    )


def test_many_rows_are_thinned():
    assert int(built(RIDGE, n=20_000).rows) == MAX_ROWS


def test_a_checkpoint_holds_the_rows_and_no_code():
    basis, new = in_numpy(built(RIDGE)), table(20, 2)[0]
    before = basis(new)
    node, arrays = encode(basis)
    learners._fitted.clear()
    given = dict(learners._given)
    learners._given.clear()
    try:
        again = decode(node, arrays, {})
        with pytest.raises(LearnerError, match=r"expected Ridge\(alpha=2.0\), which this process was not given"):
            again(new)
        remember([RIDGE])
        np.testing.assert_array_equal(again(new), before)
    finally:
        learners._given.update(given)


def test_no_more_than_so_many_fits_are_kept():
    bases = [in_numpy(built(RIDGE, n=100 + 3 * i)) for i in range(learners._KEPT + 3)]
    assert len(learners._fitted) == learners._KEPT
    assert np.isfinite(bases[0](table(5)[0])).all()  # fitted once more


def test_predictions_that_are_no_numbers_count_as_the_mean():
    for rows in (4, 5):
        assert (in_numpy(built(Odd()))(table(rows)[0])[:, -2:] == 0.0).all()


def test_one_that_writes_into_its_arrays_spoils_none_of_ours():
    X, y = table()
    new, kept = table(20, 2)[0], np.setdiff1d(np.arange(N), held_out(N))
    basis = in_numpy(built(Odd("in place")))
    found = basis(new)
    np.testing.assert_array_equal(new, table(20, 2)[0])
    np.testing.assert_array_equal(found[:, 1 : D + 1], new)
    np.testing.assert_array_equal(basis.X[: len(kept)], X[kept])
    np.testing.assert_array_equal(basis.y[: len(kept)], y[kept])
    learners._fitted.clear()
    np.testing.assert_array_equal(basis(new), found)  # fitted once more, to the same rows


def test_a_class_that_was_written_anew_is_not_taken_for_the_one_before():
    def written(sign: float) -> type[Ridge]:
        class Mine(Ridge):
            def predict(self, X):  # type: ignore[override]
                return sign * super().predict(X)

        return Mine

    new = table(20, 2)[0]
    before, after = (in_numpy(built(written(sign)()))(new)[:, -2:] for sign in (1.0, -1.0))
    np.testing.assert_array_equal(after, -before)


def test_a_function_that_was_written_anew_is_not_taken_for_the_one_before():
    new = table(20, 2)[0]

    def of(function: Any) -> Any:
        return make_pipeline(FunctionTransformer(function), Ridge())

    (name,), (other,) = (remember([of(function)]) for function in (lambda X: X, lambda X: X))
    assert name == other, "the name is another one in every process"
    before, after = (in_numpy(built(of(function)))(new) for function in (lambda X: X, lambda X: np.abs(X)))
    assert np.abs(before - after).max() > 0.1


def test_a_generator_that_goes_on_is_refused():
    with pytest.raises(ValueError, match=r"whole number as random_state of RandomForest.*got a RandomState"):
        remember([RandomForestRegressor(5, random_state=np.random.RandomState(0))])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([Ridge], TypeError, "expected regressors with fit and predict.*a class; make an instance"),
        (["ridge"], TypeError, "got 'ridge', without fit"),
        (Ridge(), TypeError, r"expected a list of regressors, got Ridge\(\) alone; put it into a list"),
        ([Ridge(), Ridge()], ValueError, r"got Ridge\(\) twice"),
    ],
)
def test_what_is_no_list_of_regressors_is_refused(given: object, error: type, message: str):
    with pytest.raises(error, match=message):
        remember(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raise", r"Odd\(what='raise'\) failed to fit 255 rows \(RuntimeError: no luck\)"),
        ("text", r"Odd\(what='text'\) failed to predict 1 rows \(ValueError: could not convert string to float"),
        ("wide", r"expected Odd\(what='wide'\) to predict a number for each of 1 rows, got .* \(1, 2\)"),
    ],
)
def test_a_regressor_that_fails_is_named(what: str, message: str):
    with pytest.raises(LearnerError, match=message):
        built(Odd(what))


def test_other_regressors_than_those_of_a_checkpoint_are_refused():
    with pytest.raises(CheckpointError, match=r"learnt with learners=\[Ridge\(alpha=2.0\)\] and was given .*\[\]"):
        check_same((), remember([RIDGE]))
