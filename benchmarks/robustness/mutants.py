"""A check of the tests: faults are put into the core one at a time, and the fast tests must fail for each.

    python -m benchmarks.robustness.mutants --out benchmarks/results/mutants.json

A fault is a sign, an index, a factor, or something that a prediction sees too late. It is put into a copy of the
sources; the fast tests of the folder named with it run on the copy until one fails, then those of the models, the
contracts, and all. A fault is reported as alive if none does.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import campaigns
from benchmarks.common.paths import ROOT


class Fault(NamedTuple):
    """A text of a file, what is put in its place, and the folders whose tests should see it."""

    file: str
    text: str
    instead: str
    tests: str


FAULTS = [
    Fault("filters/kalman.py", "* state.cov - W.T @ W", "* state.cov + W.T @ W", "unit/filters"),
    Fault("filters/kalman.py", "mean = a[-1] * state.mean", "mean = state.mean", "unit/filters"),
    Fault("filters/kalman.py", "xp.maximum(var - (V * V).sum(0), noise.noise_var)", "var", "unit/filters"),
    Fault("filters/kalman.py", "xp.triu(solve_lower(L, C))", "xp.tril(solve_lower(L, C))", "unit/filters"),
    Fault("filters/dynamics.py", "xp.minimum(one, other)", "xp.maximum(one, other)", "unit/filters"),
    Fault("filters/guard.py", "most = MAX_LEARNT *", "most = 1e9 *", "unit/filters"),
    Fault("filters/guard.py", "RUN_MEMORY * guard.run + ", "RUN_MEMORY * guard.run - ", "unit/filters"),
    Fault("filters/noise.py", "states.rate / (states.shape[:, None, :, None] - 1.0)",
          "states.rate / states.shape[:, None, :, None]", "unit/filters"),
    Fault("filters/noise.py", "NoiseState(*(a[at] for a in states))", "NoiseState(*(a[at + 1] for a in states))",
          "unit/filters"),
    Fault("filters/laplace.py", "flat[:, later] += step.shift * V[:, 0]", "flat[:, later] -= step.shift * V[:, 0]",
          "unit/filters"),
    Fault("filters/engine/blocks.py", "return clock - start[:, None]", "return clock - clock[:, :1]", "unit/models"),
    Fault("weights/scan.py", "mixed[1:], of_rules[1:])", "mixed[:-1], of_rules[:-1])", "unit/weights"),
    Fault("weights/scan.py", "said.append(weighed(rule, state, absent))",
          "said.append(weighed(rule, state, absent)); said[-2] = said[-1]", "unit/weights"),
    Fault("weights/rules.py", "normalised(self.forgetting * log_weights)", "normalised(log_weights)", "unit/weights"),
    Fault("likelihoods/recalibration_by_spread.py", "*(a[:-1] for a in known)", "*(a[1:] for a in known)",
          "unit/likelihoods"),
    Fault("likelihoods/running_moments.py", "MEMORY * rows + 1.0", "rows + 1.0", "unit/likelihoods"),
    Fault("likelihoods/noise_by_input.py", "var - at * at / s", "var", "unit/likelihoods"),
    Fault("likelihoods/noise_features.py", "quantile(x, np.arange(1, PLACES)", "quantile(x, np.arange(PLACES - 1)",
          "unit/likelihoods"),
    Fault("likelihoods/recalibration.py", "side = xp.minimum(p, 1.0 - p)", "side = p", "unit/likelihoods"),
    Fault("numerics/standardise.py", "self.m2 + m2 + between", "self.m2 + m2", "unit/numerics"),
    Fault("numerics/mixtures.py", "(m.var + xp.square(m.loc - mean[:, None]))", "m.var", "unit/likelihoods"),
    Fault("models/fitting/gaussian_evidence.py", "-steep - by_s2 * s2", "-steep - by_s2", "unit/models"),
    Fault("models/fitting/gaussian_evidence.py", "explained = ratio * squares / grown", "explained = ratio * squares",
          "unit/models"),
    Fault("models/gaussian/mixing.py", "[back], 0, 1)", ", 0, 1)", "unit/models"),
    Fault("stream/lags.py", "len(known) - lag + own", "len(known) - lag + 1", "unit/stream"),
    Fault("stream/driver.py", "lags.learn(stand, outliers)", "lags.learn(rows.y, outliers)", "unit/stream"),
    Fault("bases/kernels.py", "0.5 * (root / lengthscale - root", "0.5 * (root / lengthscale + root", "unit/bases"),
]  # fmt: skip


def _failing(tests: str, sources: Path) -> str | None:
    """Run tests on sources until one fails, and return pytest's line of it."""
    environment = os.environ | {"PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0] if lines else f"ENDED with {done.returncode}: {tests}"


def _seen(fault: Fault) -> dict[str, Any]:
    """Put a fault into a copy of the sources, and return which test saw it."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "src")
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        file = sources / "streamgp" / fault.file
        before = file.read_text()
        if fault.text not in before:
            raise SystemExit(f"{fault.file}: expected the text {fault.text!r}, which is no longer there")
        file.write_text(before.replace(fault.text, fault.instead, 1))
        failed = None
        for tests in (f"tests/{fault.tests}", "tests/unit/models", "tests/contracts", "tests"):
            failed = _failing(tests, sources)
            if failed:
                break
    if failed and (_failing(failed.split(" ", 1)[1], ROOT / "src") or "").startswith("FAILED"):
        raise SystemExit(f"{failed} fails without the fault, too: it has to be mended first")
    print(f"{fault.file}: {fault.instead!r}: {failed or 'ALIVE'}", file=sys.stderr, flush=True)
    seconds = round(time.perf_counter() - began, 1)
    return {**fault._asdict(), "seen_by": failed, "seconds": seconds}


def campaign(number: int, minutes: float, _: int) -> dict[str, Any]:
    """Try the first so many faults."""
    began, cases = time.perf_counter(), []
    for fault in FAULTS[:number]:
        if time.perf_counter() - began > 60.0 * minutes:
            break
        cases.append(_seen(fault))
    return {"faults": cases, "failures": [case for case in cases if case["seen_by"] is None]}


if __name__ == "__main__":
    campaigns.run(__doc__, "faults", len(FAULTS), campaign)
