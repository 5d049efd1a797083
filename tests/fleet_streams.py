"""Long frames of keyed streams, with all that goes wrong in them, and what a fleet makes of them."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from oracles.fleet_loop import FleetLoop, Row
from streamgp import StreamingGPFleet

VALUES = ("mean", "std", "q05", "q50", "q95")


def frame(keys: int = 7, rows: int = 60, seed: int = 0, glitches: bool = True) -> pl.DataFrame:
    """Return rows of keys in any mixture: different scales, irregular times, gaps, glitches, a jump, late keys."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list] = {"unique_id": [], "ds": [], "y": [], "a": [], "b": []}
    last, clock, count = np.zeros(keys), rng.uniform(0.0, 5.0, keys), np.zeros(keys, int)
    level, scale = rng.normal(size=keys) * 4.0, np.exp(rng.normal(size=keys))
    for i in range(keys * rows):
        k = int(
            rng.integers(max(keys - 2 + (4 * i >= 2 * keys * rows) + (4 * i >= 3 * keys * rows), 1))
        )  # two come late
        x = rng.normal(size=2)
        last[k] = 0.6 * last[k] + 0.5 * x[0] + 0.3 * np.sin(2.0 * x[1]) + 0.4 * rng.normal()
        clock[k] += 1.0 if rng.random() < 0.8 else float(rng.exponential(4.0)) + 0.1
        count[k] += 1
        y = level[k] + scale[k] * (last[k] + (30.0 if k == 1 and count[k] > 40 else 0.0))
        if glitches:
            odd = rng.random()
            y = np.nan if odd < 0.04 else y + 60.0 * scale[k] if odd < 0.06 else y
            x[1] = np.nan if odd > 0.95 else x[1]
        for name, value in zip(columns, (f"key {k}", clock[k], y, *x), strict=True):
            columns[name].append(value)
    return pl.DataFrame(columns)


def fleet(**options) -> StreamingGPFleet:
    """Return a fleet with a short warm-up."""
    return StreamingGPFleet(**({"warmup": 110, "season": None} | options))


def learnt(model: StreamingGPFleet, rows: pl.DataFrame, sizes: Sequence[int] = ()) -> pl.DataFrame:
    """Send rows through a fleet in calls of these sizes, the rest in one; return what was predicted of them."""
    parts, at = [], 0
    for size in [*sizes, len(rows)]:
        if at < len(rows):
            parts.append(model.evaluate(rows[at : at + size]).frame)
            at += size
    return pl.concat(parts)


def assert_same(one: pl.DataFrame, other: pl.DataFrame, rtol: float = 1e-9) -> None:
    """Check that two fleets predicted the same."""
    for name in (*VALUES, "log_density"):
        if name in one.columns:
            np.testing.assert_allclose(
                one[name].to_numpy(), other[name].to_numpy(), rtol=rtol, atol=1e-10, err_msg=name
            )


def steps_ahead(model: StreamingGPFleet, h: int, **inputs: float) -> pl.DataFrame:
    """Return the next rows of every key, at the usual gaps, with these inputs."""
    names = [key for key in model.keys_ for _ in range(h)]
    return pl.DataFrame({"unique_id": names}).with_columns(**{name: pl.lit(x) for name, x in inputs.items()})


def textbooks(model: StreamingGPFleet, rows: pl.DataFrame, key: str) -> Iterator[tuple[int, FleetLoop, Row]]:
    """Yield the number of each row of a key, the textbook's filter after it, and what that predicted of it."""
    engine = model.learner.engine
    due = [engine.fitted_at]
    while len(due) < len(engine.model.priors):
        due.append(int(np.sqrt(2.0) * due[-1]) + 1)
    mine = rows.with_row_index().filter(unique_id=key)
    which = sum(at <= mine["index"][0] for at in due[1:])
    loop = FleetLoop(engine.model, which)

    def renew(rows: float) -> None:
        nonlocal which
        while which + 1 < len(due) and rows >= due[which + 1]:
            which += 1
            loop.renew(which)

    for index, time, y, a, b in mine.select("index", "ds", "y", "a", "b").rows():
        renew(index)
        row = loop.step(np.array([a, b]), time, y)
        yield index, loop, row
    renew(np.inf)
