"""The settings of `streamgp run --key`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamgp.fleet.fleet import StreamingGPFleet
from streamgp.fleet.settings import as_bounds
from streamgp.likelihoods import TargetMap
from streamgp.table.calendar import AUTO
from streamgp.table.readers import Missing
from streamgp.table.reading import AS_FOUND, Reading


@dataclass(frozen=True)
class FleetRunSettings:
    """The settings of a run, as given on the command line."""

    data: str
    target: str
    key: str
    engine: str = "local"
    workers: int | None = None
    group: str | None = None
    max_active: int | None = None
    calendar: list[str] = field(default_factory=lambda: [AUTO])
    holidays: str | None = None
    alarms: bool = False
    steps_ahead: int = 0
    time: str | None = None
    features: list[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    warmup: int | None = None
    seed: int = 0
    chunk: int = 1024
    max_rows: int | None = None
    missing: Missing = "impute"
    reading: Reading = AS_FOUND
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    command: str = ""

    @property
    def config(self) -> dict[str, Any]:
        """Return what must not change when the run is resumed."""
        names = ("target", "key", "time", "features", "warmup", "seed", "missing", "calendar", "holidays", "alarms")
        more = {} if self.group is None else {"group": self.group}
        more |= {"steps_ahead": self.steps_ahead} if self.steps_ahead else {}
        return {name: getattr(self, name) for name in names} | self.options | self.reading.config | more

    @property
    def target_map(self) -> TargetMap:
        """What lies between the targets and the scale on which they are learnt."""
        return TargetMap.of(self.options.get("target_transform"), as_bounds(self.options.get("bounds")))

    @property
    def where(self) -> dict[str, Any]:
        """Return where the fleet runs, which may change."""
        asleep = self.out if self.max_active is not None else None
        return {
            "engine": self.engine,
            "workers": self.workers,
            "max_active": self.max_active,
            "directory": asleep,
        }

    def new_fleet(self) -> StreamingGPFleet:
        """Return a fleet that has seen nothing."""
        given: dict[str, Any] = self.options | ({} if self.warmup is None else {"warmup": self.warmup})
        return StreamingGPFleet(
            self.key,
            self.time,
            self.target,
            missing=self.missing,
            random_state=self.seed,
            group_col=self.group,
            calendar=self.calendar,
            holidays=self.holidays,
            **self.where,
            **given,
        )
