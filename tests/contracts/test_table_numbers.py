"""How numbers are written: every front door reads the same ones, by column, and asks where there are two readings."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from odd_tables import DOORS, ROWS, WARMUP, cells, followed, said, same, text
from streamgp import StreamingGPRegressor, evaluate
from streamgp.service import follow, growing
from streamgp.table.numbers import decimal_of, find_marks, to_numbers
from streamgp.table.reading import Reading

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning"),
]


def whole(name: str) -> list[int]:
    """Return the numbers of a column as whole ones around 1,000."""
    at = {"a": 2, "y": 3}[name]
    return [1000 + round(200 * float(row[at])) for row in cells()]


def quarters(name: str) -> list[float]:
    """Return them with two decimals, which some have, and others of three or none."""
    return [number + (i % 4) / 4 for i, number in enumerate(whole(name))]


def pointed(number: float) -> str:
    return f"{number:,.10g}".replace(",", "_").replace(".", ",").replace("_", ".")


# The separator, and how a whole number and one with decimals are written.
SPELLINGS: dict[str, tuple[str, Any, bool]] = {
    "US thousands beside 998": (";", lambda number: f"{number:,}", False),
    "US thousands in quotes": (",", lambda number: f'"{number:,}"', False),
    "US thousands, tabs": ("\t", lambda number: f"{number:,}", False),
    "US thousands with decimals": (";", lambda number: f"{number:,.10g}", True),
    "decimal comma": (";", lambda number: f"{number:.10g}".replace(".", ","), True),
    "decimal comma, tabs": ("\t", lambda number: f"{number:.10g}".replace(".", ","), True),
    "decimal comma in quotes": (",", lambda number: '"' + f"{number:.10g}".replace(".", ",") + '"', True),
    "decimal comma and points": (";", pointed, True),
    "Swiss thousands": (";", lambda number: f"{number:,.10g}".replace(",", "'"), True),
    "blanks between thousands": (";", lambda number: f"{number:,.10g}".replace(",", "\u202f"), True),
}


def spelt(kind: str, names: tuple[str, ...] = ("a", "y")) -> str:
    separator, write, has_decimals = SPELLINGS[kind]
    numbers = quarters if has_decimals else whole
    plain = {name: [f"{number:.10g}" for number in numbers(name)] for name in ("a", "y")}
    return text(separator, **(plain | {name: [write(number) for number in numbers(name)] for name in names}))


@cache
def expected(door: str, has_decimals: bool) -> Any:
    from tempfile import TemporaryDirectory

    numbers = quarters if has_decimals else whole
    table = text(**{name: [f"{number:.10g}" for number in numbers(name)] for name in ("a", "y")})
    with TemporaryDirectory() as folder:
        return said(door, table.encode(), Path(folder))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", SPELLINGS)
def test_numbers_are_read_by_the_marks_of_their_column(kind: str, door: str, tmp_path: Path):
    names = ("a",) if door in ("command", "resume") else ("y",)  # the other column is written plainly
    found = said(door, spelt(kind, names).encode(), tmp_path)
    same(found, expected(door, SPELLINGS[kind][2]))
    assert found["mae"] == pytest.approx(expected(door, SPELLINGS[kind][2])["mae"])  # which has a scale


def frame(kind: str) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame]:
    """Return inputs as text, targets, and the inputs as numbers."""
    _, write, has_decimals = SPELLINGS[kind]
    numbers = quarters if has_decimals else whole
    texts = [write(number).strip('"') for number in numbers("a")]
    return pd.DataFrame({"a": texts}), np.array(numbers("y"), float), pd.DataFrame({"a": numbers("a")})


@pytest.mark.parametrize("door", ["estimator", "evaluate"])
@pytest.mark.parametrize("kind", SPELLINGS)
def test_estimators_read_text_the_same_way(kind: str, door: str):
    texts, y, plain = frame(kind)
    means = []
    for X in (texts, plain):
        model = StreamingGPRegressor("linear", warmup=WARMUP)
        if door == "evaluate":
            means.append(evaluate(model, X, y).mean)
        else:
            model.partial_fit(X[:30], y[:30]).partial_fit(X[30:40], y[30:40])
            means.append(model.predict(X[40:]))
    assert_allclose(*means, rtol=1e-9)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE", 0.01)
    monkeypatch.setattr(growing, "PAUSE", 0.01)


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_followed_file_is_read_the_same_way(kind: str, tmp_path: Path, short_pauses: None):
    status, heard = followed(tmp_path, spelt(kind).encode())
    assert (status["rows"], status["skipped"], heard) == (ROWS, 0, [])


# What may be two numbers

UNSURE = [f"{1000 + i:,}" for i in range(ROWS)]
WORDS = "column 'y': '1,000' may be 1000 or 1"
ASKS = "say which: --decimal . (or --thousands ,) or --decimal , (or --thousands .)"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_what_may_be_two_numbers_is_asked(separator: str, door: str, tmp_path: Path):
    column = [f'"{cell}"' for cell in UNSURE] if separator == "," else UNSURE
    rest = {"a": [str(number) for number in whole("a")]}
    found = said(door, text(separator, y=column, **rest).encode(), tmp_path)
    assert isinstance(found, str)
    assert found == f"{WORDS}, and the first rows do not tell which; {ASKS}."


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("options", "scale"),
    [
        (("--decimal", "."), 1.0),
        (("--thousands", ","), 1.0),
        (("--decimal", ","), 1e-3),
        (("--decimal", ",", "--thousands", "."), 1e-3),
    ],
)
def test_the_answer_settles_it(options: tuple[str, ...], scale: float, door: str, tmp_path: Path):
    rest = {"a": [str(number) for number in whole("a")]}
    found = said(door, text(";", y=UNSURE, **rest).encode(), tmp_path, *options)
    plain = text(y=[f"{scale * (1000 + i):.10g}" for i in range(ROWS)], **rest)
    (tmp_path / "plain").mkdir()
    assert found["mae"] == pytest.approx(said(door, plain.encode(), tmp_path / "plain")["mae"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--decimal", ";"), "--decimal: expected a point or a comma, got ';'"),
        (
            ("--decimal", ",", "--thousands", ","),
            "--decimal, --thousands: expected different marks, got ',' for both",
        ),
    ],
)
@pytest.mark.parametrize("door", ["command", "key"])
def test_an_answer_that_is_none_is_refused(options: tuple[str, ...], words: str, door: str, tmp_path: Path):
    assert said(door, text().encode(), tmp_path, *options).startswith(words)


def test_estimators_ask_in_the_same_words():
    model = StreamingGPRegressor("linear", warmup=WARMUP)
    with pytest.raises(ValueError, match="'1,000' may be 1000 or 1, and the first rows do not tell which; turn it"):
        model.partial_fit(pd.DataFrame({"a": UNSURE}), np.arange(ROWS))


def test_a_followed_file_asks_line_by_line(tmp_path: Path, short_pauses: None):
    status, heard = followed(tmp_path, text(";", y=UNSURE, a=[str(each) for each in whole("a")]).encode())
    assert status["skipped"] == ROWS
    assert f"line 2 was skipped: {WORDS}; {ASKS}" in heard[0]
    (tmp_path / "told").mkdir()
    table = text(";", y=UNSURE, a=[str(each) for each in whole("a")])
    status, heard = followed(tmp_path / "told", table.encode(), reading=Reading("."))
    assert (status["rows"], heard) == (ROWS, [])


def test_how_numbers_were_read_that_others_tell_is_said(tmp_path: Path):
    found = said("command", spelt("US thousands beside 998", ("y",)).encode(), tmp_path)
    note = [each for each in found["warnings"] if "were read as" in each]
    assert len(note) == 1
    assert note[0].startswith("column 'y': numbers such as '1,")


# The judgement


@pytest.mark.parametrize(
    ("columns", "separator", "decimals"),
    [
        ({"y": ["1,025", "998", "997", "996"]}, ";", {"y": "."}),
        ({"y": ["1,025", "998", "997", "0", "0"]}, ";", {}),  # two tell too little, and 0 nothing
        ({"y": ["1,025", "12,5"]}, ";", {"y": ","}),
        ({"y": ["1,025", "0,125"]}, ";", {"y": ","}),
        ({"y": ["1,025", "1025,125"]}, ";", {"y": ","}),
        ({"y": ["1,025", "1,025,000"]}, ";", {"y": "."}),
        ({"y": ["1,025", "1,025.5"]}, ";", {"y": "."}),
        ({"y": ["1,025"], "x": ["12,5"]}, ";", {"y": ",", "x": ","}),
        ({"y": ["1,025"], "x": ["12.5"]}, ";", {"y": ".", "x": "."}),
        ({"y": ["1,025"], "x": ["12.5"], "z": ["12,5"]}, ";", {"x": ".", "z": ","}),
        ({"y": ["1,025", "998", "997", "996"], "x": ["12,5"]}, ";", {"x": ","}),  # which speak against each other
        ({"y": ["12,5", "12.5"]}, ";", {}),
        ({"y": ["1,025", "1.025"]}, ";", {}),
        ({"y": ["20.125", "21.300"]}, ";", {"y": "."}),
        ({"y": ["1.025", "998", "997", "996"]}, ";", {}),
        ({"y": ["1.025", "998", "997", "996"]}, ",", {"y": "."}),
        ({"y": ["1.025"], "x": ["12,5"]}, ";", {"y": ",", "x": ","}),
        ({"y": ["998"]}, ";", {"y": ""}),
        ({"y": ["998"]}, ",", {"y": "."}),
        ({"y": ["Hof, Saale", "Bonn"]}, ";", {}),
        ({"y": ["NA", "", None, "1,5"]}, ";", {"y": ","}),
        ({"y": np.array([1.0])}, None, {}),
    ],
)
def test_marks_are_never_guessed(columns: dict[str, Any], separator: str | None, decimals: dict[str, str]):
    assert find_marks(columns, separator).decimals == decimals


@pytest.mark.parametrize(
    ("cell", "point", "comma", "either", "plain"),
    [
        ("1,025", 1025.0, 1.025, np.nan, np.nan),
        ("1.025", 1.025, 1025.0, 1.025, 1.025),
        ("12,5", np.nan, 12.5, 12.5, np.nan),
        ("12.5", 12.5, np.nan, 12.5, 12.5),
        ("-1,023.50", -1023.5, np.nan, -1023.5, np.nan),
        ("1.023,50", np.nan, 1023.5, 1023.5, np.nan),
        ("1,02,345", np.nan, np.nan, np.nan, np.nan),
        ("0,125", np.nan, 0.125, 0.125, np.nan),
        ("1 025", 1025.0, 1025.0, 1025.0, np.nan),
        ("1'025.5", 1025.5, np.nan, 1025.5, np.nan),
        ("1_025", np.nan, np.nan, np.nan, np.nan),
        ("1,5e3", np.nan, 1500.0, 1500.0, np.nan),
        (" 7 ", 7.0, 7.0, 7.0, 7.0),
        ("inf", np.inf, np.inf, np.inf, np.inf),
        ("", np.nan, np.nan, np.nan, np.nan),
    ],
)
def test_cells_by_the_decimal_mark(cell: str, point: float, comma: float, either: float, plain: float):
    found = [to_numbers([cell, "oops"], mark)[0] for mark in (".", ",", "", None)]
    np.testing.assert_equal(found, [point, comma, either, plain])


def test_the_options_say_one_thing():
    assert [decimal_of(*each) for each in ((None, None), (".", None), (None, "."), (",", "."))] == ["", ".", ",", ","]
