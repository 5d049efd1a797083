"""Labels that come late: as a replay of the labelled rows in their order, whatever the order of events."""

import copy

import numpy as np
import pytest

from oracles.late_replay import LateReplay
from streams import close, make_stream, mixture, restored
from streamgp.checkpoint.encoding import decode, encode
from streamgp.models.registry import make_spec
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner

WARMUP = 40
MODELS = {
    "static": {"model": "oebe", "bases": ("linear", "rbf"), "features_per_basis": 10},
    "moving": {"model": "doebe", "bases": ("linear", "rbf"), "features_per_basis": 10},
    "lags": {"model": "doebe", "bases": ("linear",), "lags": (2, 5)},
    "robust": {"model": "default", "bases": ("linear",), "dynamics": ("static", "walk 0.1"), "renew": False},
    "counts": {"model": "doebe", "task": "count", "bases": ("linear",)},
}


def make(name: str, timed: bool, outputs: int = 1) -> StreamLearner:
    """Return a learner of a stream of `make_stream`."""
    spec = make_spec(**{"task": "regression"} | MODELS[name])
    return StreamLearner(spec, num_inputs=2, num_outputs=outputs, warmup=WARMUP, seed=3, timed=timed)


def events(rows: int, seed: int, mean: float = 8.0) -> list[tuple[str, int]]:
    """Return the rows in order and their labels after delays that differ; of a tenth none comes, or a missing one."""
    rng = np.random.default_rng(seed)
    came = rng.exponential(mean, rows)
    came[0] = 0.0
    fate = rng.uniform(size=rows)
    order = [(float(r), 0, "row", r) for r in range(rows)]
    for r in range(rows):
        if r == 0 or fate[r] > 0.05:
            order.append((r + 0.5 + came[r], 1, "never" if r and fate[r] < 0.1 else "label", r))
    return [(kind, r) for _, _, kind, r in sorted(order)]


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_a_replay(name: str, timed: bool):
    X, y, times = make_stream(MODELS[name].get("task", "regression"))
    rows, limit = 110, 30
    late = LateLabels(make(name, timed), limit=limit)
    oracle = LateReplay(lambda stamped: make(name, stamped), X, y, times if timed else None, limit)
    for kind, r in events(rows, seed=7):
        if kind == "row":
            ((numbers, info),) = late.predict(X[r : r + 1], times[r : r + 1] if timed else None)
            assert list(numbers) == [r]
            if r and (r % 7 == 0 or WARMUP <= r < WARMUP + 40):
                close(
                    list(np.concatenate(mixture(info.predictive), axis=1)),
                    list(np.concatenate(mixture(oracle.predict(r)), axis=1)),
                )
            else:
                oracle.means.append(np.asarray(info.predictive.mean)[0])
        elif late.next_row - r <= limit:
            target = y[r] if kind == "label" else np.full(1, np.nan)
            late.learn([r], target[None])
            oracle.labels[r] = target
        else:
            with pytest.raises(ValueError, match="one of the last 30 rows"):
                late.learn([r], y[r : r + 1])
    assert late.learner.is_warmed_up
    assert late.given_up
    assert late.never
