"""What the log keeps of a prediction comes back from it."""

import numpy as np

from streamgp.likelihoods import Predictive
from streamgp.service.packing import unpack
from streamgp.service.requests import Request, restored
from streamgp.service.work import Prediction
from streamgp.stream.late_weights import Made
from streamgp.stream.outlook import StandIn


def prediction(standing: object) -> Prediction:
    return Prediction(None, standing, {})  # type: ignore


def test_what_stands_for_rows_that_wait():
    mixture = Predictive(np.log([[0.25, 0.75]]), np.zeros((1, 2, 1)), np.ones((1, 2, 1)))
    rows = [StandIn(np.array([1.5])), StandIn(np.array([2.5]), (Made(mixture, np.array([0, 7])),))]
    request = Request("predict", prediction=prediction(rows))
    back = restored("predict", 3, 0.0, unpack(request.body())).prediction
    assert back is not None
    assert [each.mean.tolist() for each in back.standing] == [[1.5], [2.5]]
    assert back.standing[0].made == ()
    (made,) = back.standing[1].made
    np.testing.assert_array_equal(np.asarray(made.predictive.log_weights), np.asarray(mixture.log_weights))
    assert made.since.tolist() == [0, 7]
