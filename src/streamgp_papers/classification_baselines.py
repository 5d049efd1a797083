"""Other online classifiers on the same rows: every row is predicted, then learnt.

Those of `river` are missing where it is not installed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import SGDClassifier

from streamgp.evaluation.classification import ClassCounts
from streamgp.likelihoods import Categorical
from streamgp.models.registry import make_spec
from streamgp.numerics.precision import float64
from streamgp.research.multikernel import LogisticLoss
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp_papers.baselines import adaraker, ssgp

# scikit-learn's partial_fit gets so many rows, all predicted before any of them is learnt.
BATCH = 10
# A baseline that was certain of another label is taken to have given this probability.
MIN_PROBABILITY = 1e-6


class ClassificationData(NamedTuple):
    """All rows of a data set: inputs (n, D) raw and standardised by the warm-up, and the labels (n,), 0 or 1.

    `features` has the random features (n, F) of each expert of the dictionary.
    """

    raw: np.ndarray
    inputs: np.ndarray
    features: Sequence[np.ndarray]
    y: np.ndarray
    warmup: int
    seed: int


class Forecast(NamedTuple):
    """For all rows, the predicted label and the log probability of the true one, if the method has probabilities."""

    predicted: np.ndarray
    log_probability: np.ndarray | None
    seconds: float


# The probability of label 1 (n,), before each row.
Probability = np.ndarray
Forecasts = Iterator[tuple[str, Forecast]]


def _river_logistic(X: np.ndarray, y: np.ndarray, seed: int) -> Probability:
    """Predict by river's LogisticRegression (stochastic gradient) with its defaults."""
    from river.linear_model import LogisticRegression  # pyright: ignore[reportMissingImports]

    return _river(LogisticRegression(), X, y)


def _river_forest(X: np.ndarray, y: np.ndarray, seed: int) -> Probability:
    """Predict by river's adaptive random forest (Gomes et al. 2017) with its defaults."""
    from river.forest import ARFClassifier  # pyright: ignore[reportMissingImports]

    return _river(ARFClassifier(seed=seed), X, y)


def _river(model: Any, X: np.ndarray, y: np.ndarray) -> Probability:
    probability = np.empty(len(y))
    for i, (values, label) in enumerate(zip(X.tolist(), (y == 1).tolist(), strict=True)):
        row = dict(enumerate(values))
        predicted = model.predict_proba_one(row)
        total = sum(predicted.values())
        probability[i] = predicted.get(True, 0.0) / total if total > 0.0 else 0.5
        model.learn_one(row, label)
    return probability


def _sgd(X: np.ndarray, y: np.ndarray, seed: int) -> Probability:
    """Predict by scikit-learn's SGDClassifier with the logistic loss and otherwise its defaults, in small batches."""
    model = SGDClassifier(loss="log_loss", random_state=seed)
    probability = np.full(len(y), 0.5)
    for start in range(0, len(y), BATCH):
        rows = slice(start, start + BATCH)
        if start:
            probability[rows] = model.predict_proba(X[rows])[:, 1]
        model.partial_fit(X[rows], y[rows], classes=[0.0, 1.0])
    return probability


def _linear(name: str, learn: Callable[..., Probability]) -> Callable[[ClassificationData], Forecasts]:
    """Make a run of a linear learner on the inputs and on each expert's features: best copy so far, and mixture."""

    def run(rows: ClassificationData) -> Forecasts:
        began = time.process_time()
        probability = learn(rows.inputs, rows.y, rows.seed)
        yield f"{name}, inputs", _forecast(probability, rows.y, time.process_time() - began)
        began = time.process_time()
        each = np.stack([learn(features, rows.y, rows.seed) for features in rows.features], axis=1)
        log_probability = _log_probability(each, rows.y[:, None])
        # Before a row, of the rows before it alone.
        so_far = np.concatenate([np.zeros((1, each.shape[1])), np.cumsum(log_probability, axis=0)[:-1]])
        best = np.take_along_axis(each, so_far.argmax(axis=1)[:, None], axis=1)[:, 0]
        mixture = np.sum(softmax(so_far, axis=1) * each, axis=1)
        seconds = time.process_time() - began
        yield f"{name}, best features", _forecast(best, rows.y, seconds)
        yield f"{name}, mixed features", _forecast(mixture, rows.y, seconds)

    return run


def _forest(rows: ClassificationData) -> Forecasts:
    began = time.process_time()
    probability = _river_forest(rows.inputs, rows.y, rows.seed)
    yield FOREST, _forecast(probability, rows.y, time.process_time() - began)


def _adaraker(rows: ClassificationData) -> Forecasts:
    began = time.process_time()
    with float64():
        loss = LogisticLoss(Categorical(2, np.zeros(2)))
        predictive: Any = adaraker(rows.inputs, rows.y[:, None], rows.seed, rows.features[0].shape[1], loss)
        probability = np.asarray(predictive.probabilities())[:, 1]
    yield "AdaRaker", _forecast(probability, rows.y, time.process_time() - began)


def _ssgp(rows: ClassificationData) -> Forecasts:
    """Predict by SSGP, a regression: labels are the numbers -1 and 1 (Rasmussen and Williams 2006, 6.5)."""
    began = time.process_time()
    with float64():
        targets = 2.0 * rows.y[:, None] - 1.0
        predictive = ssgp(rows.inputs, targets, rows.seed, warmup=rows.warmup, num_inducing=30, batch_size=40)
        probability = norm.cdf(np.asarray(predictive.mean)[:, 0] / np.asarray(predictive.std)[:, 0])
    yield SSGP, _forecast(probability, rows.y, time.process_time() - began)


def _naive(rows: ClassificationData) -> Forecasts:
    began = time.process_time()
    last, frequencies = ClassCounts(2).add(rows.y.astype(np.int64), 2)
    seconds = time.process_time() - began
    yield "last label", Forecast(last, None, seconds)
    yield "class frequencies", _forecast(frequencies[:, 1], rows.y, seconds)


def _default(rows: ClassificationData) -> Forecasts:
    """Predict by the library's default, which standardises by itself."""
    began = time.process_time()
    spec = make_spec("default", task="classification")
    learner = StreamLearner(
        StreamSettings(spec, num_inputs=rows.raw.shape[1], warmup=rows.warmup, seed=rows.seed), num_classes=2
    )
    predicted: list[Any] = [info.predictive for info in learner.learn(rows.raw, rows.y[:, None])]
    probability = np.concatenate([np.asarray(each.probabilities())[:, 1] for each in predicted])
    yield DEFAULT, _forecast(probability, rows.y, time.process_time() - began)


def _log_probability(probability: np.ndarray, y: np.ndarray) -> np.ndarray:
    kept = np.clip(probability, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return np.log(np.where(y == 1, kept, 1.0 - kept))


def _forecast(probability: Probability, y: np.ndarray, seconds: float) -> Forecast:
    return Forecast((probability > 0.5).astype(int), _log_probability(probability, y), seconds)


DEFAULT = "StreamingGPClassifier"
FOREST = "river adaptive random forest"
SSGP = "SSGP of labels as numbers"
_LINEAR = {"river logistic": _river_logistic, "scikit-learn SGD": _sgd}
_GROUPS: dict[str, Callable[[ClassificationData], Forecasts]] = {
    DEFAULT: _default,
    **{name: _linear(name, learn) for name, learn in _LINEAR.items()},
    FOREST: _forest,
    "AdaRaker": _adaraker,
    SSGP: _ssgp,
    "naive": _naive,
}
GROUPS = tuple(_GROUPS)
# The names of the models of all groups.
NAMES = (
    DEFAULT,
    *(f"{name}, {on}" for name in _LINEAR for on in ("inputs", "best features", "mixed features")),
    FOREST,
    "AdaRaker",
    SSGP,
    "last label",
    "class frequencies",
)


def predict(groups: Sequence[str], rows: ClassificationData) -> tuple[dict[str, Forecast], list[str]]:
    """Return forecasts by the name of the model, and sentences about the groups that are missing."""
    found: dict[str, Forecast] = {}
    remarks = []
    for group in groups:
        try:
            found |= dict(_GROUPS[group](rows))
        except ModuleNotFoundError as error:
            package = str(error.name).split(".")[0]
            remarks.append(f"No {group}: it needs the package {package}, which `pip install {package}` brings.")
    return found, remarks
