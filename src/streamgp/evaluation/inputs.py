"""Which inputs matter to the model that a stream ends with, as reports tell it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.progress import progress_bar
from streamgp.stream import attribution
from streamgp.stream.learner import StreamLearner

MOST = 50  # inputs: each is predicted some 500 times


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

    def importance(self, progress: bool = True) -> list[dict[str, Any]] | None:
        """Return the name of each input and its share of the target's variance, the largest first.

        Of several targets there is the mean. None in the warm-up; where there are no inputs, or too many; fewer than
        2 rows without gaps; or an exposure, of which no single value would be right. It takes as long as to predict
        500 rows for each input; `progress` shows a bar on a terminal.
        """
        groups = {name: columns for name, columns in self.groups.items() if columns}
        settings, state = self.learner.settings, self.learner.state
        if not self.learner.is_warmed_up or not 0 < len(groups) <= MOST:
            return None
        if settings.spec.exposure or len(attribution.last_rows(state)) < 2:
            return None
        shares = np.empty(len(groups))
        with progress_bar("which inputs matter", len(groups), progress) as bar:
            for g, columns in enumerate(groups.values()):
                shares[g] = attribution.importance(settings, state, [columns]).mean()
                bar.at(g + 1)
        if not np.isfinite(shares).all():
            return None
        names = list(groups)
        return [{"name": names[g], "share": float(shares[g])} for g in np.argsort(-shares, kind="stable").tolist()]
