"""Generated tables in pages that are otherwise written by hand."""

from collections.abc import Mapping
from pathlib import Path


def put(text: str, mark: str, table: str) -> str:
    """Replace what stands between the comments ``<!-- mark -->`` and ``<!-- end of mark -->`` of a page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"


def with_tables(page: Path, tables: Mapping[str, str]) -> str:
    """Return the text of a page with these tables at their marks."""
    text = page.read_text()
    for mark, table in tables.items():
        text = put(text, mark, table)
    return text


def write(pages: Mapping[Path, str]) -> None:
    """Write the texts of pages."""
    for page, text in pages.items():
        page.write_text(text)
