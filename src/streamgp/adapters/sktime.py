"""`StreamingGPRegressor` as a forecaster of sktime, whose `update` learns the new rows alone."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from streamgp.adapters.series import Lags, inputs_of, new_estimator, quiet
from streamgp.estimators import StreamingGPRegressor

try:
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster, ForecastingHorizon  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError('The adapter for sktime needs it: pip install "streamgp[sktime]".') from error

__all__ = ["SktimeForecaster"]

_DAY = pd.Timedelta(days=1)


class SktimeForecaster(BaseForecaster):
    """`StreamingGPRegressor` as a forecaster of sktime.

    Past targets are its inputs, and exogenous ones if there are any. Where rows come a day apart or less, their dates
    count too: forgetting runs by them, and the calendar can be an input. Forecasts of means, quantiles and variances
    are those of paths, as by the estimator's own `forecast`.

    `update` learns the rows that come after those learnt before, whatever `update_params` says: a model that
    learns from a stream has no other memory. Nothing is fitted again.

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
    random_state
        Of all that is random.
    options
        Further parameters of `StreamingGPRegressor`, by name.

    Attributes
    ----------
    estimator_
        The estimator, which has learnt all rows of `fit` and `update`.

    Examples
    --------
    >>> from sktime.datasets import load_airline
    >>> from streamgp.adapters.sktime import SktimeForecaster
    >>> y = load_airline()
    >>> forecaster = SktimeForecaster("linear", lags=(1, 12), warmup=50).fit(y[:120])
    >>> bands = forecaster.update(y[120:132]).predict_interval(fh=[1, 2, 3], coverage=0.9)
    >>> bands.shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "streamgp",
        "maintainers": "streamgp",
        "python_dependencies": "sktime",
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "capability:multivariate": False,
        "capability:exogenous": True,
        "capability:categorical_in_X": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:random_state": True,
        "capability:update": True,
        "property:randomness": "derandomized",
        "requires-fh-in-fit": False,
        "X-y-must-have-same-index": True,
    }

    # The estimator remembers what it needs; with the config remember_data=True sktime keeps all rows here besides.
    _config: ClassVar[dict[str, Any]] = {"remember_data": False}
    _y = _X = None

    def __init__(
        self,
        model: str = "default",
        lags: Lags = "auto",
        warmup: int | None = None,
        paths: int = 1_000,
        random_state: Any = 0,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.lags = lags
        self.warmup = warmup
        self.paths = paths
        self.random_state = random_state
        self.options = options
        super().__init__()

    def _fit(self, y: pd.Series, X: pd.DataFrame | None, fh: Any) -> Self:
        estimator = new_estimator(self.model, self.lags, self.warmup, self.random_state, self.options)
        self._dated = _comes_daily(y.index)
        self.estimator_: StreamingGPRegressor = quiet(estimator.fit(inputs_of(X, len(y)), y, self._times(y.index)))
        self._last, self._name = y.index[-1], y.name
        return self

    def _update(self, y: pd.Series, X: pd.DataFrame | None = None, update_params: bool = True) -> Self:
        new = y.loc[y.index > self._last]
        if len(new):
            X = None if X is None else X.loc[new.index]
            self.estimator_.partial_fit(inputs_of(X, len(new)), new, self._times(new.index))
            self._last = new.index[-1]
        return self

    def _predict(self, fh: Any, X: pd.DataFrame | None) -> pd.Series:
        steps, given = self._ahead(fh, X)
        frame = self.estimator_.forecast(**given)
        return pd.Series(frame["mean"].to_numpy()[steps], index=self._index(fh), name=self._name)

    def _predict_quantiles(self, fh: Any, X: pd.DataFrame | None, alpha: Sequence[float]) -> pd.DataFrame:
        steps, given = self._ahead(fh, X)
        paths = self.estimator_.sample_paths(**given)[:, steps]
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return self._of_steps(fh, np.quantile(paths, alpha, axis=0).T, columns)

    def _predict_var(self, fh: Any, X: pd.DataFrame | None = None, cov: bool = False) -> pd.DataFrame:
        steps, given = self._ahead(fh, X)
        if not cov:
            std = self.estimator_.forecast(**given)["std"].to_numpy()[steps]
            return self._of_steps(fh, np.square(std), self._get_varnames())
        paths = self.estimator_.sample_paths(**given)[:, steps]
        index = self._index(fh)
        return pd.DataFrame(np.atleast_2d(np.cov(paths, rowvar=False)), index=index, columns=index)

    def _ahead(self, fh: Any, X: pd.DataFrame | None) -> tuple[np.ndarray, dict[str, Any]]:
        """Return where the horizon is among the next rows, and what their forecast is asked with."""
        steps = np.asarray(fh.to_indexer(self.cutoff))
        h = int(steps.max()) + 1
        index = self._index(ForecastingHorizon(np.arange(1, h + 1), is_relative=True))
        inputs = None if X is None else X.reindex(index)  # of steps between those asked for there may be none
        return steps, {"h": h, "X_future": inputs, "times": self._times(index), "n": self.paths}

    def _of_steps(self, fh: Any, values: np.ndarray, columns: Any) -> pd.DataFrame:
        return pd.DataFrame(values, index=self._index(fh), columns=columns)

    def _index(self, fh: Any) -> pd.Index:
        return fh.to_absolute_index(self.cutoff)

    def _times(self, index: pd.Index) -> np.ndarray | None:
        """Return the time stamps of rows, where the model goes by them."""
        if not self._dated:
            return None
        return np.asarray(index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's own checks."""
        return [
            {"model": "linear", "paths": 50, "lags": 1},
            {"model": "fast", "paths": 50, "options": {"features_per_basis": 20}},
        ]


def _comes_daily(index: pd.Index) -> bool:
    """Return whether rows have dates and usually come a day apart or less."""
    dates = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    return isinstance(dates, pd.DatetimeIndex) and len(dates) > 1 and np.median(np.diff(dates)) <= _DAY
