"""What a text file looks like: doors for files take the same ones, and refuse others in the same words."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from odd_tables import DOORS, ROWS, followed, plain, said, same, text
from streamgp.service import follow, growing
from streamgp.table.layout import find_layout
from streamgp.table.names import split_names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning"),
]


def wide(separator: str) -> str:
    """Return the table with columns under each other."""
    lines = [line.split(",") for line in text().splitlines()]
    return "".join(separator.join(f"{cell:<18}" for cell in line) + "\n" for line in lines)


TITLES = "Station Zurich, Switzerland\nElevation (m),400\n\n"
READ = {
    "lines before the header": TITLES + text(),
    "comments before the header": "# site, time, and what was measured, then\n# all of it\n" + text(),
    "sep=;": "sep=;\n" + text(";").replace(".", ","),
    "sep=, in quotes": '"sep=,"\n' + text(),
    "blanks": text(" "),
    "columns under each other": wide("  "),
    "blanks, and lines before the header": "Station Zurich\n\n" + wide("   "),
    "a separator at the end of each row": text(end=","),
    "gzip": text(),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", READ)
def test_odd_layouts_are_read(kind: str, door: str, tmp_path: Path):
    content = READ[kind].encode()
    same(said(door, gzip.compress(content) if kind == "gzip" else content, tmp_path), plain(door))


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("t.csv", text())
    return archive.getvalue()


REFUSED = {
    "a name too few": (
        text(names=["time", "a", "y"]).encode(),
        "line 1 names 3 columns ('time', 'a', 'y'), but line 2 and those after it have 4 cells ('s', "
        "'2024-12-20T00:00', ",
        "give every column a name, an index as well.",
    ),
    "a name too few below other lines": (
        (TITLES + text(names=["time", "a", "y"])).encode(),
        "line 4 names 3 columns ('time', 'a', 'y'), but line 5 and those after it have 4 cells",
        "",
    ),
    "a name too few between blanks": (
        text(" ", names=["time", "a", "y"]).encode(),
        "line 1 names 3 columns ('time', 'a', 'y'), but line 2 and those after it have 4 cells",
        "",
    ),
    "a name too many": (
        text(names=["site", "time", "a", "b", "y"]).encode(),
        "line 1 names 5 columns ('site', 'time', 'a', 'b', ...), but line 2 and those after it have 4 cells",
        "write as many cells in each row, empty ones where there is no value.",
    ),
    "zip": (zipped(), "expected a table of text, got a zip archive", "unpack it, or save the sheet as CSV."),
    "Parquet": (b"PAR1\n\x00\xff", "expected a table of text, got a Parquet file; name it .parquet.", ""),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", REFUSED)
def test_other_layouts_are_refused_in_a_sentence(kind: str, door: str, tmp_path: Path):
    content, begin, end = REFUSED[kind]
    found = said(door, content, tmp_path)
    assert isinstance(found, str)
    assert found.startswith(begin), found
    assert found.endswith(end), found


# Names with commas

POWER = "Power (kW, AC)"
COMMAS = text(names=["site", "time", '"in, m/s"', f'"{POWER}"'])


@pytest.mark.parametrize("door", DOORS)
def test_a_target_may_have_a_comma_in_its_name(door: str, tmp_path: Path):
    same(said(door, COMMAS.encode(), tmp_path, target=POWER), plain(door))


@pytest.mark.parametrize("features", ["in, m/s", '"in, m/s"', "in, m/s,time2", 'time2,"in, m/s"'])
def test_features_may_have_commas_in_their_names(features: str, tmp_path: Path):
    content = text(names=["time2", "site", '"in, m/s"', f'"{POWER}"'], site=["1"] * ROWS, time=["s"] * ROWS)
    found = said("command", content.encode(), tmp_path, "--features", features, target=POWER)
    same(found, plain("command"))


def test_a_name_with_a_comma_that_is_not_there_is_refused_with_the_way_to_write_it(tmp_path: Path):
    found = said("command", COMMAS.encode(), tmp_path, target="Power (kW)")
    assert "there is no column 'Power (kW)'" in found
    assert """a name with a comma stands in double quotes, as in '"in, m/s"'""" in found


def test_lists_of_names():
    assert split_names("a, b") == ["a", "b"]
    assert split_names('"a, b",c') == ["a, b", "c"]
    assert split_names("a, b,c", ["a, b", "c"]) == ["a, b", "c"]
    assert split_names("a,b,c", ["a, b", "c"]) == ["a, b", "c"]
    assert split_names("a, b", ["a, b", "a", "b"]) == ["a", "b"]
    assert split_names("a,b, c", ["b, c", "a,b, c", "a"]) == ["a", "b, c"]
    assert split_names("") == []


# What reads as before


@pytest.mark.parametrize(
    "lines",
    [
        ["x,y", "1,2"],
        ["x,y"],
        ["x,y", "1,2", "3"],
        ["x,y", "1", "3,4", "5,6"],
        ["c,d,y", "u", "u,v,w", "a,b,c"],  # text alone: nothing shows that the first line is no header
        ["#x,y", "1,2", "3,4"],
        ["y", "1", "2"],
        ["a title, of a column", "one, two", "three, four"],
        ["x,y", ",kW", "1,2"],
        ["wind speed", "3.2", "4.1"],
        [],
    ],
)
def test_the_first_line_is_the_header_where_nothing_speaks_against_it(lines: list[str]):
    found = find_layout([f"{line}\n" for line in lines])
    assert (found.separator, found.before, found.fault) == (",", 0, None)


def test_a_comment_sign_before_names_is_no_name():
    found = find_layout(["# one\n", "# x y\n", "1 2\n", "3 4\n"])
    assert (found.separator, found.before, found.fault) == (" ", 1, None)


# A file that is followed


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE", 0.01)
    monkeypatch.setattr(growing, "PAUSE", 0.01)


@pytest.mark.parametrize(
    "content",
    [
        "Station Zurich\n\n" + text(),
        "# one, two\n" + text(),
        "sep=;\n" + text(";").replace(".", ","),
        text(" "),
        wide(" "),
        text(end=","),
    ],
)
def test_a_followed_file_may_have_the_same_layouts(content: str, tmp_path: Path, short_pauses: None):
    status, heard = followed(tmp_path, content.encode())
    assert (status["rows"], status["skipped"], heard) == (ROWS, 0, [])


def test_a_followed_file_may_not_be_compressed(tmp_path: Path, short_pauses: None):
    status, _ = followed(tmp_path, gzip.compress(text().encode(), compresslevel=0))
    assert not status["following"]
    assert "expected a table of text, got gzip data" in status["last_error"]
