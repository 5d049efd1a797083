"""A check that every process gives the same numbers: under load, and with any number of BLAS threads.

    python -m benchmarks.robustness.same_numbers --processes 20 --out benchmarks/results/same_numbers.json

Every model learns the same rows in so many processes of its own, two at a time beside one that keeps BLAS busy, with
1, 2 and 4 threads for BLAS by turns. What they predict is compared bit for bit. The stream is a plane with noise of
0.4%, on which fits are as ill-posed as they come.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.common.paths import ROOT
from streamgp.models.presets import PRESETS

WARMUP, ROWS = 500, 1_000
THREADS = (1, 2, 4)
BUSY = "import numpy as np\na = np.random.default_rng(0).normal(size=(1500, 1500))\nwhile True: a @ a"


def one(model: str) -> None:
    """Print a hash of everything that a model predicts, and the largest number."""
    import numpy as np

    from streamgp import StreamingGPRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.004 * rng.normal(size=ROWS)
    learner = StreamingGPRegressor(model=model, warmup=WARMUP, random_state=0).partial_fit(X[:WARMUP], y[:WARMUP])
    digest, error = hashlib.sha256(), []
    for at in range(WARMUP, ROWS, 50):
        rows = slice(at, at + 50)
        mean, std = learner.predict(X[rows], return_std=True)
        digest.update(mean.tobytes() + std.tobytes())
        error.append((mean - y[rows]) / std)
        learner.partial_fit(X[rows], y[rows])
    print(json.dumps({"hash": digest.hexdigest()[:16], "error_over_std": float(np.mean(np.square(error)))}))


def run(model: str, threads: int, cache: str) -> dict:
    """Do the same in a process of its own."""
    environment = os.environ | {
        "OPENBLAS_NUM_THREADS": str(threads),
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    words = [sys.executable, "-m", "benchmarks.robustness.same_numbers", "--one", model]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{model}: {done.stderr}")
    return {"threads": threads, **json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    """Run them all and write what they said."""
    from benchmarks.common.machine import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(PRESETS), help="with commas; all presets by default")
    parser.add_argument("--processes", type=int, default=20, help="of each model")
    parser.add_argument("--out", type=Path, help="a JSON file; what is there of other models stays")
    parser.add_argument("--cache", default="/tmp/streamgp-same-numbers", help="directory of compiled programs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.one)
        return
    stored = json.loads(args.out.read_text()) if args.out and args.out.exists() else {"models": {}}
    stored["machine"] = machine()
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        for model in args.models.split(","):
            with ThreadPoolExecutor(2) as pool:
                threads = [THREADS[i % len(THREADS)] for i in range(args.processes)]
                runs = list(pool.map(lambda t, model=model: run(model, t, args.cache), threads))
            found = sorted({each["hash"] for each in runs})
            stored["models"][model] = {
                "processes": len(runs),
                "values": len(found),
                "by_threads": {str(t): len({r["hash"] for r in runs if r["threads"] == t}) for t in THREADS},
                "error_over_std": runs[0]["error_over_std"],
            }
            print(model, stored["models"][model], flush=True)
            if args.out:
                args.out.write_text(json.dumps(stored, indent=1) + "\n")
    finally:
        busy.kill()
    if any(each["values"] > 1 for each in stored["models"].values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
