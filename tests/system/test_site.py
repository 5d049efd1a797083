"""The site as it is built: once, strictly, and asked for what pages cannot know of themselves."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import streamgp

ROOT = Path(__file__).parents[2]
MISSING = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(bool(MISSING), reason=f"the extra docs is not installed: {', '.join(MISSING)}"),
]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Page(HTMLParser):
    """The names, the links and what is loaded of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if name := found.get("id"):
            self.names.add(name)
        if tag == "a" and (link := found.get("href")):
            self.links.append(link)
        if tag in LOADED and (link := found.get(LOADED[tag])) and found.get("rel") != "canonical":
            self.loaded.append(link)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]):
    for path, page in pages.items():
        for link in page.loaded:
            assert not urlsplit(link).netloc, f"{path.relative_to(site)} loads {link}"
    for path in site.rglob("*.css"):
        assert "url(http" not in path.read_text(encoding="utf-8")


def test_links_and_anchors_resolve(site: Path, pages: dict[Path, Page]):
    assert len(pages) > 70
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target.suffix == ".html" and not parts.fragment.startswith("__"):
                names = pages[target].names
                assert unquote(parts.fragment) in names, f"{path.relative_to(site)}: {link}"


def plain(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", markup)).strip()


def described(text: str) -> dict[str, str]:
    """Each name of a page of the reference with the text below it, without its signature."""
    parts = re.split(r'<h\d id="([\w.]+)" class="doc doc-heading">', text)[1:]
    without = [
        re.sub(r'(?s)^.*?</h\d>|<div class="[^"]*doc-signature.*?</code></pre></div>', "", part)
        for part in parts[1::2]
    ]
    return {name: plain(part.partition("<footer")[0]) for name, part in zip(parts[::2], without, strict=True)}


def test_the_reference_has_every_name_with_its_text(site: Path):
    found: dict[str, str] = {}
    for path in (site / "reference" / "api").glob("*.html"):
        found |= described(path.read_text(encoding="utf-8"))
    assert {f"streamgp.{name}" for name in streamgp.__all__} <= set(found)
    assert len(found) > 400
    bare = {name for name, text in found.items() if not text}
    assert bare <= {"streamgp.weights.OUTLIER_LOG_DENSITY"}  # explained by a comment in the source
    assert not [name for name, text in found.items() if "{options}" in text]


def test_parameters_with_one_text_have_types_and_defaults_of_their_own(site: Path):
    text = plain((site / "reference" / "api" / "optimizer.html").read_text(encoding="utf-8"))
    assert re.search(r"delta \( ?float, default: 0.05 ?\)", text)
    assert re.search(r"bound \( ?float, default: 1.0 ?\)", text)
