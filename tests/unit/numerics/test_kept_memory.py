"""Tests of memory that a process keeps."""

import subprocess
import sys

import pytest

from streamgp.numerics import memory

CODE = """
import resource, numpy as np
from streamgp.numerics.memory import keep_freed_memory
{}
for _ in range(20):
    [np.ones(500_000) for _ in range(6)]
began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    [np.ones(500_000) for _ in range(6)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - began)
"""


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc's malloc is told")
def test_freed_arrays_are_used_again():
    def faults(first: str) -> int:
        done = subprocess.run([sys.executable, "-c", CODE.format(first)], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert faults("keep_freed_memory()") < 0.1 * faults("")


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    memory.keep_freed_memory()
    memory.give_back()


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc's malloc is told")
def test_free_memory_goes_back():
    """Also what is freed below an array that stays, and what another thread has freed."""
    code = """
import threading
import numpy as np
from streamgp.numerics.memory import give_back, keep_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

keep_freed_memory()
kept = []

def work():
    many = [np.ones(1 << 17) for _ in range(100)]
    kept.append(np.ones(1 << 17))

thread = threading.Thread(target=work)
thread.start()
thread.join()
before = resident()
give_back()
print(before - resident())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 90.0


@pytest.mark.process
def test_a_command_looks_for_garbage_seldom_and_still_finds_it():
    code = """
import gc
from streamgp.numerics.memory import collect_garbage_seldom
before = sum(each["collections"] for each in gc.get_stats())
collect_garbage_seldom()
for _ in range(300_000):
    ring = []
    ring.append(ring)
print(sum(each["collections"] for each in gc.get_stats()) - before, len(gc.get_objects()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    collections, objects = map(int, done.stdout.split())
    assert 1 <= collections < 10
    assert objects < 200_000
