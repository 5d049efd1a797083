"""Keeps compiled programs on disk, so that the next process starts at once; it writes JAX's settings for that."""

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
    """Keep what JAX compiles in this process for the next one, unless the user has set up a cache of JAX's own.

    A model's first rows compile programs, for seconds; with this the next process reads them. The command and the
    service call it by themselves. In Python it is the user's to call, once, before the first rows: it writes JAX's
    settings, for programs of others in the process too, which nothing else here does. The environment's
    ``STREAMGP_CACHE`` names the folder, or says ``off``; else it is ``streamgp/compiled`` under ``$XDG_CACHE_HOME``
    or ``~/.cache``. Only its owner should be able to write there, since JAX runs what it finds. Where the folder
    cannot be read or written, programs are compiled anew, and that is all.

    Examples
    --------
    >>> import streamgp
    >>> streamgp.keep_compiled_programs()
    """
    directory = cache_directory()
    if directory is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    # Small programs are kept too, since there are many of them.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # JAX looks for it once, when it compiles first
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
