"""300,000 rows: memory stays flat, the covariance positive definite, the numbers right.

Run as a program, this file is the stream (a process of its own, so that its memory can be measured); the tests
recompute its predictions meanwhile, from the same rows, by other means.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from oracles.square_root import square_root_filter

CHUNK, CHUNKS = 1024, 293
MARKS = (97, 195, 292)  # chunks whose predictions are kept: after 100,000 rows, 200,000, the last
MEMORY = 20  # chunks after which mean reversion has forgotten all before: 0.999 to the power of their rows is 1e-9
PAIRS, INPUTS = 25, 2
PRIOR_VAR, NOISE_VAR, SIGNIFICANT = 1.5, 0.04, 1e-6
DYNAMICS = {"static": (1.0, 0.0), "walk 0.001": (1.0, 1e-3), "revert 0.999": (0.999, 1.0 - 0.999**2)}
FREQUENCIES = np.random.default_rng(0).normal(size=(PAIRS, INPUTS))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in use from /proc"),
]


def chunk(i: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a rule that drifts slowly."""
    rng = np.random.default_rng([7, i])
    X = rng.normal(size=(CHUNK, INPUTS))
    y = np.sin(X[:, 0] + 0.02 * i) + 0.5 * X[:, 1] + np.sqrt(NOISE_VAR) * rng.normal(size=CHUNK)
    return X, y


def features(X: np.ndarray) -> np.ndarray:
    angle = X @ FREQUENCIES.T
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1) / np.sqrt(PAIRS)


def resident_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def stream_many_rows(target: str) -> None:
    """Feed the rows through one ensemble; write what the tests look at to the file `target`."""
    import jax
    import jax.numpy as jnp

    from streamgp.bases import Fourier
    from streamgp.filters.dynamics import parse
    from streamgp.models.expert import Expert
    from streamgp.models.gaussian.model import ensemble
    from streamgp.numerics import keys
    from streamgp.weights import BMA

    kept, memory = {}, []
    with jax.enable_x64(True):
        basis = Fourier(jnp.asarray(FREQUENCIES), jnp.ones(INPUTS))
        experts = [Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(NOISE_VAR), parse(name)) for name in DYNAMICS]
        model = ensemble(experts, BMA())
        state = model.init(keys.key(0))
        for i in range(CHUNKS):
            X, y = chunk(i)
            state, info = model.update(state, jnp.asarray(X), jnp.asarray(y[:, None]))
            if i in MARKS:
                kept[f"loc_{i}"] = np.asarray(info.predictive.loc[:, :, 0])
                kept[f"var_{i}"] = np.asarray(info.predictive.var[:, :, 0])
                kept[f"log_weights_{i}"] = np.asarray(info.predictive.log_weights)
                memory.append(resident_kilobytes())
        np.savez(target, cov=state.filters[0].cov[0], mean=state.filters[0].mean[0], memory=memory, **kept)


@pytest.fixture(scope="module")
def soak(tmp_path_factory) -> dict[str, np.ndarray]:
    """What the stream left behind, with the recomputed predictions of the marked chunks beside it."""
    target = tmp_path_factory.mktemp("soak") / "soak.npz"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, __file__, str(target)], env=environment, stderr=subprocess.PIPE, text=True
    )
    # One thread: the matrices are small, and the other core is at work.
    with threadpool_limits(1):
        recomputed = recompute()
    _, complaints = process.communicate()
    assert process.returncode == 0, complaints
    with np.load(target) as file:
        return dict(file) | recomputed


def recompute() -> dict[str, np.ndarray]:
    """Means and variances of the marked chunks: from sufficient statistics, and by square-root filters."""
    F = 2 * PAIRS
    unknown = np.zeros(F), np.sqrt(PRIOR_VAR) * np.eye(F)
    moving = {k: unknown for k, (_, q) in enumerate(DYNAMICS.values()) if q > 0.0}
    options = [
        {"decay": d, "diffusion": q, "prior_var": PRIOR_VAR, "noise_var": NOISE_VAR} for d, q in DYNAMICS.values()
    ]
    precision, moment = np.eye(F) / PRIOR_VAR, np.zeros(F)
    kept = {}
    for i in range(CHUNKS):
        X, y = chunk(i)
        Phi = features(X)
        loc, var = np.zeros((CHUNK, len(DYNAMICS))), np.zeros((CHUNK, len(DYNAMICS)))
        if i in MARKS:
            loc[:, 0], var[:, 0] = regress(precision, moment, Phi, y)
        precision += Phi.T @ Phi / NOISE_VAR
        moment += Phi.T @ y / NOISE_VAR
        remembered = any(mark - MEMORY <= i <= mark for mark in MARKS)
        for k, belief in moving.items():
            if options[k]["decay"] < 1.0 and not remembered:
                moving[k] = unknown
                continue
            loc[:, k], var[:, k], *moving[k] = square_root_filter(Phi, y, *belief, block=32, **options[k])
        if i in MARKS:
            kept |= {f"want_loc_{i}": loc, f"want_var_{i}": var}
    return kept


def regress(
    precision: np.ndarray, moment: np.ndarray, Phi: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One-step-ahead predictions of a chunk by Bayesian regression on all rows before each, solved afresh."""
    loc, var = np.zeros(CHUNK), np.zeros(CHUNK)
    precision, moment = precision.copy(), moment.copy()
    for j, phi in enumerate(Phi):
        solved = np.linalg.solve(precision, np.stack([phi, moment], axis=1))
        loc[j], var[j] = phi @ solved[:, 1], phi @ solved[:, 0] + NOISE_VAR
        precision += np.outer(phi, phi) / NOISE_VAR
        moment += phi * y[j] / NOISE_VAR
    return loc, var


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("k", range(len(DYNAMICS)), ids=DYNAMICS)
def test_predictions_are_a_recomputation(soak, k, mark):
    want = soak[f"want_loc_{mark}"][:, k]
    np.testing.assert_allclose(soak[f"loc_{mark}"][:, k], want, rtol=0.0, atol=SIGNIFICANT * np.abs(want).max())
    np.testing.assert_allclose(soak[f"var_{mark}"][:, k], soak[f"want_var_{mark}"][:, k], rtol=SIGNIFICANT)


@pytest.mark.parametrize("k", range(len(DYNAMICS)), ids=DYNAMICS)
def test_the_covariance_is_symmetric_and_positive_definite(soak, k):
    cov = soak["cov"][k]
    np.testing.assert_array_equal(cov, cov.T)
    assert np.linalg.eigvalsh(cov).min() > 0.0
    assert np.isfinite(soak["mean"][k]).all()


def test_mean_reversion_bounds_what_a_random_walk_does_not(soak):
    assert np.linalg.eigvalsh(soak["cov"][2]).max() <= PRIOR_VAR * (1.0 + 1e-9)


def test_memory_stays_flat(soak):
    assert soak["memory"].max() <= 1.05 * soak["memory"][0]


def test_weights_stay_normalised(soak):
    np.testing.assert_allclose(np.exp(soak[f"log_weights_{MARKS[-1]}"]).sum(1), 1.0, rtol=1e-12)


if __name__ == "__main__":
    stream_many_rows(sys.argv[1])
