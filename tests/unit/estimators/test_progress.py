"""A progress bar shows on a terminal, after a while, and never elsewhere."""

import io
from typing import Any

import pytest
from rich.console import Console

from streamgp import progress


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def show(monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: list[float], enabled: bool = True) -> str:
    screen = io.StringIO()
    clock = Clock()

    def console(**options: Any) -> Console:
        assert options == {"stderr": True}
        return Console(file=screen, force_terminal=terminal, width=120)

    monkeypatch.setattr("rich.console.Console", console)
    monkeypatch.setattr(progress, "monotonic", clock)
    with progress.progress_bar("digging", 50, enabled) as bar:
        for done, passed in enumerate(seconds):
            clock.now += passed
            bar.at(10 * done)
        bar.at(30, "filling")
    return screen.getvalue()


def test_appears_on_a_terminal_after_two_seconds(monkeypatch: pytest.MonkeyPatch):
    shown = show(monkeypatch, True, [1.0, 0.9, 0.2])
    assert "filling" in shown
    assert "60%" in shown


@pytest.mark.parametrize(
    ("terminal", "seconds", "enabled"), [(True, [0.5, 0.5], True), (False, [9.0], True), (True, [9.0], False)]
)
def test_stays_away(monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: list[float], enabled: bool):
    assert show(monkeypatch, terminal, seconds, enabled) == ""


def test_an_unknown_total_counts_up(monkeypatch: pytest.MonkeyPatch):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    with progress.progress_bar("digging", None) as bar:
        bar.at(12_345)
    assert "12,345" in screen.getvalue()


def test_an_error_inside_still_clears_the_line(monkeypatch: pytest.MonkeyPatch):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    with pytest.raises(KeyError), progress.progress_bar("digging", 5) as bar:
        bar.at(1)
        raise KeyError
    assert screen.getvalue().endswith("\x1b[2K")
