"""Which device experts learn on: an accelerator is for work that is worth the way there, the processor for the rest.

Nothing here imports JAX before there is such work.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

import numpy as np

from streamgp.filters.engine.blocks import operations
from streamgp.filters.kalman import FilterState
from streamgp.numerics.arrays import is_jax

# Operations of a group of experts in the rows of one call from which on an accelerator serves it, measured on an H200
# beside its host's 16 cores (docs/research/performance.md): below it the way there and back costs what it saves.
CROSSING = 2e9
# Below this share of it, as for a row at a time, experts that are there come back.
LEAVING = 1.0 / 64.0

_device: ContextVar[str] = ContextVar("streamgp_device", default="auto")


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Let experts learn on this device within: ``cpu``, ``gpu``, or ``auto``, by their work."""
    before = _device.set(device)
    try:
        yield
    finally:
        _device.reset(before)


def check_device(device: str) -> None:
    """Raise RuntimeError if the device is ``gpu`` and there is none."""
    if device == "gpu" and (not has_plugin() or accelerator() is None):
        raise RuntimeError(
            "device: expected an accelerator that JAX finds with device='gpu', got none; install JAX for it, as by "
            'pip install "streamgp[gpu]" "jax[cuda13]", or leave device out'
        )


@cache
def has_plugin() -> bool:
    """Return whether JAX is installed with something that drives an accelerator; JAX is not imported for it."""
    if find_spec("jax") is None or find_spec("equinox") is None:
        return False
    return bool(entry_points(group="jax_plugins")) or find_spec("jax_plugins") is not None


@cache
def accelerator() -> Any:
    """Return the programs of the first accelerator that JAX finds, None without one; JAX is imported."""
    from streamgp.filters.engine.device_programs import Accelerator  # which imports JAX

    return Accelerator.first()


def is_resident(beliefs: FilterState) -> bool:
    """Return whether beliefs are on an accelerator."""
    if "streamgp.filters.engine.device_programs" not in sys.modules or not is_jax(beliefs.cov):
        return False
    found = accelerator()
    return found is not None and found.holds(beliefs.cov)


def wants_accelerator(beliefs: FilterState, live: np.ndarray, rows: int) -> bool:
    """Return whether an accelerator is to serve these experts for so many rows, if it can."""
    device = _device.get()
    if device == "cpu" or beliefs.cov.dtype != np.float64 or not live.any():
        return False
    work = operations(rows, int(live.sum()), beliefs.cov.shape[-1])
    if device == "gpu" or (is_resident(beliefs) and work >= LEAVING * CROSSING):
        return True
    return work >= CROSSING and has_plugin()


def waits() -> bool:
    """Return whether the accelerator was asked for, so that programs are waited for."""
    return _device.get() == "gpu"
