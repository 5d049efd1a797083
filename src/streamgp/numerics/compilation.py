"""Keeps compiled programs on disk, so that the next process starts at once."""

import os
import warnings
from functools import cache
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

SETTING = "STREAMGP_CACHE"  # a folder, or "off"


def cache_directory() -> Path | None:
    """Return where compiled programs are kept, None if nowhere.

    That is the folder that the environment's STREAMGP_CACHE names, nowhere if it says "off", and else
    streamgp/compiled under $XDG_CACHE_HOME or ~/.cache.
    """
    setting = os.environ.get(SETTING)
    if setting:
        return None if setting == "off" else Path(setting)
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return None
    return Path(base) / "streamgp" / "compiled"


@cache
def keep_compiled_programs() -> None:
    """Turn on JAX's cache of compiled programs for this process, unless the user has set one up.

    Where it cannot be read or written, programs are compiled anew, and that is all.
    """
    directory = cache_directory()
    if directory is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    compilation_cache.reset_cache()  # JAX looks for it once, when it compiles first
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
