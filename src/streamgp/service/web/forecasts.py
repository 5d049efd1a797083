"""Forecasts several steps ahead, as a client asks for them."""

from dataclasses import replace
from typing import Any

import polars as pl

from streamgp.estimators.forecasts import forecast_frame
from streamgp.evaluation.metrics.shares import percents
from streamgp.service.config import StreamConfig
from streamgp.service.keyed_model import TIME, KeyedModel
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem
from streamgp.service.status import check_ready
from streamgp.table import DataError

MAX_STEPS = 1_000
PATHS = 1_000
_KNOWN = ("h", "level", "x", "times", "key")


def forecast(stream: LiveStream, document: dict[str, Any]) -> dict[str, Any]:
    """Return a forecast of the next rows.

    Raises
    ------
    Problem
        If it is asked for in another way, or the model makes none.
    """
    unknown = [name for name in document if name not in _KNOWN]
    if unknown:
        raise Problem(422, f"expected {', '.join(_KNOWN)}, got {unknown[0][:80]!r}")
    h, level = document.get("h"), document.get("level", [80, 95])
    if isinstance(h, bool) or not isinstance(h, int) or not 1 <= h <= MAX_STEPS:
        raise Problem(422, f"h: expected a whole number from 1 to {MAX_STEPS:,}, got {h!r:.40}")
    try:
        levels = percents("level", level)
    except ValueError as error:
        raise Problem(422, str(error)) from error
    check_ready(stream, learning=False)
    try:
        if isinstance(stream.model, KeyedModel):
            return _of_keys(stream, stream.model, document, h, levels)
        return _of_one(stream, document, h, levels)
    except ValueError as error:
        raise Problem(422, str(error)) from error


def _of_one(stream: LiveStream, document: dict[str, Any], h: int, levels: list[float]) -> dict[str, Any]:
    config = stream.config
    if not config.can_forecast:
        raise Problem(422, f"forecast: expected a stream of numbers, got one of {config.task}")
    if document.get("key") is not None:
        raise Problem(422, "key: expected none, as this stream has no keys; leave it out")
    if not config.timed and document.get("times") is not None:
        raise Problem(422, "times: expected none, as this stream counts its rows; leave them out")
    steps = _steps(config.features, document.get("x"), h)
    times = document.get("times")
    if config.timed and (not isinstance(times, list) or len(times) != h):
        raise Problem(422, f"times: expected the times of the {h} steps, as the stream has times")
    given = [{"x": x} | ({"time": times[i]} if config.timed else {}) for i, x in enumerate(steps)]  # type: ignore[index]
    rows = rows_with_inputs(config, given, with_target=False)
    view = stream.view
    learner = view.outlook.learner
    stamps = rows.times if config.timed else None
    paths = learner.paths(view.inputs(rows).X, stamps, PATHS)
    frame: pl.DataFrame = forecast_frame(paths, learner.settings.target_map, levels, times, True, None)
    return {"rows": frame.to_dicts(), "position": stream.knowledge.position}


def _of_keys(
    stream: LiveStream, model: KeyedModel, document: dict[str, Any], h: int, levels: list[float]
) -> dict[str, Any]:
    key = document.get("key")
    if not isinstance(key, str) or key not in model.live.fleet.keys_:
        raise Problem(404, f"key: expected one that has come, got {key!r:.80}")
    future = _of_key_ahead(model.config, model, document, key, h)
    try:
        rows = model.forecast(key, h, future, levels)
    except DataError as error:
        raise Problem(422, f"x, times: {str(error).removeprefix('X_future: ')}") from error
    return {"rows": [{"step": i + 1} | row for i, row in enumerate(rows)], "position": stream.knowledge.position}


def _of_key_ahead(
    config: StreamConfig, model: KeyedModel, document: dict[str, Any], key: str, h: int
) -> pl.DataFrame | None:
    """Return the steps of a key as its fleet takes them; without times they come at the median gap."""
    steps, times = _steps(config.features, document.get("x"), h), document.get("times")
    if times is not None and not (config.timed and isinstance(times, list) and len(times) == h):
        expected = f"the times of the {h} steps" if config.timed else "none, as the stream has no times"
        raise Problem(422, f"times: expected {expected}, got {times!r:.80}")
    if times is None and document.get("x") is None and not config.features:
        return None
    stamped = [{}] * h if times is None else [{"time": time} for time in times]
    given = [{"key": key, "x": x} | stamp for x, stamp in zip(steps, stamped, strict=True)]
    sent = config if times is not None else replace(config, timed=False, calendar=(), holidays=None)
    frame = model.frame(rows_with_inputs(sent, given, with_target=False))
    return frame if times is not None or not config.timed else frame.drop(TIME)


def _steps(features: tuple[str, ...], x: Any, h: int) -> list[Any]:
    if x is None and not features:
        return [{}] * h
    if not isinstance(x, list) or len(x) != h:
        got = f"{len(x)} of them" if isinstance(x, list) else repr(x)[:40]
        raise Problem(422, f"x: expected the inputs of the {h} steps, a list of objects, got {got}")
    return x
