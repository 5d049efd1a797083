"""`streamgp embed`: what it writes, what its page shows, and what goes wrong."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner, Result

from streamgp import StreamingGPLVM
from streamgp.app import cli
from streamgp.app.interrupt import Interrupt, Stop
from streamgp.latent import fit_coordinates
from streamgp.latent import run as embed

pytestmark = pytest.mark.slow

ROWS, WARMUP = 150, 40
FEATURES = "x0,x1,x2,x3,x4"  # of all runs, which share programs


@pytest.fixture(scope="module", autouse=True)
def few_steps():
    """What is written is the same after few steps of the warm-up's fits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamgp.latent.initial_fit.fit_coordinates", partial(fit_coordinates, steps=30))
        yield


def invoke(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli.app, ["embed", *(str(word) for word in words)], input=stdin)


def fails(result: Result, message: str, code: int = 1) -> None:
    """One sentence on standard error, a non-zero exit, and no traceback."""
    assert (result.exit_code, type(result.exception)) == (code, SystemExit)
    assert message in result.stderr.splitlines()[-1]


def table(rows: int = ROWS) -> pl.DataFrame:
    """Rows on a closed curve, with a label, text, an angle and gaps."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 2.0 * np.pi, rows)
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    Y = 3.0 + np.tanh(truth @ rng.normal(size=(2, 5))) + 0.02 * rng.normal(size=(rows, 5))
    Y[rng.random(Y.shape) < 0.05] = np.nan
    frame = pl.DataFrame({f"x{i}": Y[:, i] for i in range(5)}).fill_nan(None)
    side = pl.Series("side", np.where(np.cos(angle) > 0.0, "right", "left"))
    return frame.with_columns(side, pl.Series("angle", angle), pl.Series("n", [f"row {i}" for i in range(rows)]))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "curve.csv"
    table().write_csv(path)
    return path


@pytest.fixture(scope="module")
def done(data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("done") / "map"
    result = invoke(data, "--label", "side", "--features", FEATURES, "--warmup", WARMUP, "--out", out)
    assert result.exit_code == 0, result.output
    assert "150 rows of 5 numbers each in 2 coordinates" in result.stdout
    assert "nearest neighbours with another side" in result.stdout
    assert f"report: {out / 'report.html'}" in result.stdout.replace("\n", "")
    return out


def test_every_row_has_its_place(done):
    frame = pl.read_parquet(done / "embedding.parquet")
    assert frame.columns == ["row", "z1", "z2", "std1", "std2", "log_density", "label"]
    assert frame["row"].to_list() == list(range(ROWS))
    assert frame["label"].to_list() == table()["side"].to_list()
    assert frame["z1"].null_count() == 0
    for name in ("std1", "std2", "log_density"):
        assert frame[name].is_null().to_list() == [i < WARMUP for i in range(ROWS)]
    metrics = json.loads((done / "metrics.json").read_text())
    assert metrics["rows"] == ROWS and metrics["warmup"] == WARMUP and metrics["label"] == "side"
    assert metrics["missing_cells"] == sum(table()[f"x{i}"].null_count() for i in range(5)) > 20
    assert 0.0 <= metrics["neighbour_error"]["embedding"] < 0.2
    assert_allclose(metrics["log_density"], frame["log_density"].mean())
    assert sum(expert["weight"] for expert in metrics["experts"]) == pytest.approx(1.0)


def test_the_places_are_those_of_the_estimator(done):
    X = pd.DataFrame(table().select("x0", "x1", "x2", "x3", "x4").to_dict(as_series=False))
    model = StreamingGPLVM(warmup=WARMUP).fit(X)
    frame = pl.read_parquet(done / "embedding.parquet")
    assert_allclose(frame.select("z1", "z2").to_numpy(), model.embedding_, rtol=1e-5, atol=1e-5)
    kept = StreamingGPLVM.load(done / "checkpoint")
    assert list(kept.feature_names_in_) == ["x0", "x1", "x2", "x3", "x4"] and kept.rows_ == ROWS
    assert_allclose(kept.transform(X[:9]), model.transform(X[:9]), rtol=1e-9, atol=1e-9)
    # Before a row is learnt, its density is what the model of then says of it.
    early = StreamingGPLVM(warmup=WARMUP).fit(X[:WARMUP])
    assert_allclose(frame["log_density"][WARMUP : WARMUP + 4], early.score_samples(X[WARMUP : WARMUP + 4]), rtol=1e-6)


def test_the_page_shows_the_map_its_legend_and_what_was_unusual(done):
    page = (done / "report.html").read_text()
    for part in ('id="scatter"', 'id="uncertainty"', 'id="density"', 'id="unusual"', 'id="experts"', "left", "right"):
        assert part in page
    assert "http" not in page and ">nan<" not in page.lower()
    frame = pl.read_parquet(done / "embedding.parquet").drop_nulls("log_density").sort("log_density")
    assert f'<td class="n">{frame["row"][0]}</td>' in page


def test_standard_input_one_coordinate_and_json(data, tmp_path):
    text = "\n".join(data.read_text().splitlines()[:90]).encode()
    words = ("--warmup", WARMUP, "--features", FEATURES, "--label", "angle", "--json", "-")
    result = invoke("-", *words, "--components", 1, "--out", tmp_path / "out", stdin=text)
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)
    assert metrics["rows"] == 89 and metrics["data"] == "standard input"
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="uncertainty"' not in page and " to " in page  # an angle is shaded by fifths
    assert pl.read_parquet(tmp_path / "out" / "embedding.parquet").columns[:3] == ["row", "z1", "std1"]


def test_a_bad_row_ends_it_with_what_there_is(data, tmp_path):
    lines = data.read_text().splitlines()
    lines[121] = "oops" + lines[121]
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    words = ("--warmup", WARMUP, "--features", FEATURES, "--missing", "raise", "--out", tmp_path / "out")
    result = invoke(tmp_path / "bad.csv", *words)
    fails(result, "data row 121 (line 122): column 'x0': expected a finite number or nothing, got 'oops")
    assert len(pl.read_parquet(tmp_path / "out" / "embedding.parquet")) == 120
    assert "This embedding is not complete" in (tmp_path / "out" / "report.html").read_text()


def test_an_interrupted_one_has_the_rows_so_far(data, tmp_path, monkeypatch):
    calls = iter(range(100))

    def check(self: Interrupt) -> None:
        if next(calls) == 6:
            raise Stop

    monkeypatch.setattr(Interrupt, "check", check)
    result = invoke(data, "--warmup", WARMUP, "--features", FEATURES, "--out", tmp_path / "out")
    fails(result, "interrupted after", 130)
    rows = len(pl.read_parquet(tmp_path / "out" / "embedding.parquet"))
    assert WARMUP < rows < ROWS
    assert StreamingGPLVM.load(tmp_path / "out" / "checkpoint").rows_ == rows


def test_a_file_shorter_than_its_warm_up_is_placed_as_a_whole(data, tmp_path):
    result = invoke(data, "--max-rows", 60, "--features", FEATURES, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    frame = pl.read_parquet(tmp_path / "out" / "embedding.parquet")
    assert len(frame) == 60 and frame["log_density"].null_count() == 60
    assert 'id="density"' not in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "sid"), "there is no column 'sid' (did you mean 'side'?)"),
        (("--features", "x0,n"), "column 'n'"),
        (("--dynamics", "dance"), "dynamics 'dance'"),
        (("--switch", "2"), "switch: expected a probability"),
        (("--json", "/nowhere/at/all.json"), "--json: expected a file in a directory that exists"),
    ],
)
def test_what_cannot_be_is_said(data, tmp_path, words, message):
    fails(invoke(data, *words, "--out", tmp_path / "out"), message)
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_unasked(data, done):
    before = (done / "embedding.parquet").read_bytes()
    fails(invoke(data, "--out", done), "already holds an embedding: add --overwrite")
    fails(invoke(data, "--out", data), "expected a directory, got the file")
    assert (done / "embedding.parquet").read_bytes() == before


def test_without_the_packages_of_the_report_the_rest_is_written(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "streamgp.reports.templating", raising=False)
    monkeypatch.delattr("streamgp.reports.templating", raising=False)
    result = invoke(data, "--max-rows", 60, "--features", FEATURES, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "no report: The report needs matplotlib and jinja2: pip install matplotlib jinja2" in result.stdout
    assert (tmp_path / "out" / "embedding.parquet").exists()


def test_without_usearch_it_says_what_to_install(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    fails(invoke(data, "--warmup", 10, "--max-rows", 20, "--out", tmp_path / "out"), "streamgp[latent]")


def test_help_has_examples():
    result = invoke("--help")
    assert result.exit_code == 0 and "streamgp embed digits.csv --label digit" in result.stdout
    assert embed.SHORT_FILE == 5_000
