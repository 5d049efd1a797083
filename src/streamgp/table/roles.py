"""What a user names the columns of a file for."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from streamgp.table.names import quoting_advice
from streamgp.table.schema import DataError


@dataclass(frozen=True)
class Roles:
    """What a user names columns of a file for.

    Attributes
    ----------
    targets, features
        Those to predict, and those to predict from: None, all that have no other role.
    time, exposure, arrives
        Those of times, of an exposure, and of when labels are known.
    """

    targets: Sequence[str]
    features: Sequence[str] | None = None
    time: str | None = None
    exposure: str | None = None
    arrives: str | None = None

    @property
    def others(self) -> list[str]:
        """Return the columns that are neither targets nor features."""
        return [name for name in (self.time, self.exposure, self.arrives) if name is not None]


def check_names(file: str, columns: Sequence[str], roles: Roles) -> None:
    """Check that each requested column exists and has one role.

    Raises
    ------
    DataError
        For a name that is not in the file (with the nearest that is), one asked for twice, or a
        target or an exposure with another role.
    """
    targets, features, time, exposure = roles.targets, roles.features or (), roles.time, roles.exposure
    _check_unique(file, "the columns", columns)
    _check_unique(file, "the targets", targets)
    _check_unique(file, "the features", features)
    for name in (*targets, *features, *roles.others):
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
            guess = f" (did you mean '{near[0]}'?)" if near else ""
            quoting = quoting_advice(columns)
            raise DataError(
                f"{file}: there is no column '{name}'{guess}; the columns are {_listing(columns)}{quoting}."
            )
    for name in targets:
        if name in features or name == time:
            role = "the time column" if name == time else "a feature"
            raise DataError(f"{file}: column '{name}' is a target and cannot also be {role}; name it only once.")
    if exposure is not None and exposure in (*targets, *features, time):
        raise DataError(
            f"{file}: column '{exposure}' is the exposure and cannot also be a target, a feature or the time; name "
            f"it only once."
        )
    if roles.arrives is not None and roles.arrives in (*targets, *features, time, exposure):
        raise DataError(
            f"{file}: column '{roles.arrives}' says when labels arrive and cannot also be a target, a feature, the "
            f"time or the exposure; name it only once."
        )


def _check_unique(file: str, what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"{file}: expected {what} to have different names, got '{twice}' twice; rename one.")


def _listing(names: Sequence[str], max_names: int = 30) -> str:
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(f"'{name}'" for name in names[:max_names]) + more
