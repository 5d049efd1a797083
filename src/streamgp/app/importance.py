"""Which inputs matter to the model that a run ends with."""

from typing import Any

from streamgp.evaluation.inputs import Inputs
from streamgp.stream.learner import StreamLearner
from streamgp.table import Schema


def importance(schema: Schema, learner: StreamLearner) -> list[dict[str, Any]] | None:
    """Return what `Inputs.importance` does; a column of the file is one input, whatever it became."""
    if schema.exposure is not None:
        return None
    groups: dict[str, list[int]] = {}
    at, widths = 0, iter(learner.categories.each_width(schema.num_inputs))
    for feature in schema.features:
        width = sum(next(widths) for _ in feature.encoded)
        groups.setdefault(feature.name, []).extend(range(at, at + width))
        at += width
    return Inputs(learner, {name: inputs for name, inputs in groups.items() if inputs}).importance()
