"""What a block of rows does to all that a learner knows, whichever engine learns it: a row is a block of one."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.likelihoods import AnyPredictive
from streamgp.models.contract import FilterEngine, Info, Moments, RowEngine
from streamgp.numerics.batching import LARGEST, SMALL, concatenate
from streamgp.numerics.precision import in_float64
from streamgp.stream.batches import predict_rows
from streamgp.stream.correlation import learn_forecast
from streamgp.stream.forecast_queue import Origins
from streamgp.stream.gains import MEASURED_EVERY
from streamgp.stream.inputs import MOVED, USUAL, ReadRows, StreamInputs
from streamgp.stream.missed_steps import counts_steps
from streamgp.stream.renewal import next_renewal, with_rows
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.target_range import limited

SETTLED_EVERY = SMALL  # rows after which those that came singly are taken in together


def max_batch(settings: StreamSettings, state: StreamState) -> int:
    """Return how many of the coming rows are learnt in one go at most: then something may be due after them."""
    fitted = state.rows >= settings.first_fitted
    most = LARGEST if fitted else settings.next_boundary(state.rows) - state.rows
    most = int(min(most, next_renewal(settings, state) - state.rows))
    return most if state.inputs.gains is None else min(most, MEASURED_EVERY - state.rows % MEASURED_EVERY)


class Seen(NamedTuple):
    """The next rows as they are to be learnt.

    Attributes
    ----------
    raw
        As they came.
    read
        The rows without gaps.
    wide
        The same with lags.
    inputs
        Those that go with the targets: of the same rows, or with a horizon h of h rows before.
    taken
        These as the model takes them, within the bounds.
    beyond, moved
        Which of them had a value beyond the bounds, and of which one was moved there.
    known, origins
        What is known of the inputs, and what waits, once the rows are read.
    """

    raw: Float[np.ndarray, "n d"]
    read: ReadRows
    wide: Float[np.ndarray, "n w"]
    inputs: Float[np.ndarray, "n w"]
    taken: Float[np.ndarray, "n w"]
    beyond: Bool[np.ndarray, " n"]
    moved: Bool[np.ndarray, " n"]
    known: StreamInputs
    origins: Origins


class Driver:
    """Learns blocks of rows from a state on; what it learns is its own until `flush` gives the state after them.

    With an engine for single rows a block is a row without gaps, of a fitted model that has no horizon. Of such a row
    no more is learnt at once than what the next one needs; the rest is taken in for some of them together.

    Parameters
    ----------
    settings
        Those of the learner.
    state
        All that is known before the rows.
    engine
        What learns them, from the model's state in there.
    """

    def __init__(self, settings: StreamSettings, state: StreamState, engine: FilterEngine) -> None:
        self._settings, self._state, self._engine = settings, state, engine
        self._row = engine if isinstance(engine, RowEngine) else None
        self._inputs, self._origins, self._forecasts = state.inputs, state.origins, state.forecasts
        self._range, self._correlation = state.target_range, state.correlation
        self._timetable, self._counts_steps = state.timetable, counts_steps(settings, state)
        self._last_time = np.nan if state.timetable is None else state.timetable.last
        self._given: np.ndarray | None = None  # the array of the last row asked for by itself
        self._seen: Seen | None = None  # what was in it, if it can be taken
        self._owns_levels = False  # whether nothing else knows what is known here of levels
        self._unknown = np.full((1, settings.num_outputs), np.nan)  # its target
        self._unread: list[np.ndarray] = []  # rows that the imputer has yet to learn
        # Rows that the sample and the reservoir have yet to take in, with their means, and which were outliers.
        self._untaken: list[tuple[RawRows, np.ndarray | None, np.ndarray]] = []
        # Inputs, and targets as lags have them, of rows that forecasts have yet to know.
        self._unkept: list[tuple[np.ndarray, np.ndarray]] = []
        # Predictions and targets from which the correlation of their errors has yet to be learnt.
        self._unrelated: list[tuple[AnyPredictive, np.ndarray]] = []
        self.rows = state.rows
        self._outside, self._flagged, self._imputed = 0, 0, 0
        self.is_due = False  # whether something may be due after the rows learnt
        self._ends_at = self._next_end()

    def _next_end(self) -> int:
        """Return after how many rows of the stream something may be due."""
        return 0 if self._row is None else self.rows + max_batch(self._settings, self._state)

    def takes(self, X: Float[np.ndarray, "1 d"], times: np.ndarray | None, waiting: int = 0) -> bool:
        """Return whether a row can be taken by itself, after so many that wait for a label.

        Nothing is beyond the bounds, or the stream's first gap, and no step of the clock had no row.
        """
        if self._counts_steps and self._misses(X, times, waiting):
            return False
        if not self._has_seen(X):
            raw = X.copy()
            read = self._read_singly(self._inputs.coded(raw))
            self._given, self._seen = X, None if read is None else self._prepared(raw, read, self._unknown)
        return self._seen is not None

    def _misses(self, X: Float[np.ndarray, "1 d"], times: np.ndarray | None, waiting: int) -> bool:
        """Return whether steps before a row had none."""
        timetable, clock = self._timetable, self._settings.clock(X, times)
        if timetable is None or clock is None or timetable.follows(self._last_time, float(clock[0])):
            return False
        return bool(replace(timetable, last=self._last_time).before_each(clock, waiting)[0])

    def _move_on(self, X: Float[np.ndarray, "n d"], times: np.ndarray | None) -> None:
        """Move the clock on by rows that came."""
        timetable, clock = self._timetable, self._settings.clock(X, times)
        if timetable is None or clock is None:
            return
        if len(clock) == 1 and timetable.follows(self._last_time, float(clock[0])):
            self._last_time = float(clock[0])
        else:
            self._timetable = replace(timetable, last=self._last_time).along(clock)[1]
            self._last_time = self._timetable.last

    def _read_singly(self, X: Float[np.ndarray, "1 d"]) -> tuple[ReadRows, StreamInputs] | None:
        """Read a row with numbers for codes, and fill its gaps; None if it cannot be taken by itself."""
        read = self._inputs.read_whole(X)
        if read is not None or not self._inputs.only_lack(X):
            return read
        self._read_on()
        return self._inputs.read(X)

    def moments(self, X: Float[np.ndarray, "1 d"], times: np.ndarray | None) -> Moments:
        """Return mean and standard deviation of a row that is taken by itself, on the scale that is learnt."""
        assert self._row is not None
        seen = self._see(X, self._unknown)
        return self._row.moments(seen.taken, times, seen.read.extra)

    def predict(self, X: Float[np.ndarray, "1 d"], times: np.ndarray | None) -> AnyPredictive:
        """Return the whole distribution of the same."""
        return self._related(self._predicted(self._see(X, self._unknown), times))

    def pass_over(self, X: Float[np.ndarray, "1 d"], times: np.ndarray | None) -> AnyPredictive:
        """Return the same of a row that is taken by itself, and has no target: as a lag its mean stands for that."""
        predictive, seen = self.predict(X, times), self._see(X, self._unknown)
        self._move_on(X, times)
        if not seen.read.are_whole:
            self._imputed += int(np.isnan(X).sum())
        if self._needs_targets:
            mean = np.asarray(predictive.mean)
            self._inputs, self._seen = replace(self._inputs, lags=self._inputs.lags.learn(mean)), None
            if self._state.recent is not None:
                self._unkept.append((seen.read.X, mean))
        return predictive

    def predict_after(
        self, X: Float[np.ndarray, "1 d"], times: np.ndarray | None, unlearnt: Float[np.ndarray, "w e"]
    ) -> AnyPredictive:
        """Return the same of a row after others that were not learnt, for whose targets `unlearnt` stands."""
        seen = self._see(X, self._unknown)
        if self._inputs.lags:
            wide = self._inputs.lags.learn(unlearnt).widen_next(seen.read.X)
            seen = seen._replace(taken=self._inputs.clip(wide)[0])
        return self._related(self._predicted(seen, times, len(unlearnt) + 1.0))

    def _predicted(self, seen: Seen, times: np.ndarray | None, ahead: float = 1.0) -> Any:
        """Return the distribution of a row so far ahead, of a transformed target as far as it is believed."""
        assert self._row is not None
        predictive = self._row.predict(seen.taken, times, seen.read.extra, ahead)
        return predictive if self._range is None else self._range.limit(predictive, ahead)

    def _related(self, predictive: Any) -> AnyPredictive:
        """Return a prediction with the correlation of the errors of all rows so far, where there is one."""
        self._relate()
        return predictive if self._correlation is None else self._correlation.of(predictive)

    def _has_seen(self, X: np.ndarray) -> bool:
        """Return whether a row is the last one that was read; it may come in another array."""
        if self._seen is None or (X is not self._given and not _same(self._seen.raw, X)):
            return False
        self._given = X
        return True

    def _see(self, X: np.ndarray, past: np.ndarray, y: np.ndarray | None = None) -> Seen:
        """Read the next rows; `past` are their targets as later ones are to see them, unless it is a single row.

        Given their targets `y`, what their levels are worth is known afterwards.
        """
        if self._has_seen(X) and self._seen is not None:
            return self._seen
        raw = X.copy()
        coded, known = (self._inputs.coded(raw), self._inputs) if y is None else self._with_levels(raw, y)
        return self._prepared(raw, known.read(coded), past)

    def _with_levels(self, raw: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, StreamInputs]:
        """Return rows with numbers for codes, and what is known of levels after their targets."""
        values = self._settings.task.level_values(raw, y, self._inputs.categories.statistics)
        known, own = self._inputs, self._row is not None
        if own and not self._owns_levels:
            known, self._owns_levels = replace(known, effects=known.effects.copied()), True
        return known.learn_levels(raw, values, in_place=own)

    def _prepared(self, raw: np.ndarray, read_then: tuple[ReadRows, StreamInputs], past: np.ndarray) -> Seen:
        """Return rows that were read, and what is known of the inputs then, as they are to be learnt."""
        read, known = read_then
        wide = known.lags.widen(read.X, past, own=self._settings.horizon > 0)
        inputs, kinds, origins = self._origins.paired(wide, read.kinds)
        taken, beyond, known = known.bounded(inputs)
        moved = beyond
        if not read.are_whole or self._settings.horizon:
            moved, beyond = beyond | (kinds == MOVED), beyond | (kinds != USUAL)
        return Seen(raw, read, wide, inputs, taken, beyond, moved, known, origins)

    def learn(self, rows: RawRows, past: np.ndarray | None = None) -> Info:
        """Learn rows whose targets are there; return what was predicted of them.

        As lags of the rows after them `past` stands for the targets, where it is known which are outliers: see
        `LaggedTargets.standing_in`. Of a single row only as much is reported as is needed here.
        """
        h, n = self._settings.horizon, len(rows.X)
        past = self._settings.task.as_lags(rows.y, rows.X) if past is None else past
        seen = self._see(rows.X, past, None if self._row is not None else rows.y)
        if self.rows < h:  # no inputs go with these targets
            info = Info(predict_rows(self._settings, self._state, seen.wide), np.zeros(n, bool))
        else:
            rows, predicted = rows._replace(y=rows.y.copy()), self._predicted_singly(seen, rows.times)
            info = self._engine.update(
                seen.taken,
                rows.y,  # of our own, as the caller may write to its
                rows.times,
                later=seen.known.clip(seen.wide)[0] if h else None,
                extra=None if h else seen.read.extra,
                moved=seen.moved,
            )
            info = self._noted(seen, rows, info, predicted)
        if self._correlation is not None and self._row is None:
            made = info.predictive, info.rules
            self._correlation, (predictive, _) = learn_forecast(self._correlation, self._forecasts, made, rows.y)
            info = info._replace(predictive=predictive)
        if h:
            (predictive, rules), self._forecasts = self._forecasts.exchange([(info.predictive, info.rules)])
            info = info._replace(predictive=predictive, rules=rules)
        self._inputs, self._origins, self._seen = seen.known, seen.origins, None
        if self._row is not None and self._inputs.effects.columns:
            self._inputs = self._with_levels(rows.X, rows.y)[1]
        if seen.read.are_whole:
            self._unread.append(seen.read.X)
        else:
            self._imputed += int(np.isnan(rows.X).sum())
        if self._needs_targets:
            lags, stand, outliers = seen.known.lags, past, None
            if info.flagged is not None and (info.flagged.any() or lags.outliers.is_waiting):
                means, flagged = np.asarray(info.predictive.mean), np.asarray(info.flagged)
                stand, outliers = lags.standing_in(rows.y, means, flagged, self._settings.rows_ahead)
            self._inputs = replace(self._inputs, lags=lags.learn(stand, outliers))
            if self._state.recent is not None:
                self._unkept.append((seen.read.X, stand))
        self._move_on(rows.X, rows.times)
        self.rows += n
        self.is_due = self.rows == self._ends_at or (self._row is not None and self._row.is_due)
        if self.rows % SETTLED_EVERY == 0:
            self._settle()
        return info

    @property
    def _needs_targets(self) -> bool:
        """Whether targets are kept for later rows: as their lags, or for forecasts."""
        return bool(self._inputs.lags) or self._state.recent is not None

    def _predicted_singly(self, seen: Seen, times: np.ndarray | None) -> Any:
        """Return what is to be known of the prediction of a row that is learnt by itself; None: nothing."""
        if self._row is None:
            return None
        if self._range is not None or self._correlation is not None:
            return self._predicted(seen, times)
        needs_mean = self._state.reservoir is not None or self._needs_targets
        return self._row.moments(seen.taken, times, seen.read.extra) if needs_mean else None

    def _noted(self, seen: Seen, rows: RawRows, info: Info, predicted: Any) -> Info:
        """Keep what the engine tells of rows that it has learnt; return it with what was predicted."""
        state, h, y = self._state, self._settings.horizon, rows.y
        info = info if predicted is None else info._replace(predictive=predicted)
        if state.warmup_rows is None:
            self._outside += int(np.count_nonzero(info.outside | seen.beyond))
            self._flagged += 0 if info.flagged is None else int(np.count_nonzero(info.flagged))
        if self._range is not None:
            self._range, ends = self._range.learn(y, info.flagged)
            if predicted is None:
                known = ends[1:] if h else ends[:-1]
                limits = limited(info.predictive, known, self._settings.rows_ahead)
                info = info._replace(predictive=limits)
        if state.sample is not None or state.reservoir is not None:
            flagged = np.zeros(len(y), bool) if info.flagged is None else np.asarray(info.flagged)
            mean = None if state.reservoir is None else np.asarray(info.predictive.mean)
            self._untaken.append((RawRows(seen.inputs, y, rows.times), mean, flagged))
        if self._row is not None and self._correlation is not None:
            self._unrelated.append((info.predictive, y))
        return info

    def _settle(self) -> None:
        """Let the imputer, the sample, the reservoir and the correlation take in the rows that they have not yet."""
        self._relate()
        self._read_on()
        state = self._state
        if self._untaken:
            parts, means, flags = zip(*self._untaken, strict=True)
            rows = concatenate(list(parts))
            flagged = np.concatenate(flags)
            state = replace(state, rows=self.rows - len(rows.X))
            if state.sample is not None:
                state = replace(state, sample=state.sample.offer(rows, flagged))
            if state.reservoir is not None:
                state = with_rows(self._settings, state, rows, np.concatenate(means), flagged)
            self._untaken = []
        if self._unkept and state.recent is not None:
            inputs, targets = (np.concatenate(each) for each in zip(*self._unkept, strict=True))
            state, self._unkept = replace(state, recent=state.recent.learn(inputs, targets)), []
        self._state = replace(state, rows=self.rows)
        self._ends_at = self._next_end()

    def _read_on(self) -> None:
        """Let the imputer learn the rows that it has not yet."""
        if self._unread:
            self._inputs, self._unread = self._inputs.with_read(np.concatenate(self._unread)), []

    def _relate(self) -> None:
        """Learn the correlation of the errors of single rows from which it is not learnt yet."""
        if self._unrelated and self._correlation is not None:
            predictions, targets = zip(*self._unrelated, strict=True)
            self._correlation, _ = self._correlation.learn(concatenate(list(predictions)), np.concatenate(targets))
            self._unrelated = []

    @in_float64
    def flush(self) -> StreamState:
        """Return the state after all rows learnt here."""
        self._settle()
        state, model_state = self._state, self._engine.flush()
        restarted = self._engine.restarted if state.is_warmed_up else frozenset()
        timetable = self._timetable and replace(self._timetable, last=self._last_time)
        return replace(
            state,
            inputs=self._inputs,
            origins=self._origins,
            forecasts=self._forecasts,
            target_range=self._range,
            timetable=timetable,
            correlation=self._correlation,
            model_state=model_state,
            imputed_values=state.imputed_values + self._imputed,
            outside_rows=state.outside_rows + self._outside,
            flagged_rows=state.flagged_rows + self._flagged,
            restarted=state.restarted | restarted,
        )


def _same(a: Float[np.ndarray, "1 d"], b: Float[np.ndarray, "1 d"]) -> bool:
    """Return whether two rows have the same values and gaps."""
    return not (a != b).any() or np.array_equal(a, b, equal_nan=True)
