"""Numbers as people read them."""

import pytest

from streamgp.numerics import formats


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.16123, "0.1612"),
        (12345.6, "12,346"),
        (-2.5, "−2.500"),
        (0, "0"),
        (None, "–"),
        (2.5e-5, "2.5e−05"),
        (1e9, "1e+09"),
    ],
)
def test_numbers_keep_four_digits(number: float | int | None, text: str) -> None:
    assert formats.number(number) == text
