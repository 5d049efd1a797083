"""One run of a bank over one data set: fit, stream, score every model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from streamgp.app.outputs import RunError
from streamgp.app.reproduce.bank import Family, Member, Stretch, fit_experts, standardised, stream
from streamgp.app.reproduce.datasets import load
from streamgp.app.reproduce.mixing import Mix, Scorer


def score(stretches: Iterator[Stretch], members: Sequence[Member], mixes: Sequence[Mix]) -> dict[str, Any]:
    """Scores, learning curves and weights of the moving experts, by the name of the model."""
    scorers = [Scorer(mix, members) for mix in mixes]
    for stretch in stretches:
        for scorer in scorers:
            scorer.add(stretch)
    both = len({member.moving for member in members}) == 2
    return {
        "models": {scorer.mix.name: scorer.scores() for scorer in scorers},
        "curves": {scorer.mix.name: scorer.curve() for scorer in scorers},
        "moving_weight": {
            scorer.mix.name: scorer.moving_weight() for scorer in scorers if both and scorer.mix.moving is None
        },
    }


def run_stream(
    data: str,
    seed: int,
    *,
    directory: Path | None,
    rows: int | None,
    warmup: int,
    families: Sequence[Family],
    mixes: Sequence[Mix],
) -> dict[str, Any]:
    """Fit the families on the first `warmup` rows of a data set and score the models on the rest.

    Raises
    ------
    RunError
        If the file is missing or no row is left after the warm-up.
    """
    X, y = load(data, directory, rows)
    if len(y) < warmup + 2:
        hint = "" if rows is None else "; give more --rows"
        raise RunError(f"{data}: expected more than the {warmup} rows of the warm-up, got {len(y)}{hint}")
    with jax.enable_x64(True):
        inputs, targets = standardised(X, y, warmup)
        experts, members = fit_experts(families, inputs[:warmup], targets[:warmup], seed)
        result = score(stream(experts, inputs[warmup:], targets[warmup:]), members, mixes)
    return {"rows": len(y), "inputs": X.shape[1], "experts": len(members), **result}
