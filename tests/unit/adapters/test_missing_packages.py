"""Without the package that an adapter is for, one sentence says how to get it."""

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["statsforecast", "sktime"])
def test_an_adapter_without_its_package_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch):
    for module in [each for each in sys.modules if each.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"streamgp.adapters.{name}", raising=False)
    said = rf'^The adapter for {name} needs it: pip install "streamgp\[{name}\]"\.$'
    with pytest.raises(ImportError, match=said):
        import_module(f"streamgp.adapters.{name}")
