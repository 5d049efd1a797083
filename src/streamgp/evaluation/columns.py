"""The columns of predictions as a table: those of the command's ``predictions.parquet``, and of frames in Python."""

from collections.abc import Sequence

import numpy as np

from streamgp.evaluation.classification import ClassificationScores
from streamgp.evaluation.counts import CountScores
from streamgp.evaluation.ordinal import OrdinalScores
from streamgp.evaluation.regression_scores import RegressionScores
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.evaluation.steps_ahead import NAMES, RowsAhead
from streamgp.table.labels import ClassNames

NUMBERS = ("y", "mean", "std", "q05", "q50", "q95", "pit", "crps")


def columns_of(part: ScoredRows, targets: Sequence[str], labels: ClassNames | None = None) -> dict[str, np.ndarray]:
    """Return the columns about targets and their predictions; of several targets the first has the plain names."""
    scores = part.scores
    if labels is None:
        assert isinstance(scores, RegressionScores | CountScores)
        found = _of_numbers(part, scores, targets)
    else:
        assert isinstance(scores, ClassificationScores | OrdinalScores)
        found = _of_labels(part, scores, labels)
    found |= {} if part.flagged is None else {"flagged": part.flagged}
    return found if part.ahead is None else found | columns_of_steps(part.ahead, targets)


def _of_labels(
    part: ScoredRows, scores: ClassificationScores | OrdinalScores, labels: ClassNames
) -> dict[str, np.ndarray]:
    names = np.array(labels.names, dtype=object)
    found: dict[str, np.ndarray] = {
        "y": np.array([*labels.names, None], dtype=object)[scores.y],
        "predicted": names[scores.predicted],
    }
    if isinstance(scores, OrdinalScores):
        mean = scores.probabilities @ labels.values
        found |= {"mean": mean, "std": np.sqrt(scores.probabilities @ labels.values**2 - mean**2)}
    found |= {f"p_{name}": p for name, p in zip(labels.names, scores.probabilities.T, strict=False)}
    found |= {"rps": scores.rps} if isinstance(scores, OrdinalScores) else {"brier": scores.brier}
    found["log_density"] = scores.log_density
    if part.band is not None:
        found |= _of_sets(np.asarray(part.band), names, isinstance(scores, OrdinalScores))
    frequencies = part.running_mean
    own = np.take_along_axis(frequencies, np.clip(scores.y, 0, frequencies.shape[1] - 1)[:, None], axis=1)[:, 0]
    return found | {
        "last_label": np.array([None, *labels.names], dtype=object)[part.persistence + 1],
        "frequent_label": names[frequencies.argmax(axis=1)],
        # Of a label that was new, the probability that the model's own score has, too.
        "frequency_log_density": np.where(
            (scores.y >= 0) & (scores.y < frequencies.shape[1]), np.log(own), scores.log_density
        ),
    }


def _of_sets(sets: np.ndarray, names: np.ndarray, ordered: bool) -> dict[str, np.ndarray]:
    """Return the columns of conformal sets: of grades, which are intervals, the lowest and the highest."""
    names = names[: sets.shape[1]]
    if ordered:
        highest = sets.shape[1] - 1 - sets[:, ::-1].argmax(axis=1)
        return {"conformal_low": names[sets.argmax(axis=1)], "conformal_high": names[highest]}
    held = np.empty(len(sets), object)
    held[:] = [names[row].tolist() for row in sets]
    return {"conformal_set": held}


def columns_of_steps(ahead: RowsAhead, targets: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the columns of forecasts of several rows; of several targets the first has the plain names."""
    found: dict[str, np.ndarray] = {"step": ahead.step}
    for e, target in enumerate(targets):
        suffix = "" if e == 0 else f"_{target}"
        found |= {f"ahead_{name}{suffix}": getattr(ahead, name)[:, e] for name in NAMES}
    return found


def _of_numbers(
    part: ScoredRows, scores: RegressionScores | CountScores, targets: Sequence[str]
) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    below = ("pit_below",) if isinstance(scores, CountScores) else ()
    for e, target in enumerate(targets):
        suffix = "" if e == 0 else f"_{target}"
        found |= {name + suffix: getattr(scores, name)[:, e] for name in (*NUMBERS, *below)}
        found["persistence_mean" + suffix] = part.persistence[:, e]
        found["running_mean" + suffix] = part.running_mean[:, e]
        if part.band is not None:
            ends = zip(("conformal_low", "conformal_high"), part.band, strict=True)
            found |= {name + suffix: end[:, e] for name, end in ends}
    return found | {"log_density": scores.log_density}
