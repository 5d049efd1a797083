"""Estimators of streamgp as models of river: rows are dictionaries, and features come and go.

A model works from the first row on, and learns every row at once; ``learn_many`` gives the same numbers as rows one
by one. Copies and pickles, which river makes, go on where the model stood.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from streamgp.adapters.feature_slots import FeatureSlots
from streamgp.adapters.series import quiet
from streamgp.estimators import StreamingGPClassifier, StreamingGPRegressor
from streamgp.models.options import OPTIONS
from streamgp.stream.first_guess import first_guess
from streamgp.table.given import to_floats

try:
    from river import base, proba, time_series
except ImportError as error:
    raise ImportError('The adapters for river need it: pip install "streamgp[river]".') from error

__all__ = ["RiverAnomalyDetector", "RiverClassifier", "RiverForecaster", "RiverRegressor"]


class _Learnt:
    """An estimator that begins with the first row, and the columns of its features."""

    def __init__(self, make: Callable[[], Any], spare: int) -> None:
        self.slots = FeatureSlots(spare)
        self.estimator = make()
        self.rows = 0

    def learn(self, x: dict[Any, Any], y: Any) -> None:
        self.slots.admit(x)
        self.estimator.learn_one(self.slots.row(x), y)
        self.rows += 1

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame."""
        if len(X):
            self.slots.admit(X.columns)
            self.estimator.partial_fit(self.table(X), y)
            self.rows += len(X)

    def table(self, X: Any) -> np.ndarray:
        """Return the rows of a frame as numbers."""
        return np.array([self.slots.row(x) for x in X.to_dict("records")]).reshape(len(X), self.slots.width)

    @property
    def quiet(self) -> Any:
        """Return the estimator, which says nothing of its warm-up."""
        return quiet(self.estimator)


class _OfFeatures:
    """What the adapters of estimators with features share: their parameters, and the estimator that these make."""

    _estimator: ClassVar[type[Any]] = StreamingGPRegressor
    _usual: ClassVar[dict[str, Any]] = {}  # parameters of the estimator, unless the options say otherwise

    def __init__(
        self,
        model: str = "default",
        *,
        warmup: int | None = None,
        spare_features: int = 8,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.model = model
        self.warmup = warmup
        self.spare_features = spare_features
        self.seed = seed
        self.options = options
        self._learnt = _Learnt(self._make, spare_features)

    def _make(self) -> Any:
        more: dict[str, Any] = self._usual | self.options
        return self._estimator(self.model, warmup=self.warmup, random_state=self.seed, **more)


class RiverRegressor(_OfFeatures, base.MiniBatchRegressor):
    """`StreamingGPRegressor` as a regressor of river.

    Parameters
    ----------
    model
        As in `StreamingGPRegressor`.
    warmup
        Rows after which the model is fitted; None: 1,000. Until then a simple default model predicts.
    spare_features
        How many features may come beyond those of the first row. One that first comes after the warm-up says little.
    seed
        Of all that is random.
    options
        Further parameters of `StreamingGPRegressor`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamgp.adapters.river import RiverRegressor
    >>> model = RiverRegressor("linear", warmup=50)
    >>> score = evaluate.progressive_val_score(datasets.TrumpApproval().take(300), model, metrics.MAE())
    >>> bool(score.get() < 1.0)
    True
    """

    def learn_one(self, x: dict[Any, Any], y: float | None) -> None:
        """Learn a row; a target of None or NaN teaches nothing."""
        self._learnt.learn(x, np.nan if y is None else float(y))

    def predict_one(self, x: dict[Any, Any], with_dist: bool = False) -> Any:
        """Return the mean of the target, or with `with_dist` a `river.proba.Gaussian` of its mean and variance.

        Before the first row the mean is zero, or what most features agree on, and the variance is one.
        """
        mean, std = self._moments(x)
        return _gaussian(mean, std) if with_dist else mean

    def predict_dist(self, x: dict[Any, Any]) -> Any:
        """Return the whole predictive distribution, of one row: see `StreamingGPRegressor.predict_dist`.

        Raises
        ------
        ValueError
            Before the first row.
        """
        if not self._learnt.rows:
            raise ValueError("predict_dist: expected a model that has learnt a row, got one that has learnt none")
        return self._learnt.quiet.predict_dist([self._learnt.slots.row(x)])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a pandas frame."""
        self._learnt.learn_many(X, to_floats("y", y))

    def predict_many(self, X: Any) -> Any:
        """Return the mean of the target for each row of a pandas frame."""
        import pandas as pd

        return pd.Series([self._moments(x)[0] for x in X.to_dict("records")], index=X.index, dtype=float)

    def _moments(self, x: dict[Any, Any]) -> tuple[float, float]:
        if not self._learnt.rows:
            numbers = [float(value) for value in x.values() if isinstance(value, int | float)]
            return float(first_guess(np.array([numbers]))[0]), 1.0
        mean, std = self._learnt.quiet.predict_one(self._learnt.slots.row(x))
        return float(mean), float(std)


class RiverClassifier(_OfFeatures, base.MiniBatchClassifier):
    """`StreamingGPClassifier` as a classifier of river, of any number of classes, which may come at any time.

    Parameters
    ----------
    model, warmup, spare_features, seed
        As in `RiverRegressor`.
    options
        Further parameters of `StreamingGPClassifier`.
    """

    _estimator = StreamingGPClassifier

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn a row."""
        self._learnt.learn(x, y)

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the probability of every label that has come so far; of none before the first row."""
        if not self._learnt.rows:
            return {}
        return self._learnt.quiet.predict_proba_one(self._learnt.slots.row(x))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a pandas frame."""
        self._learnt.learn_many(X, np.asarray(y))

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of every label for each row of a pandas frame, as a frame."""
        import pandas as pd

        return pd.DataFrame([self.predict_proba_one(x) for x in X.to_dict("records")], index=X.index)


class RiverForecaster(time_series.base.Forecaster):
    """`StreamingGPRegressor` as a forecaster of river: lagged targets are inputs, and features of the steps if any.

    Parameters
    ----------
    model, warmup, seed
        As in `RiverRegressor`.
    lags
        Rows that the lagged targets lie back, or ``"auto"``: see `StreamingGPRegressor`.
    paths
        How many paths are drawn for the mean of a forecast, which is known to its standard deviation over their root.
    spare_features
        As in `RiverRegressor`; zero where there are no features.
    options
        Further parameters of `StreamingGPRegressor`.
    """

    def __init__(
        self,
        model: str = "default",
        *,
        lags: tuple[int, ...] | int | str = OPTIONS["lags"].default_for("RiverForecaster"),
        warmup: int | None = None,
        paths: int = 1_000,
        spare_features: int = 0,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.model = model
        self.lags = lags
        self.warmup = warmup
        self.paths = paths
        self.spare_features = spare_features
        self.seed = seed
        self.options = options
        self._learnt = _Learnt(self._make, spare_features)

    def _make(self) -> StreamingGPRegressor:
        more = {"warmup": self.warmup, "lags": self.lags, "random_state": self.seed}
        return StreamingGPRegressor(self.model, **more, **self.options)

    def learn_one(self, y: float, x: dict[Any, Any] | None = None) -> None:
        """Learn the next target, and the features of its row if there are any."""
        self._learnt.learn({} if x is None else x, float(y))

    def forecast(self, horizon: int, xs: list[dict[Any, Any]] | None = None, with_dist: bool = False) -> list[Any]:
        """Return the means of the next targets, or with `with_dist` their distributions as `river.proba.Gaussian`.

        Parameters
        ----------
        horizon
            How many.
        xs
            The features of their rows; those that are missing are filled.
        with_dist
            Whether to return distributions.

        Raises
        ------
        ValueError
            If there are not as many rows of features as steps.
        """
        if xs is not None and len(xs) != horizon:
            raise ValueError(f"xs: expected the features of {horizon} steps, got {len(xs)}")
        if not self._learnt.rows:
            return [_gaussian(0.0, 1.0) if with_dist else 0.0] * horizon
        slots = self._learnt.slots
        X = np.array([slots.row(x) for x in xs or [{}] * horizon])
        frame = self._learnt.quiet.forecast(horizon, X, n=self.paths)
        moments = zip(frame["mean"].to_list(), frame["std"].to_list(), strict=True)
        return [_gaussian(mean, std) if with_dist else mean for mean, std in moments]


class RiverAnomalyDetector(_OfFeatures, base.AnomalyDetector):
    """Rows that differ from what the rows before let expect, by a `StreamingGPRegressor` of all features at once.

    Each row is predicted from the row before it. The score is the root mean square of the errors of the features that
    it has, each in standard deviations: about one for an ordinary row.

    Parameters
    ----------
    model, warmup, spare_features, seed
        As in `RiverRegressor`.
    options
        Further parameters of `StreamingGPRegressor`.
    """

    _usual: ClassVar[dict[str, Any]] = {"lags": OPTIONS["lags"].default_for("RiverAnomalyDetector")}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn a row; features that are missing count as what was expected of them."""
        learnt = self._learnt
        learnt.slots.admit(x)
        row = learnt.slots.row(x)
        expected = self._expected()[0] if np.isnan(row).any() else row
        learnt.estimator.learn_one([], np.where(np.isnan(row), expected, row))
        learnt.rows += 1

    def score_one(self, x: dict[Any, Any]) -> float:
        """Return how far a row is from what was expected; zero before the first row."""
        if not self._learnt.rows:
            return 0.0
        mean, std = self._expected()
        row = self._learnt.slots.row(x)
        there = np.isfinite(row) & (np.arange(len(row)) < len(self._learnt.slots.columns))
        errors = (row - mean)[there] / std[there]
        return float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0

    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the next row."""
        if not self._learnt.rows:
            return np.zeros(self._learnt.slots.width), np.ones(self._learnt.slots.width)
        mean, std = self._learnt.quiet.predict_one([])
        return np.asarray(mean), np.asarray(std)


def _gaussian(mean: float, std: float) -> Any:
    """Return a distribution as river has it, which holds the variance."""
    return proba.Gaussian._from_state(n=1, m=mean, var=std**2, ddof=0)
