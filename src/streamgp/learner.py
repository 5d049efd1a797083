"""One stream from its first row on: provisional predictions, the warm-up's fit, then the ensemble.

Everything that happens depends on the number of rows learnt, never on how they were cut into chunks.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.core import Info, Predictive
from streamgp.data.lags import LaggedTargets
from streamgp.data.standardise import Standardiser
from streamgp.ensemble import Ensemble, EnsembleState
from streamgp.presets import Spec
from streamgp.rowwise import RowWise
from streamgp.serialise import decode, encode
from streamgp.warmup import FittedExpert, fit_ensemble, provisional_ensemble
from streamgp.weights import Mixture

# Rows of the padded pieces in which a stream reaches the compiled code: few sizes, so few compilations.
PIECES = (1024, 64, 1)
FEW = 4  # up to so many rows go one by one rather than as a padded block

_Stretch = tuple[np.ndarray, np.ndarray, np.ndarray]


class StreamLearner:
    """Predicts and learns in the units of the data, on NumPy arrays; float64 throughout.

    Until row `warmup`, rows are predicted by a provisional ensemble with default hyperparameters, standardised by and
    conditioned on the rows before: it is rebuilt at rows 1, 2, 4, 8, ... At row `warmup` the standardisation
    is frozen, the experts of `spec` are fitted to the rows so far, and the buffer is let go.

    Parameters
    ----------
    spec
        The model.
    num_inputs, num_outputs
        Columns of X and of y.
    warmup
        Rows to collect before the fit.
    seed
        Seed of everything random.
    timed
        Whether every row comes with a time stamp.
    progress
        Called during the fit with the number of fits done and to do.

    Raises
    ------
    ValueError
        If a basis of `spec` cannot take so many inputs, or the warm-up has no row with the longest lag.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        num_inputs: int,
        num_outputs: int = 1,
        warmup: int = 1000,
        seed: int = 0,
        timed: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        width = num_inputs + num_outputs * len(spec.lags)
        spec.check(width, warmup)
        self._lags = LaggedTargets.empty(spec.lags, num_outputs)
        self.spec = spec
        self.num_inputs = num_inputs
        self.num_outputs = num_outputs
        self.warmup = warmup
        self.seed = seed
        self.timed = timed
        self.progress = progress
        self.rows = 0
        self.outside_rows = 0
        self.experts: list[FittedExpert] = []
        # The warm-up's rows so far, (X, y, times) of each stretch; the arrays are never written to.
        self._kept: list[_Stretch] | None = [(np.zeros((0, num_inputs)), np.zeros((0, num_outputs)), np.zeros(0))]
        self._inputs = Standardiser.empty(width)
        self._targets = Standardiser.empty(num_outputs)
        with jax.enable_x64(True):
            self._model: Ensemble = provisional_ensemble(width, num_outputs, seed)
            self._state: EnsembleState = self._model.init(jax.random.key(seed))
        # Rows that come singly after the warm-up; while `_singly`, it and not `_state` knows what was learnt last.
        self._rowwise: RowWise | None = None
        self._singly = False

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over and the fitted ensemble at work."""
        return self._kept is None

    @property
    def longest_stretch(self) -> int:
        """How many of the coming rows are learnt in one go at most."""
        return PIECES[0] if self.warm else self._next_boundary() - self.rows

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        last = self._rowwise.last_time if self._singly and self._rowwise else float(self._state.last_time)
        return None if np.isnan(last) else last

    @property
    def weights(self) -> np.ndarray:
        """The experts' weights for the next row."""
        if self._singly and self._rowwise:
            return np.exp(self._rowwise.log_weights)
        with jax.enable_x64(True):
            return np.exp(np.asarray(self._model.rule.predict(self._state.weights)))

    @property
    def rules(self) -> dict[str, float]:
        """How much each of several weight rules counts for the next row, by name; empty where there is one."""
        with jax.enable_x64(True):
            self._settle()
        rule = self._model.rule
        return rule.by_name(self._state.weights) if isinstance(rule, Mixture) else {}

    @property
    def target_scale(self) -> np.ndarray:
        """The standard deviations by which the targets are standardised now."""
        return np.asarray(self._targets.scale)

    @property
    def constant_targets(self) -> list[float | None]:
        """For each target, its value where it had a single one in the rows that set its scale, else None."""
        return [
            float(mean) if m2 == 0.0 else None for mean, m2 in zip(self._targets.mean, self._targets.m2, strict=True)
        ]

    def predict(self, X: np.ndarray, times: np.ndarray | None = None) -> Predictive:
        """Predict each row as if it were the next one, in the units of the targets."""
        parts = []
        with jax.enable_x64(True):
            self._settle()
            X = self._lags.widen_next(X, self._targets.mean)
            for rows, size in _pieces(len(X)):
                piece = self._piece(X[rows], None if times is None else times[rows], size)
                predictive = self._model.predict(self._state, piece["X"], piece["times"])
                parts.append(self._in_units(predictive, rows.stop - rows.start))
        return _join(parts)

    def learn(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None = None) -> Iterator[Info]:
        """Learn from the rows in order, telling of consecutive stretches what was predicted one step ahead.

        The number of experts changes at the end of the warm-up, so a stretch never crosses it. Nothing
        happens until the iterator is advanced, and a stretch is learnt when it is given.
        """
        at = 0
        while at < len(X):
            stretch = min(len(X) - at, self.longest_stretch)
            rows = slice(at, at + stretch)
            part = self._learn_stretch(X[rows], y[rows], None if times is None else times[rows])
            at += stretch
            yield part

    def predict_one(self, x: np.ndarray, time: float = np.nan) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (E,) of one row after the warm-up; `learn_one` of it is then cheap."""
        x = self._lags.widen_next(x[None], self._targets.mean)[0]
        return self._row_by_row().predict(x, time)

    def learn_one(self, x: np.ndarray, y: np.ndarray, time: float = np.nan) -> None:
        """Learn one row after the warm-up, without touching every covariance each time."""
        x = self._lags.widen_next(x[None], self._targets.mean)[0]
        self.outside_rows += self._row_by_row().learn(x, y, time)
        self._lags = self._lags.learn(y[None])
        self.rows += 1

    def _row_by_row(self) -> RowWise:
        if not self._singly:
            with jax.enable_x64(True):
                if self._rowwise is None:
                    self._rowwise = RowWise(self._model, self._inputs, self._targets)
                self._rowwise.load(self._state.gathered())
            self._singly = True
        assert self._rowwise is not None
        return self._rowwise

    def _settle(self) -> None:
        """Make `_state` say what the rows that came singly have taught."""
        if self._singly and self._rowwise:
            self._state = self._rowwise.settle()
            self._singly = False

    def _next_boundary(self) -> int:
        """The next row count at which the provisional ensemble is rebuilt or the warm-up ends."""
        return min(self.warmup, 1 << self.rows.bit_length())

    def _learn_stretch(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Info:
        with jax.enable_x64(True):
            self._settle()
        before = dict(vars(self))
        try:
            return self._advance(X, y, times)
        except BaseException:
            # A fit that fails or is interrupted must not leave the stretch half learnt.
            vars(self).update(before)
            raise

    def _advance(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Info:
        with jax.enable_x64(True):
            if self._kept is not None:
                stretch = (X.copy(), y.copy(), np.zeros(len(X)) if times is None else times.copy())
                self._kept = [*self._kept, stretch]
            info = self._update(self._lags.widen(X, y, self._targets.mean), y, times)
            self._lags = self._lags.learn(y)
            self.rows += len(X)
            if self._kept is not None and self.rows == self._next_rebuild(len(X)):
                self._rebuild()
        return info

    def _next_rebuild(self, just_learnt: int) -> int:
        """Where the stretch that was just learnt had to end."""
        return min(self.warmup, 1 << (self.rows - just_learnt).bit_length())

    def _update(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None) -> Info:
        parts = []
        for rows, size in _pieces(len(X)):
            piece = self._piece(X[rows], None if times is None else times[rows], size)
            n = rows.stop - rows.start
            target = np.zeros((size, self.num_outputs))
            target[:n] = (y[rows] - self._targets.mean) / self._targets.scale
            mask = np.arange(size) < n
            self._state, info = self._model.update(
                self._state, piece["X"], jnp.asarray(target), jnp.asarray(mask), piece["times"]
            )
            info = jax.tree.map(lambda a, n=n: np.asarray(a)[:n], info)
            parts.append(info._replace(predictive=self._in_units(info.predictive, n)))
            if self.warm:
                self.outside_rows += int(info.outside.sum())
        return _join(parts)

    def _rebuild(self) -> None:
        """At a boundary of the warm-up: standardise by the rows so far and condition on them."""
        assert self._kept is not None
        X, y, times = stretch = _joined(self._kept)
        self._kept = [stretch]
        self._targets = Standardiser.empty(self.num_outputs).update(y)
        # The first rows' lags are missing still, but now there is a mean to stand in for them.
        X = LaggedTargets.empty(self.spec.lags, self.num_outputs).widen(X, y, self._targets.mean)
        self._inputs = Standardiser.empty(X.shape[1]).update(X)
        ends = self.rows == self.warmup
        if ends:
            self._fit(X, y, times)
        prior = self._state = self._model.init(jax.random.key(self.seed))
        if not ends or self.spec.warmup_posterior == "condition":
            self._update(X, y, times if self.timed else None)
        if ends:
            # The fit has seen these rows: they may shape the beliefs, but not the race of the experts.
            last_time = jnp.asarray(times[-1]) if self.timed else prior.last_time
            self._state = replace(self._state, weights=prior.weights, last_time=last_time)
            self._kept = None

    def _fit(self, X: np.ndarray, y: np.ndarray, times: np.ndarray) -> None:
        unit = 1.0
        if self.timed:
            gaps = np.diff(times)
            unit = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
        targets = (y - self._targets.mean) / self._targets.scale
        self._model, self.experts = fit_ensemble(
            self.spec,
            self._inputs.transform(X),
            np.asarray(targets),
            seed=self.seed,
            time_unit=unit,
            progress=self.progress,
        )

    def _piece(self, X: np.ndarray, times: np.ndarray | None, size: int) -> dict[str, Any]:
        """Standardised rows and their times, padded to `size` rows."""
        padded = np.zeros((size, X.shape[1]))
        padded[: len(X)] = self._inputs.transform(X)
        if not self.timed:
            return {"X": jnp.asarray(padded), "times": None}
        assert times is not None
        return {"X": jnp.asarray(padded), "times": jnp.asarray(np.pad(times, (0, size - len(X)), mode="edge"))}

    def _in_units(self, predictive: Predictive, n: int) -> Predictive:
        """The first n rows of a prediction, as NumPy arrays in the units of the targets."""
        scale = np.asarray(self._targets.scale)
        return Predictive(
            np.asarray(predictive.log_weights)[:n],
            np.asarray(self._targets.mean) + scale * np.asarray(predictive.loc)[:n],
            np.square(scale) * np.asarray(predictive.var)[:n],
            None if predictive.dof is None else np.asarray(predictive.dof)[:n],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Left to themselves, JAX's arrays would come out of a pickle or a copy in float32.
        return _put_together, encode(self.to_tree())

    def to_tree(self) -> dict[str, Any]:
        """Everything that a checkpoint needs, as nested dictionaries of plain values, arrays and modules."""
        with jax.enable_x64(True):
            self._settle()
        return {
            "spec": asdict(self.spec),
            "num_inputs": self.num_inputs,
            "num_outputs": self.num_outputs,
            "warmup": self.warmup,
            "seed": self.seed,
            "timed": self.timed,
            "rows": self.rows,
            "outside_rows": self.outside_rows,
            "experts": [asdict(expert) for expert in self.experts],
            "kept": None if self._kept is None else _joined(self._kept),
            "inputs": self._inputs,
            "targets": self._targets,
            "lags": self._lags,
            "model": self._model,
            "state": self._state,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "StreamLearner":
        """The learner whose `to_tree` gave `tree`; it goes on as if nothing had happened."""
        settings = {name: tree[name] for name in ("num_inputs", "num_outputs", "warmup", "seed", "timed")}
        learner = cls(Spec(**tree["spec"]), **settings)
        learner.rows = tree["rows"]
        learner.outside_rows = tree["outside_rows"]
        learner.experts = [FittedExpert(**expert) for expert in tree["experts"]]
        learner._kept = None if tree["kept"] is None else [tree["kept"]]
        learner._inputs, learner._targets = tree["inputs"], tree["targets"]
        learner._lags = tree.get("lags", learner._lags)  # older checkpoints know of none
        learner._model, learner._state = tree["model"], tree["state"]
        return learner


def _put_together(node: Any, arrays: dict[str, np.ndarray]) -> StreamLearner:
    return StreamLearner.from_tree(decode(node, arrays, {}))


def _joined(stretches: list[_Stretch]) -> _Stretch:
    X, y, times = (np.concatenate(part) for part in zip(*stretches, strict=True))
    return X, y, times


def _pieces(n: int) -> Iterator[tuple[slice, int]]:
    """Cut n rows into pieces of the compiled sizes; the last one may have to be filled up."""
    at = 0
    while at < n:
        left = n - at
        size = next((p for p in PIECES if p <= left), 1)
        if size == 1 and left > FEW:
            size = PIECES[1]
        yield slice(at, min(n, at + size)), size
        at += size


def _join(parts: list) -> Any:
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *a: np.concatenate(a), *parts)
