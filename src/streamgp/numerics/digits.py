"""Numbers as text, with all their digits: two that differ never look the same."""


def shortest(value: float) -> str:
    """Write a number with the fewest digits that are read as the same: 80, 97.5, 1234567890123457."""
    return repr(float(value)).removesuffix(".0")
