"""One run of a bank over one data set: fit, stream, score every model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.app.outputs import RunError
from streamgp.numerics.precision import in_float64
from streamgp.research.multikernel import SquaredLoss
from streamgp_papers.bank import ExpertPredictions, Family, Member, fit_experts, standardise, stream
from streamgp_papers.baselines import adaraker, ssgp
from streamgp_papers.data_files import load
from streamgp_papers.mixing import Mix, Scorer


def score(
    batches: Iterator[Any], members: Sequence[Member], mixes: Sequence[Mix], scorer: Callable[..., Any] = Scorer
) -> dict[str, Any]:
    """Score batches of predictions; return scores, learning curves and weights of moving experts by model."""
    scorers = [scorer(mix, members) for mix in mixes]
    for batch in batches:
        for each in scorers:
            each.add(batch)
    both = len({member.moving for member in members}) == 2
    return {
        "models": {each.mix.name: each.scores() for each in scorers},
        "curves": {each.mix.name: each.curve() for each in scorers},
        "moving_weight": {
            each.mix.name: each.moving_weight() for each in scorers if both and each.mix.moving is None
        },
    }


def _score_single(name: str, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
    """Score a model that is no mixture: targets (n,), means and variances (n, 1)."""
    batch = ExpertPredictions(y, np.asarray(mean), np.asarray(variance))
    return score(iter([batch]), (Member(name, 0, 0, False),), (Mix(name),), Scorer)


@in_float64
def run_stream(
    data: str,
    seed: int,
    *,
    directory: Path | None,
    rows: int | None,
    warmup: int,
    families: Sequence[Family],
    mixes: Sequence[Mix],
    ssgp_sizes: Mapping[str, int] | None = None,
    features: int = 0,
) -> dict[str, Any]:
    """Fit the families on the first `warmup` rows of a data set and score the models on the rest.

    With `ssgp_sizes`, SSGP of these sizes and AdaRaker of so many `features` a kernel are scored beside them.

    Raises
    ------
    RunError
        If the file is missing or no row is left after the warm-up.
    """
    X, y = load(data, directory, rows)
    if len(y) < warmup + 2:
        hint = "" if rows is None else "; give more --rows"
        raise RunError(f"{data}: expected more than the {warmup} rows of the warm-up, got {len(y)}{hint}")
    inputs, targets = standardise(X, y, warmup)
    experts, members = fit_experts(families, inputs[:warmup], targets[:warmup], seed)
    result = score(stream(experts, inputs[warmup:], targets[warmup:]), members, mixes)
    if ssgp_sizes:
        baselines = {
            "SSGP": ssgp(inputs, targets, seed, warmup=warmup, **ssgp_sizes),
            "AdaRaker": adaraker(inputs, targets, seed, features, SquaredLoss(1)),
        }
        for name, each in baselines.items():
            single = _score_single(name, targets[warmup:, 0], np.asarray(each.mean)[warmup:], each.variance[warmup:])
            for kind in ("models", "curves"):
                result[kind] |= single[kind]
    return {"rows": len(y), "inputs": X.shape[1], "experts": len(members), **result}
