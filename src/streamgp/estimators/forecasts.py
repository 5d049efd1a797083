"""Several rows ahead: forecasts of the next rows as a frame, and paths of them."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from streamgp.estimators.access import alone
from streamgp.estimators.time_column import split_times
from streamgp.estimators.validation import check_inputs, given_names
from streamgp.evaluation.metrics.shares import percents
from streamgp.likelihoods import TargetMap
from streamgp.models.option_type import whole_number
from streamgp.numerics.digits import shortest
from streamgp.stream.learner import StreamLearner
from streamgp.table.frames import FrameLike

QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}


def future_rows(estimator: Any, h: int, X_future: Any, times: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the inputs (h, D) of the next h rows, checked, and their times; without, those of the usual gaps."""
    learner, names = estimator._learner, given_names(estimator)
    if X_future is None and names:
        raise ValueError(
            f"X_future: expected the inputs of the next {h} rows, shape ({h}, {len(names)}), got None; give the "
            f"columns {', '.join(names)}, with NaN for what is not known"
        )
    X = np.empty((h, 0)) if X_future is None else X_future
    if times is None and learner.timed:
        _check_no_more(X, names)
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    X, stamps = check_inputs(estimator, X, _usual_times(learner, rows) if times is None else times, learner)
    if len(X) != h:
        raise ValueError(f"X_future: expected {h} rows, as many as there are steps, got {len(X)}")
    if stamps is not None and (np.diff(stamps) < 0.0).any():
        raise ValueError(f"times: expected times that never decrease, got {stamps.tolist()}")
    return X, stamps


def _check_no_more(X: Any, names: Sequence[str]) -> None:
    """Raise ValueError if a frame has a column that is no input, as that of times would be."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    more = [name for name in frame.columns if name not in names] if isinstance(frame, nw.DataFrame) else []
    if more:
        expected = f"the columns {', '.join(names)}" if names else "no columns"
        raise ValueError(
            f"X_future: expected {expected}, got {more} too; if one of these has the times, name it: "
            f"times={more[0]!r}"
        )


def usual_step(learner: StreamLearner) -> float | None:
    """Return the warm-up's median gap, of an ensemble on a timed stream; None where it is not known."""
    if not learner.timed or not learner.is_warmed_up:
        return None
    unit = getattr(learner.state.model, "time_unit", None)
    return None if unit is None else float(unit)


def _usual_times(learner: StreamLearner, rows: int) -> np.ndarray | None:
    """Return times of the next rows at the warm-up's median gap, on a timed stream: the calendar goes by them."""
    if not learner.timed or learner.last_time is None:
        return None
    gap = usual_step(learner) or 1.0
    return learner.last_time + gap * np.arange(1, rows + 1)


def forecast_frame(
    paths: Float[np.ndarray, "n h e"],
    target_map: TargetMap,
    level: Sequence[float],
    times: Any,
    single: bool,
    like: Any,
) -> Any:
    """Return what paths say of every step, in a frame of the make of `like`, or of polars if that is none.

    `times` are those of the steps as the user gave them, dates included, or their column in `like`, or None.
    """
    _, h, outputs = paths.shape
    _, times = split_times(like, times)
    drawn = paths.reshape(len(paths), h * outputs)
    values: dict[str, Any] = {"step": np.arange(1, h + 1).repeat(outputs)}
    if times is not None:
        values["time"] = np.asarray(times).repeat(outputs)
    if not single:
        values["target"] = [f"y{e}" for e in range(outputs)] * h
    mean, std = target_map.moments_of_draws(drawn)
    values |= {"mean": mean, "std": std}
    values |= dict(zip(QUANTILES, np.quantile(drawn, list(QUANTILES.values()), axis=0), strict=True))
    for each in level:
        ends = np.quantile(drawn, [0.5 - each / 200.0, 0.5 + each / 200.0], axis=0)
        values |= {f"mean-lo-{shortest(each)}": ends[0], f"mean-hi-{shortest(each)}": ends[1]}
    return FrameLike.of(like).make(values)


class Forecasting:
    """What estimators of numbers tell of several rows ahead."""

    _learner: StreamLearner
    _single: bool
    _access: Any
    _check_fitted: Any
    _warn_if_early: Any

    @alone
    def forecast(
        self,
        h: int,
        X_future: Any = None,
        level: float | Sequence[float] = (80, 95),
        times: Any = None,
        n: int = 1_000,
    ) -> Any:
        """Forecast the targets of the next h rows, each with what is not known of those before it.

        Parameters
        ----------
        h
            How many rows.
        X_future
            Their inputs (h, D), which may be NaN under ``missing="impute"``; None for a model of lags, or of lags and
            the calendar of its times, alone.
        level
            Percents (80, not 0.8, which is refused) that bands are to hold: columns ``mean-lo-80``, ``mean-hi-80``
            and so on.
        times
            Their time stamps or the name of the column of `X_future` that has them, on a timed stream; without, they
            come at the warm-up's median gap.
        n
            How many paths are drawn (see `sample_paths`), at least 2: the mean is known to ``std / sqrt(n)``.

        Returns
        -------
        frame
            A row for each step (of several targets, for each step and target): step, time, target, mean, std, q05,
            q50, q95 and the bands. Of the make of `X_future`, or of polars if that is no frame.

        Raises
        ------
        ValueError
            If the model has a horizon, or is no ensemble, inputs or times are not those of h rows to come, or a level
            is not above 1 and below 100.
        """
        levels = percents("level", level)
        if whole_number("n", n) < 2:
            raise ValueError(f"n: expected at least 2 paths, got {n}")
        paths, target_map = self._paths(h, n, X_future, times), self._learner.settings.target_map
        return forecast_frame(paths, target_map, levels, times, self._single, X_future)

    @alone
    def sample_paths(self, h: int, n: int = 1_000, X_future: Any = None, times: Any = None) -> np.ndarray:
        """Draw the targets of the next h rows jointly, shape (n, h), or (n, h, E) with several targets.

        A path follows one expert, chosen by the weights, with regression weights and a noise level drawn from its
        beliefs; its own targets are the lags of its later rows, within the bounds of the inputs. Which expert is
        right is not learnt on the way. The draws depend on `random_state` and on how many rows have been learnt.

        Parameters
        ----------
        h, X_future, times
            As those of `forecast`.
        n
            How many paths.

        Raises
        ------
        ValueError
            As `forecast` does.
        """
        paths = self._paths(h, n, X_future, times)
        return paths[..., 0] if self._single else paths

    def _paths(self, h: int, n: int, X_future: Any, times: Any) -> np.ndarray:
        """Return paths (n, h, E)."""
        self._check_fitted()
        h, n = whole_number("h", h), whole_number("n", n)
        X, stamps = future_rows(self, h, X_future, times)
        self._warn_if_early(0)
        return self._learner.paths(X, None if times is None else stamps, n)
