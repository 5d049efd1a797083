"""Several models on the same stream, ours and others, by the same rules."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

from streamgp.estimators import rivals
from streamgp.estimators.base import StreamEstimator
from streamgp.estimators.columns import encoded_table
from streamgp.estimators.comparison import Comparison, ModelRows
from streamgp.estimators.evaluate import evaluate
from streamgp.estimators.result import Evaluation
from streamgp.estimators.time_column import split_times
from streamgp.estimators.validation import input_names
from streamgp.models.option_type import whole_number
from streamgp.progress import progress_bar
from streamgp.table.frames import FrameLike
from streamgp.table.given import as_numbers, to_floats


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    times: Any = None,
    *,
    warmup: int = 0,
    refit_every: int = 500,
    progress: bool = True,
) -> Comparison:
    """Test-then-train several models on the same rows: each predicts every row before its target is seen.

    The models learn, one after the other. Scores are over the same rows for all: after the longest warm-up, with a
    target, with one before, and with a prediction of every model. Baselines that one would use instead stand beside
    them: the last value, the mean so far, and the value a season before.

    Parameters
    ----------
    models
        Models by their names; differences are to the first. Each is one of:

        - an estimator of streamgp for numbers or counts, without a horizon;
        - a regressor of river, or any object with ``predict_one(x)`` and ``learn_one(x, y)``, whose rows are
          dictionaries by the names of the columns, without what is missing. Where ``predict_one`` has a parameter
          ``with_dist`` it is asked for Gaussians;
        - a regressor of scikit-learn's kind with ``partial_fit``, which learns each row;
        - one with ``fit`` alone, which is fitted to all rows so far each `refit_every` rows, and says nothing before.
    X, y, times
        As in `StreamingGPRegressor.partial_fit`, with one target a row; NaN in `y`: predicted, not learnt. Models of
        other libraries know nothing of `times`.
    warmup
        Leave at least so many rows at the start unscored.
    refit_every
        After how many rows models are fitted anew that can do nothing else.
    progress
        Show progress: bars on a terminal, elsewhere lines on standard error every ten seconds.

    Returns
    -------
    Comparison
        ``to_frame()``, ``differences()`` and ``plot()`` show it.

    Raises
    ------
    ValueError
        If there is no model, one is of no such kind, has a horizon or comes twice, rows are not tables of numbers or
        not of equal number, or have gaps that a model does not take. No model has learnt anything then.
    """
    warmup, refit_every = whole_number("warmup", warmup, low=0), whole_number("refit_every", refit_every)
    if not models:
        raise ValueError("models: expected at least one model by its name, got none")
    first: dict[int, str] = {}
    for name, model in models.items():
        if id(model) in first:
            raise ValueError(
                f"models: expected a model of its own for every name, got one as {first[id(model)]!r} and {name!r}, "
                f"which would know all targets the second time; make another one"
            )
        first[id(model)] = name
    from sklearn.utils import check_array, check_consistent_length

    inputs, _ = split_times(X, times)
    inputs, names = encoded_table(inputs)
    inputs = as_numbers("X", inputs)
    table = _with_gaps(check_array(inputs, dtype="float64", ensure_all_finite=False))
    targets = _with_gaps(to_floats("y", y))
    if targets.ndim != 1:
        raise ValueError(f"y: expected one target a row, shape (n,), got shape {targets.shape}")
    check_consistent_length(table, targets)
    gaps = bool(np.isnan(table).any())
    for name, model in models.items():
        _check(name, model, gaps)
        if isinstance(model, StreamEstimator):
            model._prepare(X, targets, times, not model.__sklearn_is_fitted__())
    names = input_names(inputs, table.shape[1]) if names is None else names
    found = {}
    for name, model in models.items():
        if isinstance(model, StreamEstimator):
            found[name] = _run_own(model, X, targets, times, progress)
        else:
            with progress_bar(str(name), len(targets), progress) as bar:
                found[name] = rivals.run(model, table, targets, names, refit_every, bar)
        found[name] = found[name]._replace(warmup=max(warmup, found[name].warmup))
    scored = np.arange(len(targets)) >= max(of.warmup for of in found.values())
    scored &= ~np.isnan(targets + sum(of.mean for of in found.values()))
    own = (model._learner.seasons for model in models.values() if isinstance(model, StreamEstimator))
    baselines = rivals.baselines(targets, next(own, None) or ())
    scored &= np.isfinite(baselines["last value"].mean)
    return Comparison(found, targets, scored, FrameLike.of(X, y), baselines)


def _with_gaps(numbers: np.ndarray) -> np.ndarray:
    """Return numbers with NaN for those that are infinite: both are missing."""
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _check(name: str, model: Any, gaps: bool) -> None:
    """Check that a model can be compared."""
    if isinstance(model, StreamEstimator):
        if not hasattr(model, "predict_dist"):
            raise ValueError(f"models: expected predictions of numbers, got {type(model).__name__} as {name!r}")
        if model._make_spec().horizon:
            raise ValueError(
                f"models: expected models of the next row, got {name!r} with horizon={model.get_params()['horizon']}"
            )
        model._check_none_waits()
        return
    if not (rivals.is_of_river(model) or rivals.is_of_sklearn(model)):
        raise ValueError(
            f"models: expected an estimator of streamgp for numbers, a regressor of scikit-learn's kind, or an "
            f"object with predict_one and learn_one, got {type(model).__name__} as {name!r}"
        )
    if gaps and not rivals.takes_gaps(model):
        raise ValueError(
            f"X: expected numbers in all cells, as {name!r} takes no NaN; fill them, or put an imputer before it in "
            f"a pipeline"
        )


def _run_own(model: Any, X: Any, y: np.ndarray, times: Any, progress: bool) -> ModelRows:
    began = perf_counter()
    result: Evaluation = evaluate(model, X, y, times, weights=False, progress=progress)
    seconds = perf_counter() - began
    labelled = np.flatnonzero(~np.isnan(result.log_density))
    unscored = len(labelled) - result._given.about["scored_rows"]
    warmup = int(labelled[unscored - 1]) + 1 if unscored else 0
    covered = np.where(np.isnan(result.crps), np.nan, (result.q05 <= y) & (y <= result.q95))
    return ModelRows(result.mean, result.log_density, result.crps, covered, seconds, warmup)
