"""Reference cycles are freed at set times."""

import gc
import weakref
from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from streamgp.service import garbage
from streamgp.service.garbage import Garbage, search


class Node:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)
    gc.unfreeze()


def test_new_cycles_are_freed_and_those_among_what_stayed_by_the_whole_search():
    stays, goes = Node(), Node()
    later, at_once = weakref.ref(stays), weakref.ref(goes)
    del goes
    search(whole=False)
    assert at_once() is None and later() is stays
    del stays
    search(whole=False)
    assert later() is not None
    search(whole=True)
    assert later() is None


def test_python_begins_no_whole_search_while_the_service_runs(monkeypatch: pytest.MonkeyPatch):
    usual = gc.get_threshold()
    monkeypatch.setattr(garbage, "SECONDS", 0.01)
    work = Garbage()
    work.start()
    seen = weakref.ref(Node())
    end = monotonic() + 30.0
    while seen() is not None and monotonic() < end:
        sleep(0.005)
    assert seen() is None and gc.get_freeze_count() > 0
    assert gc.get_threshold()[:2] == usual[:2] and gc.get_threshold()[2] > 10**6
    work.stop()
    assert gc.get_threshold() == usual and gc.get_freeze_count() == 0
