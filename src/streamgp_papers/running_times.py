"""Running times of the models of Lu, Karanikolas and Giannakis (2022), each fitted and streamed alone."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamgp.numerics.precision import in_float64
from streamgp.research.multikernel import SquaredLoss
from streamgp_papers.bank import Family, fit_experts, standardise, stream
from streamgp_papers.baselines import adaraker, ssgp
from streamgp_papers.data_files import load
from streamgp_papers.mixing import Mix
from streamgp_papers.stream import score


@in_float64
def run_times(
    data: str,
    seed: int,
    *,
    directory: Path | None,
    rows: int | None,
    warmup: int,
    families: Sequence[Family],
    mixes: Sequence[Mix],
    ssgp_sizes: Mapping[str, int],
    features: int,
) -> dict[str, Any]:
    """Time every model of `streamgp_papers.stream.run_stream` by itself, its fit on the warm-up included.

    Seconds are of processor time; what is compiled for the first trial counts there.
    """
    X, y = load(data, directory, rows)
    inputs, targets = standardise(X, y, warmup)

    def ensemble(mix: Mix) -> Callable[[], object]:
        mine = [replace(family, moving=(bool(mix.moving),)) for family in families if family.name in mix.families]

        def run() -> object:
            experts, members = fit_experts(mine, inputs[:warmup], targets[:warmup], seed)
            return score(stream(experts, inputs[warmup:], targets[warmup:]), members, (mix,))

        return run

    runs: dict[str, Callable[[], object]] = {mix.name: ensemble(mix) for mix in mixes} | {
        "SSGP": lambda: ssgp(inputs, targets, seed, warmup=warmup, **ssgp_sizes),
        "AdaRaker": lambda: adaraker(inputs, targets, seed, features, SquaredLoss(1)),
    }
    models = {}
    for name, run in runs.items():
        began = time.process_time()
        run()
        models[name] = {"seconds": time.process_time() - began}
    return {"rows": len(y), "inputs": X.shape[1], "models": models}
