"""Regression on a stream by local Gaussian processes."""

from collections.abc import Sequence
from typing import Any

from streamgp.estimators.docstrings import with_options
from streamgp.estimators.regressor import StreamingGPRegressor
from streamgp.models.option_type import known
from streamgp.models.spec import Spec
from streamgp.research.annex import SPARSE


@with_options
class SplittingGPRegressor(StreamingGPRegressor):
    """Sparse Gaussian processes on a stream, which split where the data change.

    Rows are learnt in batches: hyperparameters and inducing inputs take a few steps up the bound of Bui, Nguyen and
    Turner (2017), and a batch that no model takes without changing its mind begins a model of its own. For inputs of
    which each region has a behaviour of its own, above all where a stream visits one after the other; on shuffled
    data a single model (``ovfe``) does better.

    Parameters
    ----------
    {options}

    Attributes
    ----------
    models_ : list of dict
        Of each model alive, when it was born (a row of the stream), how many rows it has learnt, the mean of their
        inputs, and its hyperparameters, all in the units of the data.
    weights_, experts_, rows_, skipped_rows_, n_features_in_, feature_names_in_
        As in `StreamingGPRegressor`; experts are the models, and places for more.

    Notes
    -----
    The models are ``wgpr`` (Kepler, Koppel, Bedi and Stilwell 2021), ``ovfe`` (one model, Bui, Nguyen and Turner
    2017), ``solar-gp`` (Wilcox and Yip 2020) and ``lgpr`` (Nguyen-Tuong, Seeger and Peters 2009). The rows of the
    warm-up are standardised by, and predicted by a simple default model; then they are learnt. With `robust`, a
    target far beyond what was expected of it is drawn in before its batch is learnt, unless it is one of five such in
    a row.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import SplittingGPRegressor
    >>> X = np.linspace(0, 6, 120)[:, None]
    >>> m = SplittingGPRegressor(warmup=20, batch_size=20, num_inducing=10).partial_fit(X, np.sin(X[:, 0]))
    >>> bool(abs(m.predict([[3.0]])[0] - np.sin(3.0)) < 0.1)
    True
    """

    def __init__(
        self,
        model: str = "wgpr",
        *,
        warmup: int | None = None,
        num_inducing: int | None = None,
        batch_size: int | None = None,
        max_models: int | None = None,
        threshold: float | None = None,
        combination: str | None = None,
        steps: int | None = None,
        alpha: float | None = None,
        robust: bool = True,
        lags: Any = None,
        missing: str = "impute",
        calendar: Sequence[str] | str | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            model,
            warmup=warmup,
            robust=robust,
            lags=lags,
            missing=missing,
            calendar=calendar,
            random_state=random_state,
        )
        self.num_inducing = num_inducing
        self.batch_size = batch_size
        self.max_models = max_models
        self.threshold = threshold
        self.combination = combination
        self.steps = steps
        self.alpha = alpha

    @property
    def models_(self) -> list[dict[str, Any]]:
        """Return the models alive; none before the end of the warm-up."""
        self._check_fitted()
        return self._learner.local_models

    # Inner works

    def _make_spec(self, **more: Any) -> Spec:
        known("model", self.model, SPARSE.models)
        return super()._make_spec(**more)
