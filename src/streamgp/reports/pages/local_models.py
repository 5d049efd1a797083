"""The local models in a report: when each was created, where it is, and a map if there are two inputs."""

from typing import Any

import numpy as np

from streamgp.numerics import formats

LISTED = 12  # models in the table before the fold


def local_models(maps: Any, metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the table of local models and the map of their inducing inputs; both empty for any other model.

    Parameters
    ----------
    maps
        The module that draws.
    metrics
        As read from ``metrics.json``.
    """
    names = metrics["features"]
    models = [
        model | {"name": f"model {j + 1}", "place": _place(model["centre"], names), "colour": "muted"}
        for j, model in enumerate(metrics["models"])
    ]
    # Those that have learnt most have colours of their own.
    for i, model in enumerate(sorted(models, key=lambda m: -m["rows"])[: len(maps.DOTS)]):
        model["colour"] = maps.DOTS[i]
    mapped = len(models) > 1 and "inducing" in models[0]
    points = [(model["colour"], np.asarray(model["inducing"])) for model in models] if mapped else []
    return {
        "models_listed": models[:LISTED],
        "models_folded": models[LISTED:],
        "map_chart": maps.territories(points, names) if mapped else None,
    }


def _place(centre: list[float], names: list[str]) -> str:
    """Return the middle of the inputs that a model has learnt; of many inputs the first three."""
    shown = [f"{name} {formats.number(value)}" for name, value in zip(names, centre, strict=False)]
    return ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "")
