"""What can be asked of the documents without building the site: links, the map, blocks, public names, figures."""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")] + PAGES
# Pages but those of research, and but two that are rendered from declarations.
RENDERED = {DOCS / "reference" / name for name in ("command.md", "options.md")}
READ_AT_ONCE = [path for path in PAGES if DOCS / "research" not in path.parents and path not in RENDERED]
MOST_WORDS = 1_500
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"<!-- (?!end of )([\w -]+) -->\n(.*?)<!-- end of \1 -->", flags=re.DOTALL)
# What the prose of a page of docs/research says of a campaign, as a format of the campaign's file.
SAID = {
    ("robustness", "kills"): (
        "{kills:,} kills in {runs} runs, {killed[in the warm-up]} of them in the warm-up",
        "{killed[in the stream]} in the stream, {killed[at the end]} at the end",
    ),
    ("robustness", "fuzz"): (
        "Of {examples:,} files {ends[complete]:,} ran to their end, {ends[stopped early]} stopped",
        "{ends[refused]:,} were refused: no traceback",
    ),
    ("robustness", "fuzz_estimators"): ("Of {examples} sequences", "{calls[refused]:,} calls were refused"),
    ("robustness", "fuzz_checkpoints"): (
        "Of {cases:,} cases",
        "{refused:,} were refused with a `CheckpointError`, {predicted} loaded and predicted",
    ),
    ("robustness", "same_numbers"): ("ran in {models[default][processes]} processes",),
    ("bands", "noise_by_input_cost"): ("ratios of neighbouring runs {ratio:.2f}",),
    ("service", "bridge_kills"): (
        "{rows:,} rows over MQTT",
        "{messages:,} messages",
        "the broker were killed ({kills[broker]} times each)",
    ),
    ("service", "service_backup"): (
        "{copies} copies of a stream of {rows:,} rows; up to {rows_while_copied[most]} rows were acknowledged",
    ),
    ("service", "service_damage"): (
        "{classes[recovered, and said]} of them say what was damaged",
        "{classes[named, and went on]} were not opened",
        "{classes[named: stream.json]} said that `stream.json`",
    ),
    ("service", "service_hour"): (
        "over {minutes:.0f} minutes",
        "all {steps:,} steps were answered",
        "The p99 is {milliseconds[p99]:.0f} ms",
    ),
    ("service", "service_kills"): (
        "{kills} kills, no difference",
        "{later[0][kills]} kills with requests",
    ),
    ("service", "service_operation"): (
        "Ended by SIGTERM {ended_under_load[ends]} times",
        "all {ended_under_load[rows]:,} rows are there once",
        "those without an answer ({ended_under_load[unanswered]})",
    ),
    ("service", "service_positions"): ("{restores} returns ({seconds[median]:.1f} s each in the median)",),
    ("service", "service_streams"): (
        "{in_all[memory_mb]} MiB in all",
        "{metrics_kilobytes} kB, and a restart after kill -9 takes {restart_seconds:.0f} s",
    ),
    ("service", "service_takeovers"): (
        "{takeovers} of 200 that were asked for",
        "No acknowledged row of {acknowledged_rows:,} was lost",
        "A takeover took {takeover_seconds[median]:.1f} s (median)",
    ),
    ("service", "service_tenants"): (
        "{requests:,} generated requests",
        "{allowed[changes]} changed a stream",
        "a line for each of {audit_lines:,} requests",
    ),
    ("service", "service_waiting"): ("{connections:,} connections from one address",),
}


def prose(path: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> set[str]:
    """What a link to a page may name: its headings, as MkDocs and GitHub write them, and names of the reference."""
    text = prose(path)
    names = set(re.findall(r"(?m)^::: (\S+)$", text))
    for heading in re.findall(r"(?m)^#+ (.+)$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return names


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path):
    for found in LINK.finditer(prose(path)):
        target, _, anchor = unquote(found[1] or found[2]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), f"{path.name}: there is no {target}"
        assert page.is_relative_to(ROOT)
        if anchor and page.suffix == ".md":
            assert anchor in anchors(page), f"{path.name}: {target} has no heading #{anchor}"


def test_every_page_is_on_the_map():
    listed = re.findall(r"(?m)^ +- (?:.*: )?([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    own = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert len(listed) == len(set(listed))
    on_map = set(listed) - {"contributing.md", "changelog.md"}
    assert on_map == own, (
        f"correct the list of pages in mkdocs.yml: {sorted(on_map ^ own)} is there or in docs/ alone"
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_generated_block_is_empty(path: Path):
    text = path.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == len(re.findall(r"<!-- end of ", text))
    for name, content in blocks:
        assert len(content.strip().splitlines()) > 2, f"{path.name}: {name} is empty"


@pytest.mark.parametrize("path", READ_AT_ONCE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_not_too_long(path: Path):
    words = len(path.read_text(encoding="utf-8").split())
    assert words <= MOST_WORDS, (
        f"{path.name}: expected {MOST_WORDS:,} words at most, got {words:,}; divide it by what a reader wants to do"
    )


def test_every_public_name_is_in_the_reference_and_offered_for_completion():
    import streamgp
    from benchmarks.pages.api import PAGES as GROUPS
    from benchmarks.pages.api import public

    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference" / "api").glob("*.md"))
    shown = set(re.findall(r"(?m)^::: (\S+)$", text))
    bare = {name.rpartition(".")[2] for name in shown}
    advice = "run python -m benchmarks.pages.api: these public names are on no page of docs/reference/api:"
    missing = {f"streamgp.{name}" for name in streamgp.__all__} - shown
    assert not missing, f"{advice} {sorted(missing)}"
    assert {*streamgp.__all__, "__version__"} <= set(dir(streamgp))
    for *_, modules in GROUPS.values():
        for module in modules:
            if module not in ("streamgp.adapters.river", "streamgp.client"):  # these need an extra
                missing = set(public(module)) - bare
                assert not missing, f"{advice} {sorted(missing)} of {module}"


def test_nothing_on_the_pages_is_of_one_machine():
    for path in DOCUMENTS:
        assert not re.search(r"/(work|home|root|Users)/\w", path.read_text(encoding="utf-8")), path.name


def declared() -> dict[str, set[str]]:
    """The options of each command, by the page that is made from their declarations."""
    parts = re.split(r"(?m)^## streamgp (\w+)$", (DOCS / "reference" / "command.md").read_text(encoding="utf-8"))
    return {
        name: set(re.findall(r"(?m)^\| `(--[\w-]+)`", text))
        for name, text in zip(*[iter(parts[1:])] * 2, strict=True)
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_have_the_options_that_are_named(path: Path):
    known = declared()
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for found in re.finditer(r"streamgp (run|compare|embed|serve|demo|reproduce)\b([^`\n|]*)", text):
        for option in re.findall(r"(?<![\w-])--[\w-]+", found[2].partition(" # ")[0]):
            assert option in known[found[1]] | {"--help"}, f"{found[0]}: no {option}"


@pytest.mark.parametrize(("page", "results"), SAID)
def test_what_prose_says_of_a_campaign_is_in_its_file(page: str, results: str):
    found = json.loads((RESULTS / f"{results}.json").read_text(encoding="utf-8"))
    text = " ".join((DOCS / "research" / f"{page}.md").read_text(encoding="utf-8").split())
    for form in SAID[page, results]:
        said = form.format_map(found)
        assert said in text, f"docs/research/{page}.md does not say of {results}.json: {said}"
