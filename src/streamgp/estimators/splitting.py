"""Regression on a stream by local Gaussian processes."""

from dataclasses import replace
from typing import Any

from streamgp.estimators.regressor import StreamingGPRegressor
from streamgp.models.registry import make_sparse_spec
from streamgp.models.spec import Spec


class SplittingGPRegressor(StreamingGPRegressor):
    """Sparse Gaussian processes on a stream, which split where the data change.

    Rows are learnt in batches: hyperparameters and inducing inputs take a few steps up the bound of Bui, Nguyen and
    Turner (2017), and a batch that no model takes without changing its mind begins a model of its own. For inputs of
    which each region has a behaviour of its own, above all where a stream visits one after the other; on shuffled
    data a single model (``ovfe``) does better.

    Parameters
    ----------
    model
        ``wgpr`` (Kepler, Koppel, Bedi and Stilwell 2021), ``ovfe`` (one model, Bui, Nguyen and Turner 2017),
        ``solar-gp`` (Wilcox and Yip 2020) or ``lgpr`` (Nguyen-Tuong, Seeger and Peters 2009).
    warmup
        Rows that are collected to standardise by, and predicted by a simple default model; then they are learnt.
    num_inducing
        Inducing inputs of each model, 50 unless given; of ``lgpr``, the rows that each keeps, 100.
    batch_size
        Rows of a batch, 100 unless given. Rows are predicted by what the batches before theirs have taught.
    max_models
        How many models there may be, 64 unless given. When there are so many, a batch goes to the best of them.
    threshold
        When a new model begins. ``wgpr``: above this change, in units of the variances believed in, 5 unless given.
        ``solar-gp``, ``lgpr``: where the kernel to the nearest centre is below this, 0.5 unless given.
    combination
        How models make one prediction: ``nearest`` (the one with the nearest inducing input), ``precision``
        (generalised product of experts), ``stream`` (a mixture, weighed by what each has predicted), ``distance`` (a
        mixture of the five nearest, weighed by the kernel to their centres). None: as in the paper of the model.
    steps
        Optimiser steps of a batch, 30 unless given; 0 keeps hyperparameters as they are.
    alpha
        0, unless given, for variational free energy, up to 1 for power expectation propagation.
    robust
        Whether a target far beyond what was expected of it is drawn in before its batch is learnt, unless it is one
        of five such in a row. On, unless given; in `StreamingGPRegressor` with the same models it is off.
    lags, missing, random_state
        As in `StreamingGPRegressor`.

    Attributes
    ----------
    models_ : list of dict
        Of each model alive, when it was born (a row of the stream), how many rows it has learnt, the mean of their
        inputs, and its hyperparameters, all in the units of the data.
    weights_, experts_, rows_, skipped_rows_, n_features_in_, feature_names_in_
        As in `StreamingGPRegressor`; experts are the models, and places for more.

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
        random_state: Any = 0,
    ) -> None:
        super().__init__(model, warmup=warmup, robust=robust, lags=lags, missing=missing, random_state=random_state)
        self.num_inducing = num_inducing
        self.batch_size = batch_size
        self.max_models = max_models
        self.threshold = threshold
        self.combination = combination
        self.steps = steps
        self.alpha = alpha

    @property
    def models_(self) -> list[dict[str, Any]]:
        """The models alive; none before the end of the warm-up."""
        self._check_fitted()
        return self._learner.local_models

    # Inner works

    def _make_spec(self, **more: Any) -> Spec:
        names = ("num_inducing", "batch_size", "max_models", "threshold", "combination", "steps", "alpha", "lags")
        spec = make_sparse_spec(self.model, **{name: getattr(self, name) for name in names})
        return replace(spec, robust=bool(self.robust))
