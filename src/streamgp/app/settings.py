"""The settings of a run, as given on the command line."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.table.numbers import Decimal
from streamgp.table.readers import Missing


@dataclass
class RunSettings:
    """The settings of a run, as given on the command line.

    `spec_for` gives the model for a task where `task` is ``auto`` and the data turn out to be not of regression.
    """

    data: str
    targets: list[str]
    spec: Spec
    task: str = "auto"
    spec_for: Callable[[str], Spec] | None = None
    grades: list[str] | None = None
    exposure: str | None = None
    features: list[str] | None = None
    time: str | None = None
    warmup: int | None = None
    seed: int = 0
    chunk: int = 1024
    max_rows: int | None = None
    missing: Missing = "impute"
    decimal: Decimal = ""
    conformal: float | None = None
    delay: int = 0
    arrives: str | None = None
    alarms: bool = False
    steps_ahead: int = 0
    calendar: list[str] | None = None
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    command: str = ""

    @property
    def config(self) -> dict[str, Any]:
        """Return what must not change when the run is resumed."""
        return {
            **asdict(self.spec),
            "target": list(self.targets),
            "features": self.features,
            "time": self.time,
            "warmup": self.warmup,
            "seed": self.seed,
            "missing": self.missing,
            "decimal": self.decimal,
            "grades": self.grades,
            "exposure_column": self.exposure,
            "conformal": self.conformal,
            "delay": self.delay,
            "arrives": self.arrives,
            "alarms": self.alarms,
            "steps_ahead": self.steps_ahead,
            "calendar": self.calendar,
        }

    def for_task(self, task: str) -> "RunSettings":
        """Return the settings with the model for what the target turned out to be.

        Raises
        ------
        ValueError
            If the model has an option that does not go with the task.
        """
        if task == self.spec.task:
            return self
        spec = make_spec(self.spec.model, task=task) if self.spec_for is None else self.spec_for(task)
        return replace(self, spec=spec)
