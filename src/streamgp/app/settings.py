"""The settings of a run, as given on the command line."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.models.target_options import AUTO
from streamgp.table.readers import Missing
from streamgp.table.reading import AS_FOUND, Reading

FREE = {"in config": None}  # the metadata of fields that may change when a run is resumed


@dataclass
class RunSettings:
    """The settings of a run, as given on the command line.

    `spec_for` gives the model for a task where `task` is ``auto`` and the data turn out to be not of regression.
    """

    data: str = field(metadata=FREE)
    targets: list[str] = field(metadata={"in config": "target"})
    spec: Spec = field(metadata=FREE)
    task: str = field(default="auto", metadata=FREE)
    spec_for: Callable[[str], Spec] | None = field(default=None, metadata=FREE)
    grades: list[str] | None = None
    exposure: str | None = field(default=None, metadata={"in config": "exposure_column"})
    features: list[str] | None = None
    time: str | None = None
    warmup: int | None = None
    seed: int = 0
    chunk: int = field(default=1024, metadata=FREE)
    max_rows: int | None = field(default=None, metadata=FREE)
    missing: Missing = "impute"
    reading: Reading = field(default=AS_FOUND, metadata=FREE)
    conformal: float | None = None
    groups: list[str] | None = None
    delay: int = 0
    arrives: str | None = None
    alarms: bool = False
    baselines: list[str] = field(default_factory=list)
    steps_ahead: int = 0
    calendar: list[str] = field(default_factory=lambda: [AUTO])
    out: Path | None = field(default=None, metadata=FREE)
    resume: bool = field(default=False, metadata=FREE)
    overwrite: bool = field(default=False, metadata=FREE)
    command: str = field(default="", metadata=FREE)

    @property
    def config(self) -> dict[str, Any]:
        """Return what must not change when the run is resumed: the model, and the fields that are not `FREE`."""
        names = {each.name: each.metadata.get("in config", each.name) for each in fields(self)}
        kept = {stored: getattr(self, name) for name, stored in names.items() if stored is not None}
        return self.spec.stored | kept | self.reading.config

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
