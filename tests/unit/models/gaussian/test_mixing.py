"""How predictions of filters that run as batches come together."""

import numpy as np

from streamgp.filters.kalman import Predicted
from streamgp.models.gaussian.mixing import collect


def test_predictions_come_in_the_order_of_the_experts():
    """Of two bases with two dynamics each, and another batch of one expert: expert k predicts k, then k + 10."""
    order, experts = (3, 0, 4, 1, 2), 5
    loc = (np.arange(experts)[:, None] + 10.0 * np.arange(2))[..., None]  # [K, n, E]
    first, second = np.asarray(order[:4]), np.asarray(order[4:])
    parts = [
        Predicted(loc[at].reshape(*shape, 2, 1), 100.0 + loc[at].reshape(*shape, 2), loc[at].reshape(*shape, 2) == 13)
        for at, shape in ((first, (2, 2)), (second, (1, 1)))
    ]
    means, variances, outliers = collect(order, parts)
    np.testing.assert_array_equal(means[:, :, 0], [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]])
    np.testing.assert_array_equal(variances, 100.0 + means)
    assert outliers is not None
    np.testing.assert_array_equal(np.argwhere(outliers), [[1, 3]])
