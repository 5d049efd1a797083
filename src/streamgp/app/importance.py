"""Which inputs matter to the model that a run ends with."""

from typing import Any

import numpy as np

from streamgp.data import Schema
from streamgp.stream import attribution
from streamgp.stream.learner import StreamLearner

MOST = 50  # columns of the file: each is predicted some 500 times


def importance(schema: Schema, learner: StreamLearner) -> list[dict[str, Any]] | None:
    """Return the name of each input and the share of the target's variance that goes with it, the largest first.

    A column of the file is one input, whatever it became. Of several targets there is the mean. None where there are
    no columns, or too many; fewer than 2 rows without gaps; or an exposure, of which no single value would be right.
    """
    groups: dict[str, list[int]] = {}
    at = 0
    for feature in schema.features:
        width = len(feature.encoded)
        groups.setdefault(feature.name, []).extend(range(at, at + width))
        at += width
    groups = {name: columns for name, columns in groups.items() if columns}
    if not 0 < len(groups) <= MOST or schema.exposure is not None or len(attribution.last_rows(learner.state)) < 2:
        return None
    shares = attribution.importance(learner.settings, learner.state, list(groups.values())).mean(axis=1)
    if not np.isfinite(shares).all():
        return None
    names = list(groups)
    return [{"name": names[g], "share": float(shares[g])} for g in np.argsort(-shares, kind="stable").tolist()]
