"""`streamgp run`: begin a run, or go on with one."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.app.live_run import LiveRun
from streamgp.app.lock import locked
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.app.settings import RunSettings
from streamgp.estimators import default_warmup
from streamgp.likelihoods import TargetMap
from streamgp.models.options import DEFAULT_WARMUP
from streamgp.numerics import checkpoint
from streamgp.table import DataError, RowReader, Schema, open_rows

SHORT_FILE = 5 * DEFAULT_WARMUP  # a file with fewer rows with targets gets a fifth of them as its warm-up


@contextmanager
def opened_run(settings: RunSettings) -> Iterator[LiveRun]:
    """Open the file and the directory of a run, which begins or goes on by `LiveRun.run`.

    Raises
    ------
    RunError, DataError, CheckpointError, OSError
        If the run cannot start.
    """
    if not settings.targets:
        raise RunError("--target: expected the name of a column, got none")
    if settings.resume and settings.out is None:
        raise RunError("--resume needs --out DIR, the directory of the run to go on with")
    if settings.delay and settings.arrives is not None:
        raise RunError("--delay, --arrives: expected one of them, got both; leave one out")
    late = settings.delay or settings.arrives is not None
    if settings.alarms and late:
        raise RunError("--alarms: expected labels that come in time, whose errors they test; leave out one option")
    if settings.arrives is not None and settings.conformal is not None:
        raise RunError("--conformal: expected it with labels in time or --delay, got --arrives; leave one out")
    if settings.groups is not None and settings.conformal is None:
        raise RunError("--groups: expected it with --conformal, the share that bands hold in each, got none; add it")
    if settings.spec.horizon and late:
        raise RunError("--horizon: expected it with labels in time, got --delay or --arrives; leave one out")
    if settings.steps_ahead and late:
        raise RunError("--horizon: expected 1..N with labels in time, got --delay or --arrives; leave one out")
    with nullcontext() if settings.out is None else locked(settings.out):
        directory = None if settings.out is None else RunDirectory(settings.out, settings.targets)
        stored: dict[str, Any] | None = None
        if settings.resume and directory is not None and directory.has_checkpoint:
            stored = _load(directory)
            with checkpoint.reading(directory.checkpoint, RunError, DataError):
                settings = replace(_checked(settings, stored, directory), warmup=stored["config"]["warmup"])
        elif directory is not None:
            directory.check_free(settings.resume, settings.overwrite)
        if settings.warmup is None:
            settings = replace(settings, warmup=_warmup_for(settings))
        with _open(settings, stored) as reader:
            settings = _for_task(settings, reader.schema.task)
            if directory is None or stored is None:
                live = LiveRun(settings, reader, directory, None)
            else:
                with checkpoint.reading(directory.checkpoint, RunError, DataError):
                    live = LiveRun(settings, reader, directory, stored)
            if directory is not None and stored is None:
                directory.start()
            elif directory is not None:
                directory.resume(live.rows)
            yield live


def _open(settings: RunSettings, stored: dict[str, Any] | None = None) -> RowReader:
    """Open the file from its first row on; a run that is resumed compares the rows that it has learnt."""
    most = settings.max_rows
    reader = open_rows(
        settings.data,
        target=settings.targets,
        features=settings.features,
        time=settings.time,
        infer_rows=settings.warmup or DEFAULT_WARMUP,
        missing=settings.missing,
        chunk=settings.chunk,
        max_rows=most if most is None or stored is None else max(most, stored["next_row"]),
        schema=None if stored is None else stored["schema"],
        needs_features=not settings.spec.looks_back,
        task=settings.task,
        grades=settings.grades,
        exposure=settings.exposure,
        arrives=settings.arrives,
        calendar=settings.calendar,
        reading=settings.reading,
    )
    target_map = TargetMap.of(settings.spec.target_transform, settings.spec.bounds)
    reader.refuse = None if target_map.changes_nothing else target_map.faults
    return reader


def _for_task(settings: RunSettings, task: str) -> RunSettings:
    try:
        return settings.for_task(task)
    except ValueError as error:
        raise RunError(f"the target is one of {task}: {error}") from error


def _warmup_for(settings: RunSettings) -> int:
    """Return `default_warmup` of the file's rows with targets; those of standard input are not known beforehand."""
    if settings.data == "-":
        return DEFAULT_WARMUP
    peek = replace(settings, missing="skip" if settings.missing == "raise" else settings.missing)
    rows = 0
    with _open(peek) as reader:
        for chunk in reader:
            rows += int(np.isfinite(chunk.y).all(axis=1).sum())
            if rows >= SHORT_FILE:
                break
    return default_warmup(rows)


def _load(directory: RunDirectory) -> dict[str, Any]:
    tree, meta = checkpoint.load(directory.checkpoint)
    if meta.get("kind") != "run":
        raise checkpoint.CheckpointError(
            f"{directory.checkpoint}: expected the checkpoint of a run, got one of {meta.get('kind')!r}"
        )
    parts = {"schema", "config", "next_row", "session"}
    if not isinstance(tree, dict) or not parts <= tree.keys() or not isinstance(tree["schema"], Schema):
        raise checkpoint.CheckpointError(
            f"{directory.checkpoint}: expected the checkpoint of a run, found another content; use another copy."
        )
    return tree


def _checked(settings: RunSettings, tree: dict[str, Any], directory: RunDirectory) -> RunSettings:
    """Return the settings for the task of a stored run, if they are the same as then."""
    settings = _for_task(settings, tree["schema"].task)
    given = settings.config
    for name, before in tree["config"].items():
        now = given.get(name)
        if before != now and not (name == "warmup" and now is None):
            raise directory.option_differs(name, before, now)
    return settings
