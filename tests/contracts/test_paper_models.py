"""The papers' models in one line (`paper=True`), beside the textbook loops."""

from typing import Any

import numpy as np
import pytest

from oracles.ensemble_loop import e_doebe_matrix, joint_log_density, weigh
from oracles.loop_filter import loop_filter
from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.presets import PRINTED
from streamgp.models.registry import make_spec
from streamgp.numerics import tree

pytestmark = pytest.mark.slow

ROWS, WARMUP = 130, 60


def rule_of(spec: Any, bases: int, copies: int) -> dict[str, Any]:
    """Return how the oracle weighs experts, basis by basis, as the papers say."""
    count = bases * copies
    if spec.rule == "e-doebe":
        return {"transition": e_doebe_matrix(bases, copies, 0.01)}
    if spec.rule == "switching":
        leave = 1e-3 / max(count - 1, 1)
        return {"transition": np.full((count, count), leave) + (1.0 - leave * count) * np.eye(count)}
    return {"threshold": 1e-16}


@pytest.mark.parametrize("name", PRINTED)
def test_the_model_of_a_paper_is_the_textbooks_loop(name: str):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (ROWS, 2))
    y = np.sin(3.0 * X[:, 0] + (np.arange(ROWS) > 100)) + 0.2 * rng.normal(size=ROWS)
    options = {} if "gp" in name else {"features_per_basis": 12}
    model = StreamingGPRegressor(name, warmup=WARMUP, paper=True, **options).partial_fit(X[:WARMUP], y[:WARMUP])
    state: Any = model._learner.state
    center, scale = float(state.targets.mean[0]), float(state.targets.scale[0])
    inputs, target = state.inputs.standardised(X[WARMUP:]), (y[WARMUP:, None] - center) / scale
    walks = [float(each.removeprefix("walk ")) for each in make_spec(name).dynamics if each != "static"]
    q = [0.0] * (len(make_spec(name).dynamics) - len(walks)) + walks
    runs = []
    for group in state.model.groups:
        for i in range(len(group.noise.prior_var)):
            Phi = np.asarray(tree.map(lambda a, i=i: a[i], group.basis)(inputs))
            v, noise = (float(np.ravel(each[i])[0]) for each in (group.noise.prior_var, group.noise.noise_var))
            runs += [
                loop_filter(Phi, target, prior_var=v, noise_var=noise, decay=1.0, diffusion=each / v, gaps=None)
                for each in q  # absolute: q is added to the variance of each weight, whatever v is
            ]
    runs = [runs[i] for i in np.argsort(state.model.order)]
    loc, var = (np.stack([getattr(run, each) for run in runs], axis=1) for each in ("loc", "var"))
    weights = weigh(joint_log_density(target, loc, var), **rule_of(make_spec(name), len(runs) // len(q), len(q)))
    w = np.exp(weights.before)
    mean = np.sum(w * loc[:, :, 0], axis=1)
    variance = np.sum(w * (var + np.square(loc[:, :, 0] - mean[:, None])), axis=1)
    found = evaluate(model, X[WARMUP:], y[WARMUP:], progress=False)
    np.testing.assert_allclose(np.ravel(found.mean), center + scale * mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(np.ravel(found.std), scale * np.sqrt(variance), rtol=1e-7)


@pytest.mark.parametrize("name", ["default", "fast", "best", "linear"])
def test_what_no_paper_prints_is_refused(name: str):
    with pytest.raises(ValueError, match=f"paper: expected the model of a paper, e-doebe, .*got '{name}'"):
        StreamingGPRegressor(name, paper=True).partial_fit(np.zeros((3, 1)), np.zeros(3))
