"""How the report shows the weights: of many experts by what they share, and of streams of which not all are kept."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fake_run import fake_run
from streamgp.app.report import write_report
from streamgp.reports import tables
from streamgp.reports.pages.expert_weights import FIRST, MATTERS
from streamgp.reports.tables import keep_weights

BASES = [f"fourier {start}" for start in range(11)]
DYNAMICS = ["static", "walk 0.1"]
NOISE = ["constant", "adaptive 0.8 ar 0.5"]
MANY = [f"{basis}, {dynamics}, {noise}" for basis in BASES for dynamics in DYNAMICS for noise in NOISE]


def legend(html: str, name: str) -> list[str]:
    found = re.search(rf'id="weights-{name}">(.*?)</ul>', html, re.DOTALL)
    assert found, name
    return [re.sub("<.*?>", "", item) for item in re.findall("<li>(.*?)</li>", found[1])]


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("many")
    fake_run(out, rows=3000, names=MANY)
    write_report(out)
    return out


def test_many_experts_are_added_up_by_what_they_share(many: Path):
    html = (many / "report.html").read_text()
    weights = pl.read_parquet(many / "weights.parquet")
    assert 'id="weights-legend"' not in html
    for name, position, kinds in (("basis", 0, BASES), ("dynamics", 1, DYNAMICS), ("noise", 2, NOISE)):
        added = {
            kind: weights[[n for n in MANY if n.split(", ")[position] == kind]].sum_horizontal().to_numpy()
            for kind in kinds
        }
        shown = sorted(kinds, key=lambda kind: -added[kind].mean())[:9]
        expected = [
            f"{kind}: {percent(added[kind].mean())} on average, {percent(added[kind][-1])} at the end"
            for kind in kinds
            if kind in shown
        ]
        more = ["2 others"] if name == "basis" else []
        assert legend(html, name) == [*expected, *more, "warm-up, not scored"]
        assert html.count(f'aria-label="Weights of the {name} along the stream"') == 2
    assert "the last error predicts of the next" in html


def test_the_table_of_many_experts_has_the_first_and_those_that_mattered(many: Path):
    html = (many / "report.html").read_text()
    weights = pl.read_parquet(many / "weights.parquet")
    ranked = sorted(MANY, key=lambda n: -weights[n][-1])
    mattered = [n for n in ranked[FIRST:] if weights[n].mean() >= MATTERS]
    shown = [name for name in re.findall(r"<tr><td>(.*?)</td>", html) if name in MANY]
    assert shown == ranked[:FIRST] + mattered
    left_out = len(MANY) - len(shown)
    assert 0 < left_out < len(MANY) - FIRST
    assert f"Left out: {left_out} experts whose mean weight is below 0.1%." in html
    assert html.count(">Noise</th>") == 2


def test_what_does_not_differ_has_no_chart(tmp_path: Path):
    fake_run(tmp_path, rows=1500, names=[n for n in MANY if n.endswith("static, constant")])
    html = write_report(tmp_path).read_text()
    assert len(legend(html, "basis")) == 11
    assert 'id="weights-dynamics"' not in html and 'id="weights-noise"' not in html
    assert ">Noise</th>" not in html


def test_few_experts_have_a_chart_of_their_own(tmp_path: Path):
    fake_run(tmp_path, rows=1500, names=MANY[:9])
    html = write_report(tmp_path).read_text()
    weights = pl.read_parquet(tmp_path / "weights.parquet")[:, 1:]
    ranked = sorted(MANY[:9], key=lambda n: -weights[n].mean())
    assert [line.split(":")[0] for line in legend(html, "legend")] == [*ranked, "warm-up, not scored"]
    assert 'id="weights-basis"' not in html


@pytest.mark.parametrize("names", [MANY[:2], MANY])
def test_rows_that_are_kept_stand_for_those_up_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
):
    monkeypatch.setattr(tables, "WEIGHTS_KEPT", 100)
    fake_run(tmp_path, rows=9300, warmup=300, names=names)
    path = tmp_path / "weights.parquet"
    weights = pl.read_parquet(path)
    # All weight is on the first expert for 2,000 of 9,000 rows, and then on the second.
    early = np.arange(9000) < 2000
    columns = {name: np.zeros(9000, np.float32) for name in names} | {names[0]: early, names[1]: ~early}
    weights = weights.with_columns(**{n: pl.Series(c).cast(pl.Float32) for n, c in columns.items()})
    kept = weights.filter(keep_weights(np.arange(9000)))
    assert len(kept) == 100 + 90 + 80
    kept.write_parquet(path)
    html = write_report(tmp_path).read_text()
    means = dict(re.findall(r"<tr><td>(?:<span[^>]*></span>)?([^<]*)</td>.*?([\d.]+%)</td></tr>", html, re.DOTALL))
    assert means[names[0]] == "22.2%" and means[names[1]] == "77.8%"
