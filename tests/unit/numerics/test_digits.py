"""Numbers as text: exact, and as short as that allows."""

import numpy as np
import pytest

from streamgp.numerics.digits import shortest


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (80, "80"),
        (np.float64(97.5), "97.5"),
        (99.999999, "99.999999"),
        (1234567890123457.0, "1234567890123457"),
        (-0.1, "-0.1"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_written_in_their_fewest_digits(value: float, text: str):
    assert shortest(value) == text


def test_neighbours_differ_and_are_read_as_themselves():
    rng = np.random.default_rng(0)
    values = np.abs(rng.standard_cauchy(1_000)) * 10.0 ** rng.integers(-300, 300, 1_000)
    texts = [[shortest(each) for each in side] for side in (values, np.nextafter(values, np.inf))]
    assert all(one != other for one, other in zip(*texts, strict=True))
    np.testing.assert_array_equal(np.array(texts[0], float), values)
