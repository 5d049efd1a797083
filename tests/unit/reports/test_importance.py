"""What the page and the terminal say of the inputs: which of them matter."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fake_labels import fake_counts, fake_labels
from fake_run import fake_run
from streamgp.app.report import read_metrics, write_report
from streamgp.app.summary import print_summary
from streamgp.reports.pages.expert_weights import FIRST

SHARES = [0.612, 0.25, 0.1, *(0.05 / (1 + i) for i in range(FIRST))]
INPUTS = [{"name": f"sensor <{i}>", "share": share} for i, share in enumerate(SHARES)]


def shown(out: Path) -> tuple[str, list[tuple[str, str]]]:
    """The section, and its names and shares."""
    page = write_report(out).read_text()
    assert page.count("<h2>Which inputs matter</h2>") == 1
    section = re.sub(r"\s+", " ", page[page.index('<section id="inputs">') :])
    section = section[: section.index("</section>")]
    return section, re.findall(r'<th scope="row">(.*?)</th>.*?<td class="n">(.*?)</td>', section)


@pytest.mark.slow
def test_the_page_lists_the_inputs_and_folds_all_but_the_first(tmp_path: Path):
    fake_run(tmp_path, rows=400, warmup=50, importance=INPUTS)
    section, rows = shown(tmp_path)
    assert rows == [(f"sensor &lt;{i}&gt;", f"{100 * share:.1f}%") for i, share in enumerate(SHARES)]
    assert section[: section.index("<details>")].count('scope="row"') == FIRST
    assert "<summary>3 further inputs</summary>" in section
    assert section.count("<caption") == section.count("<table") == section.count("<thead>") == 2
    assert 'class="bar" style="width: 61.2%"' in section
    assert "which share of the variance of power_kw, over the whole stream, predictions take from it." in section
    assert "add up to at most 100%" in section
    assert "not what causes power_kw." in section
    assert "Past targets" not in section and "broken" not in section


@pytest.mark.slow
def test_the_page_says_where_past_targets_are_inputs_and_targets_several(tmp_path: Path):
    fake_run(tmp_path, rows=400, warmup=50, importance=INPUTS[:3], lags=[1], targets=["p", "q"])
    section, rows = shown(tmp_path)
    assert len(rows) == 3 and "<details>" not in section
    assert "Past targets are one entry." in section
    assert "predictions take from it, on average over all 2." in section
    assert "not what causes the targets." in section


@pytest.mark.slow
def test_there_is_no_section_where_nothing_is_known(tmp_path: Path):
    fake_run(tmp_path, rows=400, warmup=50, importance=[])
    assert "Which inputs matter" not in write_report(tmp_path).read_text()


@pytest.mark.slow
def test_a_run_of_before_has_no_entry(tmp_path: Path):
    metrics = fake_run(tmp_path, rows=400, warmup=50)
    assert "importance" not in metrics
    assert read_metrics(tmp_path / "metrics.json")["importance"] is None
    assert "Which inputs matter" not in write_report(tmp_path).read_text()


@pytest.mark.slow
def test_pages_of_labels_grades_and_counts_have_it(tmp_path: Path):
    for name, write in (
        ("labels", lambda out: fake_labels(out, "classification", ["cat", "dog"], rows=600, warmup=100)),
        ("grades", lambda out: fake_labels(out, "ordinal", ["1", "2", "3"], rows=600, warmup=100)),
        ("counts", lambda out: fake_counts(out, rows=600, warmup=100)),
    ):
        out = tmp_path / name
        metrics = write(out) | {"importance": INPUTS[:2]}
        (out / "metrics.json").write_text(json.dumps(metrics))
        assert [share for _, share in shown(out)[1]] == ["61.2%", "25.0%"]


@pytest.mark.slow
def test_the_terminal_names_the_three_largest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def said(importance: Any) -> str:
        fake_run(tmp_path, rows=400, warmup=50, importance=importance, pll_standardised=0.0)
        print_summary(read_metrics(tmp_path / "metrics.json"), to_stderr=False)
        return capsys.readouterr().out

    named = "sensor <0> 61.2%, sensor <1> 25.0%, sensor <2> 10.0%"
    assert f"inputs that matter most, by influence (share of the target's variance): {named}\n" in said(INPUTS)
    assert "variance): a 1.0%\n" in said([{"name": "a", "share": 0.01}, {"name": "b", "share": 0.0004}])
    assert "variance): '' 5.0%\n" in said([{"name": "", "share": 0.05}])
    for nothing in (None, [], [{"name": "a", "share": 0.0004}]):
        assert "matter most" not in said(nothing)


@pytest.mark.slow
def test_the_terminal_shows_every_digit_of_absurd_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """One target of 1e12 makes numbers of ten characters, for which 80 columns are too few."""
    naive = {name: {"nmse": 2.001, "rmse": 2.91e10, "mae": 8.45e8} for name in ("persistence", "running_mean")}
    absurd = {"nmse": 1.0, "rmse": 2.05e10, "mae": 4.22e8, "crps": 4.22e8, "naive": naive}
    fake_run(tmp_path, rows=400, warmup=50, pll_standardised=-0.169, **absurd)
    print_summary(read_metrics(tmp_path / "metrics.json"), to_stderr=False)
    out = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in out
    assert "2.05e+10" in out and "2.91e+10" in out and "in 95% band" in out
