"""The figures of ``results/engine.json`` as tables; a part that was not measured has none."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table


def tables(found: dict[str, Any]) -> Iterator[Table]:
    """Yield one table for each part that is there, the machine first."""
    yield _machine(found["machine"])
    for name, make in _TABLES.items():
        if name in found:
            yield from make(found[name])


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table


def _show(value: dict[str, float], unit: str = "") -> str:
    """Show a median with its range, all with the digits that it deserves."""
    if unit == "%":
        return f"{value['median']:.0%} ({value['min']:.0%} .. {value['max']:.0%})"
    median, low, high = (_number(value[name]) for name in ("median", "min", "max"))
    return f"{median}{unit} ({low} .. {high})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _machine(about: dict[str, Any]) -> Table:
    table = _table("Machine", "", "")
    for name, value in about.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        table.add_row(name, ", ".join(value) if isinstance(value, list) else str(value))
    return table


def _ensemble(part: dict[str, Any]) -> Iterator[Table]:
    table = _table("12 experts of 100 features, 15,599 rows, against one compiled scan each", "", "seconds", "times")
    for kind, seconds in part["seconds"].items():
        table.add_row(kind, _show(seconds), _show(part["ratio"][kind], "x") if kind in part["ratio"] else "")
    yield table


def _filters(part: list[dict[str, Any]]) -> Iterator[Table]:
    table = _table("Block engine against one scan over rows, 18 experts", "", "us a row and expert", "times")
    for case in part:
        for name, us in case["us"].items():
            times = _show(case["ratio"][name], "x") if name in case["ratio"] else ""
            table.add_row(f"{case['features']} features, {name}", _show(us), times)
        table.add_row(
            "  share of the matrix-product rate",
            _show(case["share_of_matrix_rate"], "%"),
            _show(case["matrix_gflops"], " GFLOP/s"),
        )
    yield table


def _block_lengths(part: dict[str, Any]) -> Iterator[Table]:
    lengths = list(next(iter(part["us"].values())))
    table = _table("Block length, us a row and expert (median)", "features", *(f"{n} rows" for n in lengths))
    for features, times in part["us"].items():
        table.add_row(features, *(_number(times[n]["median"]) for n in lengths))
    yield table


def _growth(part: dict[str, Any]) -> Iterator[Table]:
    table = _table("Growth with rows, 3 experts of 50 features", "rows", "seconds", "resident MiB", "peak MiB")
    for n, seconds in part["rows_s"].items():
        memory = part["memory_mb"][n]
        table.add_row(f"{int(n):,}", _show(seconds), _number(memory["now"]), _number(memory["peak"]))
    table.add_row("slope in logs", _show(part["slope"]), "", "")
    yield table
    for name in ("features", "experts", "outputs", "inputs"):
        table = _table(f"Growth with {name}", name, "us a row and expert")
        for count, us in part[f"{name}_us"].items():
            table.add_row(count, _show(us))
        yield table


def _memory(part: list[dict[str, float]]) -> Iterator[Table]:
    table = _table("Memory of an expert, KiB", "features", "its arrays", "resident, each more", "at peak, each more")
    for case in part:
        sizes = (_number(case[f"{name}_kib"]) for name in ("arrays", "resident", "peak"))
        table.add_row(str(case["features"]), *sizes)
    yield table


def _latency(part: list[dict[str, Any]]) -> Iterator[Table]:
    for case in part:
        table = _table(f"One row: predict, then learn ({case['task']})", "", "us", "times ours")
        for name, us in case["us"].items():
            table.add_row(name, _show(us), _show(case["ratio"][name], "x") if name in case["ratio"] else "")
        off = {name: s["std_error"] for name, s in case.get("gpytorch_settings", {}).items() if s["std_error"] > 1e-6}
        if off:
            table.caption = "Not exact: " + "; ".join(
                f"{name}: std off by {error:.0%}" for name, error in off.items()
            )
        yield table


def _files(part: dict[str, Any]) -> Iterator[Table]:
    table = _table("A run of the default model, 20,000 rows", "", "seconds", "of all", "of all but the warm-up")
    for kind, case in part.items():
        for name, seconds in case["seconds"].items():
            both = (case[key].get(name) for key in ("share", "share_after_warmup"))
            table.add_row(f"{kind}: {name}", _show(seconds), *("" if s is None else _show(s, "%") for s in both))
    yield table


def _large_file(part: dict[str, Any]) -> Iterator[Table]:
    title = f"Peak memory, {part['rows']:,} rows, MiB"
    table = _table(title, "", "file", "after a tenth", "after all", "rows a second")
    for kind in ("csv", "parquet", "csv, linear model"):
        case = part[kind]
        size = _number(case["file_mb"]) if "file_mb" in case else ""
        table.add_row(kind, size, *(_number(case[name]) for name in ("tenth_mb", "peak_mb", "rows_per_second")))
    yield table


_TABLES = {
    "ensemble": _ensemble,
    "filters": _filters,
    "block_lengths": _block_lengths,
    "growth": _growth,
    "memory": _memory,
    "latency": _latency,
    "files": _files,
    "large_file": _large_file,
}
