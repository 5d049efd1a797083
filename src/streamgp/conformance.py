"""Checks of what every online model must do, on a model and data of yours.

`check_online_model` runs all of `CHECKS`; each of them raises an `AssertionError` whose message says which promise
is broken and what usually breaks it. No test framework is needed.
"""

import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import LatentPredictive, Predictive
from streamgp.models.contract import Info, OnlineModel, StreamModel
from streamgp.numerics import keys, tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint import load, save
from streamgp.numerics.checkpoint.encoding import encode
from streamgp.numerics.keys import Key

MIN_ROWS = 6

ModelPredictive = Predictive | LatentPredictive


@dataclass(frozen=True)
class Subject:
    """The model under test, and the rows that it is tested on."""

    model: OnlineModel
    X: Float[AnyArray, "n d"]
    y: Float[AnyArray, "n e"]
    times: Float[AnyArray, " n"] | None
    key: Key
    rtol: float
    other: Float[AnyArray, "n e"]

    def start(self) -> Any:
        """Return a fresh state."""
        return self.model.init(self.key)

    def _clock(self, rows: slice) -> Float[AnyArray, " n"] | None:
        return None if self.times is None else self.times[rows]

    def learn(self, state: Any, rows: slice, y: AnyArray | None = None) -> tuple[Any, Info]:
        """Update with `rows`, or with other targets in place of theirs."""
        return self.model.update(state, self.X[rows], (self.y if y is None else y)[rows], None, self._clock(rows))

    def predict(self, state: Any, rows: slice) -> ModelPredictive:
        """Predict `rows`."""
        return self.model.predict(state, self.X[rows], self._clock(rows))

    @property
    def half(self) -> tuple[slice, slice]:
        """Return the first rows and the others."""
        n = len(self.X) // 2
        return slice(0, n), slice(n, len(self.X))


def check_online_model(
    model: OnlineModel,
    X: Any,
    y: Any,
    times: Any = None,
    *,
    key: Key | None = None,
    rtol: float = 1e-9,
    other: Any = None,
) -> None:
    """Run every check of the contract `OnlineModel` on a model of yours, and of `StreamModel` where it is one.

    Parameters
    ----------
    model
        The model. Classes in its state must be registered with `streamgp.numerics.checkpoint.register`.
    X, y
        Ordinary rows of a stream, shapes (n, D) and (n, E), n >= 6: inside the region that the model is meant for.
        A few dozen are plenty.
    times
        Their time stamps, ascending, for a model that uses them.
    key
        Random key of the initial state.
    rtol
        Largest difference between two ways to the same number, relative to the largest of its kind. The default
        suits float64; allow about 1e-3 in float32.
    other
        Other targets (n, E), each different from that of its row, by which it is tried whether predictions know
        theirs. By default far larger ones; for a model of labels give other labels.

    Raises
    ------
    AssertionError
        At the first promise that is broken.
    ValueError
        If the rows do not fit the model.
    """
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim != 2 or y.ndim != 2 or len(X) != len(y) or len(X) < MIN_ROWS:
        raise ValueError(
            f"check_online_model: expected X of shape (n, D) and y of shape (n, E) with n >= {MIN_ROWS}, "
            f"got {X.shape} and {y.shape}"
        )
    if (X.shape[1], y.shape[1]) != (model.num_inputs, model.num_outputs):
        raise ValueError(
            f"check_online_model: expected {model.num_inputs} columns in X and {model.num_outputs} in y, as the "
            f"model says, got {X.shape[1]} and {y.shape[1]}"
        )
    key = keys.key(0) if key is None else key
    other = y + 1e3 * (1.0 + np.abs(y)) if other is None else np.asarray(other)
    subject = Subject(model, X, y, None if times is None else np.asarray(times), key, rtol, other)
    for check in CHECKS:
        check(subject)


def predictions_are_distributions(s: Subject) -> None:
    """Check shapes (n, K), (n, K, E), that weights sum to one, variances are positive and live components finite."""
    state = s.start()
    first, rest = s.half
    state, info = s.learn(state, first)
    for what, p in (("update", info.predictive), ("predict", s.predict(state, rest))):
        n, e = s.y[first if what == "update" else rest].shape
        k = p.log_weights.shape[-1]
        # Gaussians and t's of the targets, or Gaussians of latent values.
        variance, tail = (p.var, (e,)) if isinstance(p, Predictive) else (p.cov, (p.loc.shape[-1],))
        shapes = (p.log_weights.shape, p.loc.shape, variance.shape)
        expected = ((n, k), (n, k, *tail), (n, k, *tail * (1 if isinstance(p, Predictive) else 2)))
        assert shapes == expected, (
            f"{what}: expected log_weights, loc and variances of shapes {expected}, got {shapes}"
        )
        wrong = ~(np.abs(np.asarray(p.weights, np.float64).sum(1) - 1.0) <= s.rtol)
        assert not wrong.any(), (
            f"{what}: the weights of row {np.argmax(wrong)} do not sum to one; "
            f"subtract logsumexp from the log weights"
        )
        live = np.isfinite(p.log_weights)
        variances = np.asarray(variance) if isinstance(p, Predictive) else np.diagonal(variance, axis1=-2, axis2=-1)
        # Latent values may be certain: the noise of the target is in the likelihood.
        positive = variances[live] > 0 if isinstance(p, Predictive) else variances[live] >= 0
        assert positive.all(), f"{what}: a variance is not positive; it must hold the noise of the target"
        assert np.isfinite(np.asarray(p.loc)[live]).all(), f"{what}: a mean is not finite"
        assert np.isfinite(np.asarray(variance)[live]).all(), f"{what}: a variance is not finite"


def predict_is_pure(s: Subject) -> None:
    """Check that the same state predicts the same, and is not changed by it."""
    first, rest = s.half
    state, _ = s.learn(s.start(), first)
    before = _snapshot(state)
    once, twice = s.predict(state, rest), s.predict(state, rest)
    _expect_equal(once, twice, "predict gave two answers for one state; it must not draw or remember anything")
    assert _same(before, _snapshot(state)), "predict changed the state; it must leave it alone"


def states_are_values(s: Subject) -> None:
    """Check that an update leaves the state that it was given alone, and depends on nothing else."""
    first, rest = s.half
    state, _ = s.learn(s.start(), first)
    before = _snapshot(state)
    ahead = s.predict(state, rest)
    one, _ = s.learn(state, rest)
    assert _same(before, _snapshot(state)), "update changed the state that it was given; it must return a new one"
    two, _ = s.learn(state, rest)
    assert _same(_snapshot(one), _snapshot(two)), (
        "two updates of one state with the same rows differ; keep all memory in the state"
    )
    _expect_equal(ahead, s.predict(state, rest), "a state predicts otherwise after its clone has learnt")


def targets_come_after(s: Subject) -> None:
    """Check that the prediction of a row knows no target of its own or of later rows."""
    first, _ = s.half
    state, _ = s.learn(s.start(), first)
    everything = slice(0, len(s.X))
    _, info = s.learn(state, everything)
    for i in (0, len(s.X) // 2, len(s.X) - 1):
        changed = np.concatenate([s.y[:i], s.other[i:]])
        _, other = s.learn(state, everything, changed)
        _expect_close(
            _rows(info.predictive, slice(0, i + 1)),
            _rows(other.predictive, slice(0, i + 1)),
            s.rtol,
            f"update: changing the targets from row {i} on moved the prediction of row {i} or of one before; "
            f"predict each row before learning from it, weights included",
        )


def predict_agrees_with_update(s: Subject) -> None:
    """Check that `predict` says of the next row what `update` passes through on its way."""
    first, rest = s.half
    for state, rows in ((s.start(), first), (s.learn(s.start(), first)[0], rest)):
        _, info = s.learn(state, rows)
        _expect_close(
            _rows(s.predict(state, rows), slice(0, 1)),
            _rows(info.predictive, slice(0, 1)),
            s.rtol,
            "predict and update give different predictions of the first row of a batch",
        )


def rows_are_predicted_one_by_one(s: Subject) -> None:
    """Check that `predict` treats every row as the next one: a batch is its rows."""
    first, rest = s.half
    state, _ = s.learn(s.start(), first)
    batch = s.predict(state, rest)
    for i in range(rest.start, rest.stop):
        _expect_close(
            s.predict(state, slice(i, i + 1)),
            _rows(batch, slice(i - rest.start, i - rest.start + 1)),
            s.rtol,
            f"predict: row {i - rest.start} of a batch is predicted otherwise than alone; rows must not interact",
        )


def one_by_one_is_all_at_once(s: Subject) -> None:
    """Check that the size of the batches in which rows arrive changes no number."""
    state, info = s.learn(s.start(), slice(0, len(s.X)))
    single, predictions = s.start(), []
    for i in range(len(s.X)):
        single, one = s.learn(single, slice(i, i + 1))
        predictions.append(one.predictive)
    joined = tree.map(lambda *a: np.concatenate(a), *predictions)
    message = "update: rows one at a time and all at once give different "
    _expect_close(joined, info.predictive, s.rtol, message + "predictions")
    every = slice(0, len(s.X))
    _expect_close(s.predict(single, every), s.predict(state, every), s.rtol, message + "beliefs")


def masked_rows_cost_nothing(s: Subject) -> None:
    """Check that rows left out, whatever they hold, are as if they had never been there; no time passes on them."""
    n, (first, rest) = len(s.X), s.half
    want, info = s.learn(s.start(), slice(0, n))
    repeated = np.sort(np.r_[0, np.arange(n), first.stop, n - 1])  # row 0, one in the middle and the last come twice
    keep = np.r_[True, repeated[1:] != repeated[:-1]]
    keep[:2] = keep[1::-1]  # of the first pair it is the first that is left out
    X, y = (np.where(np.asarray(keep)[:, None], a[repeated], np.nan) for a in (s.X, s.y))
    times = None if s.times is None else s.times[repeated]
    got, masked = s.model.update(s.start(), X, y, np.asarray(keep), times)
    message = "update: rows left out by the mask changed "
    _expect_close(_rows(masked.predictive, keep), info.predictive, s.rtol, message + "the predictions of others")
    _expect_close(s.predict(got, rest), s.predict(want, rest), s.rtol, message + "the beliefs")


def saved_and_loaded_is_unbroken(s: Subject) -> None:
    """Check that a state that has been to the disk goes on to the same numbers, bit for bit."""
    first, rest = s.half
    state, _ = s.learn(s.start(), first)
    with tempfile.TemporaryDirectory() as directory:
        save(directory, state, {})
        loaded, _ = load(directory)
    want, info = s.learn(state, rest)
    got, resumed = s.learn(loaded, rest)
    message = (
        "a state that was saved and loaded goes on otherwise; keep everything that matters in the state's fields"
    )
    _expect_equal(resumed.predictive, info.predictive, message)
    assert _same(_snapshot(got), _snapshot(want)), message


def memory_is_bounded(s: Subject) -> None:
    """Check that the state keeps the shapes and dtypes that it started with."""
    state = s.start()
    born = _signature(state)
    for rows in (*s.half, slice(0, 1), slice(0, len(s.X))):
        state, _ = s.learn(state, rows)
        now = _signature(state)
        assert now == born, f"update: the state changed from {born} to {now}; it must keep its shapes and dtypes"


def weights_and_times_are_reported(s: Subject) -> None:
    """Check, of a `StreamModel`, that it reports the weights of its predictions and the time of the last row."""
    if not isinstance(s.model, StreamModel):
        return
    first, rest = s.half
    state, _ = s.learn(s.start(), first)
    want = np.nan if s.times is None else float(s.times[first].max())
    last = float(state.last_time)
    assert np.array_equal(last, want, equal_nan=True), (
        f"state.last_time: expected {want} after the rows learnt (NaN where rows have no times), got {last}"
    )
    weights = np.asarray(s.model.describe(state).weights)
    assert weights.ndim == 1 and (weights >= 0.0).all(), f"describe: expected (K,) weights, got {weights}"
    if s.model.mixes_experts:
        mixed = np.asarray(s.predict(state, rest).weights)[0]
        assert weights.shape == mixed.shape and np.allclose(weights, mixed, rtol=0.0, atol=s.rtol), (
            f"describe: expected the weights of the next row's prediction, {mixed}, got {weights}"
        )


CHECKS = (
    predictions_are_distributions,
    predict_is_pure,
    states_are_values,
    targets_come_after,
    predict_agrees_with_update,
    rows_are_predicted_one_by_one,
    one_by_one_is_all_at_once,
    masked_rows_cost_nothing,
    saved_and_loaded_is_unbroken,
    memory_is_bounded,
    weights_and_times_are_reported,
)
"""The promises of an online model, in the order in which they are checked."""


def _rows(predictive: ModelPredictive, rows: Any) -> ModelPredictive:
    return tree.map(lambda a: a[rows], predictive)


def _quantities(p: ModelPredictive) -> dict[str, np.ndarray]:
    """Return what a user can see: a component that is switched off may predict anything."""
    if isinstance(p, Predictive):
        return {"weights": np.asarray(p.weights), "mean": np.asarray(p.mean), "variance": np.asarray(p.variance)}
    live = np.isfinite(p.log_weights)
    return {"weights": np.asarray(p.weights), "mean": np.asarray(p.loc)[live], "variance": np.asarray(p.cov)[live]}


def _expect_close(got: ModelPredictive, want: ModelPredictive, rtol: float, message: str) -> None:
    expected = _quantities(want)
    for name, value in _quantities(got).items():
        scale = np.abs(expected[name]).max()
        error = np.abs(value - expected[name]).max()
        assert error <= rtol * scale, f"{message} ({name}: off by {error:.3g} at a scale of {scale:.3g})"


def _expect_equal(got: ModelPredictive, want: ModelPredictive, message: str) -> None:
    expected = _quantities(want)
    assert all(np.array_equal(value, expected[name]) for name, value in _quantities(got).items()), message


def _snapshot(state: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a copy of everything in a state."""
    node, arrays = encode(state)
    return node, {name: np.array(a) for name, a in arrays.items()}


def _same(a: tuple[Any, dict[str, np.ndarray]], b: tuple[Any, dict[str, np.ndarray]]) -> bool:
    bits = [{name: value.tobytes() for name, value in arrays.items()} for _, arrays in (a, b)]
    return a[0] == b[0] and bits[0] == bits[1]


def _signature(state: Any) -> list[tuple[tuple[int, ...], str]]:
    return [(np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in tree.leaves(state)]
