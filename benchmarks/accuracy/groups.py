"""Promises by group: what is found among twenty groups, and how many rows of each group conformal bands hold.

``python -m benchmarks.accuracy.groups`` writes ``results/groups.json`` after every part and goes on where it stopped;
``python -m benchmarks.pages.groups`` renders them in docs/research/bands.md.

- *Discoveries*: 200 runs of 20 groups with 1,500 rows each, in random order, of 90% bands. Three groups are missed
  otherwise than promised: 22% of their rows, 22% from their middle on, and 2%. The others are missed as promised, or
  at the edge of what counts as that, 12%. Besides, what a test at 5% of each group by itself would find, which looks
  once, at the end.
- *Coverage*: bands by fifths of an input and levels of another, around a line that knows one noise, and `fast`, on
  8,000 rows whose noise follows both, and on ones where it jumps to ten times as much in one group alone.
"""

import json
from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation.coverage_tests import RATE, CoverageTests

RESULTS = RESULTS_DIR / "groups.json"
RUNS, GROUPS, EACH = 200, 20, 1_500
BAD = {2: 0.22, 7: 0.22, 11: 0.02}  # group 7 from its middle on
LEVEL, WARMUP, ROWS = 0.9, 300, 8_000
MODELS = ("linear", "fast")
SETTLED = 1_000  # rows of a group


def discoveries(usual: float) -> dict:
    """Return what is found where the other groups are missed with this probability."""
    found = {"all three found": 0, "share of false discoveries": [], "rows until found": {g: [] for g in BAD}}
    once = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        groups = rng.permutation(np.repeat(np.arange(GROUPS), EACH))
        number = np.zeros(len(groups), int)
        for g in range(GROUPS):
            number[groups == g] = np.arange(EACH)
        share = np.full(len(groups), usual)
        for g, bad in BAD.items():
            share[(groups == g) & ((g != 7) | (number >= EACH // 2))] = bad
        missed = rng.random(len(groups)) < share
        tests = CoverageTests(LEVEL, np.ones(GROUPS, bool))
        told = {each.group: each for each in tests.update(missed, groups[:, None], np.arange(len(groups)))}
        found["all three found"] += set(BAD) <= set(told)
        found["share of false discoveries"].append(len(set(told) - set(BAD)) / max(len(told), 1))
        for g in set(BAD) & set(told):
            found["rows until found"][g].append(int(number[told[g].row]) - (EACH // 2 if g == 7 else 0))
        counts = np.array([missed[groups == g].sum() for g in range(GROUPS)])
        tails = np.minimum(binom.sf(counts - 1, EACH, 0.1), binom.cdf(counts, EACH, 0.1))
        single = set(np.flatnonzero(tails < 0.025).tolist())
        once.append(len(single - set(BAD)) / max(len(single), 1))
    false = found["share of false discoveries"]
    return {
        "missed": usual,
        "runs": RUNS,
        "rate": RATE,
        "all_three_found": found["all three found"],
        "false_discovery_rate": float(np.mean(false)),
        "standard_error": float(np.std(false) / np.sqrt(RUNS)),
        "runs_with_a_false_one": int(np.count_nonzero(false)),
        "median_rows_until_found": {str(g): float(np.median(n)) for g, n in found["rows until found"].items()},
        "tested_once_each_at_5_percent": float(np.mean(once)),
    }


def streams(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield streams of one line whose noise differs by group."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (ROWS, 3))
    X[:, 2] = rng.integers(0, 4, ROWS)
    noise, kind = rng.normal(size=ROWS), X[:, 2].astype(int)
    smooth = np.exp(2.0 * X[:, 1]) * np.array([0.1, 0.3, 1.0, 3.0])[kind]
    jumps = np.where((np.arange(ROWS) > ROWS // 2) & (kind == 2), 10.0, 1.0)
    yield "follows both inputs", X, X[:, 0] + smooth * noise
    yield "jumps in one group", X, X[:, 0] + jumps * noise


def coverage(model: str, seed: int, X: np.ndarray, y: np.ndarray) -> dict:
    """Return how far from the level the shares held are, of the worst group, with groups and without."""
    places = [np.minimum((X[:, 1] + 1.0) * 2.5, 4).astype(int), 5 + X[:, 2].astype(int)]
    off: dict = {}
    for name, groups in (("with", [1, 2]), ("without", None)):
        kept = StreamingGPRegressor(model, warmup=WARMUP, random_state=seed)
        result = evaluate(kept, X, y, conformal=LEVEL, groups=groups, progress=False)
        low, high = result.conformal.T
        held = ((low <= y) & (y <= high))[WARMUP:]
        own = [held[(np.stack(places, axis=1)[WARMUP:] == g).any(axis=1)] for g in range(9)]
        off[name] = {
            "first": max(abs(float(each[:SETTLED].mean()) - LEVEL) for each in own),
            "later": max(abs(float(each[SETTLED:].mean()) - LEVEL) for each in own if len(each) > 1.3 * SETTLED),
            "all": max(abs(float(each.mean()) - LEVEL) for each in own),
            "width": result.metrics["conformal"]["width"],
            "unbounded_rows": result.metrics["conformal"]["unbounded_rows"],
        }
    return off


def main() -> None:
    """Measure, write the results after every part, and go on where it stopped."""
    found: dict = {"machine": machine(), "discoveries": [], "coverage": []}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text())
    for usual in (0.1, 0.12)[len(found["discoveries"]) :]:
        found["discoveries"].append(discoveries(usual))
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    runs = [(model, seed, each) for model in MODELS for seed in range(3) for each in streams(seed)]
    for model, seed, (name, X, y) in runs[len(found["coverage"]) :]:
        found["coverage"].append({"model": model, "stream": name, "seed": seed, **coverage(model, seed, X, y)})
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
