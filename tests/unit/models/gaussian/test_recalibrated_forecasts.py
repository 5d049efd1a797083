"""Forecasts several rows ahead are recalibrated by all that is known when they are made, and by nothing later."""

import numpy as np
import pytest

from streamgp.bases import Linear
from streamgp.filters.dynamics import parse
from streamgp.filters.noise import parse as parse_noise
from streamgp.likelihoods.noise_features import NORMAL_CUTS, NoiseInputs
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.weights import fixed_share

pytestmark = pytest.mark.slow

ROWS, AHEAD = 90, 3


@pytest.mark.parametrize("noise_inputs", [None, NoiseInputs(np.arange(2), np.tile(NORMAL_CUTS, (2, 1)))])
def test_a_forecast_is_what_is_predicted_once_its_row_is_learnt(noise_inputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS + AHEAD, 2))
    y = X[:ROWS, :1] + np.exp(X[:ROWS, 1:]) * rng.standard_t(3.0, size=(ROWS, 1))
    experts = [Expert(Linear(2), np.asarray(1.0), np.asarray(0.5), parse(name)) for name in ("static", "walk 0.01")]
    model = ensemble(
        experts,
        fixed_share(4, 0.01),
        kinds=parse_noise(("constant", "adaptive 0.9")),
        recalibrated=True,
        noise_inputs=noise_inputs,
    )
    _, info = model.update(model.init(keys.key(0), AHEAD), X[:ROWS], y, later=X[AHEAD:])
    shares, state = np.asarray(info.predictive.recalibration), model.init(keys.key(0), AHEAD)
    for i in range(ROWS):
        row, later = slice(i, i + 1), slice(i + AHEAD, i + AHEAD + 1)
        state, one = model.update(state, X[row], y[row], later=X[later])
        expected = model.predict(state, X[later])
        for found in (one.predictive.recalibration, shares[row]):
            np.testing.assert_allclose(found, expected.recalibration, rtol=1e-9)
        np.testing.assert_allclose(info.predictive.var[row], expected.var, rtol=1e-9)
    assert np.ptp(shares[AHEAD:, 0, 3]) > 0.1
