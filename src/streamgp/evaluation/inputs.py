"""The importance of each input to the model at the end of a stream, as reports show it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.stream.learner import StreamLearner

# The most inputs for which the importance is computed.
MOST = 500


@dataclass(frozen=True)
class Inputs:
    """A model at the end of a stream, and its inputs; which of them matter is found when it is asked for.

    Attributes
    ----------
    learner
        It learns no further.
    groups
        For each input, by its name, the columns that it became.
    """

    learner: StreamLearner
    groups: dict[str, list[int]]

    def importance(self) -> list[dict[str, Any]] | None:
        """Return the name of each input, past targets included, and its influence, the largest first.

        Of several targets there is the mean. None in the warm-up; where there are no inputs, or too many; fewer than
        2 rows; or an exposure, of which no single value would be right.
        """
        groups = {name: columns for name, columns in self.groups.items() if columns}
        if not self.learner.is_warmed_up or len(groups) > MOST or self.learner.spec.exposure:
            return None
        if not self.learner.has_influence():
            return None
        found = self.learner.influence(groups)
        shares = {name: float(np.mean(each)) for name, each in found.items()}
        if not np.isfinite(list(shares.values())).all():
            return None
        return [{"name": name, "share": shares[name]} for name in sorted(shares, key=lambda name: -shares[name])]
