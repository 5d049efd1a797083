"""A glitch among past targets: what is handed on in its place."""

import numpy as np
import pytest

from streamgp.models.registry import make_spec
from streamgp.numerics.keys import generator, key
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings


@pytest.mark.parametrize("pieces", [1, 60])
def test_the_row_after_a_glitch_is_predicted_as_if_the_prediction_had_come(pieces: int):
    rng = generator(key(3))
    X, y = rng.normal(size=(160, 1)), np.zeros((160, 1))
    for i in range(1, 160):
        y[i] = 0.8 * y[i - 1] + 0.3 * X[i] + 0.1 * rng.normal(size=1)
    y[120] = 5.0  # 50 standard deviations of the noise, within what inputs may be

    def learnt() -> StreamLearner:
        learner = StreamLearner(
            StreamSettings(
                make_spec("linear", lags=(1,), robust=True), num_inputs=1, num_outputs=1, warmup=50, seed=0
            )
        )
        for part in np.array_split(np.arange(120), pieces):
            list(learner.learn(X[part], y[part]))
        return learner

    glitched, as_predicted = learnt(), learnt()
    expected = np.asarray(as_predicted.predict(X[120:121]).mean)
    list(glitched.learn(X[120:121], y[120:121]))
    list(as_predicted.learn(X[120:121], expected))
    after = [float(np.asarray(each.predict(X[121:122]).mean)[0, 0]) for each in (glitched, as_predicted)]
    assert after[0] == pytest.approx(after[1], abs=0.05)
