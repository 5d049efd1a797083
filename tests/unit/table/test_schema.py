"""What the first rows say about the columns."""

import io

import pytest

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.table import Feature, Schema, open_rows


def schema_of(columns: dict[str, list[str]], **options) -> Schema:
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    with open_rows(io.StringIO("\n".join(lines)), target="y", **options) as reader:
        return reader.schema


@pytest.mark.parametrize(
    ("cells", "feature"),
    [
        (["1", "-2.5", "1e9"], Feature("x", "numeric")),
        (["1", "", "nan"], Feature("x", "numeric")),
        (["True", "false", ""], Feature("x", "boolean")),
        (["yes", "no", "yes"], Feature("x", "categorical", ("yes", "no"))),
        ([" b", "", "b"], Feature("x", "categorical", ("b", ""))),
        (["1", "2", "A"] * 3, Feature("x", "categorical", ("1", "2", "A"))),
        (["10.0.0.1", "10.0.0.1", "10.0.0.2"], Feature("x", "categorical", ("10.0.0.1", "10.0.0.2"))),
        (
            [f"level {i}" for i in range(50)],
            Feature("x", "categorical", tuple(f"level {i}" for i in range(50))),
        ),
        # A stray word among numbers that hardly repeat is a bad cell, not a category.
        ([*(f"{i}.5" for i in range(100)), "?"], Feature("x", "numeric")),
        (["0.1", "0.2", "?", "0.4"], Feature("x", "numeric")),
    ],
)
def test_kinds(cells: list[str], feature: Feature) -> None:
    schema = schema_of({"x": cells, "y": ["1"] * len(cells)})
    assert schema.features == (feature,)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([""] * 60, "entirely empty"),
        (["2024-01-31"] * 60, "date or time"),
        (["2024-01-31T10:00:00+02:00", ""] * 30, "date or time"),
        (["31.01.2024 10:00"] * 60, "date or time"),
        (["1/31/2024"] * 60, "date or time"),
        (["10:30"] * 60, "times of day without a date"),
    ],
)
def test_dropped_columns_say_why(cells: list[str], reason: str) -> None:
    schema = schema_of({"x": cells, "v": ["1"] * 60, "y": ["1"] * 60})
    assert [feature.name for feature in schema.features] == ["v"]
    assert reason in schema.dropped["x"]


def test_constant_columns_are_kept_and_named() -> None:
    schema = schema_of(
        {
            "a": ["3", "3.0"],
            "b": ["3", "4"],
            "c": ["w", "w"],
            "d": ["true", "TRUE"],
            "e": ["u", "w"],
            "y": ["1", "1"],
        }
    )
    assert schema.constant == ("a", "c", "d")
    assert schema.feature_names == ["a", "b", "c=w", "d", "e=u", "e=w"]


def test_only_the_first_rows_decide() -> None:
    columns = {"x": ["a", "b", "a", "c"], "z": ["1", "1", "1", "2"], "y": ["1"] * 4}
    assert schema_of(columns, infer_rows=3).features[0].levels == ("a", "b")
    assert schema_of(columns, infer_rows=3).constant == ("z",)
    assert schema_of(columns, infer_rows=4).features[0].levels == ("a", "b", "c")


def test_json_round_trip() -> None:
    schema = schema_of(
        {
            "t": ["2024-01-01"] * 2,
            "wörter": ["ä", ""],
            "b": ["true", "false"],
            "d": ["", ""],
            "y": ["1", "2"],
        },
        time="t",
    )
    assert schema.dropped
    assert schema.time_is_text
    assert decode(*encode(schema), {}) == schema
