"""What an option of a model is: its name, its type, what is accepted, and its text."""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal

Kind = Literal[
    "flag",
    "switch",
    "whole",
    "wholes",
    "number",
    "probability",
    "range",
    "name",
    "names",
    "terms",
    "weights",
    "regressors",
    "seed",
    "codes",
    "country",
]

# Of values in Python: in words, and as annotations.
_TYPES: dict[Kind, tuple[str, str]] = {
    "flag": ("bool", "bool"),
    "switch": ("bool or None", "bool"),
    "whole": ("int", "int"),
    "wholes": ("int, sequence of int, or str", "Any"),
    "number": ("float", "float"),
    "probability": ("float", "float"),
    "range": ("(float or None, float or None)", "tuple[float | None, float | None]"),
    "name": ("str", "str"),
    "names": ("str or sequence of str", "Sequence[str] | str"),
    "terms": ("str, float, or sequence of them", "Sequence[str | float] | str | float"),
    "weights": ("str or array", "Any"),
    "regressors": ("sequence of regressors", "Sequence[Any]"),
    "seed": ("int", "Any"),
    "codes": ("float, str, or sequence of them", "Sequence[float | str] | float | str"),
    "country": ("str", "str"),
}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option.

    Attributes
    ----------
    name
        The keyword in Python; the command has hyphens for its underscores.
    kind
        What values are: a ``flag``; a ``switch`` that is on, off or left to the preset; a ``whole`` number, or
        ``wholes``, several, or one of the `choices`; a ``number``; a ``probability`` in [0, 1); a ``range``, two
        numbers of which either may be None; a ``name`` or several ``names`` among the `choices`; ``terms`` of a small
        grammar (see `streamgp.filters.dynamics` and `streamgp.filters.noise`); ``weights``, a name or a matrix;
        ``regressors``, by the names they were given; a ``seed``, in Python a generator of random numbers too;
        ``codes``, numbers and words; a ``country``, by its code.
    help
        What it does, in a sentence or two, without default, range and choices.
    details
        More, for who reads the documentation of an estimator.
    default
        What holds where nothing is given; None where that is for the preset, or for the code, to say.
    unset
        What stands in for a default of None, in words.
    choices, low, high
        The names, or the range, that are accepted.
    families, tasks
        Which models take it, and for which targets.
    estimators, command
        Which estimators have a parameter of the name, and whether ``streamgp run`` has an option.
    own_defaults
        The defaults of estimators that differ.
    sets
        The field of `Spec` that it sets, if that has another name.
    flag, panel
        The command's name, if it has another, and the group in its help.
    """

    name: str
    kind: Kind
    help: str
    details: str = ""
    default: Any = None
    unset: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float = math.inf
    families: tuple[str, ...]
    tasks: tuple[str, ...]
    estimators: tuple[str, ...]
    command: bool = True
    own_defaults: Mapping[str, Any] = field(default_factory=dict)
    sets: str = ""
    flag: str = ""
    panel: str = "Model"

    @property
    def spec_field(self) -> str:
        """Return the field of `Spec` that the option sets."""
        return self.sets or self.name

    @property
    def command_name(self) -> str:
        """Return the option's name on the command line."""
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def python_type(self) -> str:
        """Return the type of its values in Python, in words."""
        kind, _ = _TYPES[self.kind]
        return kind if self.default is not None or kind.endswith("None") else f"{kind} or None"

    @property
    def range(self) -> str:
        """Return the names or numbers that are accepted, in words; empty where the help says it."""
        if self.choices and self.kind != "wholes":
            return f"{'One' if self.kind in ('name', 'weights') else 'Any'} of {', '.join(self.choices)}."
        if self.kind == "probability":
            return "From 0 to below 1."
        if self.low is None:
            return ""
        return f"At least {self.low:g}." if math.isinf(self.high) else f"From {self.low:g} to {self.high:g}."

    def default_for(self, estimator: str) -> Any:
        """Return the default of the parameter of an estimator."""
        return self.own_defaults.get(estimator, self.default)

    def annotation(self, estimator: str) -> str:
        """Return the annotation of the parameter of an estimator, as source."""
        _, kind = _TYPES[self.kind]
        return kind if kind == "Any" or self.default_for(estimator) is not None else f"{kind} | None"

    def default_text(self, estimator: str = "") -> str:
        """Return the default in a sentence; empty where there is nothing to say."""
        default = self.default_for(estimator)
        text = self.unset if default is None else repr(default) if estimator else str(default)
        return f"Default: {text}." if text else ""

    def is_unset(self, value: Any, estimator: str = "") -> bool:
        """Return whether a value is the default, which every model takes; or that of an estimator."""
        default = self.default_for(estimator)
        return value is default or (type(value) is type(default) and value == default)

    def takes(self, family: str, task: str) -> bool:
        """Return whether the models of a family take the option, for targets of a task."""
        return family in self.families and task in self.tasks

    def check(self, value: Any, choices: Collection[str] | None = None) -> Any:
        """Return a value as `Spec` has it, if it is one of the kind and in the range.

        `choices` are those that are registered now, where users may register more.

        Raises
        ------
        ValueError
            If it is not; the message says what is accepted.
        """
        accepted = self.choices if choices is None else choices
        match self.kind:
            case "flag" | "switch":
                return bool(value)
            case "whole":
                return whole_number(self.name, value, 1 if self.low is None else int(self.low))
            case "wholes":
                if isinstance(value, str):
                    if value not in accepted:
                        words = " or ".join(accepted)
                        raise ValueError(f"{self.name}: expected whole numbers, or {words}, got {value!r}")
                    return value
                each = value if isinstance(value, Iterable) else [value]
                return tuple(sorted({whole_number(self.name, one) for one in each}))
            case "probability":
                if not (isinstance(value, Real) and 0.0 <= float(value) < 1.0):
                    raise ValueError(f"{self.name}: expected a probability in [0, 1), got {value!r}")
                return float(value)
            case "number":
                low = -math.inf if self.low is None else self.low
                if not (isinstance(value, Real) and low <= float(value) <= self.high):
                    raise ValueError(f"{self.name}: expected a number from {low:g} to {self.high:g}, got {value!r}")
                return float(value)
            case "range":
                return _range(self.name, value)
            case "names":
                names = [value] if isinstance(value, str) else list(value)
                if not names:
                    raise ValueError(f"{self.name}: expected at least one of {', '.join(accepted)}, got none")
                return tuple(dict.fromkeys(known(self.name, name, accepted) for name in names))
            case "regressors":
                return tuple(value)
            case _:
                return known(self.name, value, accepted)


def _range(what: str, value: Any) -> tuple[float | None, float | None]:
    """Return the ends of a range; None where it has none."""
    ends = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(ends) != 2 or not all(end is None or (isinstance(end, Real) and math.isfinite(end)) for end in ends):
        raise ValueError(f"{what}: expected two numbers, None for no bound, such as (0, None), got {value!r}")
    low, high = (None if end is None else float(end) for end in ends)
    return low, high


def whole_number(what: str, value: Any, low: int = 1) -> int:
    """Return the value as an int, if it is a whole number of at least `low`."""
    if not isinstance(value, Integral) or value < low:
        raise ValueError(f"{what}: expected a whole number >= {low}, got {value!r}")
    return int(value)


def known(what: str, name: Any, allowed: Collection[str]) -> str:
    """Return a name that is one of those allowed; the error suggests the nearest."""
    if isinstance(name, str) and name in allowed:
        return name
    near = difflib.get_close_matches(str(name), list(allowed), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what}: expected one of {', '.join(allowed)}, got {name!r}{hint}")
