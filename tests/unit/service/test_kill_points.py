"""The points at which a campaign kills the service are functions that there are."""

from importlib import import_module

import pytest

from benchmarks.common.serving import POINTS


@pytest.mark.parametrize("point", POINTS)
def test_a_point_is_a_function(point: str):
    module, name, when = POINTS[point]
    owner = import_module(module)
    for each in name.split("."):
        owner = getattr(owner, each)
    assert callable(owner) and when in ("before", "after")
