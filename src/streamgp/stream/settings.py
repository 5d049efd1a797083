"""What a stream's learner is made with, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from streamgp.filters.engine.placement import check_device
from streamgp.likelihoods import TargetMap
from streamgp.models.base import ModelFamily
from streamgp.models.families import family_of
from streamgp.models.spec import Spec
from streamgp.numerics.arrays import AnyArray
from streamgp.stream.categories import NUMBERS, Categories
from streamgp.stream.tasks import Task, task_of


def check_lags(lags: Sequence[int], delay: int) -> None:
    """Raise ValueError if past targets are inputs that are not known when a row comes."""
    if lags and min(lags) <= delay:
        raise ValueError(
            f"lags: expected lags above the delay of {delay} rows, since later targets are not known when a row "
            f"comes, got {min(lags)}; give longer ones, or none"
        )


@dataclass(frozen=True)
class StreamSettings:
    """What a learner is made with; it never changes.

    Parameters
    ----------
    spec
        The model.
    num_inputs, num_outputs
        Columns of X and of y.
    warmup
        Rows to collect before the fit.
    seed
        Seed of everything random.
    timed
        Whether every row comes with a time stamp.
    delay
        How many rows late every label is known, where that is fixed: see `streamgp.stream.late_labels`. The lags that
        are chosen are above it.
    categories
        The columns of X that hold codes of levels or times, as they are before the first row.

    Raises
    ------
    ValueError
        If a basis of `spec` cannot take so many inputs, or the warm-up has no row with the longest lag and horizon;
        or if there are both times and a horizon: what will have changed depends on a time that is not known yet; or
        if a lag that was given is not above the delay.
    """

    spec: Spec
    num_inputs: int
    num_outputs: int = 1
    warmup: int = 1000
    seed: int = 0
    timed: bool = False
    delay: int = 0
    categories: Categories = NUMBERS

    def __post_init__(self) -> None:
        """Check that the parts go together."""
        self.spec.check(self.width, self.warmup)
        check_device(self.spec.device)
        if self.timed and self.spec.horizon:
            raise ValueError(
                f"horizon: expected a stream without times, since that of the row {self.spec.horizon} rows ahead is "
                f"not known; leave the times out, or make them an input"
            )
        if not self.spec.chooses_lags:
            check_lags(self.spec.lags, self.delay)

    @property
    def width(self) -> int:
        """Inputs of the model before its fit: columns of X, what the calendar makes of them, and lags."""
        columns = self.categories.width(self.num_inputs)
        return columns + self.spec.num_past(self.num_outputs)

    @property
    def horizon(self) -> int:
        """How many rows after the last one learnt a forecast is for."""
        return self.spec.horizon

    @property
    def rows_ahead(self) -> int:
        """How many rows after the last one learnt a prediction is for; with no horizon, that of the next row."""
        return max(self.horizon, 1)

    @property
    def first_fitted(self) -> int:
        """The first row that the fitted model predicts."""
        return self.warmup + max(self.spec.horizon - 1, 0)

    def clock(self, X: AnyArray, times: AnyArray | None) -> AnyArray | None:
        """Return the times of rows: their stamps, or else the first column of times; None where there is none."""
        if self.timed:
            return times
        return X[:, self.categories.dates[0]] if self.categories.dates else None

    @property
    def task(self) -> Task:
        """What the targets are."""
        return task_of(self.spec)

    @cached_property
    def target_map(self) -> TargetMap:
        """What lies between the targets, as users have them, and the scale on which they are learnt."""
        return TargetMap.of(self.spec.target_transform, self.spec.bounds)

    @property
    def transforms(self) -> bool:
        """Whether targets are learnt on another scale than their own."""
        return self.target_map.transform is not None

    @property
    def correlates(self) -> bool:
        """Whether there are several targets, of whose errors it is learnt how they go together."""
        return self.num_outputs > 1 and self.task.correlates

    @property
    def of_one_target(self) -> "StreamSettings":
        """The same settings for one of several targets by itself; no calendar is chosen for each."""
        return replace(self, num_outputs=1, categories=replace(self.categories, calendar=self.categories.entries))

    @property
    def family(self) -> ModelFamily:
        """The family that fits the model."""
        return family_of(self.spec)

    @property
    def weighs_warmup(self) -> bool:
        """Whether the warm-up's rows set the experts' first weights; not in the papers' models."""
        return self.spec.robust and self.family.weighs_warmup and self.spec.warmup_posterior == "condition"

    def next_boundary(self, rows: int) -> int:
        """Return the next row count where something changes: the model is rebuilt, or a horizon ends."""
        ends = (1 << rows.bit_length(), self.spec.horizon, self.warmup, self.first_fitted)
        return min(end for end in ends if end > rows)
