"""A stream that learns the rows of a growing file, or of standard input, each once, and goes on where it was."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Event, Thread
from typing import IO, Any

from streamgp.service.following import Following
from streamgp.service.growing import PAUSE, GrowingFile, Pipe, Place, Source
from streamgp.service.line_rows import Line, Table, record
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.service.streams import Streams
from streamgp.table import DataError
from streamgp.table.files import write_aside
from streamgp.table.layout import SAMPLE, describe_other_kind, header_names, separator_line, separator_of_header
from streamgp.table.roles import Roles, check_names

PLACE = "follow.json"
# So many bad lines of a file are reported one by one.
MOST_SAID = 10
# The ids of so many latest rows are certainly remembered.
READ_AGAIN = 500_000


class Follower:
    """Reads a text as it grows, and has a stream learn it, with a thread of its own.

    Parameters
    ----------
    streams
        Those that the stream is, or will be, among.
    what
        What is followed.
    say
        Called with a sentence for whoever runs the service.
    pipe
        An open file that stands for standard input.
    """

    def __init__(
        self,
        streams: Streams,
        what: Following,
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
        pipe: IO[bytes] | None = None,
    ) -> None:
        self._streams = streams
        self._what = what
        self._say = say
        self.name = what.name
        self._path = streams.directory / self.name / PLACE
        if what.path is not None:
            self._source: Source = GrowingFile(what.path)
            own = what.path.name
        else:
            self._source = Pipe(sys.stdin.buffer if pipe is None else pipe)
            own = "stdin"
        # The start of the ids.
        self._own = "".join(c if c.isprintable() else "_" for c in own)[-150:]
        self._place = Place(self._own)
        self._stream: LiveStream | None = None
        self._table: Table | None = None
        # Whether the stream is a copy that is older than the place.
        self._is_behind = False
        # Rows before this one have been learnt.
        self._learn_from = 0
        # The number of bad lines of this source since the start.
        self._bad_lines = 0
        self.last_error: str | None = None
        self.is_following = True
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"streamgp-follow-{self.name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what was handed in, and end."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def status(self) -> dict[str, Any]:
        """Return what is followed, and how far."""
        place = self._place
        return {
            "file": self._source.label,
            "rows": place.rows_before + place.row - place.skipped - place.skipped_before,
            "skipped": place.skipped_before + place.skipped,
            "last_error": self.last_error,
            "following": self.is_following,
        }

    def _run(self) -> None:
        try:
            self._restore()
            while not self._stopping.is_set():
                try:
                    goes_on = self._take()
                except OSError as error:
                    self._source.close()
                    self._tell(f"{self._source.label}: it cannot be read ({error.strerror or error}); waiting for it")
                    goes_on = False
                if not goes_on:
                    self._stopping.wait(PAUSE)
        except _Stopped:
            pass
        except (Problem, DataError) as error:
            self._tell(f"{self._source.label} is followed no longer: {str(error).rstrip('.')}. The service goes on")
        except Exception as error:
            self._tell(f"{self._source.label} is followed no longer: {error!r}. The service goes on")
        finally:
            self.is_following = False
            self._source.close()

    # Where it was

    def _restore(self) -> None:
        """Find the place at which the stream was, if there is one."""
        try:
            self._place = Place(**json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"{self._path}: expected the place at which the file was left, got something else ({error}); use "
                f"that of a copy of the directory"
            ) from error
        if not self._source.is_kept:
            self._place = self._place.next_text(self._own)
        if self._place.columns is not None:
            self._stream = self._found_or_made(self._place.columns)
            position = self._stream.durability()["position"]
            self._is_behind = self._source.is_kept and position < self._place.position
            self._begin_table()

    def _keep(self, place: Place) -> None:
        """Go on to a place; a disk that is full keeps an earlier one, and ids keep rows from being learnt twice."""
        self._place = place = replace(place, inode=self._source.inode)
        if self._stream is not None:
            try:
                write_aside(self._path, (json.dumps(place.document(), indent=1) + "\n").encode())
            except OSError as error:
                self._tell(f"{self._path}: could not be written ({error.strerror or error}); free some disk space")

    # What comes

    def _take(self) -> bool:
        """Learn the next lines; return whether there may be more at once."""
        found = self._source.read(self._place)
        if found.is_other:
            self._begin_next(found.rest)
            return True
        if self._is_behind:
            self._is_behind = False
            self._learn_from = max(self._place.row - READ_AGAIN, 0)
            self._place = self._place.start()
            self._table = None
            return True
        if found.lines and self._table is None:
            self._begin(found.lines[0], found.content)
        elif found.lines:
            self._learn(found.lines, found.content)
        if found.has_ended:
            self._say(f"{self._source.label} has ended; the service goes on")
            raise _Stopped
        return bool(found.lines)

    def _begin_next(self, rest: bytes) -> None:
        """Go over to the text that took the place of the one that was read."""
        place = self._place
        if rest.strip() and self._table is not None:
            self._tell_bad(place.line + 1, "expected a whole line, got one without its end, in a file that was left")
            place = replace(place, line=place.line + 1, row=place.row + 1, skipped=place.skipped + 1)
        self._table, self._is_behind, self._learn_from, self._bad_lines = None, False, 0, 0
        self._keep(place.next_text(self._own))

    def _begin(self, line: bytes, content: str) -> None:
        """Read the header, or a line before it."""
        place = self._place
        if place.offset == 0 and (fault := describe_other_kind(line)) is not None:
            raise DataError(f"{self._source.label}: {fault}, which streamgp run reads")
        place = replace(place, offset=place.offset + len(line), line=place.line + 1, content=content)
        text = line.decode("utf-8", errors="replace").removeprefix("\ufeff")
        if text.strip():
            place = self._with_header(place, text)
        if place.header is not None:
            self._stream = self._found_or_made(place.header)
        self._keep(place)
        self._begin_table()

    def _with_header(self, place: Place, text: str) -> Place:
        """Return the place after a line that is the header, or stands before it."""
        label = self._source.label
        if place.separator is None and (told := separator_line(text)) is not None:
            return replace(place, separator=told)
        separator = separator_of_header(text, self._what.target, place.separator, place.line >= SAMPLE)
        if separator is None:
            return place
        cells = record(text.encode(), separator)
        if isinstance(cells, str):
            raise DataError(f"{label}: expected a first line of column names, got {cells}; correct it")
        header = header_names(cells, separator)
        columns = header if place.columns is None else place.columns
        if sorted(header) != sorted(columns):
            raise DataError(
                f"{label}: expected the columns {', '.join(columns)} as before, got {', '.join(header)} in line "
                f"{place.line}; write the same ones, or follow the file as another stream (--stream)"
            )
        return replace(place, header=header, columns=columns, separator=separator)

    def _begin_table(self) -> None:
        if self._stream is not None and self._place.header is not None:
            self._table = Table(
                self._stream.config, self._place.header, self._place.separator or ",", self._what.time
            )

    def _found_or_made(self, columns: list[str]) -> LiveStream:
        """Return the stream once it is ready; it is made if there is none."""
        what = self._what
        try:
            stream: LiveStream | None = self._streams.get(self.name)
        except Problem as problem:
            if problem.status != 404:
                raise
            stream = None
        features = what.features if stream is None or what.features is not None else stream.config.features
        named = [*(features or ()), *([what.key] if what.key else [])]
        check_names(self._source.label, columns, Roles([what.target], named, what.time))
        if stream is None:
            stream, _ = self._streams.create(what.config(columns))
        what.check_same(stream.config)
        while not stream.is_ready:
            self._pause(0.02)
        return stream

    def _learn(self, lines: list[bytes], content: str) -> None:
        """Have the stream learn lines, and note the place after them."""
        assert self._table is not None
        records = self._table.records(lines)
        if self._place.dates is None and (dates := self._table.times_are_dates(records)) is not None:
            # The order of dates is stored before a row is learnt, since it must not change.
            self._keep(replace(self._place, dates=dates))
        if self._place.dates and not self._place.order and (order := self._table.order_of_dates(records)):
            self._keep(replace(self._place, order=order))
        decimals = self._table.find_decimals(records, self._what.reading.decimal) | self._place.decimals
        if decimals != self._place.decimals:
            self._keep(replace(self._place, decimals=decimals))
        place = self._place
        ids = f"{place.name}:{place.generation}"
        known = place.dates, place.order, place.decimals
        rows = self._table.rows(records, ids, place.line, place.row, *known)
        good: list[Line] = []
        skipped = 0
        for line in rows:
            if isinstance(line.given, str):
                self._tell_bad(line.number, line.given)
                skipped += 1
            elif line.row >= self._learn_from:
                good.append(line)
        refused, position = self._step(good) if good else (0, place.position)
        self._keep(
            replace(
                place,
                offset=place.offset + sum(map(len, lines)),
                content=content,
                line=place.line + len(lines),
                row=place.row + len(rows),
                skipped=place.skipped + skipped + refused,
                position=position,
            )
        )

    def _step(self, lines: list[Line]) -> tuple[int, int]:
        """Hand lines in until they are learnt; return how many were refused, and the position of the log."""
        assert self._stream is not None
        given = [line.given for line in lines if isinstance(line.given, dict)]
        try:
            rows = rows_with_inputs(self._stream.config, given, with_target=True)
            return 0, self._answer(lambda stream: stream.step(rows))["position"]
        except Problem as problem:
            if problem.status not in (409, 422):
                raise
            if len(lines) == 1:
                reason = problem.detail.removeprefix("row 0, ").partition("; nothing of this request")[0]
                self._tell_bad(lines[0].number, reason)
                return 1, self._place.position
        half = len(lines) // 2
        parts = [self._step(lines[:half]), self._step(lines[half:])]
        return sum(refused for refused, _ in parts), max(position for _, position in parts)

    def _answer(self, ask: Callable[[LiveStream], "Future[Any]"]) -> Any:
        """Return what the stream answers; ask again while it says that it will go well later."""
        assert self._stream is not None
        while True:
            try:
                return ask(self._stream).result()
            except Problem as problem:
                if problem.retry_after is None:
                    raise
                self._tell(f"{self._source.label} waits: {problem.detail}")
            self._pause(1.0)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    # What is reported

    def _tell(self, text: str) -> None:
        if text != self.last_error:
            self.last_error = text
            self._say(text)

    def _tell_bad(self, number: int, reason: str) -> None:
        """Tell that a line is skipped; of many such lines, that they are counted."""
        self.last_error = f"{self._source.label}: line {number} was skipped: {reason}"
        self._bad_lines += 1
        if self._bad_lines <= MOST_SAID:
            self._say(self.last_error)
        if self._bad_lines == MOST_SAID:
            self._say(f"{self._source.label}: further lines that are skipped are counted, and not reported")


class _Stopped(Exception):
    """The follower is to end, and nothing is half done."""
