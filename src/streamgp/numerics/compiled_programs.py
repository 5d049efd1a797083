"""Keeps compiled programs on disk, so that the next process starts at once; it writes JAX's settings for that."""

import os
import sys
import warnings
from functools import cache, partial
from importlib import import_module
from pathlib import Path

from streamgp.numerics.loading import once_jax_is_loaded

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
    """Keep what JAX compiles in this process for the next one, unless the user has set up a cache of JAX's own.

    Models of the annexes, and accelerators, compile programs in their first rows, for seconds; with this the next
    process reads them. Nothing else compiles anything. The command and the service call it by themselves. In Python
    it is the user's to call, once, before the first rows: it writes JAX's settings, for programs of others in the
    process too, which nothing else here does. The environment's ``STREAMGP_CACHE`` names the folder, or says
    ``off``; else it is ``streamgp/compiled`` under ``$XDG_CACHE_HOME`` or ``~/.cache``. Only its owner should be
    able to write there, since JAX runs what it finds. Where the folder cannot be read or written, programs are
    compiled anew, and that is all.

    Examples
    --------
    >>> import streamgp
    >>> streamgp.keep_compiled_programs()
    """
    directory = cache_directory()
    if directory is not None:
        once_jax_is_loaded(partial(_keep, directory))


def _keep(directory: Path) -> None:
    jax = sys.modules["jax"]
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    # Small programs are kept too, since there are many of them.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # JAX looks for it once, when it compiles first.
    import_module("jax.experimental.compilation_cache.compilation_cache").reset_cache()
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
