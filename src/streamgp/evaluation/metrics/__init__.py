"""Proper scores of predictions that come as arrays, from streamgp or from elsewhere.

Each is a number a row, less is better, and NaN where the target or the prediction is: take ``np.nanmean`` of it. Only
`coverage` is a share, `paired_interval` compares two forecasts by their losses, and `decisions` says what it costs to
act by probabilities. The scores that `evaluate` takes of whole mixtures along a stream are in `streamgp.evaluation`.
"""

from streamgp.evaluation.metrics.bands import coverage, interval_score, pinball
from streamgp.evaluation.metrics.decisions import Decisions, cost_threshold, decisions
from streamgp.evaluation.metrics.distributions import crps_ensemble, crps_gaussian, energy_score, log_score_gaussian
from streamgp.evaluation.metrics.paired import Difference, paired_interval

__all__ = [
    "Decisions",
    "Difference",
    "cost_threshold",
    "coverage",
    "crps_ensemble",
    "crps_gaussian",
    "decisions",
    "energy_score",
    "interval_score",
    "log_score_gaussian",
    "paired_interval",
    "pinball",
]
