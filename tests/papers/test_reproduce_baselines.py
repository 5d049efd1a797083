"""The baselines of Lu et al.: each row is predicted before its target is seen, and better than by chance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.research.multikernel import SquaredLoss
from streamgp_papers.baselines import adaraker, ssgp
from streamgp_papers.classification_baselines import SSGP, ClassificationData, predict

pytestmark = pytest.mark.papers


def some(rows: int = 230) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    return X, (np.sin(2.0 * X[:, :1]) + 0.1 * rng.normal(size=(rows, 1))) / 0.8


def test_ssgp_says_nothing_that_it_cannot_know():
    X, y = some()
    sizes = {"warmup": 100, "num_inducing": 15, "batch_size": 30}
    predicted = ssgp(X, y, 0, **sizes)
    mean = np.asarray(predicted.mean)[:, 0]
    assert_allclose(mean[:30], 0.0)
    assert_allclose(np.asarray(predicted.variance)[:30], 1.0)
    assert np.mean(np.square(mean - y[:, 0])[100:]) < 0.1
    for row, batch in ((29, 30), (99, 100), (150, 160), (229, 230)):
        changed = y.copy()
        changed[row:] += 3.0
        other = np.asarray(ssgp(X, changed, 0, **sizes).mean)[:, 0]
        assert_allclose(other[:batch], mean[:batch])
        assert batch == 230 or not np.allclose(other[batch : batch + 1], mean[batch : batch + 1])


def test_adaraker_says_nothing_that_it_cannot_know():
    X, y = some()
    mean = np.asarray(adaraker(X, y, 0, 20, SquaredLoss(1)).mean)[:, 0]
    changed = y.copy()
    changed[200:] += 3.0
    other = np.asarray(adaraker(X, changed, 0, 20, SquaredLoss(1)).mean)[:, 0]
    assert_allclose(other[:201], mean[:201])
    assert not np.allclose(other[201:], mean[201:])


@pytest.mark.parametrize("name", ["AdaRaker", SSGP])
def test_classes_are_predicted_with_probabilities(name):
    X, y = some()
    labels = (y[:, 0] > 0.0).astype(float)
    features = [np.zeros((len(X), 20))] * 11
    found, remarks = predict([name], ClassificationData(X, X, features, labels, 100, 0))
    assert not remarks
    predicted = found[name].log_probability
    assert predicted is not None
    right = found[name].predicted == labels
    # What was predicted to be likelier than not came.
    assert np.array_equal(right, predicted > np.log(0.5)) or np.any(predicted == np.log(0.5))
    assert predicted[100:].mean() > np.log(0.5)
