"""Warnings: of predictions in the warm-up or of many rows at once with lags, and of codes for missing values."""

import warnings
from collections.abc import Sequence

from streamgp.estimators.access import Access
from streamgp.evaluation.description import seeming_codes
from streamgp.stream.learner import StreamLearner


class WarmupWarning(UserWarning):
    """A model was asked to predict before its warm-up was over; said once in the life of an estimator.

    ``warnings.simplefilter("ignore", streamgp.WarmupWarning)`` silences it, and `is_warm_` of an estimator tells.
    """


def warn_if_early(learner: StreamLearner, access: Access, rows: int) -> None:
    """Warn of predictions, of so many rows, that may not be what was wanted; the user is five calls above."""
    if not learner.is_warmed_up and not access.warned_of_warmup:
        access.warned_of_warmup = True
        warnings.warn(
            f"predict: the model is still in its warm-up, with {learner.rows:,} of {learner.warmup:,} rows "
            f"learnt, so a simple default model predicts; learn more rows first, or choose a shorter warm-up "
            f"(warmup=)",
            WarmupWarning,
            stacklevel=6,
        )
    if learner.spec.looks_back and rows > 1:
        warnings.warn(
            f"predict: each of the {rows:,} rows is taken as the next one, with the same lagged targets, since "
            f"those of the rows between are not known; for rows that follow each other use evaluate, or predict "
            f"and learn them one by one, or give a horizon to forecast farther ahead",
            stacklevel=6,
        )


def warn_of_codes(learner: StreamLearner, features: Sequence[str], targets: Sequence[str]) -> None:
    """Warn of values of the warm-up that seem to stand for missing ones; the user is five calls above."""
    targets = ["y"] if len(targets) == 1 else targets
    for said in seeming_codes(learner, features, targets, python=True):
        warnings.warn(said, stacklevel=6)
