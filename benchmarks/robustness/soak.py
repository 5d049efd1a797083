"""Ten million rows: checks that a stream stays finite, positive definite, right and small.

    python -m benchmarks.robustness.soak --out benchmarks/results/soak.json

Two parts, on targets with noise of 20% and on targets with next to none. *Filters*: one expert each of constant
weights, of a random walk and of mean reversion; what they predict after so many rows is compared with square-root
filters that run beside them. *Default*: all dynamics and kinds of noise of the default over Fourier features, guard
and recalibration on, through `evaluate`, with glitches in 0.2% of the targets, and a function that changes at once in
the middle of every tenth of the stream; errors, bands and memory by tenths.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.common.paths import ROOT
from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases import Fourier
from streamgp.filters.dynamics import parse
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.numerics.threads import one_blas_thread
from streamgp.weights import BMA

sys.path.append(str(ROOT / "tests"))

from oracles.square_root import square_root_filter

NOISE_VARS = {"noise": 0.04, "next to no noise": 4e-10}
PAIRS, INPUTS, CHUNK = 25, 2, 4096
PRIOR_VAR = 1.5
DYNAMICS = {"static": (1.0, 0.0), "walk 0.001": (1.0, 1e-3), "revert 0.999": (0.999, 1.0 - 0.999**2)}
MEMORY = 5  # chunks after which mean reversion has forgotten all before: 0.999 to the power of their rows is 1e-9
FREQUENCIES = np.random.default_rng(0).normal(size=(PAIRS, INPUTS))
GLITCHES, TENTHS = 0.002, 10


def kilobytes() -> int:
    """Return the memory of this process in use now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def features(X: np.ndarray) -> np.ndarray:
    """Return what the experts of the first part see."""
    angle = X @ FREQUENCIES.T
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1) / np.sqrt(PAIRS)


def rows(i: int, noise_var: float) -> tuple[np.ndarray, np.ndarray]:
    """Return chunk i of the first part: a function of the features that drifts where there is noise."""
    rng = np.random.default_rng([7, i])
    X = rng.normal(size=(CHUNK, INPUTS))
    weights = np.random.default_rng(1).normal(size=2 * PAIRS)
    turned = weights + (0.0 if noise_var < 1e-6 else 0.3 * np.sin(i / 50 + np.arange(2 * PAIRS)))
    return X, features(X) @ turned + np.sqrt(noise_var) * rng.normal(size=CHUNK)


def filters(number: int, noise_var: float) -> dict[str, Any]:
    """Return the largest differences from square-root filters by expert, and what became of the covariances."""
    chunks = number // CHUNK
    marks = sorted({int(share * chunks) - 1 for share in (0.01, 0.1, 0.5, 1.0)} - {-1})
    options = [
        {"decay": d, "diffusion": q, "prior_var": PRIOR_VAR, "noise_var": noise_var} for d, q in DYNAMICS.values()
    ]
    unknown = np.zeros(2 * PAIRS), np.sqrt(PRIOR_VAR) * np.eye(2 * PAIRS)
    beliefs = [unknown for _ in DYNAMICS]
    found: dict[str, dict[str, float]] = {name: {} for name in DYNAMICS}
    memory = []
    with jax.enable_x64(True):
        basis = Fourier(jnp.asarray(FREQUENCIES), jnp.ones(INPUTS))
        experts = [Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(noise_var), parse(name)) for name in DYNAMICS]
        model = ensemble(experts, BMA())
        state = model.init(keys.key(0))
        for i in range(chunks):
            X, y = rows(i, noise_var)
            Phi = features(X)
            state, info = model.update(state, jnp.asarray(X), jnp.asarray(y[:, None]))
            loc, var = (np.asarray(a)[:, :, 0] for a in (info.predictive.loc, info.predictive.var))
            for k, name in enumerate(DYNAMICS):
                if options[k]["decay"] < 1.0 and not any(mark - MEMORY <= i <= mark for mark in marks):
                    beliefs[k] = unknown
                    continue
                with one_blas_thread():
                    want_loc, want_var, *beliefs[k] = square_root_filter(Phi, y, *beliefs[k], block=32, **options[k])
                if i in marks:
                    off = {
                        "mean": float(np.abs(loc[:, k] - want_loc).max() / want_loc.std()),
                        "variance": float(np.abs(var[:, k] / want_var - 1.0).max()),
                    }
                    found[name][str((i + 1) * CHUNK)] = off
            if i in marks:
                memory.append(kilobytes())
                print(f"{(i + 1) * CHUNK:,} rows, {memory[-1]:,} kB", flush=True)
    cov = np.asarray(state.filters[0].cov[0])
    return {
        "off_by": found,
        "symmetric": bool((cov == cov.swapaxes(-1, -2)).all()),
        "least_eigenvalue": {n: float(np.linalg.eigvalsh(c).min()) for n, c in zip(DYNAMICS, cov, strict=True)},
        "kilobytes": memory,
    }


def default(number: int, noise_var: float) -> dict[str, Any]:
    """Return errors, bands and memory of the default's dynamics and noises over one basis, by tenths of a stream."""
    model = StreamingGPRegressor(bases=("fourier",), features_per_basis=50, warmup=1000, random_state=0)
    chunks = max(number // (TENTHS * CHUNK), 2)
    tenths = []
    for tenth in range(TENTHS):
        kept: list[tuple[np.ndarray, ...]] = []
        for i in range(chunks):
            rng = np.random.default_rng([11, tenth, i])
            X = rng.normal(size=(CHUNK, INPUTS))
            turn = tenth + (i >= chunks // 2)  # the function changes from one row to the next
            y = np.sin(X[:, 0] + turn) + 0.5 * X[:, 1] * np.cos(turn) + np.sqrt(noise_var) * rng.normal(size=CHUNK)
            glitch = rng.random(CHUNK) < GLITCHES
            found = evaluate(model, X, y + glitch * rng.choice([-100.0, 100.0], CHUNK))
            error = y - found.mean
            kept.append(
                (error[~glitch], (error / found.std)[~glitch], ((y >= found.q05) & (y <= found.q95))[~glitch])
            )
        error, score, inside = (np.concatenate(part) for part in zip(*kept, strict=True))
        tenths.append(
            {
                "finite": bool(np.isfinite(score).all()),
                "rmse": float(np.sqrt(np.mean(error**2))),
                "median_error": float(np.median(np.abs(error))),
                "error_over_std": float(np.mean(score**2)),
                "median_error_over_std": float(np.median(np.abs(score))),
                "within_90": float(np.mean(inside)),
                "kilobytes": kilobytes(),
            }
        )
        print(tenths[-1], flush=True)
    return {"rows": TENTHS * chunks * CHUNK, "tenths": tenths}


def main() -> None:
    """Run the parts and write what was found."""
    from benchmarks.common.machine import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--parts", default="filters,default", help="filters, default or both")
    parser.add_argument("--noise", default=",".join(NOISE_VARS), help="with commas")
    parser.add_argument("--out", type=Path, help="a JSON file; what is there of other parts stays")
    args = parser.parse_args()
    stored = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    stored["machine"] = machine()
    for part in args.parts.split(","):
        for noise in args.noise.split(","):
            began = time.monotonic()
            found = {"filters": filters, "default": default}[part](args.rows, NOISE_VARS[noise])
            stored[f"{part}, {noise}"] = {"asked": args.rows, **found, "seconds": round(time.monotonic() - began)}
            print(part, noise, json.dumps(stored[f"{part}, {noise}"], indent=1), flush=True)
            if args.out:
                args.out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
