"""One stream from its first row on: provisional predictions, the warm-up's fit, then the fitted model.

Everything that happens depends on the number of rows learnt, never on how they were cut into batches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from streamgp.likelihoods import AnyPredictive, mapped
from streamgp.models.base import FittedExpert
from streamgp.models.contract import Info, RowEngine, SingleRowModel
from streamgp.models.spec import Spec
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.numerics.precision import float64, in_float64
from streamgp.stream import attribution
from streamgp.stream.categories import Categories
from streamgp.stream.driver import Driver, max_batch
from streamgp.stream.gains import predicted_at
from streamgp.stream.learn_step import due_after, first_state, leading, next_batch, predict_after, predict_next
from streamgp.stream.paths import draw_paths, generator
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.tasks import TRIM
from streamgp.stream.warmup import Progress

FEW = 6  # rows after the warm-up that go together, up to which each is learnt by itself


class StreamLearner:
    """Predicts and learns in the units of the data, on NumPy arrays; float64 throughout.

    Until row `warmup`, rows are predicted by a provisional model with default hyperparameters, standardised by and
    conditioned on the rows before: it is rebuilt at rows 1, 2, 4, 8, ... At row `warmup` the standardisation
    is frozen, the experts of `settings.spec` are fitted to the rows so far, and the buffer is let go.

    With a horizon h, targets are learnt with the inputs of h rows before, and each row is predicted by the forecast
    that was made of it h rows before; the very first h rows, by the prior.

    All that it knows is its `state`, one frozen value: a copy is a checkpoint, and a call that fails leaves it as it
    was.

    Parameters
    ----------
    settings
        The model, and what its rows are.
    num_classes
        In classification, how many classes are known at the start, with codes from 0; of an ordinal target, how many
        there are.
    progress
        Called during the fit with the number of fits done and to do.
    """

    state_type: ClassVar[type[StreamState]] = StreamState

    def __init__(self, settings: StreamSettings, *, num_classes: int = 0, progress: Progress = None) -> None:
        self._set_up(settings, first_state(settings, num_classes, settings.categories), progress)

    @classmethod
    def at(cls, settings: StreamSettings, state: StreamState, progress: Progress = None) -> Self:
        """Return the learner with these settings that knows this."""
        learner = cls.__new__(cls)
        learner._set_up(settings, state, progress)
        return learner

    def _set_up(self, settings: StreamSettings, state: StreamState, progress: Progress) -> None:
        self.settings = settings
        self.progress = progress
        self._state = state
        self._row_engine: RowEngine | None = None  # made once
        self._latest: Driver | None = None  # by which rows come singly, while it and not `_state` knows the last ones

    @property
    def state(self) -> StreamState:
        """All that was learnt."""
        if self._latest is not None:
            self._state, self._latest = self._latest.flush(), None
        return self._state

    @state.setter
    def state(self, state: StreamState) -> None:
        self._state, self._latest = state, None

    @property
    def latest_fit(self) -> StreamState:
        """A state since the last fit, warm-up or renewal: its experts, lags and scales are those of now."""
        return self._state

    @property
    def spec(self) -> Spec:
        """The model; its lags are those in use."""
        return replace(self.settings.spec, lags=self._state.inputs.lags.lags)

    @property
    def num_inputs(self) -> int:
        """Columns of X."""
        return self.settings.num_inputs

    @property
    def num_outputs(self) -> int:
        """Columns of y."""
        return self.settings.num_outputs

    @property
    def warmup(self) -> int:
        """Rows of the warm-up."""
        return self.settings.warmup

    @property
    def timed(self) -> bool:
        """Whether every row comes with a time stamp."""
        return self.settings.timed

    @property
    def rows(self) -> int:
        """Rows learnt."""
        return (self._latest or self._state).rows

    @property
    def is_warmed_up(self) -> bool:
        """Whether the warm-up is over and the fitted model at work."""
        return self._state.is_warmed_up

    @property
    def predicts_by_fit(self) -> bool:
        """Whether the next row is, or was, predicted by the fitted model."""
        return self.rows >= self.settings.first_fitted

    @property
    def max_batch(self) -> int:
        """How many of the coming rows are learnt in one go at most."""
        return max_batch(self.settings, self.state)

    @property
    def categories(self) -> Categories:
        """What becomes of the columns of categories; the same from the end of the warm-up on."""
        return self._state.inputs.categories

    @property
    def seasons(self) -> dict[int, str] | None:
        """The seasons of `StreamState`, names by numbers of rows; None until the warm-up's end."""
        return dict(self._state.seasons) if self.is_warmed_up else None

    @property
    def experts(self) -> tuple[FittedExpert, ...]:
        """The table of the fitted experts; empty before the fit."""
        return self._state.experts

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        if self._latest is None or self._row_engine is None:
            return self._state.last_time
        return None if np.isnan(self._row_engine.last_time) else self._row_engine.last_time

    @property
    @in_float64
    def weights(self) -> np.ndarray:
        """The experts' weights for the next row."""
        return self.state.weights if self._latest is None or self._row_engine is None else self._row_engine.weights

    @property
    @in_float64
    def rules(self) -> dict[str, float]:
        """How much each of several weight rules counts for the next row, by name; empty where there is one."""
        return self.state.rules

    @property
    def target_scale(self) -> np.ndarray:
        """The standard deviations of the targets by which they are standardised now; of transformed ones nearly."""
        targets = self._state.targets
        return self.settings.target_map.scale_at(np.asarray(targets.mean), np.asarray(targets.scale))

    @property
    def constant_targets(self) -> list[float | None]:
        """For each target, its value where it had a single one in the rows that set its scale, else None."""
        single = self.settings.task.constant(self._state.targets)
        return [None if z is None else float(self.settings.target_map.inverse(np.asarray(z))) for z in single]

    def predict(self, X: np.ndarray, times: np.ndarray | None = None) -> AnyPredictive:
        """Predict each row as if it were the next one, in the units of the targets; inputs may be missing (NaN).

        With a horizon h, forecast the target h rows after the last one learnt, were each row's inputs those of that.
        """
        return mapped(self.predict_next(X, times), self.settings.target_map)

    def predict_next(self, X: np.ndarray, times: np.ndarray | None) -> AnyPredictive:
        """Predict the same on the scale that is learnt."""
        driver = self._taking(X, times, begins=False)
        return predict_next(self.settings, self.state, X, times) if driver is None else driver.predict(X, times)

    def predict_after(self, rows: RawRows, unlearnt: np.ndarray, *, following: bool = True) -> Info:
        """Predict rows after others that were not learnt: see `streamgp.stream.learn_step.predict_after`."""
        driver = self._taking(rows.X, rows.times, len(unlearnt), begins=False)
        if driver is None:
            return predict_after(self.settings, self.state, rows, unlearnt, following=following)
        return self._described(driver.predict_after(rows.X, rows.times, unlearnt))

    def predicted_at(self, X: np.ndarray, time: float | None = None) -> AnyPredictive:
        """Return what is predicted of the next target at inputs without gaps: see `streamgp.stream.gains`."""
        return predicted_at(self.settings, self.state, X, time)

    def paths(
        self, X: np.ndarray, times: np.ndarray | None, n: int, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Draw the targets of the next h rows jointly, n times: (n, h, E); see `streamgp.stream.paths`.

        The draws depend on the seed and on the rows learnt, or on a generator.
        """
        rng = rng or generator(self.settings, self.state)
        return draw_paths(self.settings, self.state, X, times, n, rng)

    def kept_rows(self) -> np.ndarray:
        """Return inputs of rows of the whole stream without gaps: see `streamgp.stream.attribution`."""
        return attribution.kept_rows(self.settings, self.state)

    def has_influence(self) -> bool:
        """Return whether there are inputs of the model, and rows enough, for `influence`."""
        return attribution.has_influence(self.settings, self.state)

    def influence(
        self, groups: Mapping[str, Sequence[int]], log_exposure: Sequence[float] = ()
    ) -> dict[str, np.ndarray]:
        """Return which share of each target's variance predictions take from each input, by its name."""
        return attribution.influence(self.settings, self.state, groups, log_exposure)

    def learn(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None = None) -> Iterator[Info]:
        """Learn from the rows in order; yield, for consecutive batches, what was predicted one step ahead.

        Inputs that are missing (NaN) are filled from what came before. A row with a target missing is predicted and
        nothing else; a batch holds only such rows, or none.

        The number of experts changes at the end of the warm-up, so a batch never crosses it. Nothing
        happens until the iterator is advanced, and a batch is learnt when it is given.
        """
        target_map = self.settings.target_map
        rows = RawRows(X, target_map.learnt(y), times)
        while len(rows.X):
            info = self.learn_leading(rows)
            rows = rows.part(slice(len(info.outside), None))
            yield info._replace(predictive=mapped(info.predictive, target_map))

    def learn_leading(self, rows: RawRows, *, predicts: bool = True) -> Info:
        """Learn as many of the leading rows as go together, and return what was predicted of them, if asked for.

        Targets are on the scale that is learnt. Rows with a target missing are predicted and nothing else. The rows
        that are learnt have a target, or none has; a row with the first label of a class comes alone.
        """
        first = rows.part(slice(1))
        driver = self._taking(first.X, first.times) if self._steps_from(rows) else None
        if driver is not None:
            return self._step_alone(driver, first, predicts=predicts)
        with float64():
            state, batch, learn = next_batch(self.settings, self.state, rows)
            self.state, info = learn(self.settings, state, batch, self.progress)
        return info

    def _steps_from(self, rows: RawRows) -> bool:
        """Return whether so few leading rows go together that a batch of them takes longer than each by itself."""
        if not self.steps_singly:
            return False
        missing = np.asarray(np.isnan(rows.y[: FEW + 1]).any(axis=1))
        return leading(missing == missing[0]) <= FEW and _all_or_none(rows.y[0])

    def _step_alone(self, driver: Driver, row: RawRows, *, predicts: bool) -> Info:
        """Learn a row that is taken by itself, and return what was predicted of it, if that is asked for."""
        if np.isnan(row.y[0, 0]):  # as all are
            return self._described(driver.pass_over(row.X, row.times))
        info = self._described(driver.predict(row.X, row.times)) if predicts else None
        said = driver.learn(row)
        if driver.is_due:
            self.state = due_after(self.settings, self.state)
        return said if info is None else info._replace(outside=said.outside, flagged=said.flagged)

    def _described(self, predictive: AnyPredictive) -> Info:
        """Return the prediction of a row that is taken by itself, with what counts in it."""
        rules = None if self._row_engine is None else self._row_engine.rules
        return Info(predictive, np.zeros(1, bool), None if rules is None else rules[None])

    def predict_one(self, x: np.ndarray, time: float = np.nan) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation (E,) of one row after the warm-up; `learn_one` of it is then cheap."""
        X, times = x[None], _stamp(self.timed, time)
        driver = self._taking(X, times)
        if driver is not None and self.settings.target_map.changes_nothing:
            mean, std = driver.moments(X, times)
            return mean[0], std[0]
        with float64():
            if driver is None:
                predictive = self.predict(X, times)
            else:
                predictive = mapped(driver.predict(X, times), self.settings.target_map)
            return np.asarray(predictive.mean[0]), np.asarray(predictive.std[0])

    def learn_one(self, x: np.ndarray, y: np.ndarray, time: float = np.nan) -> None:
        """Learn one row after the warm-up; without a horizon, not every covariance is touched each time."""
        self._learn_one(x, y, time, predicts=False)

    def step_one(self, x: np.ndarray, y: np.ndarray, time: float = np.nan) -> tuple[AnyPredictive, bool]:
        """Predict one row after the warm-up, then learn it; return also whether it was an outlier.

        Raises
        ------
        ValueError
            If `steps_singly` is False.
        """
        if not self.steps_singly:
            raise ValueError("step_one: expected a fitted model with rows of its own kind; use learn")
        info = self._learn_one(x, y, time, predicts=True)
        return info.predictive, info.flagged is not None and bool(info.flagged[0])

    def _learn_one(self, x: np.ndarray, y: np.ndarray, time: float, *, predicts: bool) -> Info:
        X, times, target_map = x[None], _stamp(self.timed, time), self.settings.target_map
        driver = self._taking(X, times) if _all_or_none(y) else None
        if driver is None:
            return next(self.learn(X, y[None], times))
        info = self._step_alone(driver, RawRows(X, target_map.learnt(y[None]), times), predicts=predicts)
        return info._replace(predictive=mapped(info.predictive, target_map)) if predicts else info

    @property
    def steps_singly(self) -> bool:
        """Whether `step_one` can be had: after the warm-up, of models with rows of their own kind."""
        return self.is_warmed_up and self._learns_singly

    @property
    def _learns_singly(self) -> bool:
        return _learns_rows(type(self._state.model)) and not self.settings.horizon

    def _taking(
        self, X: np.ndarray, times: np.ndarray | None, waiting: int = 0, *, begins: bool = True
    ) -> Driver | None:
        """Return what takes a row after the warm-up by itself; None where it is taken as rows of a batch are.

        So many rows before it wait for a label.

        Unless it `begins` here nothing changes, so that many threads may predict by a learner that is not taught.
        """
        if len(X) != 1 or not (self._learns_singly and (begins or self._latest is not None)):
            return None
        state = self._state
        if self._latest is None:
            with float64():
                if self._row_engine is None:
                    assert isinstance(state.model, SingleRowModel)
                    scales, trim = (state.inputs.scaling, state.targets), TRIM if self.spec.robust else 0.0
                    self._row_engine = state.model.single_row(*scales, trim, state.model_state)
                else:
                    self._row_engine.load(state.model, state.model_state)
                self._latest = Driver(self.settings, state, self._row_engine)
        return self._latest if self._latest.takes(X, times, waiting) else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the tree: left to themselves, JAX's arrays would come out in float32."""
        return _put_together, (type(self), *encode(self.to_tree()))

    def to_tree(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs, as nested dictionaries of plain values, arrays and modules."""
        return self.state.to_tree(self.settings)

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        """Return the learner whose `to_tree` gave `tree`; it goes on as if nothing had happened."""
        return cls.at(*cls.state_type.from_tree(tree))


@cache
def _learns_rows(kind: type) -> bool:
    """Return whether models of a class learn single rows: to ask takes longer than many a row."""
    return issubclass(kind, SingleRowModel)


def _stamp(timed: bool, time: float) -> np.ndarray | None:
    return np.array([time]) if timed else None


def _all_or_none(y: np.ndarray) -> bool:
    """Return whether the targets of a row are all there, or all missing."""
    return y.size == 1 or len(set(np.isnan(y).ravel().tolist())) == 1


def _put_together(kind: type[StreamLearner], node: Any, arrays: dict[str, np.ndarray]) -> StreamLearner:
    return kind.from_tree(decode(node, arrays, {}))
