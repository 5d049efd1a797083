"""Compilation of small programs by XLA with fewer optimisations, where these cost more time than they save."""

from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from jax.core import Tracer

from streamgp.numerics import tree
from streamgp.numerics.accelerator import eqx, jax, jnp

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


def is_traced(given: Any) -> bool:
    """Return whether JAX is tracing: one of the arrays of a tree, or whatever is computed here."""
    return any(isinstance(a, Tracer) for a in (jnp.zeros(()), *tree.leaves(given)))


@cache
def _known(options: tuple[tuple[str, bool | int], ...]) -> dict[str, bool | int] | None:
    """Return the options if this version of XLA has them all, by a program that does nothing; none but on a CPU."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except Exception:
        # The class of the error depends on the version of JAX.
        return None
    return dict(options)
