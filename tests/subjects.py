"""The learners that `check_stream` is held against: every family and task, plain, with lags, a horizon and times."""

from dataclasses import dataclass, field, replace
from typing import Any

from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streams import INPUTS, WARMUP

ENSEMBLE = {"bases": ("linear", "fourier"), "features_per_basis": 6}
GAUSSIAN = {**ENSEMBLE, "dynamics": ("static", "walk 0.001"), "noise": ("constant", "adaptive 0.9")}
LOCAL = {"features_per_basis": 6}
BATCHES = {"batch_size": 16}  # of the local models, which learn a batch when it is full


@dataclass(frozen=True)
class Subject:
    """A learner by its preset, its options, changes of its specification, and the stream that it learns."""

    model: str
    options: dict[str, Any] = field(default_factory=dict)
    task: str = "regression"
    outputs: int = 1
    timed: bool = False
    changes: dict[str, Any] = field(default_factory=dict)

    def learner(self) -> StreamLearner:
        """Return a new learner."""
        known = {"classification": 1, "ordinal": 3}.get(self.task, 0)
        spec = replace(make_spec(self.model, task=self.task, **self.options), **self.changes)
        return StreamLearner(
            StreamSettings(
                spec, num_inputs=INPUTS, num_outputs=self.outputs, warmup=WARMUP, seed=3, timed=self.timed
            ),
            num_classes=known,
        )


SUBJECTS = {
    # Guard, recalibration, adaptive noise and all rules at once, as the default has them.
    "gaussian": Subject("default", GAUSSIAN),
    "gaussian renewed": Subject(
        "best", {**GAUSSIAN, "bases": ("linear", "fourier-trained", "boosted"), "lags": (1, 3)}
    ),
    "gaussian lags": Subject("e-doebe", {**ENSEMBLE, "lags": (1, 3)}),
    "gaussian horizon": Subject("default", {**GAUSSIAN, "lags": (1, 5), "horizon": 3}),
    "gaussian timed": Subject("e-doebe", ENSEMBLE, timed=True),
    "gaussian two targets": Subject("default", GAUSSIAN, outputs=2),
    "classification": Subject("linear", task="classification"),
    "classification timed": Subject("linear", {"dynamics": ("walk 0.01",)}, task="classification", timed=True),
    "count": Subject("linear", task="count"),
    "ordinal": Subject("linear", task="ordinal"),
    "many kernels": Subject("sfg-mkl", LOCAL),
    "many kernels of labels": Subject("raker", LOCAL, task="classification"),
    "sparse": Subject("ovfe", LOCAL, changes=BATCHES),
    "local lags": Subject("wgpr", {**LOCAL, "lags": (1, 3)}, changes=BATCHES),
}
