"""What MkDocs is told beside mkdocs.yml: blocks that do not run, and files that pages link to."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]*)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^([ ]*```\w+) no-run$", flags=re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside the folder of the documents, and the files that pages link to."""
    for source, page in PAGES.items():
        files.append(
            File.generated(config, page, content=_linked((ROOT / source).read_text(encoding="utf-8"), source))
        )
    linked = set()
    sources = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    sources |= {source: (ROOT / source).read_text(encoding="utf-8") for source in PAGES}
    for source, text in sources.items():
        linked |= {_target(found[1], source) for found in LINK.finditer(text)}
    for path in sorted(linked):
        if not path.startswith(("docs/", *PAGES)) and (ROOT / path).is_file():
            text = (ROOT / path).read_text(encoding="utf-8")
            files.append(File.generated(config, _as_text(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Show blocks marked ``no-run`` like any other, and link to what `on_files` added."""
    source = f"docs/{page.file.src_uri}"
    markdown = FENCE.sub(r"\1", markdown)
    if page.file.src_uri in PAGES.values():
        return markdown
    return _linked(markdown, source)


def _linked(markdown: str, source: str) -> str:
    return LINK.sub(lambda found: _moved(found, source), markdown)


def _as_text(path: str) -> str:
    """Return where a file of the repository is on the site; as text, which browsers show."""
    return f"files/{path.lstrip('.')}.txt"


def _target(link: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _moved(found: re.Match[str], source: str) -> str:
    """Return the link as it is from the page on the site."""
    if not found[1]:
        return found[0]
    path = _target(found[1], source)
    anchor = found[2] or ""
    if path in PAGES:
        new = PAGES[path]
    elif path.startswith("docs/"):
        new = path.removeprefix("docs/")
    else:
        new = _as_text(path)
    page = PAGES.get(source, source.removeprefix("docs/"))
    return posixpath.relpath(new, posixpath.dirname(page) or ".") + anchor
