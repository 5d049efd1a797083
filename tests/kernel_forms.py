"""Tests that run in the kernel in C and, without it, in NumPy."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


def in_both_forms(module: ModuleType, name: str, missing: Any, built: bool) -> Any:
    """Return a fixture that runs a test by the kernel, where it was built, and with `missing` in place of a name."""

    @pytest.fixture(params=["kernel", "NumPy"])
    def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        if request.param == "NumPy":
            monkeypatch.setattr(module, name, missing)
        elif not built:
            pytest.skip("needs the kernel in C, which was not built")
        yield request.param

    return form
