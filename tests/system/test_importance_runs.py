"""Which inputs matter, as a run tells it: the numbers of the estimators, and where there are none."""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from small_runs import ROWS, WARMUP, run_linear, run_spec, table
from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)
from streamgp.estimators.explanations import importance as of_groups
from streamgp.evaluation import inputs
from streamgp.models.registry import make_spec

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(2)


def rows() -> pl.DataFrame:
    """The table of small runs, with counts, kinds and grades of the same inputs."""
    found = table()
    a, b = found["a"].to_numpy(), found["b"].to_numpy()
    level = 1.5 * a - 0.5 * b + RNG.logistic(size=ROWS)
    return found.with_columns(
        hits=RNG.poisson(np.exp(0.5 + 0.6 * a)),
        kind=np.where(level > 0.0, "hot", "cold"),
        grade=np.digitize(level, [-1.0, 1.0]) + 1,
        hours=np.tile([1.0, 2.0], ROWS // 2),
    )


def told(tmp_path: Path, frame: pl.DataFrame, **changes: Any) -> Any:
    frame.write_csv(tmp_path / "data.csv")
    return run_linear(tmp_path / "data.csv", **changes).metrics["importance"]


def check(found: Any, expected: dict[str, float]) -> None:
    assert [each["name"] for each in found] == list(expected)
    assert [each["share"] for each in found] == pytest.approx(list(expected.values()), rel=1e-9, abs=1e-12)
    assert found[0]["share"] > 0.05  # so that the test can fail


@pytest.mark.parametrize(
    ("target", "estimator", "options"),
    [
        ("y", StreamingGPRegressor, {}),
        ("hits", StreamingGPCountRegressor, {"task": "count"}),
        ("kind", StreamingGPClassifier, {}),
        ("grade", StreamingGPOrdinal, {"task": "ordinal", "grades": ["1", "2", "3"]}),
    ],
)
def test_the_shares_are_those_of_the_estimator(tmp_path: Path, target: str, estimator: Any, options: dict[str, Any]):
    frame = rows()
    found = told(tmp_path, frame, targets=[target], features=["b", "a"], **options)
    model = estimator("linear", warmup=WARMUP).partial_fit(frame.select("b", "a"), frame[target].to_numpy())
    check(found, model.feature_importance())


def test_the_columns_of_a_category_are_one_input(tmp_path: Path):
    frame = table()
    found = told(tmp_path, frame, features=["wind", "a", "b"])
    levels = list(dict.fromkeys(frame["wind"]))
    X = np.column_stack([*((frame["wind"] == level) for level in levels), frame["a"], frame["b"]]).astype(float)
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, frame["y"].to_numpy())
    check(found, of_groups(model._learner, {"wind": [0, 1, 2], "a": [3], "b": [4]}))
    assert all(each["share"] > 0.01 for each in found)


def test_the_cycles_of_a_date_are_one_input(tmp_path: Path):
    first, step = pl.datetime(2024, 1, 1), pl.duration(hours=1)
    frame = table().with_columns(day=pl.select(first + step * pl.int_range(ROWS)).to_series())
    frame = frame.with_columns(y=pl.col("y") + (pl.col("day").dt.hour() * np.pi / 12).sin())
    text = frame.with_columns(day=pl.col("day").dt.to_string("%Y-%m-%dT%H:%M:%S"))
    cycles = ("day", "week")
    found = told(tmp_path, text, features=["a", "day"], calendar=cycles)
    model = StreamingGPRegressor("linear", warmup=WARMUP, calendar=cycles)
    check(found, model.partial_fit(frame.select("a", "day"), frame["y"]).feature_importance())


def test_of_several_targets_there_is_the_mean(tmp_path: Path):
    frame = table()
    found = told(tmp_path, frame, targets=["y", "z"], features=["a", "b"])
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(frame.select("a", "b"), frame.select("y", "z"))
    each = {name: float(np.mean(shares)) for name, shares in model.feature_importance().items()}
    check(found, each)


@pytest.mark.parametrize("options", [{"lags": [1, 5]}, {"lags": 1, "horizon": 5}])
def test_past_targets_are_an_entry(tmp_path: Path, options: dict[str, Any]):
    frame = table()
    frame.write_csv(tmp_path / "data.csv")
    found = run_spec(tmp_path / "data.csv", None, make_spec("linear", **options), features=["a", "b"]).metrics
    model = StreamingGPRegressor("linear", warmup=WARMUP, **options)
    shares = model.partial_fit(frame.select("a", "b"), frame["y"]).feature_importance()
    assert [each["name"] for each in found["importance"]] == list(shares)
    assert set(shares) == {"a", "b", "past targets"}
    assert [each["share"] for each in found["importance"]] == pytest.approx(list(shares.values()), rel=1e-9)


def test_there_is_none_where_it_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    frame = rows()
    assert told(tmp_path, frame, targets=["hits"], features=["a"], task="count", exposure="hours") is None
    frame.write_csv(tmp_path / "data.csv")
    of_lags = run_spec(tmp_path / "data.csv", None, make_spec("linear", lags=1), features=[]).metrics["importance"]
    assert [each["name"] for each in of_lags] == ["past targets"]
    assert told(tmp_path, frame[: WARMUP - 10]) is None
    assert told(tmp_path, frame.with_columns(stamp=-pl.col("stamp").abs()), time="stamp") is None  # ends in an error
    monkeypatch.setattr(inputs, "MOST", 3)
    assert told(tmp_path, frame) is not None
    monkeypatch.setattr(inputs, "MOST", 2)
    assert told(tmp_path, frame) is None


def test_the_page_of_python_tells_the_shares_of_the_end_of_its_rows(tmp_path: Path):
    """Whatever the model learns after them, and from a copy of the result in another process."""
    frame = table().with_columns(wind=pl.col("wind").cast(pl.Categorical))
    model = StreamingGPRegressor("linear", warmup=WARMUP)
    found = evaluate(model, frame.select("a", "b", "wind"), frame["y"])
    expected = [(name, f"{100 * share:.1f}%") for name, share in model.feature_importance().items()]
    copied = pickle.dumps(found)
    model.partial_fit(frame.select("a", "b", "wind"), -frame["y"])
    for result in (found, pickle.loads(copied)):
        page = result.report(tmp_path / "page.html", progress=False).read_text()
        section = re.sub(r"\s+", " ", page[page.index('<section id="inputs">') :])
        section = section[: section.index("</section>")]
        assert re.findall(r'<th scope="row">(.*?)</th>.*?<td class="n">(.*?)</td>', section) == expected


def test_the_page_of_python_has_no_shares_where_there_are_none(tmp_path: Path):
    frame = rows()
    lagged = evaluate(StreamingGPRegressor("linear", lags=[1], warmup=WARMUP), np.empty((ROWS, 0)), frame["y"])
    exposed = evaluate(
        StreamingGPCountRegressor("linear", warmup=WARMUP),
        frame["a"].to_numpy()[:, None],
        frame["hits"],
        exposure=frame["hours"],
    )
    assert "Which inputs matter" not in exposed.report(tmp_path / "page.html").read_text()
    assert '<th scope="row">past targets</th>' in lagged.report(tmp_path / "page.html").read_text()
