"""What the service's page says of a stream, by its own scripts in Node, where there is one."""

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to run the page's scripts"),
]

PAGE = Path(__file__).parents[2] / "src" / "streamgp" / "service" / "page"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's scripts, as modules to Node of any version."""
    folder = tmp_path_factory.mktemp("page")
    for path in PAGE.glob("*.js"):
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def said(scripts: Path, program: str) -> object:
    code = f"{program}\nconsole.log(JSON.stringify(found));"
    command = ["node", "--input-type=module", "-e", code]
    result = subprocess.run(command, cwd=scripts, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("minutes", "limit", "tone", "word"),
    [
        (2, 36_000, "good", "at work"),  # hourly rows that were sent in a minute
        (11 * 60, 36_000, "bad", "stale"),
        (2, 30, "bad", "stale"),  # a row a second
        (2, None, "good", "at work"),  # not known
    ],
)
def test_the_page_calls_stale_what_the_service_says(
    scripts: Path, minutes: int, limit: int | None, tone: str, word: str
) -> None:
    at = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    stream = {"state": "ready", "rows": 400, "last_at": at, "stale_after": limit, "warmed_up": True}
    found = said(
        scripts,
        f"""
import {{ Feed }} from "./feed.js";
import {{ stateOf }} from "./picker.js";
import {{ judgeAlive }} from "./verdict.js";
const feed = new Feed("s", null);
feed.detail = {json.dumps(stream)};
const found = [judgeAlive(feed.detail, feed.staleLimit, null).tone, stateOf(feed.detail).word];
""",
    )
    assert found == [tone, word]


def test_a_restart_is_a_range_where_its_ends_differ(scripts: Path) -> None:
    program = """
import { judgeDurable } from "./verdict.js";
const where = { position: 5, applied: 5, log_bytes: 10 };
const as = (low, high) => ({ ...where, recovery_seconds: high, recovery_seconds_at_best: low });
const of = (low, high) => judgeDurable({ state: "ready", durability: as(low, high) }).aside;
const found = [of(9, 38), of(10, 11), of(undefined, 12)];
"""
    assert [text.partition(".")[0] for text in said(scripts, program)] == [  # type: ignore[attr-defined]
        "A restart would take about 9 s to 38 s",
        "A restart would take about 11 s",
        "A restart would take about 12 s",
    ]


def test_a_challenger_is_said_with_its_interval_and_what_it_is(scripts: Path) -> None:
    program = """
import { linesOf, reachOf, wordOf } from "./challengers.js";
const options = { model: "fast", calendar: [], lags: [1, 24] };
const standing = { verdict: "better", difference: 0.5, low: 0.2, high: 0.8, scored_rows: 1200 };
const none = { verdict: "undecided", difference: null, low: null, high: null, scored_rows: 0 };
const ahead = { state: "ready", behind: 3, since: 7, options, ...standing };
const early = { state: "warming up", behind: 0, since: 7, options, ...none };
const broken = { ...early, state: "failed", failure: "it cannot answer" };
const all = [ahead, early, broken];
const found = [all.map(wordOf), all.map(linesOf), reachOf([{ low: -2, high: 0.1 }, ahead, early]), reachOf([])];
"""
    words, lines, reach, nothing = said(scripts, program)  # type: ignore[misc]
    assert [(each["tone"], each["word"]) for each in words] == [
        ("good", "better"),
        ("wait", "warming up"),
        ("bad", "failed"),
    ]
    assert lines[0] == [
        "+0.50 nats a row beside the stream's own model (+0.20 to +0.80), over 1,200 rows.",
        "model fast; lags 1, 24 · since position 7 · 3 rows behind",
    ]
    assert lines[1][0] == "No row has been predicted by both after their warm-ups."
    assert lines[2][0].lower().startswith("it cannot answer")
    assert (reach, nothing) == (2, 0)
