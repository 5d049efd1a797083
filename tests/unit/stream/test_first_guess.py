"""What the inputs of the first row say of its target."""

import numpy as np

from streamgp.models.registry import make_spec
from streamgp.stream.first_guess import first_guess
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

POLLS = [736_389.0, 43.8, 46.2, 48.3, 44.1, 43.6]


def test_inputs_that_agree_are_the_guess():
    X = np.array(
        [
            POLLS,
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],  # nothing agrees
            [np.nan, 43.8, np.nan, 44.0, 45.0, 1e12],
            [7.0, 7.0, 1.0, 2.0, np.nan, np.nan],  # half of them is not most
            [-5.0, -5.1, -5.2, -5.3, 5.0, 5.0],
            [np.nan] * 6,
            [0.0] * 6,
        ]
    )
    np.testing.assert_allclose(first_guess(X), [0.5 * (44.1 + 46.2), 0.0, 44.5, 0.0, -5.05, 0.0, 0.0])


def test_three_of_seven_are_not_most():
    X = np.array([[7.0, 7.0, 7.0, 1.0, 2.0, 9.0, 12.0], [7.0, 7.0, 7.0, 7.0, 2.0, 9.0, 12.0]])
    np.testing.assert_array_equal(first_guess(X), [0.0, 7.0])


def test_two_inputs_agree_by_chance():
    np.testing.assert_array_equal(first_guess(np.array([[5.0, 5.0]])), [0.0])
    np.testing.assert_array_equal(first_guess(np.zeros((2, 0))), [0.0, 0.0])


def first_median(**options: object) -> float:
    learner = StreamLearner(StreamSettings(make_spec("linear", **options), num_inputs=6, warmup=4))
    info = next(learner.learn(0.01 * np.array([POLLS]), np.array([[0.44]])))
    return float(np.asarray(info.predictive.quantile(0.5)).item())


def test_only_the_first_row_is_guessed_and_only_where_targets_are_learnt_as_they_are():
    assert abs(first_median() - 0.4515) < 1e-6
    assert abs(first_median(target_transform="log") - 1.0) < 1e-6
    learner = StreamLearner(StreamSettings(make_spec("linear"), num_inputs=6, warmup=4))
    list(learner.learn(np.array([POLLS]), np.array([[-3.0]])))
    assert abs(learner.predict(np.array([POLLS])).mean[0, 0] + 3.0) < 1.0
