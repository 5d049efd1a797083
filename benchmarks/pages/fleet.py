"""The tables of docs/research/fleets.md, from ``results/fleet_*.json``: ``python -m benchmarks.pages.fleet``."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import fleet as accuracy
from benchmarks.accuracy import fleet_autoets, fleet_bands, fleet_day_ahead, fleet_totals
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS, RESULTS_DIR
from benchmarks.speed import fleet as speed
from benchmarks.speed import fleet_asleep, fleet_horizon, fleet_many_rows, fleet_ray

PAGE = DOCS / "research" / "fleets.md"


def pages() -> dict[Path, str]:
    """Return the page with its tables renewed."""
    measured, scored = json.loads(speed.RESULTS.read_text()), json.loads(accuracy.RESULTS.read_text())
    tables = {
        "speed": speed_table(measured),
        "asleep": asleep_table(json.loads(fleet_asleep.RESULTS.read_text())),
        "many rows": many_rows_table(json.loads(fleet_many_rows.RESULTS.read_text())["sizes"]),
        "horizon": horizon_table(json.loads(fleet_horizon.RESULTS.read_text())["sizes"]),
        "kills": kills_table(json.loads((RESULTS_DIR / "fleet_kills.json").read_text())),
        "ray": ray_table(json.loads(fleet_ray.RESULTS.read_text())),
        "accuracy": accuracy_table(scored["data"]),
        "new keys": new(scored["data"]),
        "day ahead": day_ahead_table(json.loads(fleet_day_ahead.RESULTS.read_text())["data"]),
        "bands": bands_table(json.loads(fleet_bands.RESULTS.read_text())["versions"]),
        "totals": totals_table(json.loads(fleet_totals.RESULTS.read_text())["data"]),
        "autoets": autoets_table(json.loads(fleet_autoets.RESULTS.read_text())),
    }
    return {PAGE: markdown.with_tables(PAGE, tables)}


def speed_table(found: dict[str, Any]) -> str:
    """Return a row for each number of keys, then the growth and river."""
    columns = ("keys", "seconds a tick: median, 99%", "processor seconds a tick", "rows a processor second")
    columns += ("peak memory, MiB", "first row to end of warm-up, s")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for size in found["sizes"]:
        lines.append(
            f"| {size['keys']:,} | {size['tick_seconds']['median']:.3f}, {size['tick_seconds_p99']:.3f} | "
            f"{size['tick_processor_seconds']['median']:.3f} | {size['rows_per_processor_second']:,.0f} | "
            f"{size['peak_memory_mb']:,.0f} | {size['cold_start_seconds']:.0f} |"
        )
    if "river" in found:
        river = found["river"]
        lines.append(
            f"| river, a dictionary of {river['keys']:,} models | | | {river['rows_per_processor_second']:,.0f} | | |"
        )
    slope = found["growth"]["tick_processor_seconds"]
    return "\n".join(lines) + f"\n\nFrom 1,000 keys on the processor time of a tick grows as keys^{slope:.2f}."


def asleep_table(found: dict[str, Any]) -> str:
    """Return a row for each fleet."""
    columns = ("keys, awake", "memory, MiB: highest, held", "processor seconds a tick: all awake, a tenth asleep")
    columns += ("save, s",)
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for size in found["sizes"]:
        awake, woken = size["tick_processor_seconds"], size["tick_processor_seconds_with_a_tenth_woken"]
        woken = f", {woken['median']:.3f}" if size["keys"] > size["awake"] else ""
        lines.append(
            f"| {size['keys']:,}, {size['awake']:,} | {size['peak_memory_mb']:,.0f}, {size['held_memory_mb']:,.0f} | "
            f"{awake['median']:.3f}{woken} | {size['save_seconds']:.1f} |"
        )
    peak, held, size = (found[name] for name in ("peak_ratio", "held_ratio", "bytes_a_sleeping_key"))
    return "\n".join(lines) + (
        f"\n\nThat is {peak:.2f} times the highest memory and {held:.2f} times what is held: {size:,.0f} bytes for a "
        f"sleeping key."
    )


def many_rows_table(sizes: list[dict[str, Any]]) -> str:
    """Return a row for each number of keys."""
    lines = ["| keys | processor microseconds a row | share of the experts' filters and weights |", "|---|---|---|"]
    for size in sizes:
        each, share = (size[name]["median"] for name in ("processor_microseconds_a_row", "share_of_filters"))
        lines.append(f"| {size['keys']:,} | {each:,.1f} | {100 * share:.0f}% |")
    return "\n".join(lines)


def horizon_table(sizes: list[dict[str, Any]]) -> str:
    """Return a row for each number of keys, with inputs and without."""
    columns = ("keys", "inputs", "processor seconds a tick: without, with forecasts", "times", "bytes a key")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for size in sizes:
        plain, ahead = (size[name]["processor_seconds_a_tick"] for name in ("plain", "ahead"))
        lines.append(
            f"| {size['keys']:,} | {2 * size['inputs']} | {plain:.3f}, {ahead:.3f} | {size['times']:.2f} | "
            f"{size['bytes_a_key']:,.0f} |"
        )
    return "\n".join(lines)


def kills_table(found: dict[str, Any]) -> str:
    """Return a row for each phase."""
    lines = ["| killed | times |", "|---|---|"]
    lines += [f"| {phase} | {times} |" for phase, times in found["killed"].items()]
    failures = len(found["failures"]) or "none"
    return "\n".join(lines) + f"\n\n{found['kills']} kills of {found['runs']} fleets; failures: {failures}."


def ray_table(found: dict[str, Any]) -> str:
    """Return a row for each engine."""
    columns = ("engine, workers", "seconds a tick: median, largest", "processor seconds a tick", "of one process's")
    columns += ("Ray's start, s", "memory, MiB", "a killed worker's return, s", "largest difference")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, each in found["engines"].items():
        start, back = (
            f"{each[what]:.1f}" if what in each else ""
            for what in ("ray_start_seconds", "return_of_a_killed_worker_seconds")
        )
        lines.append(
            f"| {name} | {each['tick_seconds']['median']:.3f}, {each['tick_seconds']['max']:.3f} | "
            f"{each['processor_seconds_a_tick']:.3f} | {each['times_local_processor']:.2f} | {start} | "
            f"{each['memory_mb']:,.0f} | {back} | {each['largest_relative_difference']:.0e} |"
        )
    return "\n".join(lines)


def accuracy_table(found: dict[str, Any]) -> str:
    """Return a row for each data set and model: means over the keys, and on how many keys the fleet is better."""
    lines = [
        "| data | model | log density | CRPS | keys where the fleet is better, by each |",
        "|---|---|---|---|---|",
    ]
    for name, of in found.items():
        for label, each in of["models"].items():
            better = (
                ""
                if label == "fleet"
                else f"{each['keys_where_fleet_has_higher_log_density']}, {each['keys_where_fleet_has_lower_crps']} "
                f"of {of['keys']}"
            )
            lines.append(f"| {name} | {label} | {each['log_density']:.3f} | {each['crps']:.4f} | {better} |")
    return "\n".join(lines)


def day_ahead_table(found: dict[str, Any]) -> str:
    """Return a row for each fleet: the errors of both, and how many targets lie in the fleet's bands of 95%."""
    lines = ["| fleets | error: fleet | LightGBM, refitted daily | held of 95% |", "|---|---|---|---|"]
    for name, of in found.items():

        def said(score: str, times: float, digits: int, of: dict[str, Any] = of) -> str:
            middle, low, high = (f"{times * of[score][which]:.{digits}f}" for which in ("median", "min", "max"))
            return middle if low == high else f"{middle} ({low} to {high})"

        errors = (said(f"{model}_rmse", 1.0, 3) for model in ("fleet", "lightgbm"))
        lines.append(f"| {name} | {' | '.join(errors)} | {said('held_95', 100.0, 1)} |")
    return "\n".join(lines)


def bands_table(found: dict[str, Any]) -> str:
    """Return a row for each data set, with every version's figures before those of the last one."""
    columns = ("data", "rows", "coverage of 50, 90, 95% intervals", "log density", "CRPS", "root mean squared error")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    *_, last = found.values()
    for name in last:
        each = [version[name] for version in found.values()]
        held = "; ".join(", ".join(f"{100 * share:.1f}" for share in of["coverage"].values()) for of in each)
        scores = (", ".join(f"{of[what]:.4g}" for of in each) for what in ("pll", "crps", "rmse"))
        lines.append(f"| {name} | {last[name]['scored_rows']:,} | {held} | {' | '.join(scores)} |")
    return "\n".join(lines)


def autoets_table(found: dict[str, Any]) -> str:
    """Return the scores on the same rows, then rows a processor second of both."""
    lines = ["| keys | rows a processor second: fleet | AutoETS | ratio |", "|---|---|---|---|"]
    lines += [
        f"| {size['keys']:,} | {size['fleet_rows_per_processor_second']:,.0f} | "
        f"{size['autoets_rows_per_processor_second']:,.0f} | {size['ratio']:.0f} |"
        for size in found["speed"]
    ]
    return accuracy_table(found["data"]) + "\n\n" + "\n".join(lines)


def totals_table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return a row for each fleet: medians over its runs, with the smallest and the largest."""
    columns = ("fleet", "keys", "held of 50, 80, 95%: one step", "seven steps", "all steps", "keys by themselves")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, runs in found.items():

        def said(of: str, steps: str, runs: list[dict[str, Any]] = runs) -> str:
            shares = 100.0 * np.array([run[of][steps] for run in runs])
            low, high, middle = shares.min(0), shares.max(0), np.median(shares, 0)
            ends = [f" ({a:.0f} to {b:.0f})" if len(runs) > 1 else "" for a, b in zip(low, high, strict=True)]
            return ", ".join(f"{share:.0f}{end}" for share, end in zip(middle, ends, strict=True))

        each = [said("together", steps) for steps in ("one step", "seven steps", "all steps")]
        lines.append(f"| {name} | {runs[0]['keys']} | {' | '.join(each)} | {said('alone', 'all steps')} |")
    return "\n".join(lines)


def new(found: dict[str, Any]) -> str:
    """Return a row for each data set: what new keys' first rows cost in a fleet and alone."""
    lines = ["| data | mean squared error: in the fleet, alone | log density: in the fleet, alone |", "|---|---|---|"]
    for name, of in found.items():
        first = of[f"first_{accuracy.FIRST}_rows_of_new_keys"]
        lines.append(
            f"| {name} | {first['fleet_mse']:.3g}, {first['alone_mse']:.3g} | {first['fleet_log_density']:.3f}, "
            f"{first['alone_log_density']:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    markdown.write(pages())
