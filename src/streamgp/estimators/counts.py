"""Counts on a stream."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d

from streamgp.estimators.access import alone
from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.docstrings import with_options
from streamgp.estimators.explanations import Explanation, explanation, importance, inputs_of
from streamgp.estimators.late import Later
from streamgp.estimators.prediction import Prediction
from streamgp.estimators.single import as_table, in_order
from streamgp.estimators.validation import Rows, check_inputs, check_one
from streamgp.metrics.shares import probabilities
from streamgp.models.spec import Spec
from streamgp.stream.tasks import mean_and_variance
from streamgp.table.containers import unmasked
from streamgp.table.given import check_numbers, to_floats

_EXPOSURE = "exposure: the rows learnt {} exposure and {} came now; give it always or never"


@with_options
class StreamingGPCountRegressor(RegressorMixin, StreamEstimator):
    """Regression of counts on a stream: whole numbers from 0, with their whole predictive distribution.

    An online ensemble of basis expansions of the log rate; each target is learnt by a Laplace step
    (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4).

    Parameters
    ----------
    {options}

    Attributes
    ----------
    weights_, experts_, rows_, skipped_rows_, imputed_values_, outside_rows_, n_features_in_, feature_names_in_
        As in `StreamingGPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPCountRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> m = StreamingGPCountRegressor("linear", warmup=50).partial_fit(X, rng.poisson(np.exp(1 + X[:, 0])))
    >>> bool(2 < m.predict([[0.0]])[0] < 4)
    True
    """

    _exposed = False  # whether rows come with an exposure

    def __init__(
        self,
        model: str = "default",
        *,
        likelihood: str = "negative-binomial",
        warmup: int | None = None,
        bases: Sequence[str] | str | None = None,
        features_per_basis: int | None = None,
        dynamics: Sequence[str | float] | str | float | None = None,
        weights: Any = None,
        delta: float | None = None,
        share: float | None = None,
        switch: float | None = None,
        warmup_posterior: str = "condition",
        robust: bool | None = None,
        missing: str = "impute",
        calendar: Sequence[str] | str | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            model,
            warmup=warmup,
            bases=bases,
            features_per_basis=features_per_basis,
            dynamics=dynamics,
            weights=weights,
            delta=delta,
            share=share,
            switch=switch,
            warmup_posterior=warmup_posterior,
            robust=robust,
            missing=missing,
            calendar=calendar,
            random_state=random_state,
        )
        self.likelihood = likelihood

    @alone
    def fit(self, X: Any, y: Any, exposure: Any = None, times: Any = None) -> Self:
        """Forget everything, then learn all rows in their order: one pass, as `partial_fit` would."""
        return self._fit(self._prepare(X, y, times, reset=True, exposure=exposure))

    @alone
    def partial_fit(self, X: Any, y: Any, exposure: Any = None, times: Any = None) -> Self:
        """Learn from rows of shape (n, D) and counts (n,), in order; call it as often as you like.

        Parameters
        ----------
        exposure
            Optional positive numbers (n,) by which the rate is multiplied: hours of observation, inhabitants. All
            rows of a stream have one, or none has.
        times
            As in `StreamingGPRegressor.partial_fit`.

        Raises
        ------
        ValueError
            On NaN or infinity under ``missing="raise"``, another number of columns, or targets that are no counts;
            the state is then untouched.
        """
        first = not self.__sklearn_is_fitted__()
        return self._partial_fit(self._prepare(X, y, times, reset=first, exposure=exposure))

    @alone
    def learn_one(self, x: Any, y: Any, exposure: Any = None, time: Any = None) -> Self:
        """Learn from one row: its inputs (D,), or a dictionary by the names of the features, and its count."""
        return self.partial_fit(
            as_table(self, x), [y], *(None if each is None else [each] for each in (exposure, time))
        )

    @alone
    def predict(self, X: Any, return_std: bool = False, exposure: Any = None, times: Any = None) -> Any:
        """Return the mean of the next count for each row, and its standard deviation if asked."""
        mean, std = self._prediction(self._predict_exposed(X, exposure, times)).moments
        return (mean, std) if return_std else mean

    @alone
    def predict_one(self, x: Any, exposure: Any = None, time: Any = None) -> tuple[float, float]:
        """Return mean and standard deviation of the next count for one row, (D,) or a dictionary."""
        more = (None if each is None else [each] for each in (exposure, time))
        mean, std = self.predict(as_table(self, x), True, *more)
        return mean[0], std[0]

    @alone
    def predict_dist(self, X: Any, exposure: Any = None, times: Any = None) -> Prediction:
        """Return the predictive distribution of the next count for each row: see `StreamingGPRegressor`."""
        return self._prediction(self._predict_exposed(X, exposure, times))

    @alone
    def predict_interval(
        self, X: Any, coverage: float = 0.9, exposure: Any = None, times: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and greatest count of bands that hold at least this share of the next counts."""
        return self._prediction(self._predict_exposed(X, exposure, times)).interval(coverage)

    @alone
    def predict_quantiles(
        self, X: Any, quantiles: Sequence[float], exposure: Any = None, times: Any = None
    ) -> np.ndarray:
        """Return quantiles of the next count, (n, Q): the least count with that much probability up to it."""
        return self._prediction(self._predict_exposed(X, exposure, times)).quantile(
            probabilities("quantiles", quantiles)
        )

    @alone
    def log_density(self, X: Any, y: Any, exposure: Any = None, times: Any = None) -> np.ndarray:
        """Return the log probability of the counts `y` under the prediction of each row, shape (n,)."""
        return self._prediction(self._predict_exposed(X, exposure, times)).log_density(y)

    @alone
    def sample(self, X: Any, n: int = 1, exposure: Any = None, times: Any = None) -> np.ndarray:
        """Draw n counts for each row from its own prediction, shape (rows, n).

        The draws depend on `random_state` and on how many rows have been learnt.
        """
        return self._prediction(self._predict_exposed(X, exposure, times)).sample(n)

    @alone
    def predict_later(self, x: Any, time: Any = None, exposure: Any = None) -> Later:
        """Predict a row whose count comes later: see `StreamEstimator.predict_later`; `exposure` is the row's own."""
        self._check_fitted()
        return self._predicted_later(*self._exposed_row(x, time, exposure, comes=True), time)

    @alone
    def feature_importance(self, exposure: float | None = None) -> dict[str, float]:
        """Return the share of the counts' variance that predictions take from each input, the largest first.

        Shares are between 0 and 1 and sum to at most 1; the rest is chance, as the model has it. For the rest see
        `StreamingGPRegressor.feature_importance`.

        Parameters
        ----------
        exposure
            That of all rows, on a stream that has one: the longer counts go on, the less of their variance is chance.

        Raises
        ------
        ValueError
            If X has no columns, or fewer than 2 rows were learnt; or without an exposure where rows have one.
        """
        self._check_fitted()
        return importance(self._learner, inputs_of(self), log_exposure=self._one_exposure(exposure))

    @alone
    def explain(self, x: Any, exposure: Any = None, time: Any = None) -> Explanation:
        """Return what each input of a row contributes to its mean count: see `StreamingGPRegressor.explain`.

        The rows that it is compared with have its exposure.

        Raises
        ------
        ValueError
            As `predict_one` does; or if X has no columns, or fewer than 2 rows were learnt.
        """
        self._check_fitted()
        row = self._exposed_row(x, time, exposure)
        return explanation(self._learner, row, inputs_of(self), True, mean_and_variance)

    # Inner works

    def _exposed_row(self, x: Any, time: Any, exposure: Any, comes: bool = False) -> tuple[np.ndarray, float]:
        """Return a row with the log of its exposure, if there is one, and its time."""
        shift = self._one_exposure(exposure)
        row = to_floats("x", in_order(self, x, time, comes=comes), ("column",))
        return check_one(np.append(row, shift), time, self._learner, self.missing, self._columns)

    def _target(self, y: Any) -> np.ndarray:
        target = super()._target(y)
        _refuse(target, _is_no_count(target), "y: expected whole numbers from 0", self.missing == "skip")
        return target

    def _make_spec(self, **more: Any) -> Spec:
        return super()._make_spec(task="count", exposure=self._exposed, **more)

    def _prepare(self, X: Any, y: Any, times: Any, reset: bool, exposure: Any = None) -> Rows:
        """Return rows whose targets are counts; the log of the exposure, if there is one, is their last input."""
        skip = self.missing == "skip"
        y = unmasked(y)
        check_numbers("y", y)
        y = np.array(column_or_1d(y, warn=True), dtype=np.float64)
        _refuse(y, _is_no_count(y), "y: expected whole numbers from 0", skip)
        log_exposure = None if exposure is None else self._log_exposure(exposure, len(y), skip, reset)
        if log_exposure is None and not reset and self._exposed:
            raise ValueError("exposure: the rows before had one and none came now; give it always or never")
        if log_exposure is not None:
            y[np.isnan(log_exposure)] = np.nan
        rows = self._check_learn(X, y, times, reset)
        self._exposed = log_exposure is not None
        if log_exposure is None:
            return rows
        return rows._replace(X=np.column_stack([rows.X, log_exposure[rows.kept]]))

    def _one_exposure(self, exposure: Any) -> Sequence[float]:
        """Return the log of one exposure; nothing where rows have none."""
        self._check_exposure(exposure)
        return () if exposure is None else self._log_exposure([exposure], 1, skip=False, reset=False).tolist()

    def _check_exposure(self, exposure: Any) -> None:
        """Check that an exposure is given where the rows learnt had one, and nowhere else."""
        if self._exposed != (exposure is not None):
            raise ValueError(_EXPOSURE.format(*(("had an", "none") if self._exposed else ("had no", "one"))))

    def _log_exposure(self, exposure: Any, rows: int, skip: bool, reset: bool) -> np.ndarray:
        """Return the log of the exposure (n,), NaN where it is of no use."""
        if not reset and not self._exposed:
            raise ValueError("exposure: the rows before had none and some came now; give it always or never")
        values = np.array(to_floats("exposure", exposure))  # a copy: what cannot be used becomes NaN
        if values.shape != (rows,):
            raise ValueError(f"exposure: expected {rows} of them, one per row, got shape {values.shape}")
        _refuse(values, ~(np.isfinite(values) & (values > 0.0)), "exposure: expected finite numbers above 0", skip)
        return np.log(values)

    def _predict_exposed(self, X: Any, exposure: Any, times: Any) -> Any:
        self._check_fitted()
        X, times = check_inputs(self, X, times, self._learner)
        self._warn_if_early(len(X))
        self._check_exposure(exposure)
        if exposure is None:
            return self._predict_next(X, times)
        shift = self._log_exposure(exposure, len(X), skip=False, reset=False)
        return self._predict_next(np.column_stack([X, shift]), times)

    def _more_to_store(self) -> dict[str, Any]:
        return {"exposed": self._exposed}

    def _restore(self, tree: dict[str, Any]) -> None:
        self._exposed = tree["exposed"]


def _is_no_count(y: np.ndarray) -> np.ndarray:
    return np.isfinite(y) & ~((y >= 0.0) & (y == np.floor(y)))


def _refuse(values: np.ndarray, bad: np.ndarray, expected: str, skip: bool) -> None:
    """Raise ValueError for a bad value; with `skip` make it NaN instead."""
    if bad.any() and not skip:
        row = int(np.argmax(bad))
        raise ValueError(f"{expected}, got {values[row]:g} at row {row}; correct it, or skip it (missing='skip')")
    values[bad] = np.nan
