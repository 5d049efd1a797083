"""The public class of a fleet: frames of many keyed streams in, predictions and scores out."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

from streamgp.fleet import outputs
from streamgp.fleet.evaluation import FleetEvaluation, tested
from streamgp.fleet.forecasts import checked
from streamgp.fleet.frames import Key, as_times, new_frame, with_columns
from streamgp.fleet.learner import FleetLearner
from streamgp.fleet.settings import (
    DEFAULT_LAGS,
    DEFAULT_MISSING,
    FleetSettings,
    as_bounds,
    as_lags,
    as_path,
    as_transform,
)
from streamgp.fleet.steps_ahead import FleetStepsAhead
from streamgp.fleet.totals import Known, next_rows, rows_frame, totals_frame
from streamgp.models.options import calendar_of
from streamgp.numerics import checkpoint
from streamgp.table.calendar import AUTO
from streamgp.table.codes import Codes, MissingCodes


class StreamingGPFleet:
    """A model for each of many keyed streams, learnt online, which all begin from what the others have shown.

    A row is a key, a time, a target and any inputs, numbers or text, in a long frame of pandas, polars or Arrow. Rows
    of many keys may come in any order, those of one key in the order of time. New keys may come at any time.

    Parameters
    ----------
    id_col, time_col, target_col
        Names of the columns. All others are inputs, numbers or text. Without a time column (None) the rows of a key
        are its clock.
    engine
        ``local``: in this process, on all of its cores. ``ray``: the keys are spread over workers that Ray starts
        (extra ``ray``), on the cluster that the program is connected to or on this machine; the same numbers.
    model
        ``fleet``: three experts for each key, linear and with Fourier features, static and moving.
    lags
        Past targets of the same key, so many rows back, that are inputs as well: ``auto`` for 1 to 3, ``none``.
    season
        One more lag, in rows; ``auto`` finds it in the warm-up, if the keys have one; None: none.
    warmup
        Rows, of keys that have shown four targets or more, after which what all keys share is fitted.
    shards
        How many directories the keys are spread over when saved.
    missing
        What to do with rows that have no key or time, or do not come after the last one of their key: ``raise`` and
        learn nothing of the call, or ``skip`` and count them. With ``impute``, too, they are skipped. Inputs and
        targets may be missing with each of the three.
    random_state
        Seed of the Fourier features.
    calendar
        Cycles of the times, if they are dates, that are inputs, a sine and a cosine each: some of ``day``, ``week``,
        ``month`` and ``year``; ``auto``: those that the usual gap shows; ``none``. Day and week have faster waves
        besides, as many as the rows show, up to four and three.
    holidays
        Country whose public holidays are an input, 1 on these days: DE, or DE-BY for a part. Needs dates and the
        package holidays (extra ``holidays``).
    missing_values
        Codes that stand for a missing input or target, such as -9999: a number, a word, or several.
    workers
        With ``engine="ray"``: how many.
    max_active
        So many keys at most stay in memory; those that have had no row for longest sleep on disk, and go on as they
        were when one comes. None: all stay.
    group_col
        Column of groups of keys, text or whole numbers, constant by key: a new key starts from what its group has
        shown, so far as groups differ. None: all keys are one.
    bounds
        Bounds that the target keeps within: ``(0, None)`` for none below 0, ``(0, 1)`` for shares. What is predicted
        beyond counts as the bound. A target outside is refused, or with another `missing` than ``raise`` not learnt.
    target_transform
        ``log``, ``log1p`` or ``logit`` (within `bounds`), where noise grows with the target; as of
        `streamgp.StreamingGPRegressor`. Predictions and scores are in the target's own units.
    directory
        With `max_active`: where they sleep, best on the disk that the fleet is saved to. None: with temporary files.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    ImportError
        If Ray is wanted and is not installed.
    """

    def __init__(
        self,
        id_col: str = "unique_id",
        time_col: str | None = "ds",
        target_col: str = "y",
        *,
        engine: str = "local",
        model: str = "fleet",
        lags: int | Sequence[int] | str = DEFAULT_LAGS,
        season: int | str | None = "auto",
        warmup: int = 2_000,
        shards: int = 256,
        missing: str = DEFAULT_MISSING,
        random_state: int = 0,
        workers: int | None = None,
        max_active: int | None = None,
        directory: str | Path | None = None,
        group_col: str | None = None,
        missing_values: Codes = None,
        calendar: str | Sequence[str] | None = AUTO,
        holidays: str | None = None,
        bounds: tuple[float | None, float | None] | None = None,
        target_transform: str | None = None,
    ) -> None:
        columns, where = (id_col, time_col, target_col), (workers, max_active, as_path(directory), group_col)
        more = tuple(MissingCodes.of(missing_values).given), calendar_of(calendar, holidays)
        more += as_bounds(bounds), as_transform(target_transform)
        settings = FleetSettings(
            *columns, engine, model, as_lags(lags), season, warmup, shards, missing, random_state, *where, *more
        )
        self.learner = FleetLearner(settings)

    @property
    def settings(self) -> FleetSettings:
        """The parameters, checked."""
        return self.learner.settings

    @property
    def keys_(self) -> list[Key]:
        """The keys seen, in the order of their first rows."""
        return self.learner.directory.keys.names()

    @property
    def rows_(self) -> int:
        """How many rows have been accepted."""
        return int(self.learner.directory.rows.sum())

    @property
    def is_warm_(self) -> bool:
        """Whether what all keys share has been fitted; before, a key's last target is what is predicted."""
        return self.learner.is_warm

    def partial_fit(self, frame: Any) -> Self:
        """Learn rows, in their order.

        Parameters
        ----------
        frame
            With the columns of key, time and target, and the same inputs in every call. A missing target is not
            learnt; a missing input is taken to be ordinary for its key.

        Raises
        ------
        DataError
            If columns or rows are not as expected; nothing of the frame is learnt then.
        """
        self.learner.learn(frame, "partial_fit")
        return self

    def predict(self, frame: Any) -> Any:
        """Predict rows, each as if it were the next one of its key; nothing is learnt, and no target is looked at.

        Returns
        -------
        frame
            Of the same type, in the same order: key, time, mean, std, q05, q50 and q95.
        """
        table, mixture = self.learner.predict(frame)
        return with_columns(table, self.settings, outputs.predictions(mixture, self.settings.target_map))

    def evaluate(self, frame: Any, steps_ahead: int = 0) -> FleetEvaluation:
        """Test, then train: predict every row before it is learnt, and score it; NaN for rows that are left out.

        Parameters
        ----------
        frame
            As in `partial_fit`.
        steps_ahead
            Also forecast the next so many rows of each key, from one in so many of its rows on, and score each step
            beside naive forecasts: ``steps_ahead`` of the metrics, and columns of the frame (``step``, from 1, and
            ``ahead_mean``, ``ahead_std``, ``ahead_q05``, ``ahead_q50``, ``ahead_q95``). Their inputs are taken as
            not known. 0: no such forecasts.

        Raises
        ------
        ValueError
            If `steps_ahead` is neither 0 nor at least 2.
        """
        ahead = FleetStepsAhead(steps_ahead, self.settings.target_col) if steps_ahead else None
        found, metrics, rows, columns = tested(self.learner, frame, ahead)
        if ahead is not None:
            metrics |= ahead.metrics()
        return FleetEvaluation(found, metrics, self.scores(), self.settings, rows, columns)

    def step(self, seq: int, frame: Any) -> Any:
        """Predict rows, then learn them, unless a step of this number or a later one was learnt before.

        So a step that may or may not have been learnt before a crash can be sent again.

        Parameters
        ----------
        seq
            The number of the step, which grows from one to the next; `save` keeps it.
        frame
            As in `partial_fit`.

        Returns
        -------
        frame or None
            As `predict` returns it; None if the step had been learnt before, and nothing was changed.
        """
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise ValueError(f"seq: expected a whole number of at least 0, got {seq!r}")
        if seq <= self.learner.seq:
            return None
        table, good, outcome, _ = self.learner.learn(frame, "step")
        self.learner.seq = seq
        values = outputs.predictions(outcome.mixture, self.settings.target_map)
        return with_columns(table, self.settings, outputs.spread(values, good, len(table.keys)))

    def forecast(
        self,
        h: int,
        X_future: Any = None,
        level: float | Sequence[float] = (80, 95),
        keys: Collection[Key] | None = None,
    ) -> Any:
        """Forecast the next rows of every key.

        Parameters
        ----------
        h
            How many rows.
        X_future
            A frame as `predict` takes it, with the key, time and inputs of the next `h` rows of every key or more, of
            which the first `h` count, in any order (``X_df`` of statsforecast); a fleet with inputs needs it, and all
            of them. Without times, those of a key come in their order, at the usual step, as without a frame.
        level
            Percents (80, not 0.8, which is refused) that bands are to hold: columns ``mean-lo-80``, ``mean-hi-80``
            and so on.
        keys
            Only these, in this order. Without it, all.

        Returns
        -------
        frame
            Of the make of the last frame: key, time, mean, std, q05, q50, q95 and the bands, `h` rows for each key in
            the order of `keys_`, or of `keys`.

        Raises
        ------
        ValueError
            If `X_future` is not of the next `h` rows of every key, or is missing where the fleet has inputs.
        """
        levels, known = checked(h, level), self._known("forecast")
        return rows_frame(known, next_rows(known, h, X_future, keys), levels)

    def forecast_total(
        self,
        h: int,
        X_future: Any = None,
        level: float | Sequence[float] = (80, 95),
        keys: Collection[Key] | None = None,
        *,
        by: str | None = None,
    ) -> Any:
        """Forecast the sum of the targets of all keys, or of those of each group, at each of the next times.

        What is uncertain of the sum is more than that of keys by themselves, where their errors at the same time go
        together: they are taken to do so as over the last 512 times (see `streamgp.fleet.common_errors`). The sum is
        taken to be normal.

        Parameters
        ----------
        h, X_future, level, keys
            As in `forecast`; the last rows of the keys are to be at the same time.
        by
            The fleet's column of groups: a sum for each. Without it, one over all keys.

        Returns
        -------
        frame
            Of the make of the last frame: the group, if there is one, time, mean, std, q05, q50, q95 and the bands,
            `h` rows for each sum.

        Raises
        ------
        ValueError
            If the fleet is still in its warm-up, its keys do not go on at the same times, or `forecast` would fail.
        """
        levels, known = checked(h, level), self._known("forecast_total")
        if by is not None and by != self.settings.group_col:
            raise ValueError(f"by: expected None or the fleet's group_col, {self.settings.group_col!r}, got {by!r}")
        if not self.is_warm_:
            raise ValueError(
                f"forecast_total: expected a fleet after its warm-up of {self.settings.warmup} rows, got one that "
                f"has seen {self.rows_}; learn more rows"
            )
        return totals_frame(known, next_rows(known, h, X_future, keys), levels, by)

    def scores(self) -> Any:
        """Return the scores of every key, over its rows after the warm-up, in the order of `keys_`.

        Returns
        -------
        frame
            Of the make of the last frame: the key; rows, and of them unlabelled, unusable, flagged (as outliers) and
            skipped ones; last_seen; scored_rows; nmse, pll (mean log density), coverage (of the band from q05 to
            q95); nmse_persistence and nmse_running_mean, the baselines' (the last target, the mean of all before);
            skill, the share of the squared errors of the better of these two that the fleet saves, and skill_low and
            skill_high, its 95% interval (above 0: better; below: worse; else they cannot be told apart); resets, how
            often an expert started again; borrowed, the share of the fleet's prior that is still in the key's
            beliefs.
        """
        known = self._known("scores")
        found = known.engine.scores()
        seen = found.pop("last_seen")
        if self.settings.time_col is not None:
            found["last_seen"] = as_times(known.columns, seen)
        return new_frame(known.columns, {self.settings.id_col: self.keys_} | found)

    def save(self, path: str | Path) -> None:
        """Write the fleet to a directory; shards whose keys have no new row stay as they are there.

        Whenever the program, the machine or the disk gives out, the directory still loads, as it was or as it is.
        """
        self.save_with(path, {})

    def save_with(self, path: str | Path, more: dict[str, Any]) -> None:
        """Write the fleet as `save` does, and in the same step what a run knows besides."""
        self.learner.save(Path(path), type(self).__name__, more)

    @classmethod
    def load(
        cls,
        path: str | Path,
        shards: Collection[int] | None = None,
        *,
        engine: str = "local",
        workers: int | None = None,
        max_active: int | None = None,
        directory: str | Path | None = None,
    ) -> Self:
        """Read a fleet that `save` wrote, whatever its engine was.

        Parameters
        ----------
        path
            Its directory.
        shards
            Read only the keys of these, and leave the prior of new keys as it is from now on: a part of the fleet
            that learns on its own, for another process. Not before the warm-up's end.
        engine, workers, max_active, directory
            Where it goes on, as for a new fleet.

        Raises
        ------
        CheckpointError
            If the directory holds no fleet, or a damaged one.
        """
        tree = checkpoint.load_of(path, cls)
        where = {"engine": engine, "workers": workers, "max_active": max_active, "directory": as_path(directory)}
        fleet = cls.__new__(cls)
        fleet.learner = FleetLearner.load(Path(path), tree, shards, where)
        return fleet

    def _known(self, caller: str) -> Known:
        """Return what is known of the rows that came."""
        learner = self.learner
        if learner.columns is None or learner.engine is None:
            raise ValueError(f"{caller}: expected a fleet that has seen some rows; call partial_fit first")
        return Known(learner.settings, learner.columns, learner.directory, learner.engine)
