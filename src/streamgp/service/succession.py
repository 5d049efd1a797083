"""What one model of a stream takes over from another that got the same rows: rows that wait, scores, alarms."""

from typing import Any

import numpy as np

from streamgp.service.keyed_model import KeyedModel
from streamgp.service.payload import Rows
from streamgp.service.single_model import SingleModel, with_cycles
from streamgp.stream.late_labels import inputs_of


def waiting_rows(model: Any) -> Rows:
    """Return the rows that wait for their label, as they were sent."""
    is_single = isinstance(model, SingleModel)
    found = {name: w for name, w in model.waiting.items() if not is_single or model.waits(name)}
    times = np.array([w.time for w in found.values()])
    if is_single:
        X = inputs_of(model.live.late, [w.number for w in found.values()])
    else:
        X = np.array([w.x for w in found.values()]).reshape(len(found), len(model.config.inputs))
    rows = Rows(list(found), [w.key for w in found.values()], times, X)
    return with_cycles(rows, model.config, model.sent) if is_single else rows


def succeed(model: Any, former: Any) -> None:
    """Let a model answer in the place of another one, with its scores, its alarms and its waiting rows.

    These keep what was predicted of them. Those that the new model has given up wait no longer.
    """
    if isinstance(model, KeyedModel):
        for name in ("sums", "covered", "targets", "paired", "last_targets", "waiting"):
            setattr(model, name, getattr(former, name))
        return
    model.naive, model.live.session.metrics = former.naive, former.live.session.metrics
    ours, theirs = model.live.session.alarms, former.live.session.alarms
    if ours is not None and theirs is not None:
        ours.found, ours.count = theirs.found, theirs.count
    # The tests for changes know the experts of the new model alone.
    held = {id(w.held): w.held._replace(in_time=np.zeros_like(w.held.in_time)) for w in former.waiting.values()}
    model.waiting = {
        name: w._replace(number=model.waiting[name].number, held=held[id(w.held)])
        for name, w in former.waiting.items()
        if name in model.waiting
    }
