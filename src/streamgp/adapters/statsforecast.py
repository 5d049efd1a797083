"""`StreamingGPRegressor` as a model of statsforecast: one that goes on from where it stands when new rows come."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np

from streamgp.adapters.series import Lags, inputs_of, new_estimator, quiet
from streamgp.estimators import StreamingGPRegressor, evaluate
from streamgp.table.given import to_floats

try:
    from statsforecast.models import _TS, _add_fitted_pi  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError('The adapter for statsforecast needs it: pip install "streamgp[statsforecast]".') from error

__all__ = ["StatsForecastModel"]

Levels = Sequence[float] | None


class _Learnt:
    """An estimator, and the rows that it has learnt."""

    def __init__(self, estimator: StreamingGPRegressor, y: np.ndarray, X: np.ndarray) -> None:
        self.estimator = quiet(estimator.fit(X, y))
        self.y, self.X = y, X

    def learn(self, y: np.ndarray, X: np.ndarray) -> None:
        """Learn further rows."""
        if len(y):
            self.estimator.partial_fit(X, y)
            self.y, self.X = np.concatenate([self.y, y]), np.concatenate([self.X, X])

    def known(self, y: np.ndarray, X: np.ndarray) -> int:
        """Return how many of the first rows given are the last ones learnt."""
        before, given = np.column_stack([self.y, self.X]), np.column_stack([y, X])
        most = min(len(before), len(given))
        same = (n for n in range(most, 0, -1) if np.array_equal(before[-n:], given[:n], equal_nan=True))
        return next(same, 0)


class StatsForecastModel(_TS):
    """`StreamingGPRegressor` as a model of ``StatsForecast(models=[...])``.

    Past targets are its inputs, and further inputs if the frame has any. ``cross_validation(refit=False)`` learns
    each row once: a window goes on from the one before it.

    Parameters
    ----------
    model
        As in `StreamingGPRegressor`.
    lags
        Rows that the past targets lie back, or ``"auto"``: see `StreamingGPRegressor`.
    warmup
        Rows by which the model is fitted; None: a fifth of those given to `fit`, 50 to 1,000 of them.
    paths
        How many paths are drawn for a forecast, whose mean is known to its standard deviation over their root.
    seed
        Of all that is random.
    alias
        The name of the column of forecasts.
    prediction_intervals
        Conformal intervals of statsforecast in place of the model's own.
    options
        Further parameters of `StreamingGPRegressor`.

    Attributes
    ----------
    estimator_
        The estimator, which has learnt all rows of `fit` and `update`.
    """

    uses_exog = True

    def __init__(
        self,
        model: str = "default",
        *,
        lags: Lags = "auto",
        warmup: int | None = None,
        paths: int = 1_000,
        seed: int = 0,
        alias: str = "StreamingGP",
        prediction_intervals: Any = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.lags = lags
        self.warmup = warmup
        self.paths = paths
        self.seed = seed
        self.alias = alias
        self.prediction_intervals = prediction_intervals
        self.options = options

    @property
    def estimator_(self) -> StreamingGPRegressor:
        """Return the estimator that `fit` and `update` have taught."""
        return self._learnt.estimator

    def fit(self, y: Any, X: Any = None) -> Self:
        """Forget everything, then learn a series (n,), with inputs (n, D) if there are any."""
        self._learnt = self._begun(y, X)
        self._ahead: _Learnt | None = None
        self._store_cs(y=y, X=X)
        return self

    def update(self, y: Any, X: Any = None) -> Self:
        """Learn the rows that come next, and no others; nothing is fitted again."""
        self._learnt.learn(*_rows(y, X))
        return self

    def predict(self, h: int, X: Any = None, level: Levels = None) -> dict[str, np.ndarray]:
        """Return the means of the next h rows, and bands of these percents; `X` has their inputs (h, D)."""
        found = self._forecast(self._learnt, h, X, level)
        return found if level is None else self._add_predict_conformal_intervals(found, sorted(level))

    def predict_in_sample(self, level: Levels = None) -> dict[str, np.ndarray]:
        """Return what was expected of every row learnt, just before it was."""
        return self._in_sample(self._learnt.y, self._learnt.X, level)

    def forecast(
        self, y: Any, h: int, X: Any = None, X_future: Any = None, level: Levels = None, fitted: bool = False
    ) -> dict[str, np.ndarray]:
        """Return the forecast after a series, and with `fitted` what was expected of its rows; keep nothing."""
        return self._answer(self._begun(y, X), y, h, X, X_future, level, fitted)

    def forward(
        self, y: Any, h: int, X: Any = None, X_future: Any = None, level: Levels = None, fitted: bool = False
    ) -> dict[str, np.ndarray]:
        """Return the forecast that follows a series that goes on from the one fitted; that of `predict` stays.

        Rows that were learnt by `fit`, or by the call before, are not learnt again. A series that does not go on
        from these is learnt as further rows.
        """
        rows = _rows(y, X)
        ahead = self._ahead
        if ahead is None or not ahead.known(*rows):
            ahead = deepcopy(self._learnt)
        known = ahead.known(*rows)
        ahead.learn(*(part[known:] for part in rows))
        self._ahead = ahead
        return self._answer(ahead, y, h, X, X_future, level, fitted)

    def _begun(self, y: Any, X: Any) -> _Learnt:
        return _Learnt(self._new(), *_rows(y, X))

    def _new(self) -> StreamingGPRegressor:
        return new_estimator(self.model, self.lags, self.warmup, self.seed, self.options)

    def _answer(
        self, learnt: _Learnt, y: Any, h: int, X: Any, X_future: Any, level: Levels, fitted: bool
    ) -> dict[str, np.ndarray]:
        found = self._forecast(learnt, h, X_future, level)
        if level is not None:
            found = self._add_conformal_intervals(fcst=found, y=y, X=X, level=sorted(level))
        return found | (self._in_sample(*_rows(y, X), level) if fitted else {})

    def _forecast(self, learnt: _Learnt, h: int, X: Any, level: Levels) -> dict[str, np.ndarray]:
        """Return means and, unless these are to be conformal, bands."""
        own = () if level is None or self.prediction_intervals is not None else sorted(level)
        frame = learnt.estimator.forecast(h, inputs_of(X, h), level=own, n=self.paths)
        bands = {end: [name for name in frame.columns if name.startswith(f"mean-{end}-")] for end in ("lo", "hi")}
        lower, upper = (
            {f"{end}-{each}": frame[name].to_numpy() for each, name in zip(own, names, strict=True)}
            for end, names in bands.items()
        )
        # In the order of statsforecast's columns: from the lowest end to the highest.
        return {"mean": frame["mean"].to_numpy()} | dict(reversed(lower.items())) | upper

    def _in_sample(self, y: np.ndarray, X: np.ndarray, level: Levels) -> dict[str, np.ndarray]:
        """Return what a model that begins with these rows expects of each just before it learns it.

        Of the first row it expects nothing. Bands are those of normal errors, as of statsforecast's own models.
        """
        found = evaluate(self._new(), X, y, weights=False, progress=False)
        fitted = {"fitted": np.concatenate([[np.nan], found.mean[1:]])}
        return fitted if level is None else _add_fitted_pi(res=fitted, se=found.std, level=level)


def _rows(y: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and inputs as arrays of floats."""
    targets = to_floats("y", y)
    return targets, to_floats("X", inputs_of(X, len(targets)))
