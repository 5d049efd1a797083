"""Pages of labels, grades and counts against the files that they are made from."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

from fake_labels import fake_counts, fake_labels, predictions
from streamgp.app.report import write_report
from streamgp.numerics import formats
from streamgp.reports import figures
from streamgp.reports.pages import classification
from streamgp.reports.pages.stream import scan

pytestmark = pytest.mark.slow

THREE, GRADES = ["ash", "beech", "oak"], ["3", "4", "5", "6"]


def page(out: Path) -> str:
    html = write_report(out).read_text(encoding="utf-8")
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.S):
        ElementTree.fromstring(svg.replace("<svg", '<svg xmlns:xlink="x"', 1))
    assert html.count("<script") == html.count("<script>") == 1  # what reads charts out under the pointer
    assert "nan" not in re.sub(r"<style.*?</style>|finance", "", html.lower(), flags=re.S).replace("dominant", "")
    return html


def cells(html: str, table: str) -> list[list[str]]:
    body = re.search(rf'<table[^>]*id="{table}">(.*?)</table>', html, flags=re.S)
    assert body is not None
    rows = re.findall(r"<tr.*?</tr>", body[1], flags=re.S)
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", row, flags=re.S)] for row in rows
    ]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    out = tmp_path_factory.mktemp("three")
    metrics = fake_labels(out, "classification", THREE)
    return out, metrics, page(out)


def test_scores_are_those_of_the_metrics(three: tuple[Path, dict[str, Any], str]) -> None:
    _, metrics, html = three
    shown = {row[0]: row[1:] for row in cells(html, "metrics") if len(row) > 1}
    naive = metrics["naive"]
    assert shown["Error rate"] == [
        formats.share(scores["error_rate"]) for scores in (metrics, naive["last_label"], naive["frequencies"])
    ]
    assert shown["Log loss"] == [
        formats.number(metrics["log_loss"]),
        "",
        formats.number(naive["frequencies"]["log_loss"]),
    ]
    assert shown["Calibration error"][0] == formats.share(metrics["ece"])
    table = cells(html, "confusion")
    assert table[0] == ["Observed label", *THREE, "right", "ROC AUC", "average precision"]
    assert [[int(cell.replace(",", "")) for cell in row[1:-3]] for row in table[1:]] == metrics["confusion"]
    for name, row in zip(THREE, table[1:], strict=True):
        areas = (metrics[of][name] for of in ("roc_auc", "average_precision"))
        assert row[-2:] == [formats.number(area) for area in areas]


def test_the_reliability_diagram_counts_right(three: tuple[Path, dict[str, Any], str]) -> None:
    out, _, html = three
    frame = predictions(out)[500:]
    top = frame.select(f"p_{name}" for name in THREE).to_numpy().max(1)
    right = (frame["y"] == frame["predicted"]).to_numpy()
    rows = cells(html, "reliability")[1:]
    found = 0
    for tenth in range(10):
        inside = (top >= tenth / 10) & (top < (tenth + 1) / 10 + (tenth == 9))
        if not inside.any():
            continue
        interval = binomtest(int(right[inside].sum()), int(inside.sum())).proportion_ci(method="wilson")
        numbers = (top[inside].mean(), right[inside].mean(), interval.low, interval.high)
        predicted, observed, low, high = map(formats.share, numbers)
        assert rows[found] == [f"{inside.sum():,}", predicted, observed, f"{low} to {high}"]
        found += 1
    assert found == len(rows)
    assert "Yes: the predicted probabilities agree with the observed frequencies." in html


def test_two_classes_are_about_the_second(tmp_path: Path) -> None:
    fake_labels(tmp_path, "classification", ["0", "1"], sharpness=2.5)
    html = page(tmp_path)
    assert "how often kind was 1" in html
    assert "Not quite: the probabilities are off by" in html
    frame = predictions(tmp_path)[500:]
    last = frame.filter(pl.col("p_1") >= 0.9)
    row = cells(html, "reliability")[-1]
    assert row[:3] == [
        f"{len(last):,}",
        formats.share(last["p_1"].to_numpy().mean()),
        formats.share((last["y"] == "1").to_numpy().mean()),
    ]


def recorded(monkeypatch: pytest.MonkeyPatch, chart: str) -> dict[str, pl.DataFrame]:
    """What a function that draws is given from now on, by the name of the chart."""
    drawn: dict[str, pl.DataFrame] = {}

    def draw(frame: pl.DataFrame, span: figures.Rows, name: str, *_: Any) -> str:
        drawn[name] = frame
        return ""

    monkeypatch.setattr(figures, chart, draw)
    return drawn


def test_running_scores_end_at_those_of_the_table(three: tuple[Path, dict[str, Any], str], monkeypatch) -> None:
    out, metrics, _ = three
    drawn = recorded(monkeypatch, "scores")
    frame = scan(
        out / "predictions.parquet", (*classification.columns(metrics)[0], *classification.columns(metrics)[1])
    )
    classification.along_the_stream(figures, frame, metrics, figures.Rows(-0.5, 3999.5, 499.5))
    assert drawn["error"]["so_far"][-1] == pytest.approx(metrics["error_rate"])
    assert drawn["loss"]["so_far"][-1] == pytest.approx(metrics["log_loss"])
    window = predictions(out)[-180:]
    assert drawn["error"]["row"][-1] == 3999
    assert drawn["error"]["last"][-1] == pytest.approx((window["y"] != window["last_label"]).mean())
    assert drawn["error"]["frequent"][-1] == pytest.approx((window["y"] != window["frequent_label"]).mean())
    assert drawn["loss"]["frequent"][-1] == pytest.approx(-window["frequency_log_density"].to_numpy().mean())


def test_areas_are_means_of_probabilities_and_shares_of_labels(
    three: tuple[Path, dict[str, Any], str], monkeypatch
) -> None:
    out, metrics, _ = three
    drawn = recorded(monkeypatch, "areas")
    frame = scan(
        out / "predictions.parquet", (*classification.columns(metrics)[0], *classification.columns(metrics)[1])
    )
    classification.along_the_stream(figures, frame, metrics, figures.Rows(-0.5, 3999.5, 499.5))
    raw = predictions(out)
    assert len(drawn["predicted"]) == 200
    for code, name in enumerate(THREE):
        by_bin = raw[f"p_{name}"].to_numpy().reshape(200, 20).mean(1)
        np.testing.assert_allclose(drawn["predicted"][f"predicted {code}"].to_numpy(), by_bin, rtol=1e-9)
        observed = (raw["y"] == name).to_numpy().reshape(200, 20).mean(1)
        np.testing.assert_allclose(drawn["observed"][f"observed {code}"].to_numpy(), observed, rtol=1e-9)


def test_many_classes_leave_others(tmp_path: Path) -> None:
    fake_labels(tmp_path, "classification", [f"k{i}" for i in range(14)], rows=1500)
    html = page(tmp_path)
    assert "5 others" in html
    assert "The table of 14 labels is in" in html


def test_grades(tmp_path: Path) -> None:
    metrics = fake_labels(tmp_path, "ordinal", GRADES, rows=1500)
    html = page(tmp_path)
    shown = {row[0]: row[1:] for row in cells(html, "metrics") if len(row) > 1}
    naive = metrics["naive"]
    assert shown["RPS"] == [
        formats.number(scores["rps"]) for scores in (metrics, naive["last_grade"], naive["frequencies"])
    ]
    assert shown["MAE"][0] == formats.number(metrics["mae"])
    assert "Ranked probability score: lower is better" in html
    assert "grades on average" in html
    frame = predictions(tmp_path)
    p = frame.select(f"p_{grade}" for grade in GRADES).to_numpy()
    mean = p @ [3, 4, 5, 6]
    np.testing.assert_allclose(frame["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(frame["std"], np.sqrt(((np.arange(3, 7) - mean[:, None]) ** 2 * p).sum(1)), rtol=1e-9)


def test_counts(tmp_path: Path) -> None:
    metrics = fake_counts(tmp_path, rows=2000)
    html = page(tmp_path)
    shown = {row[0]: row[1:] for row in cells(html, "metrics") if len(row) > 1}
    assert shown["Deviance"][0] == formats.number(metrics["deviance"])
    assert shown["Deviance"][2] == formats.number(metrics["naive"]["running_mean"]["deviance"])
    coverage = dict(cells(html, "coverage")[1:])
    assert coverage["90%"] == formats.share(metrics["coverage"]["90"])
    assert coverage["50%"] == formats.share(metrics["coverage"]["50"])


def test_a_run_without_a_scored_row(tmp_path: Path) -> None:
    fake_labels(tmp_path, "classification", ["a", "b"], rows=100, warmup=200)
    html = page(tmp_path)
    assert "Nothing to score yet" in html
    assert "the calibration of the probabilities is not known yet" in html
