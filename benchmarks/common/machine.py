"""A description of the machine: processor, caches, matrix library and versions; no names of hosts or paths."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.linalg.blas  # noqa: F401 - so that threadpoolctl sees SciPy's library beside NumPy's
from threadpoolctl import threadpool_info

from streamgp import __version__

PACKAGES = (
    "numpy",
    "scipy",
    "jax",
    "jaxlib",
    "polars",
    "river",
    "statsforecast",
    "sktime",
    "lightgbm",
    "bayesianbandits",
    "gpytorch",
    "torch",
)


def machine() -> dict[str, Any]:
    """Return the description that is kept beside the figures."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "caches": _caches(),
        "memory_gb": _memory_gb(),
        "device": f"{jax.default_backend()}: {jax.devices()[0].device_kind}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "blas": _blas(),
        "versions": {"streamgp": __version__} | {p: found for p in PACKAGES if (found := _version(p)) is not None},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _caches() -> list[str]:
    """Return level, kind and size of the first core's caches, as Linux reports them."""
    found = []
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        found.append(f"L{level} {kind.lower()} {size}")
    return found


def _memory_gb() -> float | None:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _blas() -> list[str]:
    """Return the matrix libraries that NumPy and SciPy have loaded."""
    np.ones((2, 2)) @ np.ones((2, 2))
    libraries = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return sorted(
        f"{pool['internal_api']} {pool['version']}, {pool.get('architecture', '-')}, {pool['num_threads']} threads"
        for pool in libraries
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
