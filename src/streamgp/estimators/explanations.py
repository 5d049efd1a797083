"""Which inputs matter to a model, and what each of them contributes to one prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.estimators.access import alone
from streamgp.estimators.columns import Columns
from streamgp.estimators.single import in_order
from streamgp.estimators.validation import check_one, given_names
from streamgp.likelihoods import mapped
from streamgp.stream.attribution import contributions
from streamgp.stream.categories import Categories
from streamgp.stream.learner import StreamLearner
from streamgp.stream.tasks import Moments
from streamgp.table.frames import FrameLike


@dataclass(frozen=True)
class Explanation:
    """What each input contributes to the mean of one prediction, in units of the target, or to a probability.

    Numbers, or arrays (E,) of several targets. `prediction` is `base` and all contributions together.

    Attributes
    ----------
    base
        The mean prediction of the rows that the row is compared with.
    contributions
        Of each input, by its name: by how much its value moves the prediction, from those of these rows.
    std_errors
        How uncertain the contributions are, as these rows and the orders of the inputs are a sample.
    prediction
        The mean that is predicted.
    """

    base: Any
    contributions: dict[str, Any]
    std_errors: dict[str, Any]
    prediction: Any

    def to_frame(self, like: Any = None) -> Any:
        """Return a frame of feature, contribution and std_error, the largest first, of the make of `like` or polars.

        Raises
        ------
        ValueError
            If there are several targets.
        """
        if np.ndim(self.base):
            raise ValueError(f"to_frame: expected one target, got {len(self.base)}; look at contributions")
        names = sorted(self.contributions, key=lambda name: -abs(self.contributions[name]))
        return FrameLike.of(like).make(
            {
                "feature": names,
                "contribution": np.array([self.contributions[name] for name in names]),
                "std_error": np.array([self.std_errors[name] for name in names]),
            }
        )


def groups_of(columns: Columns, names: Sequence[str], categories: Categories) -> dict[str, list[int]]:
    """Return which inputs of the model belong to each column of the user's rows; those without any are left out."""
    sources, found, at = columns.sources(len(names) + columns.dated), {}, 0
    for source, width in zip(sources, categories.each_width(len(sources)), strict=True):
        name = "time" if source < 0 else names[source]
        found.setdefault(name, []).extend(range(at, at + width))
        at += width
    return {name: inputs for name, inputs in found.items() if inputs}


def inputs_of(estimator: Any) -> dict[str, list[int]]:
    """Return which inputs of an estimator's model belong to each column of X."""
    return groups_of(estimator._columns, given_names(estimator), estimator._learner.categories)


def importance(
    learner: StreamLearner, groups: dict[str, list[int]], single: bool = True, log_exposure: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the share of the target's variance that predictions take from each group of inputs, the largest first.

    Of several targets arrays (E,), in the order of their sums.
    """
    found = learner.influence(groups, log_exposure)
    names = sorted(found, key=lambda name: -found[name].sum())
    return {name: float(found[name][0]) if single else found[name] for name in names}


def explanation(
    learner: StreamLearner,
    row: tuple[np.ndarray, float],
    groups: dict[str, list[int]],
    single: bool,
    moments: Moments | None = None,
) -> Explanation:
    """Explain the prediction of a row, its inputs (D,) and its time."""
    (x, time), settings = row, learner.settings
    kept, exposure = learner.kept_rows(), x[len(x) - settings.spec.exposure :]

    def explained(X: np.ndarray) -> np.ndarray:
        predictive = mapped(learner.predicted_at(X, time if learner.timed else None), settings.target_map)
        return np.asarray(predictive.mean if moments is None else moments(predictive)[0])

    goal = learner.state.inputs.fill(x[None])[0][:, : kept.shape[1]]
    start, change = contributions(kept, goal, exposure, list(groups.values()), settings.seed, explained)
    mean, error = change.mean(axis=0), change.std(axis=0, ddof=1) / np.sqrt(len(change))

    def each(values: np.ndarray) -> Any:
        return float(values[0]) if single else values

    base = start.mean(axis=0)
    return Explanation(
        each(base),
        {name: each(mean[g]) for g, name in enumerate(groups)},
        {name: each(error[g]) for g, name in enumerate(groups)},
        each(base + mean.sum(axis=0)),
    )


class Explained:
    """What estimators of numbers tell of their inputs."""

    _learner: StreamLearner
    _columns: Columns
    _single: bool
    _access: Any
    _check_fitted: Any
    missing: str

    @alone
    def feature_importance(self) -> dict[str, Any]:
        """Return the share of the target's variance that predictions take from each input, the largest first.

        Shares are between 0 and 1 and sum to at most 1; the rest is what the inputs do not say. They are Shapley
        effects (Owen 2014; Song, Nelson and Staum 2016): what an input adds to the variance that is predicted from
        the inputs before it, on average over all orders. So inputs that act together share what they do, and two
        that say the same have half of it each, also where the model uses only one. What is predicted is the mean, by
        the model as it is now, of up to 2,048 rows that are a uniform sample of all that were learnt, outliers left
        out, on the scale that is learnt. A category, and the cycles of a date, are one input, and all past targets
        are one more, "past targets". It says what the predictions go with, not what causes the target. Of several
        targets there is an array (E,) each.

        Raises
        ------
        ValueError
            If the model has no inputs, or fewer than 2 rows were learnt.
        """
        self._check_fitted()
        return importance(self._learner, inputs_of(self), self._single)

    @alone
    def explain(self, x: Any, time: Any = None) -> Explanation:
        """Return what each input of a row contributes to the mean that is predicted of it.

        Contributions are Shapley values, estimated by walks from 64 rows of the whole stream to this one and back,
        along which the inputs change one at a time, in random orders (Strumbelj and Kononenko 2014). Together with
        the base they are the prediction. Past targets, and the time, are the same for all. It says how the model gets
        from its usual prediction to this one, not what would happen if an input were changed.

        Parameters
        ----------
        x
            The inputs, shape (D,), or a dictionary by the names of the features.
        time
            The row's time stamp, on a stream that has them.

        Raises
        ------
        ValueError
            As `predict_one` does; or if X has no columns, or fewer than 2 rows were learnt.
        """
        self._check_fitted()
        row = check_one(self, in_order(self, x, time), time)
        return explanation(self._learner, row, inputs_of(self), self._single)
