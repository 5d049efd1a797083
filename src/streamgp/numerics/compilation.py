"""How programs are compiled: with less care where it does not pay, and kept on disk for the next process."""

import os
import warnings
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.experimental.compilation_cache import compilation_cache

SETTING = "STREAMGP_CACHE"  # a folder, or "off"
# Options of XLA. Light programs take less than half of the processor's time to compile, and where most of their work
# is that of matrix products they run as fast; those that are not optimised take a sixth, and run two to four times
# slower.
_PLAIN = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
LIGHT = _PLAIN | {"xla_backend_optimization_level": 1}
UNOPTIMISED = _PLAIN | {"xla_backend_optimization_level": 0}

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def compiled(
    function: Callable[_Arguments, _Result], options: Mapping[str, bool | int]
) -> Callable[_Arguments, _Result]:
    """Compile a function as `equinox.filter_jit` does, with options of XLA; without them where it does not know one.

    So inside another function that JAX traces, whose options it has then, and on other devices than a CPU.
    """
    plain = eqx.filter_jit(function)

    @cache
    def made() -> Callable[_Arguments, _Result]:
        passed_on = {"compiler_options": _known(tuple(options.items()))}
        return eqx.filter_jit(function, **passed_on)  # type: ignore[call-arg]  # to `jax.jit`; its types do not say so

    @wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        run = plain if is_traced((args, kwargs)) else made()
        return run(*args, **kwargs)

    return call


def is_traced(tree: Any) -> bool:
    """Return whether JAX is tracing: one of the arrays of a tree, or whatever is computed here."""
    return any(isinstance(a, Tracer) for a in (jnp.zeros(()), *jax.tree.leaves(tree)))


@cache
def _known(options: tuple[tuple[str, bool | int], ...]) -> dict[str, bool | int] | None:
    """Return the options if this version of XLA has them all, by a program that does nothing; none but on a CPU."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except Exception:  # which one depends on the version
        return None
    return dict(options)


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
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # of the small ones there are many
    compilation_cache.reset_cache()  # JAX looks for it once, when it compiles first
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
