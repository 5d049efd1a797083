"""All that a learner knows after some rows, as one value: to keep it is to copy it, to put it back is to undo."""

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from streamgp.models.base import FittedExpert, WarmupRows
from streamgp.models.contract import SplittingModel, StreamModel
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.numerics.batching import concatenate
from streamgp.numerics.checkpoint.field_types import check_state, checked
from streamgp.numerics.precision import in_float64
from streamgp.numerics.standardise import Standardiser
from streamgp.stream.categories import Categories
from streamgp.stream.correlation import ErrorCorrelation
from streamgp.stream.error_watch import ErrorWatch
from streamgp.stream.forecast_queue import Forecasts, Origins
from streamgp.stream.inputs import StreamInputs
from streamgp.stream.passed_rows import PassedRows
from streamgp.stream.recent_rows import RecentRows
from streamgp.stream.reservoir import Reservoir
from streamgp.stream.rows import RawRows
from streamgp.stream.sample import RowSample
from streamgp.stream.settings import StreamSettings
from streamgp.stream.target_range import TargetRange
from streamgp.stream.timetable import Timetable

# The settings that a checkpoint holds as they are.
_PLAIN = ("num_inputs", "num_outputs", "warmup", "seed", "timed", "delay", "categories")


@dataclass(frozen=True)
class StreamState:
    """All that a learner knows after some rows; nothing in it is ever written to.

    Attributes
    ----------
    rows
        Rows learnt.
    num_classes
        Classes known so far; at least one, since what comes before the first label has code 0 all the same.
    imputed_values, outside_rows, flagged_rows
        Inputs filled, rows outside the region of some basis, and outliers.
    restarted
        Filters that started again because their numbers were not finite.
    experts
        The table of the fitted experts; empty before the fit.
    warmup_rows
        The rows of the warm-up so far, in batches; None once it is over.
    passed
        Where rows without a target lay among those; none once it is over.
    inputs
        What is known of the inputs.
    targets
        How targets are standardised.
    origins, forecasts
        What waits, with a horizon.
    model, model_state
        The provisional model or the fitted one, and its state.
    reservoir
        The rows that new experts are fitted to, as the model takes them; None where none ever are.
    recent
        The last rows, where past targets are inputs or the clock has a season, for forecasts many rows ahead; None in
        the warm-up.
    sample
        A uniform sample of the rows learnt; None in the warm-up, whose rows are all kept.
    errors
        Whether predictions have become worse, where there is a reservoir.
    correlation
        How the errors of several targets go together; None of one target.
    target_range
        The range of the targets learnt, where these are transformed; None until the end of the warm-up.
    suspects
        Columns of the warm-up's rows, targets after inputs, with a value that seems to stand for a missing one: the
        column, the value, and how often it came. See `streamgp.table.codes.find_suspects`.
    seasons
        After how many rows the stream may repeat itself, and the name of that cycle of the clock, or "": known at the
        end of the warm-up.
    timetable
        Which steps of the clock usually have a row, and how far they have come; None in the warm-up, and where there
        is no steady clock.
    """

    inputs: StreamInputs
    targets: Standardiser
    origins: Origins
    model: StreamModel
    model_state: Any
    rows: int = 0
    num_classes: int = 1
    imputed_values: int = 0
    outside_rows: int = 0
    flagged_rows: int = 0
    restarted: frozenset[int] = frozenset()
    experts: tuple[FittedExpert, ...] = ()
    warmup_rows: tuple[RawRows, ...] | None = ()
    passed: PassedRows = field(default_factory=PassedRows.none)
    forecasts: Forecasts = field(default_factory=Forecasts)
    reservoir: Reservoir | None = None
    recent: RecentRows | None = None
    sample: RowSample | None = None
    errors: ErrorWatch = field(default_factory=ErrorWatch)
    correlation: ErrorCorrelation | None = None
    target_range: TargetRange | None = None
    suspects: Float[np.ndarray, "k 3"] = field(default_factory=lambda: np.zeros((0, 3)))
    seasons: tuple[tuple[int, str], ...] = ()
    timetable: Timetable | None = None

    @classmethod
    def start(cls, settings: StreamSettings, num_classes: int, categories: Categories) -> Self:
        """Return the state before any row; it has no forecasts yet."""
        inputs = StreamInputs.empty(settings.spec, settings.num_inputs, settings.num_outputs, categories)
        nothing = np.zeros((0, inputs.width)), np.zeros((0, settings.num_outputs))
        num_classes = max(num_classes, 1)
        model = settings.task.provisional(*nothing, WarmupRows(*nothing, num_classes, 1.0), settings.seed)
        return cls(
            inputs,
            Standardiser.empty(settings.num_outputs),
            Origins.empty(settings.horizon, inputs.width),
            model,
            model.init(keys.key(settings.seed), settings.horizon),
            num_classes=num_classes,
            correlation=ErrorCorrelation.none(settings.num_outputs) if settings.correlates else None,
            warmup_rows=(RawRows(np.zeros((0, settings.num_inputs)), nothing[1], np.zeros(0)),),
        )

    @property
    def models(self) -> "tuple[StreamState, ...]":
        """What is known of each model that predicts targets by itself: of this one."""
        return (self,)

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        last = float(self.model_state.last_time)
        return None if np.isnan(last) else last

    @property
    @in_float64
    def weights(self) -> np.ndarray:
        """The experts' weights for the next row."""
        return self.model.describe(self.model_state).weights

    @property
    @in_float64
    def rules(self) -> dict[str, float]:
        """How much each of several weight rules counts for the next row, by name; empty where there is one."""
        return dict(self.model.describe(self.model_state).rules) if self.experts else {}

    @property
    @in_float64
    def share_working(self) -> float:
        """Which share of the model's filters has worked since the warm-up, in the mean over the rows."""
        return self.model.describe(self.model_state).share_working

    @property
    @in_float64
    def local_models(self) -> list[dict[str, Any]]:
        """When each local Gaussian process was born, where it is and what it believes, in the units of the data."""
        if not isinstance(self.model, SplittingModel):
            return []
        return self.model.describe_parts(self.model_state, self.inputs.scaling, self.targets)

    @property
    def error_correlation(self) -> np.ndarray:
        """How the errors of the targets go together in the next row: a correlation matrix (E, E)."""
        return np.eye(len(self.targets.scale)) if self.correlation is None else self.correlation.matrix

    @property
    def is_warmed_up(self) -> bool:
        """Whether the warm-up is over and the fitted model at work."""
        return self.warmup_rows is None

    def to_tree(self, settings: StreamSettings) -> dict[str, Any]:
        """Return everything that a checkpoint needs, as nested dictionaries of plain values, arrays and modules."""
        known = {each.name: getattr(self, each.name) for each in fields(StreamState)}
        rows = None if self.warmup_rows is None else (concatenate(list(self.warmup_rows)),)
        known |= {"restarted": sorted(self.restarted), "warmup_rows": rows}
        return {"spec": settings.spec.stored} | {name: getattr(settings, name) for name in _PLAIN} | known

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> tuple[StreamSettings, Self]:
        """Return what `to_tree` was given."""
        settings = StreamSettings(checked(Spec(**tree["spec"])), **{name: tree[name] for name in _PLAIN})
        known: dict[str, Any] = {each.name: tree[each.name] for each in fields(StreamState)}
        known["restarted"] = frozenset(known["restarted"])
        state = cls(**known)
        check_state(state.model, state.model_state)
        expected = (state.inputs.categories.width(settings.num_inputs),), (settings.num_outputs,)
        if (recent := state.recent) is not None and (recent.X.shape[1:], recent.y.shape[1:]) != expected:
            raise ValueError(f"expected last rows of widths {expected}, got {recent.X.shape}, {recent.y.shape}")
        counts = state.rows, state.num_classes, state.imputed_values, state.outside_rows, state.flagged_rows
        if min(counts) < 0:
            raise ValueError(f"expected counts of rows that are not negative, got {counts}")
        return checked(settings), checked(state)
