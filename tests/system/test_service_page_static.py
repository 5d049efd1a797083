"""The service's page as files: everything it names is there, and nothing in it breaks its security policy."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "src" / "streamgp" / "service" / "page"
SCRIPTS = sorted(path for path in PAGE.glob("*.js") if not path.name.startswith("uPlot"))


def test_what_the_page_names_is_there() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'"/static/([^"]+)"', html)
    assert "app.js" in named
    for name in named:
        assert (PAGE / name).is_file(), name
    for script in SCRIPTS:
        for name in re.findall(r'from "\./([^"]+)"', script.read_text(encoding="utf-8")):
            assert (PAGE / name).is_file(), f"{script.name} imports {name}"


def test_no_script_or_style_is_inline() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


def test_texts_of_users_never_become_markup() -> None:
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            script.name
        )


def test_uplot_comes_with_its_licence() -> None:
    assert "MIT" in (PAGE / "LICENSE-uPlot").read_text(encoding="utf-8")
