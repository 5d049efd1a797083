"""The settings of a fleet, which never change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamgp.likelihoods import TargetMap
from streamgp.models.options import MISSING, MISSING_VALUES, OPTIONS
from streamgp.models.target_options import AUTO, FLEET, NONE
from streamgp.numerics.checkpoint.encoding import register
from streamgp.table.codes import MissingCodes

ENGINES = ("local", "ray")
MODELS = ("fleet",)
LAGS, MAX_LAG = OPTIONS["lags"], 1_000
DEFAULT_LAGS, DEFAULT_MISSING = LAGS.default_for(FLEET), MISSING_VALUES.default_for(FLEET)
MAX_WORKERS = 1_024
_HERE: dict[str, Any] = {"engine": "local", "workers": None, "max_active": None, "directory": None}


@register
@dataclass(frozen=True)
class FleetSettings:
    """The parameters of a `StreamingGPFleet`, checked; where it runs (`_HERE`) is not stored."""

    id_col: str
    time_col: str | None
    target_col: str
    engine: str
    model: str
    lags: tuple[int, ...]
    season: int | str | None
    warmup: int
    shards: int
    missing: str
    random_state: int
    workers: int | None = None
    max_active: int | None = None
    directory: Path | None = None
    group_col: str | None = None
    missing_values: tuple[float | str, ...] = ()
    calendar: tuple[str, ...] = (AUTO,)
    bounds: tuple[float | None, float | None] = (None, None)
    target_transform: str | None = None

    def __post_init__(self) -> None:
        """Check every parameter."""
        named: dict[str, Any] = {"id_col": self.id_col, "time_col": self.time_col, "target_col": self.target_col}
        named |= {"group_col": self.group_col}
        named = {name: each for name, each in named.items() if each is not None or name in ("id_col", "target_col")}
        for name, column in named.items():
            if not isinstance(column, str) or not column:
                raise ValueError(f"{name}: expected the name of a column, got {column!r}")
        if len(set(named.values())) < len(named):
            raise ValueError(f"{', '.join(named)}: expected different columns, got {', '.join(named.values())}")
        _choice("engine", self.engine, ENGINES)
        _choice("model", self.model, MODELS)
        _choice("missing", self.missing, MISSING)
        if max(self.lags, default=1) > MAX_LAG:
            raise ValueError(f"lags: expected whole numbers from 1 to {MAX_LAG}, got {max(self.lags)}")
        if self.season not in ("auto", None):
            _whole("season", self.season, 2, MAX_LAG)
        _ = self.target_map
        _whole("warmup", self.warmup, 10, 1_000_000)
        _whole("shards", self.shards, 1, 65_536)
        _whole("random_state", self.random_state, 0, 2**63 - 1)
        if self.engine == "ray":
            _whole("workers", self.workers, 1, MAX_WORKERS)
        elif self.workers is not None:
            raise ValueError(f"workers: expected none with engine='local', got {self.workers!r}; set engine='ray'")
        if self.max_active is not None:
            _whole("max_active", self.max_active, 1, 2**31 - 1)
            if self.engine == "ray":
                raise ValueError(f"max_active: expected none with engine='ray', got {self.max_active}; leave it out")
        elif self.directory is not None:
            raise ValueError("directory: expected max_active beside it, got none; leave it out, or say how many keys")

    @property
    def target_map(self) -> TargetMap:
        """What lies between the targets and the scale on which they are learnt."""
        return TargetMap.of(self.target_transform, self.bounds)

    @property
    def codes(self) -> MissingCodes:
        """What stands for a missing input or target."""
        return MissingCodes.of(self.missing_values)

    def anywhere(self) -> "FleetSettings":
        """Return what a checkpoint holds, which any engine loads."""
        return replace(self, **_HERE)


def as_lags(lags: Any) -> tuple[int, ...]:
    """Return lags in ascending order, each once; a fleet chooses none but the season, see `streamgp.fleet.warmup`."""
    found = LAGS.check(lags)
    return {AUTO: (1, 2, 3), NONE: ()}[found] if isinstance(found, str) else found


def as_bounds(bounds: Any) -> tuple[float | None, float | None]:
    """Return bounds as settings have them; None is none."""
    return (None, None) if bounds is None else OPTIONS["bounds"].check(bounds)


def as_transform(transform: str | None) -> str | None:
    """Return the name of a transform, checked; None is none."""
    return None if transform is None else OPTIONS["target_transform"].check(transform)


def as_path(path: str | Path | None) -> Path | None:
    """Return a path, or none."""
    return None if path is None else Path(path)


def _choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}: expected {' or '.join(repr(each) for each in allowed)}, got {value!r}")


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number from {low} to {high}, got {value!r}")
