"""Keeps compiled programs on disk, so that the second run of the command starts at once."""

import os
import warnings
from pathlib import Path

import jax


def cache_directory() -> Path:
    """Return where compiled programs are kept: under $XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "streamgp" / "compiled"


def keep_compiled_programs() -> None:
    """Turn on JAX's cache of compiled programs, for this process: the command's own, never a library user's."""
    jax.config.update("jax_compilation_cache_dir", str(cache_directory()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    # Where the cache cannot be read or written, programs are compiled anew, and that is all.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
