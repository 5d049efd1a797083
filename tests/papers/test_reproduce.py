"""`streamgp reproduce` from the command line, on small tables in place of the papers' data."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from streamgp.app.cli import app
from streamgp_papers import catalogue, classification_baselines, doebe
from streamgp_papers.bank import Family
from streamgp_papers.datasets import DATASETS
from streamgp_papers.found import ReproductionResult
from streamgp_papers.kinds import Claim, Shown, choose_data
from streamgp_papers.mixing import Mix
from streamgp_papers.tables import counts_table
from streamgp_papers.verdicts import Figure

pytestmark = pytest.mark.papers

NAMES = (
    "doebe-table2 doebe-table3 doebe-fig2 doebe-fig4 doebe-delta doebe-large doebe-off ie-gp-regression ie-gp-times "
    "ie-gp-regret ie-gp-classification doebe-banana sfg-mkl-tables sfg-mkl-as-run sfg-mkl-regret sparq-synthetic "
    "sparq-sensors sparq-beyond sparq-elsewhere wgpr-toy wgpr-tables wgpr-models"
)
# Both families have the same basis here: what is compiled for one serves the other.
SMALL = {
    "warmup": 50,
    "families": (Family("HSGP", "fourier", 4, (1.0,), samples=2), Family("RFF", "fourier", 4, (1.0,), samples=2)),
    "mixes": (
        *(
            Mix(f"DOE-{basis}, {kind}", (basis,), moving=True, optima=kind == "MLE")
            for basis in ("HSGP", "RFF")
            for kind in ("MLE", "sampled")
        ),
        Mix("E-DOEBE", delta=0.01, leak=True),
    ),
}


def invoke(*words: object) -> Any:
    return CliRunner().invoke(
        app, ["reproduce", "--jobs", "1", *map(str, words)], env={"STREAMGP_DATA": None, "COLUMNS": "200"}
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Small tables under the names of the papers' files."""
    rng = np.random.default_rng(0)
    directory = tmp_path / "data"
    directory.mkdir()
    for file in ("elevators_ucids", "sarcos_inv_test"):
        x = rng.normal(size=(120, 2))
        y = np.sin(2.0 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=120)
        pl.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "y": y, "y2": y}).write_parquet(directory / f"{file}.parquet")
    return directory


@pytest.fixture
def small_table3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 3 with few features and a short warm-up."""
    small = replace(doebe.TABLE3, settings=SMALL, metrics=doebe.FIG4.metrics, pictures=doebe.FIG4.pictures)
    monkeypatch.setitem(catalogue.REPRODUCTIONS, "doebe-table3", small)
    monkeypatch.setitem(DATASETS, "elevators", replace(DATASETS["elevators"], rows=120, inputs=3))


@pytest.mark.usefixtures("small_table3")
def test_a_table_from_data_to_verdicts_and_again_without_work(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "out" / "table.json"
    words = ("doebe-table3", "--data", data, "--out", out, "--trials", 1)
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    held = json.loads(out.read_text())
    assert list(held["runs"]) == ["elevators 0", "sarcos_inv_test 0"]
    ours = held["runs"]["elevators 0"]["models"]["DOE-HSGP, MLE"]
    start = ["Elevators", "DOE-HSGP, MLE", "pll", "-0.753"]
    (line,) = [row for row in rows(result.stdout) if row[:4] == start]
    assert line[4] == f"{ours['pll']:.3f}"

    def found(metric: str) -> str:
        difference = ours[metric] + 0.753
        word = "yes" if abs(difference) <= 0.02 else "better" if difference > 0 else "worse"
        return f"{word}, {difference:+.3g} ± 0, tolerance 0.02"

    told = f"1 trial, fewer than 5; here: {found('pll')}; by pll_moment: {found('pll_moment')}"
    assert line[5] == "undecided" and told.startswith(line[6])  # the rest is on further lines
    stand_in = [row for row in rows(result.stdout) if row[0] == "SARCOS, test part" and len(row) == 7]
    assert {row[5] for row in stand_in} == {"not comparable"}
    assert all(row[6].startswith("stands in for SARCOS; 1 trial, fewer than 5; here: ") for row in stand_in)
    assert len(stand_in) == 8
    assert "1 trial (the paper: 100), all rows" in result.stdout
    flat = " ".join(result.stdout.split())
    assert "Not available: sarcos.parquet: SARCOS, 44,484 rows of 21 inputs" in flat
    assert "Not available: cadata.parquet" in flat
    charts = sorted(path.name for path in out.parent.glob("*.png"))
    kinds = ("curves", "moving-weight")
    assert charts == [f"table-{one}-{kind}.png" for one in ("elevators", "sarcos_inv_test") for kind in kinds]

    def no_work(*_: Any, **__: Any) -> dict:
        raise AssertionError("a run was done twice")

    before_idle = catalogue.find("doebe-table3")
    idle = replace(before_idle, work=no_work)
    monkeypatch.setitem(catalogue.REPRODUCTIONS, "doebe-table3", idle)
    before = out.read_bytes()
    again = invoke(*words)
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout
    assert out.read_bytes() == before
    file = data / "elevators_ucids.parquet"
    pl.read_parquet(file).head(110).write_parquet(file)
    other = invoke(*words)
    assert other.exit_code == 1
    assert "its run 'elevators 0' was made of other data" in " ".join(other.stderr.split())
    monkeypatch.setitem(catalogue.REPRODUCTIONS, "doebe-table3", before_idle)
    cut = invoke(*words[:-3], tmp_path / "another.json", *words[-2:])
    (line,) = [row for row in rows(cut.stdout) if row[:4] == start]
    assert line[5] == "not comparable"
    assert line[6].startswith("110 rows, the paper's have 120; 1 trial, fewer than 5; here:")


def rows(text: str) -> list[list[str]]:
    """Rows of the tables, each cell without its blanks."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


@pytest.mark.usefixtures("small_table3")
def test_rows_trials_and_sets_limit_the_work_and_what_it_says(data: Path, tmp_path: Path):
    out = tmp_path / "table.json"
    words = ("doebe-table3", "--data", data, "--out", out, "--sets", "elevators", "--trials", 2)
    result = invoke(*words, "--rows", 80)
    assert result.exit_code == 0, result.output
    held = json.loads(out.read_text())
    assert list(held["runs"]) == ["elevators 0", "elevators 1"]
    assert held["runs"]["elevators 0"]["rows"] == 80
    assert held["runs"]["elevators 0"]["models"] != held["runs"]["elevators 1"]["models"]
    assert "2 trials (the paper: 100), the first 80 rows" in result.stdout
    assert "first 80 rows only" in result.stdout
    assert "SARCOS" not in result.stdout
    other = invoke(*words)
    assert other.exit_code == 1
    assert "holds runs with rows 80, but now rows is None" in other.stderr
    short = invoke(*words, "--rows", 50, "--out", tmp_path / "short.json")
    assert short.exit_code == 1
    assert "expected more than the 50 rows of the warm-up, got 50; give more --rows" in short.stderr


@pytest.mark.usefixtures("small_table3")
def test_without_matplotlib_there_are_tables_and_no_charts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "streamgp_papers.charts", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    result = invoke(
        "doebe-table3", "--data", data, "--out", tmp_path / "a.json", "--sets", "elevators", "--trials", 1
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "no charts: they need matplotlib, which `pip install matplotlib` brings" in result.stderr
    assert "Beside the paper" in result.stdout
    assert not list(tmp_path.glob("*.png"))


def test_the_list_has_all_names_and_marks_what_is_not_available(data: Path):
    result = invoke("--list", "--data", data)
    assert result.exit_code == 0, result.output
    assert re.findall(r"^((?:doebe|ie-gp|sfg-mkl|sparq|wgpr)-\S+) ", result.stdout, re.MULTILINE) == NAMES.split()
    assert "Data: elevators, (sarcos), sarcos_inv_test, (cadata)" in result.stdout
    for one in DATASETS.values():
        assert one.file in result.stdout
    assert invoke().stdout == invoke("--list").stdout


def test_without_data_a_reproduction_says_which_files_it_needs(tmp_path: Path):
    result = invoke("doebe-table3", "--data", tmp_path)
    assert result.exit_code == 1
    for part in ("doebe-table3: expected", "elevators_ucids.parquet", "sarcos.parquet", "cadata.parquet", "LIBSVM"):
        assert part in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("doebe-table4",), r"NAME: expected one of doebe-table2, .*, got 'doebe-table4'; did you mean doebe-table"),
        (("doebe-table3", "--data", "nowhere"), "--data: expected a directory of Parquet files, got nowhere"),
        (("doebe-delta", "--sets", "banana"), "--sets: expected some of friedman1, .*, got 'banana'"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(words: tuple[str, ...], expected: str):
    result = invoke(*words)
    assert result.exit_code == 1
    assert re.search(expected, " ".join(result.stderr.split()))
    assert result.stderr.startswith("streamgp: ")


def test_the_papers_own_data_are_taken_where_they_are_available(data: Path):
    shown, missing = choose_data(doebe.TABLE3, data)
    assert [(one.data, one.stands_for) for one in shown] == [
        ("elevators", "elevators"),
        ("sarcos_inv_test", "sarcos"),
    ]
    assert missing == ["sarcos", "cadata", "cpusmall"]
    (data / "sarcos_inv_test.parquet").rename(data / "sarcos.parquet")
    shown, missing = choose_data(doebe.TABLE3, data)
    assert [one.data for one in shown] == ["elevators", "sarcos"]
    assert missing == ["cadata", "cpusmall"]
    (data / "sarcos_inv_test.parquet").write_bytes((data / "sarcos.parquet").read_bytes())
    assert [one.data for one in choose_data(doebe.TABLE3, data)[0]] == ["elevators", "sarcos"]
    shown, missing = choose_data(doebe.TABLE3, data, ["sarcos_inv_test"])
    assert [(one.data, one.stands_for) for one in shown] == [("sarcos_inv_test", "sarcos")]
    assert missing == []


def test_the_claims_and_figures_are_about_models_and_data_that_there_are():
    for name, one in catalogue.REPRODUCTIONS.items():
        data = {use.data for use in one.uses}
        models = {mix.name for mix in one.settings.get("mixes", ())}
        models |= {*classification_baselines.NAMES} if "rivals" in one.settings else set()
        models |= {"SSGP", "AdaRaker"} if "ssgp_sizes" in one.settings else set()
        for claim in one.claims:
            assert claim.data in data, (name, claim)
            assert not models or {*claim.ahead, *claim.behind} <= models, (name, claim)
            assert claim.behind or claim.within or claim.number, (name, claim)
        for on, model, _ in one.figures:
            assert on in data
            assert not models or model in models  # those of many kernels are looked for where a run is made


def test_verdicts_are_counted_by_word_and_by_what_was_found():
    figures = {
        ("elevators", name, "nmse"): Figure(value, baseline=name == "b") for name, value in (("a", 1.0), ("b", 3.0))
    }
    claims = (
        Claim("", "elevators", "nmse", ("a",), ("b",)),
        Claim("", "elevators", "nmse", ("a",), ("b",), doubt="other rates"),
    )
    one = replace(doebe.TABLE3, figures=figures, claims=claims, beside={})
    runs = {
        f"elevators {seed}": {"rows": 16_599, "inputs": 17, "models": {"a": {"nmse": 1.0}, "b": {"nmse": 2.0}}}
        for seed in range(5)
    }
    table = counts_table([ReproductionResult(one, [Shown("elevators", "elevators")], (), runs, 5, None)])
    names, *counts = ([*column.cells] for column in table.columns)
    assert names == ["figures of the papers' own methods", "figures of their baselines", "statements"]
    headers = [column.header for column in table.columns[1:]]
    of = {
        name: dict(zip(headers, each, strict=True))
        for name, each in zip(names, zip(*counts, strict=True), strict=True)
    }
    nonzero = [{word: count for word, count in each.items() if count != "0"} for each in of.values()]
    assert nonzero == [
        {"all": "1", "reproduced": "1"},
        {"all": "1", "not reproduced": "1"},
        {"all": "2", "reproduced": "1", "not comparable": "1", "here: yes": "1"},
    ]


def test_the_guide_has_every_name_and_file_and_the_trials():
    guide = (Path(__file__).parents[2] / "docs" / "research" / "reproduction.md").read_text(encoding="utf-8")
    for name, one in catalogue.REPRODUCTIONS.items():
        assert re.search(rf"^\| `{name}` .* {one.trials} \| {one.paper_trials or 'none'} \|$", guide, re.MULTILINE), (
            name
        )
    for data in DATASETS.values():
        row = (
            f"| `{data.file}` | {data.title} | {data.rows:,} x {data.inputs} | {', '.join(data.drop)} | {data.origin}"
        )
        assert not data.file or row in guide, data.file
