import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from fake_run import NAMES, fake_run, textbook_metrics
from streamgp.app.report import write_report
from streamgp.reports import figures
from streamgp.reports.pages.regression import LEVELS, running
from streamgp.reports.pages.stream import BINS, bin_number, binned, mean_weights, scan

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a reader finds: the text of elements with an id, the rows of tables, every reference."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.open: list[tuple[str, str | None]] = []
        self.text: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(self.html)
        self.svgs = re.findall(r"<svg.*?</svg>", self.html, re.DOTALL)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in ("meta", "br", "path", "use"):
            return
        self.open.append((tag, dict(attrs).get("id")))
        if tag == "li":
            self.handle_data("\n")
        tables = [name for kind, name in self.open if kind == "table"]
        if tag == "tr":
            self.rows.setdefault(tables[-1] or "rest", []).append([])
        if tag in ("td", "th"):
            self.rows[tables[-1] or "rest"][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, name in self.open:
            if name:
                self.text[name] = self.text.get(name, "") + data
        if any(kind in ("td", "th") for kind, _ in self.open):
            tables = [name for kind, name in self.open if kind == "table"]
            self.rows[tables[-1] or "rest"][-1][-1] += data


def value(text: str) -> float:
    text = text.strip().replace(",", "").replace("\N{MINUS SIGN}", "-")
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    fake_run(out)
    assert write_report(out) == out / "report.html"
    return out


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return Page(run / "report.html")


def test_scores_are_those_of_the_predictions(run: Path, page: Page) -> None:
    expected = textbook_metrics(pl.read_parquet(run / "predictions.parquet"), 1000)
    rows = {row[0].split("\n")[0]: row[1:] for row in page.rows["metrics"] if len(row) == 4}
    for name, key in (("nMSE", "nmse"), ("RMSE", "rmse"), ("MAE", "mae"), ("CRPS", "crps"), ("PLL", "pll")):
        assert value(rows[name][0]) == pytest.approx(expected[key], rel=6e-4)
    for name, key in (("nMSE", "nmse"), ("RMSE", "rmse"), ("MAE", "mae")):
        assert value(rows[name][1]) == pytest.approx(expected["naive"]["persistence"][key], rel=6e-4)
        assert value(rows[name][2]) == pytest.approx(expected["naive"]["running_mean"][key], rel=6e-4)
    for level in ("50", "90", "95"):
        assert value(rows[f"Coverage, {level}%"][0]) == pytest.approx(expected["coverage"][level], abs=6e-4)
    explained = 100 * (1 - expected["nmse"])
    assert page.text["headline"] == (
        "On 8,000 rows, each predicted before its target was seen, the model explained "
        f"{explained:.0f}% of the variance; "
        f"its 95% bands contained {100 * expected['coverage']['95']:.1f}% of the targets."
    )


def test_coverage_table_counts_the_pit_values_inside_each_band(run: Path, page: Page) -> None:
    pit = pl.read_parquet(run / "predictions.parquet")["pit"].to_numpy()[1000:]
    shown = {value(a): value(b) for a, b in page.rows["coverage"][1:]}
    assert list(shown) == pytest.approx([level / 100 for level in LEVELS])
    for level, observed in shown.items():
        inside = np.mean((pit >= 0.5 - level / 2) & (pit <= 0.5 + level / 2))
        assert observed == pytest.approx(inside, abs=6e-4)


def test_experts_table_has_final_and_mean_weights(run: Path, page: Page) -> None:
    weights = pl.read_parquet(run / "weights.parquet")
    rows = [row for name in ("experts", "rest") for row in page.rows.get(name, []) if not row[0].startswith("Expert")]
    left_out = re.search(r"\d+", page.text["left-out"])
    assert left_out and len(rows) == len(NAMES) - int(left_out[0])
    finals = [value(row[4]) for row in rows]
    assert finals == sorted(finals, reverse=True)
    for row in rows:
        name = next(n for n in NAMES if row[0].startswith(n))
        w = weights[name].to_numpy()
        assert value(row[4]) == pytest.approx(w[-1], abs=6e-4)
        assert value(row[5]) == pytest.approx(w.mean(), abs=6e-4)


@pytest.mark.parametrize("columns", [0, 1, 32, 70])
def test_mean_weights_of_bins_count_each_row_for_those_up_to_the_next_one_kept(columns: int) -> None:
    rows, warmup = 2_000, 100
    kept = np.sort(np.random.default_rng(0).choice(np.arange(warmup, rows), 900, replace=False))
    weights = np.random.default_rng(1).uniform(size=(len(kept), columns))
    names = [f"expert {i}" for i in range(columns)]
    table = pl.DataFrame({"row": kept} | dict(zip(names, weights.T, strict=True))).with_row_index("position").lazy()
    bins = mean_weights(table, pl.DataFrame({"row": np.arange(rows)}).with_row_index("position").lazy(), warmup)
    assert bins.columns == ["row", "rows", *names]
    stands_for = np.diff(kept, append=rows)
    number = (kept - warmup) * (BINS // 2) // (rows - warmup)
    np.testing.assert_array_equal(bins["rows"].to_numpy(), [stands_for[number == b].sum() for b in np.unique(number)])
    for name, w in zip(["row", *names], [kept, *weights.T], strict=True):
        means = [np.average(w[number == b], weights=stands_for[number == b]) for b in np.unique(number)]
        np.testing.assert_allclose(bins[name].to_numpy(), means, rtol=1e-12)


def test_last_rows_count_the_targets_outside_their_band(run: Path, page: Page) -> None:
    last = pl.read_parquet(run / "predictions.parquet").tail(200)
    outside = sum(y < low or y > high for y, low, high in last.select("y", "q05", "q95").iter_rows())
    assert f"{outside} of 200 targets outside the band; about 20 should be." in page.html


def test_every_table_has_a_head_that_paper_repeats_on_each_page(page: Page) -> None:
    assert page.html.count("<table") == page.html.count("<thead><tr>") == page.html.count("</tr></thead>") >= 4


def test_page_needs_nothing_from_outside(page: Page) -> None:
    assert "http" not in page.html
    assert page.html.count("<script") == page.html.count("<script>") == 1  # it loads nothing
    assert "@import" not in page.html and "@font-face" not in page.html
    assert all(value.startswith("#") for _, name, value in page.attributes if name.endswith(("href", "src")))
    assert len(page.html.encode()) < 3_000_000


def test_what_charts_read_out_is_what_they_show(run: Path, page: Page) -> None:
    found = [json.loads(value) for _, name, value in page.attributes if name == "data-readout"]
    assert [len(chart["series"]) for chart in found] == [6, 4, 4, 2]
    last = pl.read_parquet(run / "predictions.parquet").tail(200)
    window = found[1]
    assert window["x"] == last["row"].to_list()
    for name, column in (("target", "y"), ("median", "q50"), ("band from", "q05"), ("band to", "q95")):
        assert dict(window["series"])[name] == pytest.approx(last[column].to_list(), rel=1e-3)
    for svg in page.svgs[:4]:
        left, right, first, stop = map(float, re.findall(r'data-ends="([^"]+)"', svg)[0].split())
        assert 0.0 < left < 0.2 < 0.85 < right < 1.0
        assert (first, stop) in ((-0.5, 9001.5), (8801.5, 9001.5))


def test_charts_are_well_formed_and_share_no_ids(page: Page) -> None:
    assert len(page.svgs) == 14  # six along the stream, each for a desktop and a phone, and two on calibration
    ids = re.findall(r' id="([^"]+)"', page.html)
    assert len(ids) == len(set(ids))
    for svg in page.svgs:
        ElementTree.fromstring(svg)
        used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
        assert used and {a or b for a, b in used} <= set(ids)
        assert not re.search("#[0-9a-f]{6}", svg), "a colour that does not follow the page's theme"


def polyline(svg: str, colour: str) -> np.ndarray:
    """Points of the longest line in a colour, in pixels."""
    paths = re.findall(rf'<path d="([^"]+)"[^>]*fill: none; stroke: var\(--{colour}\)', svg)
    numbers = [np.array(re.findall(r"-?[\d.]+", path), float).reshape(-1, 2) for path in paths]
    return max(numbers, key=len, default=np.empty((0, 2)))


def is_affine(pixels: np.ndarray, values: np.ndarray, tolerance: float) -> np.bool:
    """True where pixels are the values, moved and stretched."""
    return np.abs(np.polyval(np.polyfit(values, pixels, 1), values) - pixels).max() < tolerance


def test_coverage_chart_draws_the_values_that_it_is_given() -> None:
    nominal = np.array(LEVELS) / 100
    observed = nominal**1.5
    points = polyline(figures.coverage(nominal, observed), "model")
    assert is_affine(points[:, 0], nominal, 0.11) and is_affine(points[:, 1], observed, 0.11)
    assert points[0, 1] > points[-1, 1]  # up is more


def test_ticks_tell_small_numbers_apart() -> None:
    rows = np.arange(50.0)
    curves = pl.DataFrame(
        {
            "row": rows,
            "model": 0.01 + 0.001 * rows,
            "so_far": 0.03 + 0 * rows,
            "persistence": 2 + 0 * rows,
            "running_mean": 1 + 0 * rows,
            "pll": -1.05 + 0.001 * rows,
            "pll_so_far": -1.05 + 0 * rows,
        }
    )
    axis = figures.Rows(-0.5, 49.5, 9.5)
    for chart, some in (
        (figures.running_nmse(curves, axis), "0.02"),
        (figures.running_pll(curves, axis), "−1.050"),
    ):
        wide = chart[: chart.index('class="narrow"')]
        labels = re.findall(r"<text[^>]*text-anchor: end[^>]*>([^<]+)</text>", wide)
        assert some in labels and len(labels) == len(set(labels))


@pytest.mark.parametrize(
    ("rows", "warmup"), [(1, 0), (7, 3), (799, 100), (801, 800), (9000, 1000), (5000, 0), (12, 12)]
)
def test_bins_are_even_and_never_straddle_the_warmup(rows: int, warmup: int) -> None:
    frame = pl.DataFrame({"row": range(rows)}).with_row_index("position").lazy()
    bins = frame.select(bin_number(rows, warmup, BINS)).collect()["bin"].to_numpy()
    sizes = np.bincount(bins)
    assert len(sizes) <= BINS + 1 and sizes.min() >= 1 and np.all(np.diff(bins) >= 0)
    assert len(set(bins[:warmup]) & set(bins[warmup:])) == 0
    for part in (bins[:warmup], bins[warmup:]):
        if len(part):
            counts = np.unique(part, return_counts=True)[1]
            assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("rows", [340, 4000])
def test_running_scores_follow_their_definition(tmp_path: Path, rows: int) -> None:
    warmup = 40
    fake_run(tmp_path, rows=rows, warmup=warmup)
    frame = pl.read_parquet(tmp_path / "predictions.parquet")
    lazy = scan(tmp_path / "predictions.parquet", tuple(frame.columns))
    y, error = pl.col("y"), (pl.col("y") - pl.col("mean")) ** 2
    bins = binned(
        lazy,
        rows,
        warmup,
        BINS,
        error.sum().alias("squares"),
        pl.col("log_density").sum(),
        y.count().alias("targets"),
        *(((y - pl.col(n)) ** 2).sum().alias(n) for n in ("persistence_mean", "running_mean")),
        *(y.count().alias(f"{n}_rows") for n in ("persistence_mean", "running_mean")),
    ).filter("scored")
    c = {name: frame[name].to_numpy()[warmup:] for name in frame.columns}
    variance = float(np.var(c["y"]))
    curves, window = running(bins, variance)
    assert window == pytest.approx(max(20, (rows - warmup) / 20), rel=0.05)
    width = len(bins) - len(curves) + 1
    sizes = bins["rows"].to_numpy()
    for i in range(0, len(curves), 37):
        stop = sizes[: i + width].sum()
        start = stop - sizes[i : i + width].sum()
        row = curves.row(i, named=True)
        assert row["row"] == c["row"][stop - 1]
        for name, source in (("model", "mean"), ("persistence", "persistence_mean"), ("running_mean",) * 2):
            mse = np.mean((c["y"][start:stop] - c[source][start:stop]) ** 2)
            assert row[name] == pytest.approx(mse / variance, rel=1e-9)
        assert row["so_far"] == pytest.approx(np.mean((c["y"] - c["mean"])[:stop] ** 2) / variance, rel=1e-9)
        assert row["pll"] == pytest.approx(c["log_density"][start:stop].mean(), rel=1e-9)
        assert row["pll_so_far"] == pytest.approx(c["log_density"][:stop].mean(), rel=1e-9)
    final = textbook_metrics(frame, warmup)
    assert curves["so_far"][-1] == pytest.approx(final["nmse"], rel=1e-9)
    assert curves["pll_so_far"][-1] == pytest.approx(final["pll"], rel=1e-9)


def told(tmp_path: Path, **options: Any) -> Page:
    fake_run(tmp_path, **options)
    return Page(write_report(tmp_path))


def test_a_naive_baseline_that_does_better_is_reported(tmp_path: Path) -> None:
    page = told(tmp_path, rows=2000, smooth=True, sharpness=0.5)
    assert 'warn baseline">Worse than repeating the last value: ' in page.html
    assert "; make that an input, with --lags 1." in page.html
    assert "too narrow" in page.text["bands"] and "Not quite" in page.text["bands"]


def test_praises_only_where_praise_is_due(page: Page) -> None:
    assert page.html.count('good baseline">Better than ') == 2
    assert not re.search("worse than|told apart", page.html, flags=re.I) and page.text["bands"].startswith("Yes")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": 340}, "Nothing to score yet: 340 rows read, and the warm-up takes 1,000."),
        ({"rows": 1, "warmup": 0}, "On 1 row, each predicted"),
        ({"rows": 1}, "Nothing to score yet: 1 row read, and the warm-up takes"),
        ({"rows": 1001}, "On 1 row, each predicted"),
        ({"rows": 1300, "constant": True}, "on a target that never changed"),
        ({"rows": 60, "warmup": 10}, "Too few scored rows to tell"),
        ({"rows": 400, "warmup": 50, "names": NAMES[:1]}, "The model is a single expert, linear x1, static"),
        ({"rows": 400, "warmup": 50, "sharpness": 2.0}, "and is too wide"),
        ({"rows": 400, "warmup": 50, "rmse": math.nan, "nmse": math.nan}, "never changed"),
    ],
)
def test_unusual_runs(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    page = told(tmp_path, **options)
    assert sentence in page.html
    assert not re.search(r"\b(nan|None|inf)\b", re.sub("<style.*?</style>", "", page.html, flags=re.DOTALL))


def test_an_interrupted_run_of_two_targets_and_an_odd_name(tmp_path: Path) -> None:
    given = {"interrupted": True, "stopped": "no power", "targets": ["a", "b"], "data": "<b>&amp;$x$ 漢"}
    page = told(tmp_path, rows=400, warmup=50, **given)
    assert "its first 400 rows only. Reason: no power." in page.html
    assert "The charts show the first, a;" in page.html
    assert "&lt;b&gt;&amp;amp;$x$ 漢" in page.html


def test_a_run_without_a_judgement_shows_none(tmp_path: Path) -> None:
    page = told(tmp_path, rows=400, warmup=50, judgement=None)
    assert 'baseline">' not in page.html and "mean log density of the targets (PLL)" in page.html


@pytest.mark.parametrize("name", ["predictions.parquet", "weights.parquet", "metrics.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    fake_run(tmp_path, rows=50, warmup=10)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        write_report(tmp_path)


@pytest.mark.parametrize("name", ["predictions.parquet", "weights.parquet", "metrics.json"])
def test_a_file_cut_short_is_named_and_the_old_report_stays(tmp_path: Path, name: str) -> None:
    fake_run(tmp_path, rows=50, warmup=10)
    old = b"the report of an earlier run"
    (tmp_path / "report.html").write_bytes(old)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"{name}: expected"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == old


def test_missing_columns_and_entries_are_named(tmp_path: Path) -> None:
    metrics = fake_run(tmp_path, rows=50, warmup=10)
    frame = pl.read_parquet(tmp_path / "predictions.parquet")
    frame.drop("pit").write_parquet(tmp_path / "predictions.parquet")
    with pytest.raises(ValueError, match=r"predictions\.parquet: expected a column 'pit'"):
        write_report(tmp_path)
    frame.clear().write_parquet(tmp_path / "predictions.parquet")
    with pytest.raises(ValueError, match=r"predictions\.parquet: expected at least one row"):
        write_report(tmp_path)
    for broken in ({k: v for k, v in metrics.items() if k != "naive"}, metrics | {"experts": [{}]}, [1]):
        (tmp_path / "metrics.json").write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=r"metrics\.json: expected an entry"):
            write_report(tmp_path)


def test_a_failed_write_leaves_the_old_report_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_run(tmp_path, rows=50, warmup=10)
    (tmp_path / "report.html").write_bytes(old := b"the report of an earlier run")
    before = sorted(path.name for path in tmp_path.iterdir())

    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    fake_run(tmp_path, rows=50, warmup=10)
    monkeypatch.setitem(sys.modules, module, None)
    for name in ("drawing", "figures", "maps", "templating"):
        monkeypatch.delitem(sys.modules, f"streamgp.reports.{name}", raising=False)
        monkeypatch.delattr(f"streamgp.reports.{name}", raising=False)
    with pytest.raises(ImportError, match="pip install matplotlib jinja2"):
        write_report(tmp_path)


def test_a_long_stream_stays_small(tmp_path: Path) -> None:
    page = told(tmp_path, rows=60_000)
    assert len(page.html) < 1_500_000
    assert "every 10th up to 100,000" in page.html
    assert all(len(polyline(svg, "model")) <= BINS for svg in page.svgs)
