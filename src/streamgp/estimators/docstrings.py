"""The parameters in the docstrings of the estimators, written from the declaration of the options."""

from textwrap import wrap
from typing import TypeVar

from streamgp.models.option_type import Option
from streamgp.models.options import options_of

PLACE = "    {options}"
WIDTH = 110
_Estimator = TypeVar("_Estimator")


def with_options(estimator: type[_Estimator]) -> type[_Estimator]:
    """Write the options of an estimator into its docstring, where that has the line ``{options}``."""
    if estimator.__doc__ is not None:  # Python may run without docstrings
        text = "\n".join(_entry(option, estimator.__name__) for option in options_of(estimator.__name__))
        estimator.__doc__ = estimator.__doc__.replace(PLACE, text)
    return estimator


def _entry(option: Option, estimator: str) -> str:
    """Return the entry of one parameter: its type, and all that the declaration says of it."""
    parts = (option.help, option.range, option.default_text(estimator), option.details)
    text = wrap(" ".join(part for part in parts if part), WIDTH - 8, break_on_hyphens=False)
    return "\n".join([f"    {option.name} : {option.python_type}", *(f"        {line}" for line in text)])
