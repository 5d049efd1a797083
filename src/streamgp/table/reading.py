"""How the cells of a file are to be read, as far as the user says: the decimal mark, and codes for missing values."""

from typing import Any, NamedTuple, Self

from streamgp.table.codes import NO_CODES, MissingCodes
from streamgp.table.numbers import Decimal, decimal_of


class Reading(NamedTuple):
    """What the user says of the cells of a file.

    Attributes
    ----------
    decimal
        The decimal mark of numbers as text; "" to find that of each column in the first rows.
    codes
        What stands for a missing value, but in columns of times and keys.
    """

    decimal: Decimal = ""
    codes: MissingCodes = NO_CODES

    @classmethod
    def of(cls, decimal: str | None, thousands: str | None, missing_values: str | None) -> Self:
        """Return how cells are to be read by the options of a command.

        Raises
        ------
        ValueError
            If one of them is not what it must be.
        """
        return cls(decimal_of(decimal, thousands), MissingCodes.parse(missing_values))

    @property
    def config(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed."""
        return {"decimal": self.decimal, "missing_values": self.codes.given}


AS_FOUND = Reading()
