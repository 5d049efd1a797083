"""Regression on a stream."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from streamgp.bases.learners import check_same, remember
from streamgp.core.conditional import Conditional
from streamgp.estimators.access import alone
from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.docstrings import with_options
from streamgp.estimators.explanations import Explained
from streamgp.estimators.forecasts import Forecasting
from streamgp.estimators.prediction import Prediction
from streamgp.estimators.single_rows import SingleRowEstimator
from streamgp.estimators.validation import Rows, check_given, check_same_targets, check_within
from streamgp.metrics.shares import probabilities
from streamgp.models.spec import Spec
from streamgp.numerics import checkpoint


@with_options
class StreamingGPRegressor(RegressorMixin, Explained, Forecasting, SingleRowEstimator, StreamEstimator):
    """Regression on a stream: predicts with error bars, learns row by row, in constant memory.

    An online ensemble of Gaussian processes and other basis expansions (Lu et al. 2022; Waxman and Djuric 2024).
    The first rows are a warm-up: they are predicted by a simple default model, and when they are complete
    the hyperparameters are fitted to them; beliefs and weights go on learning. With `renew`, as in the default, some
    experts are fitted anew at row counts that grow, each time for a fraction of a second.

    Parameters
    ----------
    {options}

    Attributes
    ----------
    weights_ : ndarray of shape (K,)
        The experts' weights for the next row; before the end of the warm-up, of the default model's experts.
    experts_ : list of dict
        Name, basis, dynamics, number of features, evidence gain and weight of each expert; empty in the warm-up.
    rows_ : int
        Rows learnt. `skipped_rows_` were passed over, `outside_rows_` lay outside some basis' box, and
        `imputed_values_` inputs were filled.
    error_correlation_ : ndarray of shape (E, E)
        How the errors of several targets go together.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPRegressor
    >>> X = np.linspace(0, 6, 120)[:, None]
    >>> m = StreamingGPRegressor("linear", warmup=20).partial_fit(X, 2 * X[:, 0])
    >>> mean, std = m.predict([[7.0]], return_std=True)
    >>> bool(abs(mean[0] - 14) < 0.1)
    True
    """

    _begins_without_target = True

    def __init__(
        self,
        model: str = "default",
        *,
        warmup: int | None = None,
        bases: Sequence[str] | str | None = None,
        learners: Sequence[Any] | None = None,
        features_per_basis: int | None = None,
        n_samples: int = 1,
        dynamics: Sequence[str | float] | str | float | None = None,
        noise: Sequence[str | float] | str | float | None = None,
        weights: Any = None,
        delta: float | None = None,
        share: float | None = None,
        switch: float | None = None,
        warmup_posterior: str = "condition",
        robust: bool | None = None,
        recalibrate: bool | None = None,
        rest: bool | None = None,
        renew: bool | None = None,
        lags: Any = None,
        horizon: int | None = None,
        missing: str = "impute",
        bounds: tuple[float | None, float | None] | None = None,
        target_transform: str | None = None,
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
        self.learners = learners
        self.n_samples = n_samples
        self.noise = noise
        self.recalibrate = recalibrate
        self.rest = rest
        self.renew = renew
        self.lags = lags
        self.horizon = horizon
        self.bounds = bounds
        self.target_transform = target_transform

    @classmethod
    def load(cls, path: str | Path, learners: Sequence[Any] = ()) -> Self:
        """Read a checkpoint; the estimator goes on exactly where it was saved.

        It needs the `learners` that it was given, if any: checkpoints hold no code.

        Raises
        ------
        CheckpointError
            If the checkpoint is damaged, not of this kind, or of other `learners`; the message says what is wrong.
        """
        estimator = super().load(path)
        with checkpoint.reading(path):
            check_same(remember(learners), estimator.learners or ())
        estimator.learners = list(learners) or None
        return estimator

    # Learning

    @alone
    def fit(self, X: Any, y: Any, times: Any = None) -> Self:
        """Forget everything, then learn all rows in their order: one pass, as `partial_fit` would."""
        return self._fit(self._prepare(X, y, times, reset=True))

    @alone
    def partial_fit(self, X: Any, y: Any, times: Any = None) -> Self:
        """Learn from rows of shape (n, D) and targets (n,) or (n, E), in order; call it as often as you like.

        Parameters
        ----------
        times
            Optional time stamps (n,) that never decrease, or the name of their column in the frame `X`. Forgetting
            runs by them then, in units of the warm-up's median gap. All rows of a stream have one, or none has.

        Raises
        ------
        ValueError
            On another number of columns and, under ``missing="raise"``, on NaN or infinity; the state is then
            untouched.
        """
        return self._partial_fit(self._prepare(X, y, times, reset=not self.__sklearn_is_fitted__()))

    # Predicting

    @alone
    def predict(self, X: Any, return_std: bool = False, times: Any = None, given: Any = None) -> Any:
        """Return the mean of the next target for each row, and its standard deviation (noise included) if asked.

        With a horizon: of the target so many rows after the last one learnt (see `horizon` above).

        Parameters
        ----------
        given
            Of several targets those that are known already, shape (n, E) with NaN for the others, which are predicted
            given them: see `predict_dist`.
        """
        mean, std = self._prediction(self._conditional(X, times, given)).moments
        return (mean, std) if return_std else mean

    @alone
    def predict_dist(self, X: Any, times: Any = None, given: Any = None) -> Prediction:
        """Return the predictive distribution of the next target for each row.

        It has ``mean``, ``std``, ``quantile(q)``, ``interval(coverage)``, ``sample(n)``, ``log_density(y)`` and
        ``cdf(y)``, and stays as it is when the model learns on.

        Parameters
        ----------
        given
            Of several targets those that are known already, shape (n, E) with NaN for the others. The distribution is
            then that of the others given them, by `error_correlation_` (a Gaussian copula), its log density theirs
            alone; what is known has its value, and no spread.

        Raises
        ------
        ValueError
            If `given` has another shape, or infinite numbers, or the model has one target.
        """
        return self._prediction(self._conditional(X, times, given))

    @alone
    def predict_interval(self, X: Any, coverage: float = 0.9, times: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper ends of the central bands that hold this share of the next targets, of each row."""
        return self._prediction(self._predict(X, times)).interval(coverage)

    @alone
    def predict_quantiles(self, X: Any, quantiles: Sequence[float], times: Any = None) -> np.ndarray:
        """Return quantiles of the next target, shape (n, Q), or (n, E, Q) with several targets."""
        return self._prediction(self._predict(X, times)).quantile(probabilities("quantiles", quantiles))

    @alone
    def log_density(self, X: Any, y: Any, times: Any = None) -> np.ndarray:
        """Return the log density of the targets `y` under each row's prediction, (n,); joint over several targets."""
        return self._prediction(self._predict(X, times)).log_density(y)

    @alone
    def sample(self, X: Any, n: int = 1, times: Any = None) -> np.ndarray:
        """Draw n targets for each row from its own prediction, shape (rows, n), or (rows, E, n).

        The draws depend on `random_state` and on how many rows have been learnt.
        """
        return self._prediction(self._predict(X, times)).sample(n)

    # Several targets

    @property
    @alone
    def error_correlation_(self) -> np.ndarray:
        """Return how the errors of the targets go together in the next row, a correlation matrix (E, E).

        Errors are measured as normal scores, each by its own predictive distribution; the last 500 rows or so count,
        and for each pair those in which both targets were there.
        """
        self._check_fitted()
        return self._learner.error_correlation

    def _conditional(self, X: Any, times: Any, given: Any) -> Any:
        """Return the prediction of rows, given some of their targets if there are any."""
        predictive = self._predict(X, times)
        if given is None:
            return predictive
        if not self._learner.settings.target_map.changes_nothing:
            raise ValueError(
                "given: expected a model that learns its targets as they are, but this one has bounds or a "
                "target_transform; leave given out, or transform the targets yourself"
            )
        return Conditional(predictive, check_given(given, len(predictive.loc), self._learner.num_outputs))

    # Inner works

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        remember(self.learners or ())  # it may be another process

    def _make_spec(self, **more: Any) -> Spec:
        return super()._make_spec(**more, learners=remember(self.learners or ()) or None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.target_tags.single_output = True
        return tags

    def _prepare(self, X: Any, y: Any, times: Any, reset: bool) -> Rows:
        rows = super()._prepare(X, y, times, reset)
        if not reset:
            check_same_targets(rows, y, self._learner.num_outputs, self._single)
        check_within(self._make_spec(), rows)
        return rows

    def _stored_params(self) -> dict[str, Any]:
        # Lags as they were understood: a range, say, could not be stored.
        as_given = self.lags is None or isinstance(self.lags, str)
        named = {"learners": list(remember(self.learners))} if self.learners else {}
        return self.get_params() | named | ({} if as_given else {"lags": self._learner.spec.lags})
