"""What one odd cell among numbers is: the same at every front door, which counts it as missing or refuses it.

Of cells that are no numbers, files count as missing what ``--missing impute`` says; in Python, and in requests, whose
cells have types, they are refused by name.
"""

import json
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from streamgp import StreamingGPFleet, StreamingGPLVM, StreamingGPRegressor, evaluate
from streamgp.app.cli import app
from streamgp.service.config import StreamConfig
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem

pytestmark = pytest.mark.slow
ROWS, WARMUP, AT = 30, 14, 22

ONE = {
    "int": 1,
    "true": True,
    "float32": np.float32(1),
    "int8": np.int8(1),
    "bool of NumPy": np.bool_(True),
    "decimal": Decimal(1),
    "fraction": Fraction(1),
    "text": "1",
    "a point": "1.0",
    "an exponent": "1e0",
}
MISSING = {
    "None": None,
    "NaN": math.nan,
    "infinite": math.inf,
    "too large": -1e200,
    "no decimal": Decimal("nan"),
    "NA of pandas": pd.NA,
    "NaT of pandas": pd.NaT,
    "infinite text": "inf",
    **{f"{word!r}": word for word in ("", " ", "nan", "NA", "N/A", "null", "None")},
}
WRONG = {
    "word": "x",
    "dash": "-",
    "question": "?",
    "hexadecimal": "0x1",
    "underscore": "1_000",
    "a NUL after it": "1\0",
    "a NUL before it": "\x001",
    "bytes": b"1",
    "date": date(2024, 1, 1),
    "time": datetime(2024, 1, 1),
    "duration": timedelta(1),
    "complex": 1j,
    "date of NumPy": np.datetime64("2024-01-01"),
    "object": {},
    "set": {1},
    "huge": 10**400,
}
VERDICTS = {1.0: ONE, math.nan: MISSING, None: WRONG}
CASES = [pytest.param(cell, verdict, id=name) for verdict, cells in VERDICTS.items() for name, cell in cells.items()]


@cache
def plain() -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(0)
    a = rng.normal(size=ROWS)
    return a.tolist(), (a + 0.1 * rng.normal(size=ROWS)).tolist()


def rows(column: str, cell: Any) -> tuple[list[Any], list[Any]]:
    a, y = (list(each) for each in plain())
    (a if column == "a" else y)[AT] = cell
    return a, y


def model() -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", warmup=WARMUP)


def by_estimator(a: list[Any], y: list[Any]) -> Any:
    return model().partial_fit([[x] for x in a], y).predict([[0.5]])


def by_rows(a: list[Any], y: list[Any]) -> Any:
    single = model()
    for x, target in zip(a, y, strict=True):
        single.learn_one({"a": x}, target)
    return single.predict_one({"a": 0.5})


def by_evaluate(a: list[Any], y: list[Any]) -> Any:
    return evaluate(model(), [[x] for x in a], y).mean[AT + 1 :]


def by_fleet(a: list[Any], y: list[Any]) -> Any:
    columns = {"k": ["s"] * ROWS, "a": pd.Series(a, dtype=object), "y": pd.Series(y, dtype=object)}
    fleet = StreamingGPFleet("k", None, "y", warmup=WARMUP).partial_fit(pd.DataFrame(columns))
    return fleet.predict(pd.DataFrame({"k": ["s"], "a": [0.5]}))["mean"]


def by_service(a: list[Any], y: list[Any]) -> Any:
    config = StreamConfig("s", "y", ("a",), model="linear", warmup=WARMUP)
    given = [{"x": {"a": x}, "y": target} for x, target in zip(a, y, strict=True)]
    read = rows_with_inputs(config, given, with_target=True)
    return model().partial_fit(read.X, read.y).predict([[0.5]])


def by_command(a: list[Any], y: list[Any], *more: str) -> Any:
    def text(cell: Any) -> str:
        return "" if cell is None else str(cell)

    with TemporaryDirectory() as folder:
        file, out = Path(folder) / "t.csv", Path(folder) / "m.json"
        file.write_text("k,a,y\n" + "".join(f"s,{text(x)},{text(t)}\n" for x, t in zip(a, y, strict=True)))
        words = ["--target", "y", "--features", "a", "--warmup", str(WARMUP), "--json", str(out)]
        result = CliRunner().invoke(app, ["run", str(file), *words, *more])
        assert result.exit_code == 0, result.output
        return json.loads(out.read_text())["pll"]


def by_model(a: list[Any], y: list[Any]) -> Any:
    return by_command(a, y, "--model", "linear", "--lags", "none")


def by_key(a: list[Any], y: list[Any]) -> Any:
    return by_command(a, y, "--key", "k")


IN_PYTHON, FILES = (by_estimator, by_rows, by_evaluate, by_fleet), (by_model, by_key)


@cache
def known(door: Callable[..., Any], column: str, number: float) -> Any:
    return door(*rows(column, number))


def is_of_a_file(cell: Any) -> bool:
    return isinstance(cell, str | float | int | None) and not isinstance(cell, bool)


def is_of_json(cell: Any, column: str) -> bool:
    """Return whether JSON has the cell; targets that are too large, and infinity, are refused in a request."""
    of_json = type(cell) in (bool, int, float, type(None))
    return of_json and not (isinstance(cell, float) and (math.isinf(cell) or (column == "y" and abs(cell) > 1e100)))


@pytest.mark.parametrize("column", ["a", "y"])
@pytest.mark.parametrize(("cell", "verdict"), CASES)
def test_a_cell_is_the_same_at_every_door(cell: Any, verdict: float | None, column: str):
    given = rows(column, cell)
    for door in IN_PYTHON:
        if verdict is not None:
            assert_allclose(door(*given), known(door, column, verdict), rtol=1e-9)
            continue
        with pytest.raises(ValueError, match=r"expected a (real )?number.*, got .*; (turn|correct|pass) "):
            door(*given)
    for door in FILES if is_of_a_file(cell) else ():
        number = math.nan if verdict is None else verdict
        assert_allclose(door(*given), known(door, column, number), rtol=1e-9)
    if verdict is not None and is_of_json(cell, column):
        assert_allclose(by_service(*given), known(by_service, column, verdict), rtol=1e-9)
    else:
        with pytest.raises(Problem, match=f"{column}: expected a number"):
            by_service(*given)


@pytest.mark.parametrize("door", [model().partial_fit, model().fit, lambda X, y: evaluate(model(), X, y)])
def test_rows_from_an_iterator_are_refused(door: Callable[..., Any]):
    a, y = plain()
    with pytest.raises(ValueError, match=r"expected an array, .*, got an iterator \(generator\); make it a list"):
        door(({"a": x} for x in a), y)


class Row(NamedTuple):
    a: float


@pytest.mark.parametrize("kind", [lambda x: {"a": x}, Row])
def test_rows_with_names_are_a_frame_at_every_door(kind: Callable[[float], Any]):
    a, y = plain()
    named, frame = [kind(x) for x in a], pd.DataFrame({"a": a})
    expected = model().partial_fit(frame, y)
    found = model().partial_fit(named, y)
    assert found.feature_names_in_.tolist() == ["a"]
    assert_allclose(found.predict([kind(0.5)]), expected.predict(pd.DataFrame({"a": [0.5]})), rtol=1e-9)
    assert found.predict_one(kind(0.5)) == found.predict_one({"a": 0.5})
    assert_allclose(evaluate(model(), named, y).mean, evaluate(model(), frame, y).mean, rtol=1e-9)
    keyed = [{"k": "s", "a": x, "y": t} for x, t in zip(a, y, strict=True)]
    fleets = [
        StreamingGPFleet("k", None, "y", warmup=WARMUP).partial_fit(each) for each in (keyed, pd.DataFrame(keyed))
    ]
    first, second = (fleet.predict([{"k": "s", "a": 0.5}])["mean"] for fleet in fleets)
    assert_allclose(first, second, rtol=1e-9)
    with pytest.raises(
        ValueError, match=r"expected the features 'a' in each row, as in the first, got .*'b'.* in row 1"
    ):
        model().partial_fit([{"a": 1.0}, {"b": 1.0}], [0.0, 0.0])


@pytest.mark.parametrize("kind", [list, np.array, np.ma.array, pd.Series, pl.Series])
def test_columns_by_their_names_are_a_frame_at_every_door(kind: Callable[[list[float]], Any]):
    a, y = plain()
    named, frame = (
        {"a": kind(a), "b": ["u", "v"] * (ROWS // 2)},
        pd.DataFrame({"a": a, "b": ["u", "v"] * (ROWS // 2)}),
    )
    last, row = {"a": kind([0.5]), "b": ["u"]}, pd.DataFrame({"a": [0.5], "b": ["u"]})
    expected, found = model().partial_fit(frame, y), model().partial_fit(named, y)
    assert found.feature_names_in_.tolist() == ["a", "b"]
    assert_allclose(found.predict(last), expected.predict(row), rtol=1e-9)
    assert_allclose(evaluate(model(), named, y).mean, evaluate(model(), frame, y).mean, rtol=1e-9)
    assert_allclose(
        evaluate(model(), named | {"t": np.arange(ROWS)}, y, times="t").mean,
        evaluate(model(), frame.assign(t=np.arange(ROWS)), y, times="t").mean,
        rtol=1e-9,
    )
    keyed = {"k": ["s"] * ROWS, "a": kind(a), "y": kind(y)}
    fleets = [
        StreamingGPFleet("k", None, "y", warmup=WARMUP).partial_fit(each) for each in (keyed, pd.DataFrame(keyed))
    ]
    first, second = (fleet.predict({"k": ["s"], "a": kind([0.5])})["mean"] for fleet in fleets)
    assert_allclose(first, second, rtol=1e-9)


def test_columns_of_pandas_keep_their_types_and_their_order_of_rows():
    a, y = plain()
    codes = pd.Series(pd.Categorical(np.arange(ROWS) % 2), index=np.arange(ROWS)[::-1])
    found = model().partial_fit({"a": a, "code": codes}, y)
    expected = model().partial_fit(pd.DataFrame({"a": a, "code": codes.array}), y)
    row = pd.DataFrame({"a": [0.5], "code": pd.Categorical([1], [0, 1])})
    assert_allclose(found.predict(row), expected.predict(row), rtol=1e-9)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            {"a": 1.0},
            r"expected a list or an array of cells for the column 'a', got 1.0; give a single row as a list",
        ),
        ({"a": "text"}, "expected a list or an array of cells for the column 'a', got text;"),
        ({"a": np.zeros((ROWS, 2))}, "expected a list or an array of cells for the column 'a', got "),
        ({"a": [0.0] * ROWS, "b": [0.0]}, f"expected {ROWS} cells in each column, as in 'a', got 1 in 'b'; None"),
        ({0: [0.0] * ROWS}, "expected names of columns that are text, got 0; turn it into text"),
        ({}, "expected at least one column, got an empty dictionary; name one"),
    ],
)
def test_what_are_no_columns_is_refused(columns: Any, says: str):
    y = plain()[1]
    for door in (model().partial_fit, lambda X, y: evaluate(model(), X, y)):
        with pytest.raises(ValueError, match=says):
            door(columns, y)


@pytest.mark.parametrize("kind", [dict, lambda columns: pd.DataFrame(columns).to_dict("records")])
def test_latent_coordinates_know_the_names_of_columns_and_rows(kind: Callable[[dict[str, Any]], Any]):
    columns = {name: np.random.default_rng(i).normal(size=ROWS) for i, name in enumerate("abc")}
    found, expected = (
        StreamingGPLVM(n_components=1, warmup=20, n_features=10).partial_fit(given)
        for given in (kind(columns), pd.DataFrame(columns))
    )
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert_allclose(found.transform(kind(columns)), expected.transform(pd.DataFrame(columns)), rtol=1e-9)
