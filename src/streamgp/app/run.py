"""`streamgp run`: begin a run, or go on with one."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from streamgp import checkpoint
from streamgp.app.job import Job, Outcome, RunOptions
from streamgp.app.lock import locked
from streamgp.app.outputs import RunDirectory, RunError
from streamgp.app.tasks import new_bands
from streamgp.data import RowReader, Schema, open_rows
from streamgp.estimators import DEFAULT_WARMUP, default_warmup
from streamgp.models.spec import Spec

SHORT_FILE = 5 * DEFAULT_WARMUP  # a file with fewer rows gets a fifth of them as its warm-up


def run(options: RunOptions) -> Outcome:
    """Run a stream from its file and write everything that was asked for.

    Raises
    ------
    RunError, DataError, CheckpointError, OSError
        If the run cannot start, or its results cannot be written. Once rows have been predicted, an error in the
        data ends the run with its results kept, and the returned `Outcome` says why.
    """
    if not options.targets:
        raise RunError("--target: expected the name of a column, got none")
    if options.resume and options.out is None:
        raise RunError("--resume needs --out DIR, the directory of the run to go on with")
    if options.out is None:
        return _run(options, None)
    with locked(options.out):
        return _run(options, RunDirectory(options.out, options.targets))


def _run(options: RunOptions, directory: RunDirectory | None) -> Outcome:
    stored: dict[str, Any] | None = None
    if options.resume and directory is not None and directory.has_checkpoint:
        stored = _load(directory)
        options = replace(_checked(options, stored), warmup=stored["config"]["warmup"])
    elif options.resume and directory is not None and directory.holds_results and not options.overwrite:
        raise RunError(
            f"--resume: {options.out} holds results, but no checkpoint to go on from: put it back, add --overwrite "
            f"to start again, or name another --out"
        )
    elif directory is not None and directory.holds_a_run and not (options.overwrite or options.resume):
        raise RunError(
            f"{options.out} already holds a run: add --resume to go on with it, --overwrite to replace it, "
            f"or name another --out"
        )
    if options.warmup is None:
        options = replace(options, warmup=_warmup_for(options))
    with _open(options, stored) as reader:
        options = _for_task(options, reader.schema.task)
        _check_bands(options, reader.schema)
        job = Job(options, reader, directory, stored)
        if directory is not None and stored is None:
            directory.start()
        elif directory is not None:
            directory.resume(job.metrics.rows)
        return job.run()


def _open(options: RunOptions, stored: dict[str, Any] | None = None) -> RowReader:
    """The rows from the first one on: those of before are compared with what the run has learnt."""
    most = options.max_rows
    return open_rows(
        options.data,
        target=options.targets,
        features=options.features,
        time=options.time,
        infer_rows=options.warmup or DEFAULT_WARMUP,
        missing=options.missing,
        chunk=options.chunk,
        max_rows=most if most is None or stored is None else max(most, stored["next_row"]),
        schema=None if stored is None else Schema.from_json(stored["schema"]),
        needs_features=not options.spec.lags,
        task=options.task,
        grades=options.grades,
        exposure=options.exposure,
    )


def _check_bands(options: RunOptions, schema: Schema) -> None:
    try:
        new_bands(schema, options.conformal, 0, 0)
    except ValueError as error:
        raise RunError(str(error)) from error


def _for_task(options: RunOptions, task: str) -> RunOptions:
    try:
        return options.for_task(task)
    except ValueError as error:
        raise RunError(f"the target is one of {task}: {error}") from error


def _warmup_for(options: RunOptions) -> int:
    """`default_warmup` of the file's rows; those of standard input are not known beforehand."""
    if options.data == "-":
        return DEFAULT_WARMUP
    peek = replace(
        options,
        max_rows=min(options.max_rows or SHORT_FILE, SHORT_FILE),
        missing="skip" if options.missing == "raise" else options.missing,
    )
    with _open(peek) as reader:
        rows = sum(int(np.isfinite(chunk.y).all(axis=1).sum()) for chunk in reader)
    return default_warmup(rows)


def _load(directory: RunDirectory) -> dict[str, Any]:
    tree, meta = checkpoint.load(directory.checkpoint)
    if meta.get("kind") != "run":
        raise checkpoint.CheckpointError(
            f"{directory.checkpoint}: expected the checkpoint of a run, got one of {meta.get('kind')!r}"
        )
    return tree


def _checked(options: RunOptions, tree: dict[str, Any]) -> RunOptions:
    """The options for the task of a stored run, if they are the same as then."""
    options = _for_task(options, Schema.from_json(tree["schema"]).task)
    given = options.config
    # An option that is younger than the checkpoint had its default then.
    stored = {**asdict(Spec(tree["config"]["model"])), "conformal": None, **tree["config"]}
    if "on_bad_row" in stored:
        stored["missing"] = stored.pop("on_bad_row")  # its name before there was a third way
    for name, before in stored.items():
        now = given.get(name)
        if before != now and not (name == "warmup" and now is None):
            raise RunError(
                f"--resume: the run in {options.out} has {name} {before!r}, but now {now!r} was given; "
                f"give the same options as before"
            )
    return options
