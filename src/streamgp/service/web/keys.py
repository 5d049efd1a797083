"""The keys of a stream, some of them at a time."""

from typing import Any

import numpy as np

from streamgp.fleet.scores import SKILLS
from streamgp.service.problems import Problem

_SHOWN = ("rows", "scored_rows", "nmse", "pll", "coverage", "nmse_persistence", *SKILLS, "last_seen")
_SORTS = ("worst", "name", "last")


def page(columns: dict[str, Any], search: str, sort: str, limit: int, offset: int) -> dict[str, Any]:
    """Return some keys with their scores: those with a text in their name, in this order.

    The worst are those that are furthest behind repeating the last target.
    """
    if sort not in _SORTS:
        raise Problem(422, f"sort: expected one of {', '.join(_SORTS)}, got {sort[:40]!r}")
    names = columns["key"]
    wanted = search.casefold()
    at = np.array([i for i, name in enumerate(names) if wanted in str(name).casefold()], dtype=int)
    if sort == "name":
        at = at[np.argsort(np.array([str(names[i]) for i in at]), kind="stable")] if len(at) else at
    elif len(at):
        if sort == "last":
            order = -columns["last_seen"][at]
        else:
            with np.errstate(all="ignore"):
                order = -columns["nmse"][at] / columns["nmse_persistence"][at]
        at = at[np.argsort(np.where(np.isnan(order), np.inf, order), kind="stable")]
    found = at[offset : offset + limit].tolist()
    rows = [{"key": names[i]} | {name: columns[name][i] for name in _SHOWN} for i in found]
    return {"count": len(at), "keys": rows}
