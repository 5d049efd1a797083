"""The source that a stream follows: a file or standard input, and its columns, by the command's options."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamgp.service.config import StreamConfig, check_texts
from streamgp.table import DataError
from streamgp.table.reading import AS_FOUND, Reading


@dataclass(frozen=True)
class Following:
    """What is followed, and as which stream.

    Attributes
    ----------
    path
        A CSV file; None: standard input.
    target, features, time, key
        Columns. Without `features`, all others.
    model, warmup
        Of the stream if it is made; None: those of any stream.
    reading
        What the user says of the cells.
    stream
        Its name; None: that of the file, as far as it can be one.
    """

    path: Path | None
    target: str
    features: tuple[str, ...] | None = None
    time: str | None = None
    key: str | None = None
    model: str | None = None
    warmup: int | None = None
    reading: Reading = AS_FOUND
    stream: str | None = None

    @property
    def name(self) -> str:
        """The name of the stream."""
        if self.stream is not None:
            return self.stream
        stem = "stdin" if self.path is None else self.path.stem
        return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).lstrip("-_")[:64] or "stream"

    def config(self, columns: list[str]) -> StreamConfig:
        """Return the stream that is made for a file with these columns.

        Raises
        ------
        Problem
            If there can be no such stream.
        """
        others = tuple(name for name in columns if name not in (self.target, self.time, self.key))
        more = {"model": self.model, "warmup": self.warmup, "missing_values": tuple(self.reading.codes.given) or None}
        given: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
        features = others if self.features is None else self.features
        config = StreamConfig(self.name, self.target, features, key=self.key, timed=self.time is not None, **given)
        check_texts(config)
        return config

    def check_same(self, config: StreamConfig) -> None:
        """Check that a stream is the one that is asked for, in all that was said of it.

        Raises
        ------
        DataError
            If it is another one.
        """
        for option, asked, there in (
            ("--target", self.target, config.target),
            ("--key", self.key or "none", config.key or "none"),
            ("--time", *("none" if each else "a column" for each in (self.time is None, not config.timed))),
            ("--features", self.features, config.features),
            ("--model", self.model if self.key is None else None, config.model),
            ("--warmup", self.warmup, config.warmup),
            ("--missing-values", tuple(self.reading.codes.given) or None, config.missing_values),
        ):
            if asked is not None and asked != there:
                expected, got = map(_written, (there, asked))
                raise DataError(
                    f"{option}: expected {expected}, as the stream {config.name} has it, got {got}; "
                    f"name another --stream"
                )


def _written(value: Any) -> Any:
    """Return the value of an option as the command line has it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value
