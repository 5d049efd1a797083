"""The service's page as files: everything it names is there, and nothing in it breaks its security policy."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "src" / "streamgp" / "service" / "page"
PAGES = sorted(PAGE.glob("*.html"))
SCRIPTS = sorted(path for path in PAGE.glob("*.js") if not path.name.startswith("uPlot"))


def test_what_the_page_names_is_there() -> None:
    assert [page.name for page in PAGES] == ["docs.html", "index.html"]
    for page, script in zip(PAGES, ("docs.js", "app.js"), strict=True):
        named = re.findall(r'"/static/([^"]+)"', page.read_text(encoding="utf-8"))
        assert script in named
        for name in named:
            assert (PAGE / name).is_file(), name
    for script in SCRIPTS:
        for name in re.findall(r'from "\./([^"]+)"', script.read_text(encoding="utf-8")):
            assert (PAGE / name).is_file(), f"{script.name} imports {name}"


def test_no_script_or_style_is_inline() -> None:
    for page in PAGES:
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


def test_texts_of_users_never_become_markup() -> None:
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            script.name
        )


def test_the_page_of_requests_needs_no_more_than_some_kilobytes() -> None:
    assert sum((PAGE / name).stat().st_size for name in ("docs.html", "docs.css", "docs.js")) < 15_000


def test_uplot_comes_with_its_licence() -> None:
    assert "MIT" in (PAGE / "LICENSE-uPlot").read_text(encoding="utf-8")
